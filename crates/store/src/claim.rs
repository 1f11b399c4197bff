//! The claim of one machine on a data directory that several machines can reach, one after the other.
//!
//! Something outside keeps two machines from writing at once, a *fence*: the other machine is switched off, a SCSI
//! reservation is taken away from it, DRBD has no quorum there. A fence stops writes, but it does not keep a machine that was cut
//! off from answering reads out of its memory, nor from telling clients that the device has failed. So the holder of a claim
//! writes a block of a file again and again:
//!
//! - It may answer clients until [`TERM`] after the start of its last successful renewal. The clock goes on while the machine
//!   sleeps (`CLOCK_BOOTTIME`). A renewal that takes longer *pauses* the holder, which goes on when a renewal succeeds, since the
//!   device still takes its writes.
//! - A renewal that fails, and any other change of media that fails for want of anything but space, *loses* the claim: the process
//!   kills itself before a client learns of the error. The next holder answers the call that the client then repeats.
//!
//! The block does not replace a fence, but refuses a takeover without one where that can be seen: who finds the claim held by
//! another machine watches it for [`WATCH`], and gives up if it is renewed meanwhile; a holder who finds another one's name in
//! the block has lost it.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use volume::media::{BLOCK_BYTES, Media, Tenure};

use crate::aligned::Pool;
use crate::around::{Around, wrap};
use crate::direct::DirectFile;
use crate::durable::{parent, private_file, sync_directory};
use crate::error::{Error, ErrorKind, is_full};
use block::{Block, State};

mod block;

/// The time between renewals.
pub const RENEWAL: Duration = Duration::from_millis(200);

/// How long a renewal permits answers, from its start.
pub const TERM: Duration = Duration::from_secs(2);

/// How long another machine's claim is watched before it is taken: three renewals.
pub const WATCH: Duration = Duration::from_millis(600);

/// How often a paused thread looks whether it may go on.
const PAUSE: Duration = Duration::from_millis(5);

/// The name of the file in the data directory.
pub(crate) const NAME: &str = "claim";

/// A held claim.
pub struct Claim {
    file: DirectFile,
    node: String,
    /// Until when answers are permitted, nanoseconds of `CLOCK_BOOTTIME`; 0 after the claim was lost.
    deadline: AtomicU64,
    /// The number of the last renewal. One renewal at a time.
    renewals: Mutex<u64>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: (Mutex<bool>, Condvar),
    /// What happens at each renewal, whose start it is told.
    on_renewed: Box<dyn Fn(u64) + Send + Sync>,
    /// What happens when the claim is lost.
    on_lost: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("node", &self.node)
            .field("tenure", &self.tenure())
            .finish_non_exhaustive()
    }
}

impl Claim {
    /// Claims the existing directory `root` for the machine `node`, before anything in it is opened. Takes [`WATCH`] if another
    /// machine held the claim last and did not release it. `on_renewed` is told the start of each renewal, as [`boot_time`]; it
    /// must return at once, since nothing is renewed meanwhile.
    ///
    /// # Errors
    /// Another machine holds the claim, or the file cannot be read or written.
    pub fn take(
        root: &Path,
        node: &str,
        on_renewed: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Arc<Claim>, Error> {
        Claim::take_with(root, node, Box::new(on_renewed), Box::new(kill))
    }

    fn take_with(
        root: &Path,
        node: &str,
        on_renewed: Box<dyn Fn(u64) + Send + Sync>,
        on_lost: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Arc<Claim>, Error> {
        let claim = Claim { on_renewed, ..Claim::open(root, node, on_lost)? };
        let renewals = claim.watch(root)?;
        claim.hold(renewals)
    }

    /// Opens the block, and claims nothing yet.
    fn open(root: &Path, node: &str, on_lost: Box<dyn Fn(&str) + Send + Sync>) -> Result<Claim, Error> {
        let path = root.join(NAME);
        let file = open(&path).map_err(|error| Error::io("open", &path, &error))?;
        Ok(Claim {
            file,
            node: node.to_owned(),
            deadline: AtomicU64::new(0),
            renewals: Mutex::new(0),
            thread: Mutex::new(None),
            stop: (Mutex::new(false), Condvar::new()),
            on_renewed: Box::new(|_| {}),
            on_lost,
        })
    }

    /// Writes its name into the block after the last renewal of whoever had it, and begins to renew it.
    fn hold(self, last: u64) -> Result<Arc<Claim>, Error> {
        let start = boot_time();
        *lock(&self.renewals) = last + 1;
        let write = self.write(State::Held, last + 1);
        write.map_err(|error| Error::io("claim", self.file.path(), &error))?;
        self.deadline.store(after(start), Ordering::Relaxed);
        (self.on_renewed)(start);
        let claim = Arc::new(self);
        let renewed = Arc::clone(&claim);
        let thread = thread::Builder::new().name("claim".to_owned());
        let thread = thread.spawn(move || renewed.renew_periodically());
        let failed = |error: io::Error| Error::io("renew the claim on", claim.file.path(), &error);
        *lock(&claim.thread) = Some(thread.map_err(failed)?);
        Ok(claim)
    }

    /// Waits until no other machine renews the claim. Returns the number of its last renewal.
    fn watch(&self, root: &Path) -> Result<u64, Error> {
        let found = self.read().map_err(|error| Error::io("read", self.file.path(), &error))?;
        let Some(block) = found else { return Ok(0) };
        if block.state == State::Held && block.node != self.node {
            tracing::info!(holder = block.node, "watching the claim of another machine");
            thread::sleep(WATCH);
            let again = self.read().map_err(|error| Error::io("read", self.file.path(), &error))?;
            if again.as_ref() != Some(&block) {
                let (root, node) = (root.display(), &block.node);
                let sentence = format!(
                    "{root} is in use by the machine {node:?}, which renews its claim: stop the group there, or fence that machine"
                );
                return Err(Error::new(ErrorKind::InUse, sentence));
            }
        }
        Ok(block.renewals)
    }

    /// Releases the claim of a process of the machine `node` that has ended without doing so. Nothing is made, and a symbolic link
    /// not followed: the superuser does this in a directory of another user.
    ///
    /// # Errors
    /// The block cannot be read or written. Another machine then waits for [`WATCH`].
    pub fn release_for(root: &Path, node: &str) -> io::Result<()> {
        let file = open_existing(&root.join(NAME))?;
        match read(&file)? {
            Some(block) if block.node == node && block.state == State::Held => {
                let (node, renewals) = (node.to_owned(), block.renewals + 1);
                write(&file, &Block { node, state: State::Released, renewals })
            }
            _ => Ok(()),
        }
    }

    /// Wraps `media` of the directory: a change that fails loses the claim, as does a failed read of a device that takes no
    /// writes either.
    pub fn guard(self: &Arc<Claim>, media: Arc<dyn Media>) -> Arc<dyn Media> {
        wrap(media, Arc::new(Guard(Arc::clone(self))))
    }

    /// Returns whether answers may leave.
    pub fn tenure(&self) -> Tenure {
        match self.deadline.load(Ordering::Relaxed) {
            0 => Tenure::Lost,
            deadline if boot_time() < deadline => Tenure::Held,
            _ => Tenure::Paused,
        }
    }

    /// Returns when answers may leave: at once unless the claim is paused, never if it is lost.
    pub fn wait(&self) {
        while self.tenure() != Tenure::Held {
            thread::sleep(PAUSE);
        }
    }

    /// Lets another machine take the directory at once. Nothing of it may be open.
    ///
    /// # Errors
    /// The block cannot be written. Another machine then waits for [`WATCH`].
    pub fn release(&self) -> io::Result<()> {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic was reported.
            let _ = thread.join();
        }
        let mut renewals = lock(&self.renewals);
        self.deadline.store(1, Ordering::Relaxed);
        *renewals += 1;
        self.write(State::Released, *renewals)
    }

    fn renew_periodically(&self) {
        let (stop, changed) = &self.stop;
        let mut stopped = lock(stop);
        while !*stopped {
            let waited = changed.wait_timeout(stopped, RENEWAL);
            stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *stopped {
                return;
            }
            drop(stopped);
            if let Err(error) = self.renew() {
                return self.lose(&format!("the claim cannot be renewed: {error}"));
            }
            stopped = lock(stop);
        }
    }

    /// Renews the claim.
    fn renew(&self) -> io::Result<()> {
        let mut renewals = lock(&self.renewals);
        let start = boot_time();
        match self.read()? {
            Some(block) if block.node == self.node && block.renewals == *renewals => {}
            Some(block) => return Err(io::Error::other(format!("the machine {:?} has it", block.node))),
            None => return Err(io::Error::other("its block is damaged")),
        }
        self.write(State::Held, *renewals + 1)?;
        *renewals += 1;
        if self.tenure() != Tenure::Lost {
            self.deadline.fetch_max(after(start), Ordering::Relaxed);
            (self.on_renewed)(start);
        }
        Ok(())
    }

    fn lose(&self, why: &str) {
        self.deadline.store(0, Ordering::Relaxed);
        (self.on_lost)(why);
    }

    fn read(&self) -> io::Result<Option<Block>> {
        read(&self.file)
    }

    fn write(&self, state: State, renewals: u64) -> io::Result<()> {
        write(&self.file, &Block { node: self.node.clone(), state, renewals })
    }
}

/// Reads the block; none in a new file, or if it is damaged.
fn read(file: &DirectFile) -> io::Result<Option<Block>> {
    let mut bytes = vec![0; block_bytes()];
    file.read_at(0, &mut bytes)?;
    Ok(Block::decode(&bytes))
}

fn write(file: &DirectFile, block: &Block) -> io::Result<()> {
    let mut bytes = block.encode().into_bytes();
    bytes.resize(block_bytes(), 0);
    file.write_at(0, &[IoSlice::new(&bytes)])?;
    file.file().sync_data()
}

/// Watches what happens to media whose directory is claimed.
struct Guard(Arc<Claim>);

impl Around for Guard {
    fn read<R>(&self, access: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let result = access();
        // Bad sectors are the clients' business; a device that takes no writes either is another machine's.
        if result.as_ref().is_err_and(is_of_device)
            && let Err(error) = self.0.renew()
        {
            self.0.lose(&format!("the device cannot be used: {error}"));
        }
        result
    }

    fn change<R>(&self, access: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let result = access();
        if let Some(error) = result.as_ref().err().filter(|error| is_of_device(error)) {
            self.0.lose(&format!("the device takes no changes: {error}"));
        }
        result
    }

    fn tenure(&self, own: Tenure) -> Tenure {
        if own == Tenure::Lost { own } else { self.0.tenure() }
    }
}

/// Whether an error is that of a device, rather than an answer: there is no room, or no such file.
fn is_of_device(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidData, NotFound, UnexpectedEof};
    !is_full(error) && !matches!(error.kind(), AlreadyExists | InvalidData | NotFound | UnexpectedEof)
}

/// Opens the file of a claim; makes it if it is missing.
fn open(path: &Path) -> io::Result<DirectFile> {
    let mut options = private_file();
    let file = DirectFile::open(
        options.read(true).write(true).create(true).truncate(false),
        path,
        &Arc::new(Pool::default()),
    )?;
    if file.file().metadata()?.len() < BLOCK_BYTES {
        file.write_at(0, &[IoSlice::new(&vec![0; block_bytes()])])?;
        file.file().sync_all()?;
        sync_directory(parent(path))?;
    }
    Ok(file)
}

/// Opens the file of a claim if it is one.
fn open_existing(path: &Path) -> io::Result<DirectFile> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).expect("flags of open(2)");
    let mut options = OpenOptions::new();
    let file = DirectFile::open_with(options.read(true).write(true), flags, path, &Arc::default())?;
    if file.file().metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn block_bytes() -> usize {
    usize::try_from(BLOCK_BYTES).expect("a block is small")
}

/// Returns when what began at `start` ceases to permit answers.
fn after(start: u64) -> u64 {
    start + u64::try_from(TERM.as_nanos()).expect("a few seconds")
}

/// Returns nanoseconds of the clock that goes on while the machine sleeps.
#[must_use]
pub fn boot_time() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).expect("the machine was booted after its clock began")
}

/// Ends the process without running anything more of it.
fn kill(why: &str) {
    tracing::error!("stopping at once, for another machine to go on: {why}");
    // Nothing can keep a process from killing itself.
    let _ = kill_process(getpid(), Signal::KILL);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
