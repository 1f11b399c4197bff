//! Another client: makes a call now and then, and notes how long each one takes while somebody else keeps the server
//! busy.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::nfs::{Arguments, Connection, OK, Procedure};

/// Between calls.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a call may take before the client gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the file that is read.
const FILE_BYTES: u32 = 1 << 20;
/// Bytes of a READ.
const READ_BYTES: u32 = 4096;

/// What the witness and its subject share.
#[derive(Debug, Default)]
pub(super) struct Watch {
    phase: AtomicUsize,
    over: AtomicBool,
}

impl Watch {
    /// From now on calls count for another phase.
    pub(super) fn phase(&self, number: usize) {
        self.phase.store(number, Ordering::Relaxed);
    }

    /// Ends the witness.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// How long the calls of each phase took.
#[derive(Debug)]
pub(super) struct Testimony(Vec<Vec<Duration>>);

impl Testimony {
    /// The middle, the 99th of a hundred, and the longest of a phase.
    pub(super) fn of(&self, phase: usize) -> String {
        let mut times = self.0.get(phase).cloned().unwrap_or_default();
        times.sort();
        let (Some(longest), count) = (times.last(), times.len()) else { return "no call".to_owned() };
        let at = |percent: usize| times.get(count * percent / 100).unwrap_or(longest).as_secs_f64() * 1e3;
        let longest = longest.as_secs_f64() * 1e3;
        format!("{count} calls, p50 {:.1} ms, p99 {:.1} ms, longest {longest:.1} ms", at(50), at(99))
    }
}

/// Works in a folder of its own below `root` until the watch ends, then removes that; `phases` is how many there are.
pub(super) fn watch(root: &[u8], watch: &Watch, phases: usize) -> Result<Testimony, String> {
    let connection = Connection::open(PATIENCE).map_err(|error| format!("cannot connect: {error}"));
    let testimony = connection.and_then(|mut connection| {
        let folder = connection.make(Procedure::Mkdir, root, "witness")?;
        let mut witness = Witness { folder, file: Vec::new(), connection, made: 0 };
        witness.begin()?;
        let mut times = vec![Vec::new(); phases];
        while !watch.over.load(Ordering::Relaxed) {
            for call in [Witness::getattr, Witness::lookup, Witness::read, Witness::create] {
                let phase = watch.phase.load(Ordering::Relaxed);
                let start = Instant::now();
                call(&mut witness)?;
                times[phase].push(start.elapsed());
                thread::sleep(PAUSE);
            }
        }
        witness.end(root)?;
        Ok(Testimony(times))
    });
    testimony.map_err(|why| format!("the other client: {why}"))
}

struct Witness {
    connection: Connection,
    folder: Vec<u8>,
    file: Vec<u8>,
    made: u32,
}

impl Witness {
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
        self.connection.drop_name(Procedure::Rmdir, root, "witness")
    }
}
