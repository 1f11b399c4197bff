//! Objects in memory, for tests: with the same guards, and a pool that can be full.

pub(crate) mod link;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::objects::{Done, Objects, Piece, Step, Window};

/// What the kernel's numbers of errors say; see errno(3).
pub(crate) const CANCELED: i32 = 125;
const RANGE: i32 = 34;
const FULL: i32 = 28;
/// The process is shut out of the cluster.
const SHUT_DOWN: i32 = 108;
const EXISTS: i32 = 17;
const MISSING: i32 = 2;

#[derive(Clone, Debug, Default)]
struct Object {
    bytes: Vec<u8>,
    epoch: Option<u64>,
    pairs: BTreeMap<String, Vec<u8>>,
    version: u64,
}

/// Returns windows of this size for changes and for reads.
pub(crate) fn windows(bytes_max: usize) -> (Arc<Window>, Arc<Window>) {
    let traffic = Arc::default();
    (Window::new(bytes_max, &traffic), Window::new(bytes_max, &traffic))
}

/// Returns the seed of a test, which it prints.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    seed
}

/// The objects of a namespace.
#[derive(Debug, Default)]
pub(crate) struct MemoryObjects {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Object>,
    version: u64,
    is_full: bool,
    /// How many changes are still made before all fail.
    left: Option<u64>,
}

impl MemoryObjects {
    pub(crate) fn new() -> Arc<MemoryObjects> {
        Arc::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the pool refuse what needs space.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.state().is_full = is_full;
    }

    /// Lets only so many more changes be made, as if the process were killed then; `None` lifts the limit.
    pub(crate) fn set_changes_left(&self, left: Option<u64>) {
        self.state().left = left;
    }

    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.state().objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl State {
    fn change(&mut self, name: &str, steps: &[Step<'_>]) -> io::Result<u64> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the process was killed"))?;
        }
        let known = self.objects.get(name);
        steps.iter().try_for_each(|step| check(known, step))?;
        if self.is_full && known.is_none_or(|known| steps.iter().any(|step| grows(known, step))) {
            return Err(errno(FULL));
        }
        self.version += 1;
        let (mut is_there, mut is_removed) = (known.is_some(), false);
        let mut object = self.objects.remove(name).unwrap_or_default();
        object.version = self.version;
        for step in steps {
            apply(&mut object, is_there, step);
            is_there |= !matches!(step, Step::SetLength(_) | Step::EpochIs(_) | Step::EpochNotAbove(_));
            is_removed |= matches!(step, Step::Remove);
        }
        if is_there && !is_removed {
            self.objects.insert(name.to_owned(), object);
        }
        Ok(self.version)
    }
}

/// Whether a step makes an object longer.
fn grows(object: &Object, step: &Step<'_>) -> bool {
    let length = object.bytes.len() as u64;
    match step {
        Step::Write(offset, parts) => {
            offset + parts.iter().map(|part| part.len() as u64).sum::<u64>() > length
        }
        Step::SetLength(new) => *new > length,
        Step::Replace(bytes) => bytes.len() as u64 > length,
        _ => false,
    }
}

/// Returns the error of a step that the object does not permit. All steps are checked against the object as it was before the change.
fn check(object: Option<&Object>, step: &Step<'_>) -> io::Result<()> {
    let refusal = match (step, object) {
        (Step::EpochIs(_) | Step::EpochNotAbove(_) | Step::VersionIs(_) | Step::Remove, None) => MISSING,
        (Step::Create, Some(_)) => EXISTS,
        (Step::EpochIs(epoch), Some(object)) if object.epoch != Some(*epoch) => CANCELED,
        (Step::EpochNotAbove(epoch), Some(object)) if object.epoch.is_some_and(|stored| stored > *epoch) => {
            CANCELED
        }
        (Step::VersionIs(version), Some(object)) if object.version != *version => RANGE,
        _ => return Ok(()),
    };
    Err(errno(refusal))
}

/// Applies a step that is permitted.
fn apply(object: &mut Object, exists: bool, step: &Step<'_>) {
    match step {
        Step::EpochIs(_) | Step::EpochNotAbove(_) | Step::VersionIs(_) | Step::Create | Step::Remove => {}
        Step::SetEpoch(epoch) => object.epoch = Some(*epoch),
        Step::Write(offset, parts) => {
            let bytes = volume::media::concat(parts);
            let from = usize::try_from(*offset).expect("tests write little");
            let end = from + bytes.len();
            object.bytes.resize(object.bytes.len().max(end), 0);
            object.bytes[from..end].copy_from_slice(&bytes);
        }
        Step::SetLength(_) if !exists => {}
        Step::SetLength(length) => {
            object.bytes.resize(usize::try_from(*length).expect("tests write little"), 0);
        }
        Step::Replace(bytes) => object.bytes = bytes.to_vec(),
        Step::PutPair(key, value) => {
            object.pairs.insert((*key).to_owned(), value.to_vec());
        }
        Step::RemovePair(key) => drop(object.pairs.remove(*key)),
    }
}

impl Objects for MemoryObjects {
    fn change(&self, object: &str, steps: &[Step<'_>], done: Done) {
        let result = self.state().change(object, steps);
        done(result);
    }

    fn read(&self, pieces: &mut [Piece<'_>]) {
        let state = self.state();
        for piece in pieces {
            let Some(object) = state.objects.get(&piece.object) else {
                piece.result = Err(errno(MISSING));
                continue;
            };
            let from = usize::try_from(piece.offset).expect("tests read little").min(object.bytes.len());
            let count = piece.buffer.len().min(object.bytes.len() - from);
            piece.buffer[..count].copy_from_slice(&object.bytes[from..from + count]);
            (piece.result, piece.version) = (Ok(count), object.version);
        }
    }

    fn length(&self, object: &str) -> io::Result<u64> {
        let state = self.state();
        let object = state.objects.get(object).ok_or_else(|| errno(MISSING))?;
        Ok(object.bytes.len() as u64)
    }

    fn pairs(&self, object: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        let state = self.state();
        let pairs = state.objects.get(object).map(|object| object.pairs.clone()).unwrap_or_default();
        Ok(pairs.into_iter().collect())
    }
}
