//! Objects of a cluster: what this crate requires of it. [`crate::pool`] has them on Ceph, [`crate::memory`] in memory.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// One step of a change of an object. A change makes all of its steps, or none if one is refused.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Refuses with `ECANCELED` unless the object's epoch is this one.
    EpochIs(u64),
    /// Refuses with `ECANCELED` if the object's epoch is higher. One that has none has a lower one.
    EpochNotAbove(u64),
    /// Gives the object this epoch.
    SetEpoch(u64),
    /// Refuses unless the object's version is this one.
    VersionIs(u64),
    /// Refuses if the object exists.
    Create,
    /// Writes these bytes, one part after the other, from an offset on. The object grows to hold them.
    Write(u64, &'a [IoSlice<'a>]),
    /// Cuts the object off, or lets it grow: new bytes are zero and take no space yet, but count as if they did. A full pool
    /// refuses to let objects grow, and takes writes within their length. Does nothing if there is no object.
    SetLength(u64),
    /// Replaces the object's bytes.
    Replace(&'a [u8]),
    /// Adds a pair of key and value, or replaces the one with this key.
    PutPair(&'a str, &'a [u8]),
    /// Removes the pair with this key, if there is one.
    RemovePair(&'a str),
    /// Removes the object; refuses with `NotFound` if there is none.
    Remove,
}

impl Step<'_> {
    /// Returns how many bytes wait in memory until the step is made.
    fn bytes(&self) -> usize {
        match self {
            Step::Write(_, parts) => parts.iter().map(|part| part.len()).sum(),
            Step::Replace(bytes) => bytes.len(),
            Step::PutPair(key, value) => key.len() + value.len(),
            _ => 0,
        }
    }
}

/// Called when a change is complete, with the version that the object has now.
pub type Done = Box<dyn FnOnce(io::Result<u64>) + Send>;

/// A part of a read: bytes of one object.
#[derive(Debug)]
pub struct Piece<'a> {
    /// The object's name.
    pub object: String,
    /// Where the bytes begin in the object.
    pub offset: u64,
    /// Where they go.
    pub buffer: &'a mut [u8],
    /// How many bytes were read: fewer than the buffer has if the object ends before. Errors say `NotFound` if there is
    /// no such object.
    pub result: io::Result<usize>,
    /// The object's version.
    pub version: u64,
}

impl<'a> Piece<'a> {
    /// Returns a piece that is not read yet.
    pub fn new(object: String, offset: u64, buffer: &'a mut [u8]) -> Piece<'a> {
        Piece { object, offset, buffer, result: Ok(0), version: 0 }
    }
}

/// The objects of one namespace.
pub trait Objects: Send + Sync {
    /// Begins to change an object. Changes of one object that one process makes are made in the order in which they begin.
    fn change(&self, object: &str, steps: &[Step<'_>], done: Done);
    /// Reads all pieces at the same time.
    fn read(&self, pieces: &mut [Piece<'_>]);
    /// Returns the length of an object in bytes.
    fn length(&self, object: &str) -> io::Result<u64>;
    /// Returns the pairs of an object, in the order of their keys; none if there is no such object.
    fn pairs(&self, object: &str) -> io::Result<Vec<(String, Vec<u8>)>>;
}

/// Reads a whole object of at most `bytes_max` bytes, and its version; none if there is no such object.
pub fn read_whole(
    objects: &dyn Objects,
    object: &str,
    bytes_max: usize,
) -> io::Result<Option<(Vec<u8>, u64)>> {
    let mut bytes = vec![0; bytes_max];
    let mut pieces = [Piece::new(object.to_owned(), 0, &mut bytes)];
    objects.read(&mut pieces);
    let [piece] = pieces;
    let version = piece.version;
    match piece.result {
        Ok(count) => {
            bytes.truncate(count);
            Ok(Some((bytes, version)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a change and waits for it. Returns the object's new version.
pub fn change_now(objects: &dyn Objects, object: &str, steps: &[Step<'_>]) -> io::Result<u64> {
    start(objects, None, object, steps).wait()
}

/// Begins a change within `window`, if there is one.
pub fn start(
    objects: &dyn Objects,
    window: Option<&Arc<Window>>,
    object: &str,
    steps: &[Step<'_>],
) -> Started {
    let admitted = window.map(|window| window.admit(steps.iter().map(Step::bytes).sum()));
    let started = Started::default();
    let outcome = Arc::clone(&started.outcome);
    let done = move |result| {
        drop(admitted);
        let (place, changed) = &*outcome;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        changed.notify_all();
    };
    objects.change(object, steps, Box::new(done));
    started
}

/// A change under way.
#[derive(Debug, Default)]
pub struct Started {
    outcome: Arc<(Mutex<Option<io::Result<u64>>>, Condvar)>,
}

impl Started {
    /// Waits until the change is made or refused. Returns the object's version.
    pub fn wait(self) -> io::Result<u64> {
        let (place, changed) = &*self.outcome;
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = place.take() {
                return result;
            }
            place = changed.wait(place).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The bytes of operations under way on a connection: the sum of its windows.
#[derive(Debug, Default)]
pub struct Traffic {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

impl Traffic {
    /// Returns how many bytes there are at the moment.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many there may be, but for an operation that is larger than its window.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }
}

/// A bound on the bytes of operations under way, which wait in memory.
#[derive(Debug)]
pub struct Window {
    bytes_max: usize,
    used: Mutex<usize>,
    freed: Condvar,
    traffic: Arc<Traffic>,
}

impl Window {
    /// Returns a window for `bytes_max` bytes, which are counted in `traffic`.
    pub fn new(bytes_max: usize, traffic: &Arc<Traffic>) -> Arc<Window> {
        traffic.bytes_max.fetch_add(bytes_max as u64, Ordering::Relaxed);
        let traffic = Arc::clone(traffic);
        Arc::new(Window { bytes_max, used: Mutex::new(0), freed: Condvar::new(), traffic })
    }

    /// Waits until there is room for `bytes`: an operation that is larger than the window has it alone.
    pub(crate) fn admit(self: &Arc<Window>, bytes: usize) -> Admitted {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + bytes > self.bytes_max {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        self.traffic.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Admitted { window: Arc::clone(self), bytes }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.traffic.bytes_max.fetch_sub(self.bytes_max as u64, Ordering::Relaxed);
    }
}

/// Room in a window, given back on drop.
pub(crate) struct Admitted {
    window: Arc<Window>,
    bytes: usize,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        *self.window.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.window.traffic.bytes.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        self.window.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_under_way_is_counted_and_waits_for_room() {
        let traffic: Arc<Traffic> = Arc::default();
        let window = Window::new(100, &traffic);
        let other = Window::new(50, &traffic);
        let seen = || (traffic.bytes(), traffic.bytes_max());
        let first = window.admit(60);
        let in_other = other.admit(50);
        assert_eq!(seen(), (110, 150));
        thread::scope(|scope| {
            let second = scope.spawn(|| drop(window.admit(41)));
            thread::sleep(Duration::from_millis(100));
            assert!(!second.is_finished(), "there is no room for it");
            drop(first);
            second.join().unwrap();
        });
        assert_eq!(seen(), (50, 150));
        // Something larger than the window has it alone.
        let large = window.admit(1000);
        assert_eq!(seen(), (1050, 150));
        drop((large, in_other));
        drop((window, other));
        assert_eq!(seen(), (0, 0));
    }
}
