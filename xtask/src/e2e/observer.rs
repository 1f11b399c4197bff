//! A light client that measures the latency of its calls while others keep the server busy.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::probe;
use crate::nfs::{Arguments, Connection, OK, Procedure};

/// Pause between calls.
const PAUSE: Duration = Duration::from_millis(10);
/// Time limit of a call.
const PATIENCE: Duration = Duration::from_secs(60);
/// Length of the file that is read.
const FILE_BYTES: u32 = 1 << 20;
/// Length of a READ.
const READ_BYTES: u32 = 4096;

/// Shared by the observer and the work it observes.
#[derive(Debug, Default)]
pub(super) struct Progress {
    phase: AtomicUsize,
    is_over: AtomicBool,
}

impl Progress {
    /// Begins a phase: later calls are counted in it.
    pub(super) fn begin_phase(&self, number: usize) {
        self.phase.store(number, Ordering::Relaxed);
    }

    /// Stops the observer.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The latencies of calls, by phase.
#[derive(Debug)]
pub(super) struct Latencies(Vec<Vec<Duration>>);

impl Latencies {
    /// Describes the median, 99th percentile and maximum of a phase.
    pub(super) fn summary(&self, phase: usize) -> String {
        let mut times = self.0.get(phase).cloned().unwrap_or_default();
        times.sort();
        let (Some(longest), count) = (times.last(), times.len()) else { return "no call".to_owned() };
        let at = |percent: usize| times.get(count * percent / 100).unwrap_or(longest).as_secs_f64() * 1e3;
        let longest = longest.as_secs_f64() * 1e3;
        format!("{count} calls, p50 {:.1} ms, p99 {:.1} ms, max {longest:.1} ms", at(50), at(99))
    }
}

/// Makes calls in a folder of its own below `root` until the work is over, then removes the folder.
pub(super) fn observe(root: &[u8], progress: &Progress, phases: usize) -> Result<Latencies, String> {
    let latencies = probe::connect(PATIENCE).and_then(|mut connection| {
        let folder = connection.make(Procedure::Mkdir, root, "observer")?;
        let mut observer = Observer { folder, file: Vec::new(), connection, made: 0 };
        observer.begin()?;
        let mut times = vec![Vec::new(); phases];
        while !progress.is_over.load(Ordering::Relaxed) {
            for call in [Observer::getattr, Observer::lookup, Observer::read, Observer::create] {
                let phase = progress.phase.load(Ordering::Relaxed);
                let start = Instant::now();
                call(&mut observer)?;
                times[phase].push(start.elapsed());
                thread::sleep(PAUSE);
            }
        }
        observer.end(root)?;
        Ok(Latencies(times))
    });
    latencies.map_err(|why| format!("observer: {why}"))
}

struct Observer {
    connection: Connection,
    folder: Vec<u8>,
    file: Vec<u8>,
    made: u32,
}

impl Observer {
    fn begin(&mut self) -> Result<(), String> {
        self.file = self.connection.make(Procedure::Create, &self.folder, "file")?;
        let data = vec![7; usize::try_from(FILE_BYTES).expect("short")];
        let file = &self.file;
        let fill = |arguments: &mut Arguments| {
            // FILE_SYNC.
            arguments.opaque(file).long(0).word(FILE_BYTES).word(2).opaque(&data);
        };
        self.connection.ask(Procedure::Write, &[OK], fill).map(|_| ())
    }

    fn getattr(&mut self) -> Result<(), String> {
        let file = &self.file;
        let fill = |arguments: &mut Arguments| {
            arguments.opaque(file);
        };
        self.connection.ask(Procedure::Getattr, &[OK], fill).map(|_| ())
    }

    fn lookup(&mut self) -> Result<(), String> {
        let folder = &self.folder;
        let fill = |arguments: &mut Arguments| {
            arguments.opaque(folder).opaque(b"file");
        };
        self.connection.ask(Procedure::Lookup, &[OK], fill).map(|_| ())
    }

    fn read(&mut self) -> Result<(), String> {
        let file = &self.file;
        let offset = self.made * READ_BYTES % FILE_BYTES;
        let fill = |arguments: &mut Arguments| {
            arguments.opaque(file).long(u64::from(offset)).word(READ_BYTES);
        };
        self.connection.ask(Procedure::Read, &[OK], fill).map(|_| ())
    }

    fn create(&mut self) -> Result<(), String> {
        self.made += 1;
        self.connection.make(Procedure::Create, &self.folder, &format!("made-{}", self.made)).map(|_| ())
    }

    fn end(&mut self, root: &[u8]) -> Result<(), String> {
        for number in 1..=self.made {
            self.connection.drop_name(Procedure::Remove, &self.folder, &format!("made-{number}"))?;
        }
        self.connection.drop_name(Procedure::Remove, &self.folder, "file")?;
        self.connection.drop_name(Procedure::Rmdir, root, "observer")
    }
}
