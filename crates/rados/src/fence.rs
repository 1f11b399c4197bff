//! Changes that only the owner of the namespace may make.
//!
//! An object that is changed in place has an epoch, and each change of it names the epoch of its sender. Who takes the
//! namespace over gives all of them a higher epoch before it reads any, so that whatever an earlier owner still sends is
//! refused, however late it arrives. A process that is refused has lost the namespace, whatever it knows about its lease:
//! it ends before a client learns of an error that the next owner would not have.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::objects::{Objects, Piece, Started, Step, Window, start};

/// The numbers of Linux for what a fenced process is answered; see errno(3).
const CANCELED: i32 = 125;
const SHUT_DOWN: i32 = 108;

/// Told why the namespace was lost.
pub(crate) type OnLost = Arc<dyn Fn(&str) + Send + Sync>;

/// The right to change the objects of a namespace in one epoch.
pub(crate) struct Fence {
    epoch: u64,
    is_lost: AtomicBool,
    on_lost: OnLost,
}

impl Fence {
    pub(crate) fn new(epoch: u64, on_lost: OnLost) -> Arc<Fence> {
        Arc::new(Fence { epoch, is_lost: AtomicBool::new(false), on_lost })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Passes a result on, after it was looked at: if the cluster takes no changes from this process, that is the end.
    fn inspect<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            if is_fenced(error) {
                self.is_lost.store(true, Ordering::Release);
                (self.on_lost)(&format!("the cluster refuses this process: {error}"));
            }
        })
    }
}

/// Whether an error says that another process has the namespace.
pub(crate) fn is_fenced(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(CANCELED | SHUT_DOWN))
}

/// Objects of one pool of the cluster, as the owner of the namespace uses them. Clones share the windows.
#[derive(Clone)]
pub(crate) struct Owned {
    objects: Arc<dyn Objects>,
    fence: Arc<Fence>,
    /// Of changes.
    window: Arc<Window>,
    /// Of reads.
    reads: Arc<Window>,
}

/// A change under way.
pub(crate) struct Pending {
    started: Started,
    fence: Arc<Fence>,
}

impl Pending {
    /// Waits until the change is made or refused.
    pub(crate) fn wait(self) -> io::Result<()> {
        self.fence.inspect(self.started.wait()).map(drop)
    }
}

/// Waits for all changes; returns the first error.
pub(crate) fn wait_for_all(pending: impl IntoIterator<Item = Pending>) -> io::Result<()> {
    // Nothing is under way any more when this returns.
    let mut result = Ok(());
    for change in pending {
        let made = change.wait();
        result = result.and(made);
    }
    result
}

/// Waits for all changes; returns the first error that does not say that an object is missing.
fn unless_missing(pending: Vec<Pending>) -> io::Result<()> {
    let mut result = Ok(());
    for change in pending {
        match change.wait() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            made => result = result.and(made),
        }
    }
    result
}

impl Owned {
    pub(crate) fn new(
        objects: Arc<dyn Objects>,
        fence: Arc<Fence>,
        (window, reads): (Arc<Window>, Arc<Window>),
    ) -> Owned {
        Owned { objects, fence, window, reads }
    }

    /// Returns the objects of another pool of the cluster, whose reads share the window.
    pub(crate) fn of_other_pool(&self, objects: Arc<dyn Objects>, window: Arc<Window>) -> Owned {
        Owned { objects, window, ..self.clone() }
    }

    /// Returns the same objects for changes that do not wait for room behind others.
    pub(crate) fn with_window(&self, window: Arc<Window>) -> Owned {
        Owned { window, ..self.clone() }
    }

    /// Returns the epoch, which names of objects that are written once contain.
    pub(crate) fn epoch(&self) -> u64 {
        self.fence.epoch
    }

    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// Begins a change of an object whose name contains the epoch, or that nobody uses any more.
    pub(crate) fn start_unguarded(&self, object: &str, steps: &[Step<'_>]) -> Pending {
        let started = start(&*self.objects, Some(&self.window), object, steps);
        Pending { started, fence: Arc::clone(&self.fence) }
    }

    /// Begins a change in place, which is refused after another process took the namespace.
    pub(crate) fn start(&self, object: &str, step: Step<'_>) -> Pending {
        self.start_all(object, &[step])
    }

    /// Begins a change in place of several steps.
    pub(crate) fn start_all(&self, object: &str, steps: &[Step<'_>]) -> Pending {
        let guard = [Step::EpochIs(self.fence.epoch)];
        self.start_unguarded(object, &[&guard, steps].concat())
    }

    /// Makes a change in place.
    pub(crate) fn change(&self, object: &str, step: Step<'_>) -> io::Result<()> {
        self.start(object, step).wait()
    }

    /// Creates objects that are changed in place, all with these bytes.
    pub(crate) fn create_all(&self, objects: impl Iterator<Item = String>, bytes: &[u8]) -> io::Result<()> {
        let epoch = self.fence.epoch;
        let fill = [Step::SetEpoch(epoch), Step::Replace(bytes)];
        let create = [&[Step::Create], &fill[..]].concat();
        let started: Vec<_> =
            objects.map(|object| (self.start_unguarded(&object, &create), object)).collect();
        let again = [&[Step::EpochNotAbove(epoch)], &fill[..]].concat();
        let mut result = Ok(());
        for (created, object) in started {
            let created = match created.wait() {
                // An interrupted creation left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.start_unguarded(&object, &again).wait()
                }
                created => created,
            };
            result = result.and(created);
        }
        result
    }

    /// Creates an object that is changed in place.
    pub(crate) fn create(&self, object: String, bytes: &[u8]) -> io::Result<()> {
        self.create_all(std::iter::once(object), bytes)
    }

    /// Gives objects that are changed in place this epoch, so that earlier owners can change them no more. Those that are missing are
    /// left so.
    pub(crate) fn seal_all(&self, objects: impl Iterator<Item = String>) -> io::Result<()> {
        let steps = [Step::EpochNotAbove(self.fence.epoch), Step::SetEpoch(self.fence.epoch)];
        let sealed: Vec<Pending> = objects.map(|object| self.start_unguarded(&object, &steps)).collect();
        unless_missing(sealed)
    }

    /// Seals an object.
    pub(crate) fn seal(&self, object: String) -> io::Result<()> {
        self.seal_all(std::iter::once(object))
    }

    /// Removes objects that are known to be unused, and may be gone already.
    pub(crate) fn remove_all(&self, objects: impl IntoIterator<Item = String>) -> io::Result<()> {
        let removals: Vec<Pending> =
            objects.into_iter().map(|object| self.start_unguarded(&object, &[Step::Remove])).collect();
        unless_missing(removals)
    }

    /// Reads all pieces at the same time.
    pub(crate) fn read(&self, pieces: &mut [Piece<'_>]) {
        let _room = self.reads.admit(pieces.iter().map(|piece| piece.buffer.len()).sum());
        self.objects.read(pieces);
        for piece in pieces {
            let result = std::mem::replace(&mut piece.result, Ok(0));
            piece.result = self.fence.inspect(result);
        }
    }

    /// Reads a whole object; none if there is none.
    pub(crate) fn read_whole(&self, object: &str) -> io::Result<Option<Vec<u8>>> {
        let length = match self.objects.length(object) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            length => self.fence.inspect(length)?,
        };
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let mut at = 0_u64;
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for part in bytes.chunks_mut(crate::names::OBJECT_USIZE) {
            let count = part.len() as u64;
            pieces.push(Piece::new(object.to_owned(), at, part));
            at += count;
        }
        self.read(&mut pieces);
        for piece in pieces {
            if piece.result? != piece.buffer.len() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{object} became shorter")));
            }
        }
        Ok(Some(bytes))
    }

    /// Returns the pairs of an object.
    pub(crate) fn pairs(&self, object: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        self.fence.inspect(self.objects.pairs(object))
    }
}
