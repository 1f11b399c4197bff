//! Reports of stored data that cannot be read: what it belongs to goes into the log, the client gets an I/O error.

use std::collections::BTreeSet;
use std::fmt;

use parking_lot::Mutex;

use crate::api::ids::ObjectId;
use crate::api::request::Error;
use crate::encoding::codec::Malformed;
use crate::encoding::key;
use crate::pool::Pool;
use crate::tables::index::IndexError;

/// What damaged data belongs to. Objects are named by their number, the fileid that clients see: `find -inum` on a client
/// finds the path too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// No single object.
    Pool,
    /// The metadata of an object: attributes, names of a directory, the map of a file.
    Object(ObjectId),
    /// The bytes `[from, to)` of a file.
    Data { of: ObjectId, from: u64, to: u64 },
}

impl Subject {
    /// Returns the object whose record has this key.
    pub(crate) fn of_key(key: &[u8]) -> Subject {
        key::object(key).map_or(Subject::Pool, Subject::Object)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Pool => f.write_str("the pool"),
            Subject::Object(id) => write!(f, "metadata of inode {id}"),
            Subject::Data { of, from, to } => write!(f, "bytes {from} to {to} of inode {of}"),
        }
    }
}

/// Objects whose paths are found by each step of the search, at most.
const SEARCHED_MAX: usize = 64;

/// Objects whose paths are searched for until the pool is closed, at most. More damage is a case for `holdfast check`.
const DAMAGED_MAX: usize = 1024;

/// Objects whose damage was reported. The log names their paths later, as it takes long to find them: see
/// [`Pool::step_damaged_paths`].
#[derive(Debug, Default)]
pub(crate) struct DamagedObjects(Mutex<Reported>);

#[derive(Debug, Default)]
struct Reported {
    all: BTreeSet<ObjectId>,
    without_path: BTreeSet<ObjectId>,
}

impl DamagedObjects {
    fn note(&self, id: ObjectId) {
        let mut reported = self.0.lock();
        if reported.all.len() < DAMAGED_MAX && reported.all.insert(id) {
            reported.without_path.insert(id);
        }
    }

    /// Returns how many objects were reported, at most [`DAMAGED_MAX`].
    pub(crate) fn count(&self) -> usize {
        self.0.lock().all.len()
    }

    /// Takes some objects whose paths are to be found.
    pub(crate) fn take(&self) -> BTreeSet<ObjectId> {
        let mut reported = self.0.lock();
        let taken: BTreeSet<ObjectId> = reported.without_path.iter().copied().take(SEARCHED_MAX).collect();
        reported.without_path.retain(|id| !taken.contains(id));
        taken
    }
}

impl Pool {
    /// Logs damage found while reading, and returns the I/O error for the client.
    pub(crate) fn report(&self, of: Subject, error: &dyn fmt::Display) -> Error {
        tracing::error!(
            parent: &self.span,
            event = "unreadable_data",
            %of,
            %error,
            "stored data could not be read; `holdfast check` finds all that is damaged"
        );
        if let Subject::Object(id) | Subject::Data { of: id, .. } = of {
            self.damaged.note(id);
        }
        Error::Io
    }

    /// Converts a failure of the index. An index that is being reopened, or waits for room to be, is `Busy`: worth a
    /// retry.
    pub(crate) fn index_failed(&self, of: Subject, error: &IndexError) -> Error {
        if matches!(error, IndexError::Corrupt(_)) && self.view().index.is_damaged() {
            self.checkpoints.kick();
        }
        if *error == IndexError::Closed && !self.committer.has_failed() {
            return Error::Busy;
        }
        self.report(of, error)
    }

    /// Returns a decoded record, or reports the damage.
    pub(crate) fn decode<T>(&self, of: Subject, decoded: Result<T, Malformed>) -> Result<T, Error> {
        decoded.map_err(|error| self.report(of, &error))
    }
}
