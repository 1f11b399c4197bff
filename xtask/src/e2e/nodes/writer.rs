//! A client that makes files all the time and reads others back: it repeats a call until it is answered, as clients do, and takes no
//! error for an answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::e2e::rados::Caller;
use crate::nfs::OK;
use crate::process::random_bytes;

/// The size of the largest file, bytes: some are in the journal, some in segments.
const FILE_BYTES_MAX: usize = 100_000;

/// The most files.
const FILES_MAX: usize = 2000;

/// Between two files.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a call may be repeated.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client, in a thread.
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<String, String>>,
}

impl Writer {
    /// Starts it.
    pub(super) fn start(server: &str, seed: u64) -> Result<Writer, String> {
        let server = server.parse().map_err(|error| format!("{server}: {error}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let mut client = Client { server, caller: None, longest: Duration::ZERO };
        let thread = thread::spawn(move || work(&mut client, &stops, Rng::with_seed(seed)));
        Ok(Writer { stop, thread })
    }

    /// Has it stop, and compare all files. Returns what it did.
    pub(super) fn finish(self) -> Result<String, String> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| "the writer panicked".to_owned())?
    }
}

fn work(client: &mut Client, stop: &AtomicBool, mut random: Rng) -> Result<String, String> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    while !stop.load(Ordering::SeqCst) {
        if files.len() < FILES_MAX {
            let name = format!("file-{}", files.len());
            let length = random.usize(1..FILE_BYTES_MAX);
            let content = random_bytes(&mut random, length);
            match client.repeat(|caller| caller.put(&name, &content))? {
                OK => drop(files.insert(name, content)),
                status => return Err(format!("writing {name}: status {status}")),
            }
        }
        let name = format!("file-{}", random.usize(..files.len()));
        client.compare(&name, &files)?;
        thread::sleep(PAUSE);
    }
    for name in files.keys() {
        client.compare(name, &files)?;
    }
    Ok(format!("{} files beside them, the longest call {:.2} s", files.len(), client.longest.as_secs_f64()))
}

struct Client {
    server: SocketAddr,
    caller: Option<Caller>,
    longest: Duration,
}

impl Client {
    /// Does something until it is answered.
    fn repeat<T>(&mut self, mut what: impl FnMut(&mut Caller) -> Result<T, String>) -> Result<T, String> {
        let begun = Instant::now();
        loop {
            let done = match self.caller.take() {
                Some(caller) => Ok(caller),
                None => Caller::mount(self.server),
            }
            .and_then(|mut caller| {
                let done = what(&mut caller)?;
                self.caller = Some(caller);
                Ok(done)
            });
            self.longest = self.longest.max(begun.elapsed());
            match done {
                Ok(done) => return Ok(done),
                // An answer, and not the one that there must be.
                Err(why)
                    if why.contains("status") || why.contains("missing") || begun.elapsed() > PATIENCE =>
                {
                    return Err(format!("after {:.2} s: {why}", begun.elapsed().as_secs_f64()));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn compare(&mut self, name: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let found = self.repeat(|caller| caller.get(name))?;
        if files.get(name) == Some(&found) {
            Ok(())
        } else {
            Err(format!("{name} has other contents than were acknowledged"))
        }
    }
}
