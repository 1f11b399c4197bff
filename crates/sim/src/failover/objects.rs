//! A store of objects in memory, as simulated nodes share it: each operation on an object is atomic.

use std::collections::BTreeMap;

use cluster::{Epoch, Version};

/// One operation on one object.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Reads the whole object.
    Read,
    /// Gives the object an epoch, unless it has a higher one.
    Seal(Epoch),
    /// Replaces the object's bytes, if it has this version.
    Replace(Version, Vec<u8>),
    /// Makes an object that does not exist yet.
    Create(Vec<u8>),
    /// Writes bytes at an offset, if the object has this epoch.
    Write {
        /// The epoch that the object must have; any, if the guard was left out.
        guard: Option<Epoch>,
        /// Where the bytes begin.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Removes the object.
    Remove,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object's bytes.
    Read(Version, Vec<u8>),
    /// It was done, and the object has this version.
    Done(Version),
    /// The object has another version or epoch.
    Refused,
    /// The object exists.
    Exists,
    /// There is no such object.
    Missing,
}

#[derive(Clone, Debug)]
struct Object {
    version: u64,
    /// The epoch of the last seal.
    epoch: Epoch,
    bytes: Vec<u8>,
}

/// The store.
#[derive(Clone, Debug, Default)]
pub struct SimObjects {
    objects: BTreeMap<String, Object>,
    /// Versions are never used twice, not even by objects of one name.
    last_version: u64,
}

impl SimObjects {
    /// Executes an operation of a process whose epoch is `author`.
    ///
    /// # Errors
    /// The operation changed an object that a later owner had sealed.
    pub fn execute(&mut self, object: &str, operation: &Operation, author: Epoch) -> Result<Outcome, String> {
        self.last_version += 1;
        let version = Version(self.last_version);
        if let Operation::Create(bytes) = operation {
            if self.objects.contains_key(object) {
                return Ok(Outcome::Exists);
            }
            let new = Object { version: version.0, epoch: Epoch::NONE, bytes: bytes.clone() };
            self.objects.insert(object.to_owned(), new);
            return Ok(Outcome::Done(version));
        }
        let Some(found) = self.objects.get_mut(object) else { return Ok(Outcome::Missing) };
        match operation {
            Operation::Read => return Ok(Outcome::Read(Version(found.version), found.bytes.clone())),
            Operation::Seal(epoch) if found.epoch > *epoch => return Ok(Outcome::Refused),
            Operation::Replace(expected, _) if expected.0 != found.version => return Ok(Outcome::Refused),
            Operation::Write { guard: Some(guard), .. } if *guard != found.epoch => {
                return Ok(Outcome::Refused);
            }
            _ => {}
        }
        if found.epoch > author {
            let sealed = found.epoch;
            return Err(format!("I3: {object}, sealed in {sealed:?}, was changed by an owner of {author:?}"));
        }
        found.version = version.0;
        match operation {
            Operation::Seal(epoch) => found.epoch = *epoch,
            Operation::Replace(_, bytes) => found.bytes.clone_from(bytes),
            Operation::Write { offset, bytes, .. } => {
                let end = offset + bytes.len();
                if found.bytes.len() < end {
                    found.bytes.resize(end, 0);
                }
                found.bytes[*offset..end].copy_from_slice(bytes);
            }
            Operation::Remove => {
                self.objects.remove(object);
            }
            Operation::Read | Operation::Create(_) => {}
        }
        Ok(Outcome::Done(version))
    }
}
