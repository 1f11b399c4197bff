//! The two well-behaved clients. Each writes, reads back and compares, and holds a lock all the time. They are not guests:
//! their latency is the server's, without the noise of a simulated machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::compound::{Stateid, op};
use super::nfs3::{self, LockOwner, nlm};
use super::nfs4::{self, NO_DELEGATION, Session, patiently};
use super::places;
use super::rpc::{Caller, Failure, Link};
use super::watch::Watch;

/// Bytes of a client's file.
const FILE_BYTES: usize = 1 << 20;
/// The longest WRITE and READ.
const BLOCK_BYTES_MAX: usize = 32 << 10;
/// Pause between rounds of calls.
const PAUSE: Duration = Duration::from_millis(4);
/// One round of so many opens and locks.
const ROUNDS_PER_LOCK: usize = 4;

/// A client that runs.
#[derive(Debug)]
pub(super) struct Witness {
    pub(super) name: &'static str,
    pub(super) watch: Arc<Watch>,
    thread: JoinHandle<Result<(), String>>,
}

impl Witness {
    /// Starts the client of NFSv3.
    pub(super) fn nfs3(seed: u64) -> Result<Witness, String> {
        let client = Client3::new(seed).map_err(|why| format!("NFSv3 client: {why}"))?;
        Ok(Witness::start("NFSv3", client, Client3::round))
    }

    /// Starts the client of NFSv4.2.
    pub(super) fn nfs4(seed: u64) -> Result<Witness, String> {
        let client = Client4::new(seed).map_err(|why| format!("NFSv4.2 client: {why}"))?;
        Ok(Witness::start("NFSv4.2", client, Client4::round))
    }

    fn start<C: Send + 'static>(
        name: &'static str,
        mut client: C,
        round: impl Fn(&mut C, &Watch) -> Result<(), String> + Send + 'static,
    ) -> Witness {
        let watch = Arc::<Watch>::default();
        let shared = Arc::clone(&watch);
        let thread = thread::spawn(move || {
            while !shared.is_over.load(Ordering::SeqCst) {
                round(&mut client, &shared)?;
                shared.lap();
                thread::sleep(PAUSE);
            }
            Ok(())
        });
        Witness { name, watch, thread }
    }

    /// Waits until every call that was in flight is answered. Returns false if that takes longer than `limit`.
    pub(super) fn is_served_within(&self, limit: Duration) -> bool {
        let (end, laps) = (Instant::now() + limit, self.watch.laps());
        while self.watch.laps() < laps + 2 {
            if Instant::now() >= end || self.thread.is_finished() {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Whether the client has given up because a call failed.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the client. Returns what failed.
    pub(super) fn stop(self) -> Result<(), String> {
        self.watch.is_over.store(true, Ordering::SeqCst);
        let result = self.thread.join().map_err(|_| "the client panicked".to_owned())?;
        result.map_err(|why| format!("{}: {why}", self.name))
    }
}

/// A file's contents as the client knows them.
struct Contents {
    bytes: Vec<u8>,
    random: Rng,
}

impl Contents {
    fn new(seed: u64) -> Contents {
        let mut random = Rng::with_seed(seed);
        let bytes = crate::process::random_bytes(&mut random, FILE_BYTES);
        Contents { bytes, random }
    }

    /// Chooses a part of the file.
    fn part(&mut self) -> std::ops::Range<usize> {
        let length = self.random.usize(1..=BLOCK_BYTES_MAX);
        let begin = self.random.usize(0..=FILE_BYTES - length);
        begin..begin + length
    }

    /// Changes a part and returns it.
    fn change(&mut self) -> std::ops::Range<usize> {
        let part = self.part();
        let bytes = crate::process::random_bytes(&mut self.random, part.len());
        self.bytes.splice(part.clone(), bytes);
        part
    }

    /// Compares what was read.
    fn compare(&self, part: std::ops::Range<usize>, read: &[u8]) -> Result<(), String> {
        let same = self.bytes.get(part.clone()).is_some_and(|written| written == read);
        if same {
            Ok(())
        } else {
            Err(format!("bytes {} to {} are not what was written", part.start, part.end))
        }
    }

    fn slice(&self, part: &std::ops::Range<usize>) -> &[u8] {
        self.bytes.get(part.clone()).unwrap_or_default()
    }
}

/// An offset or a length on the wire.
fn offset(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("files are short")
}

fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("blocks are short")
}

/// The lock owner of the client of NFSv3.
const OWNER_3: LockOwner<'_> = LockOwner { host: b"well-behaved", process: 7 };
/// Where its permanent lock is.
const LOCKED: u64 = 0;

struct Client3 {
    link: Link,
    folder: Vec<u8>,
    file: Vec<u8>,
    contents: Contents,
    round: usize,
}

impl Client3 {
    fn new(seed: u64) -> Result<Client3, Failure> {
        let mut link = Link::open(Caller::host(places::client(1)))?;
        let folder = nfs3::mount(&mut link, b"/main")?;
        let file = nfs3::create(&mut link, &folder, b"witness-3")?;
        let contents = Contents::new(seed);
        for (number, part) in contents.bytes.chunks(BLOCK_BYTES_MAX).enumerate() {
            nfs3::write(&mut link, &file, offset(number * BLOCK_BYTES_MAX), part)?;
        }
        match nfs3::lock_call(&mut link, nlm::LOCK, OWNER_3, &file, LOCKED, false)? {
            0 => Ok(Client3 { link, folder, file, contents, round: 0 }),
            status => Err(Failure::Status("LOCK of NLM", status)),
        }
    }

    fn round(&mut self, watch: &Watch) -> Result<(), String> {
        self.round += 1;
        let Client3 { link, folder, file, contents, .. } = self;
        watch.time("LOOKUP", || patiently(|| nfs3::lookup(link, folder, b"witness-3")))?;
        let part = contents.change();
        let data = contents.slice(&part);
        watch.time("WRITE", || patiently(|| nfs3::write(link, file, offset(part.start), data)))?;
        for part in [part, contents.part()] {
            let call = || nfs3::read(link, file, offset(part.start), count(part.len()));
            let read = watch.time("READ", || patiently(call))?;
            contents.compare(part, &read)?;
        }
        let (size, _) = watch.time("GETATTR", || patiently(|| nfs3::getattr(link, file)))?;
        if size != offset(FILE_BYTES) {
            return Err(format!("the size is {size}"));
        }
        if self.round.is_multiple_of(ROUNDS_PER_LOCK) { self.lock(watch) } else { Ok(()) }
    }

    /// Takes and releases another lock.
    fn lock(&mut self, watch: &Watch) -> Result<(), String> {
        for (what, procedure) in [("LOCK of NLM", nlm::LOCK), ("UNLOCK of NLM", nlm::UNLOCK)] {
            let link = &mut self.link;
            let call = || nfs3::lock_call(link, procedure, OWNER_3, &self.file, 1000, false);
            match watch.time(what, call)? {
                0 => {}
                status => return Err(format!("{what}: status {status}")),
            }
        }
        Ok(())
    }
}

struct Client4 {
    session: Session,
    folder: Vec<u8>,
    file: Vec<u8>,
    open: Stateid,
    /// The stateid of its permanent lock.
    lock: Stateid,
    contents: Contents,
    round: usize,
}

impl Client4 {
    fn new(seed: u64) -> Result<Client4, Failure> {
        let mut session = nfs4::session(Caller::host(places::client(2)), b"well-behaved")?;
        let folder = session.folder()?;
        let (opened, file) = session.open_file(&folder, b"owner", NO_DELEGATION, b"witness-4")?;
        let open = opened.stateid;
        let lock = session.lock(&file, &open, b"owner", (0, 100))?;
        let contents = Contents::new(seed);
        let mut client = Client4 { session, folder, file, open, lock, contents, round: 0 };
        for begin in (0..FILE_BYTES).step_by(BLOCK_BYTES_MAX) {
            client.write(&(begin..begin + BLOCK_BYTES_MAX))?;
        }
        Ok(client)
    }

    fn write(&mut self, part: &std::ops::Range<usize>) -> Result<(), Failure> {
        let (data, at) = (self.contents.slice(part), offset(part.start));
        self.session.ask(
            |compound| compound.put(&self.file).write(&self.open, at, data),
            |answer| {
                let written = answer.put()?.next("WRITE", op::WRITE)?.word()?;
                if written == count(part.len()) {
                    Ok(())
                } else {
                    Err(Failure::Wrong(format!("WRITE wrote {written} of {} bytes", part.len())))
                }
            },
        )
    }

    fn read(&mut self, part: &std::ops::Range<usize>) -> Result<Vec<u8>, Failure> {
        // With the stateid of its lock, so that the call fails if somebody has freed that.
        self.session.ask(
            |compound| compound.put(&self.file).read(&self.lock, offset(part.start), count(part.len())),
            |answer| {
                let body = answer.put()?.next("READ", op::READ)?;
                body.word()?;
                body.opaque()
            },
        )
    }

    fn round(&mut self, watch: &Watch) -> Result<(), String> {
        self.round += 1;
        watch.time("SEQUENCE", || self.session.ask(|_| (), |_| Ok(())))?;
        let part = self.contents.change();
        watch.time("WRITE", || self.write(&part))?;
        for part in [part, self.contents.part()] {
            let read = watch.time("READ", || self.read(&part))?;
            self.contents.compare(part, &read)?;
        }
        if self.round.is_multiple_of(ROUNDS_PER_LOCK) { self.lock(watch) } else { Ok(()) }
    }

    /// Opens another file, locks it, writes, unlocks and closes it.
    fn lock(&mut self, watch: &Watch) -> Result<(), String> {
        let Client4 { session, folder, .. } = self;
        let (opened, file) = watch
            .time("OPEN", || session.open_file(folder, b"another", NO_DELEGATION, b"witness-4-locked"))?;
        let open = opened.stateid;
        let lock = watch.time("LOCK", || session.lock(&file, &open, b"another", (0, 10)))?;
        watch.time("WRITE", || {
            session.ask(
                |compound| compound.put(&file).write(&lock, 0, b"locked"),
                |answer| answer.put()?.next("WRITE", op::WRITE).map(|_| ()),
            )
        })?;
        watch.time("LOCKU", || {
            session.ask(
                |compound| compound.put(&file).unlock(&lock, 0, 0, 10),
                |answer| answer.put()?.next("LOCKU", op::LOCKU).map(|_| ()),
            )
        })?;
        watch.time("CLOSE", || {
            session.ask(
                |compound| compound.put(&file).close(0, &open),
                |answer| answer.put()?.next("CLOSE", op::CLOSE).map(|_| ()),
            )
        })
    }
}
