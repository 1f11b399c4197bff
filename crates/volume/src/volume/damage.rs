//! Reports of stored data that cannot be read: what it belongs to goes into the log, the client gets an I/O error.

use std::collections::BTreeSet;
use std::fmt;

use parking_lot::Mutex;

use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::encoding::codec::Malformed;
use crate::encoding::key;
use crate::tables::index::IndexError;
use crate::volume::Volume;

/// What damaged data belongs to. Objects are named by their number, the fileid that clients see: `find -inum` on a client
/// finds the path too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// No single object.
    Volume,
    /// The metadata of an object: attributes, names of a directory, the map of a file.
    Object(Ino),
    /// The bytes `[from, to)` of a file.
    Data { ino: Ino, from: u64, to: u64 },
}

impl Subject {
    /// Returns the object whose record has this key.
    pub(crate) fn of_key(key: &[u8]) -> Subject {
        key::object(key).map_or(Subject::Volume, Subject::Object)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Volume => f.write_str("the volume"),
            Subject::Object(ino) => write!(f, "metadata of inode {ino}"),
            Subject::Data { ino, from, to } => write!(f, "bytes {from} to {to} of inode {ino}"),
        }
    }
}

/// Objects whose paths are found by each step of the search, at most.
const SEARCHED_MAX: usize = 64;

/// Objects whose paths are searched for until the volume is closed, at most: whoever finds more damage runs `check`.
const DAMAGED_MAX: usize = 1024;

/// Objects whose damage was reported. The log names their paths later, as it takes long to find them: see
/// [`Volume::step_damaged_paths`].
#[derive(Debug, Default)]
pub(crate) struct DamagedObjects(Mutex<Reported>);

#[derive(Debug, Default)]
struct Reported {
    all: BTreeSet<Ino>,
    without_path: BTreeSet<Ino>,
}

impl DamagedObjects {
    fn note(&self, ino: Ino) {
        let mut reported = self.0.lock();
        if reported.all.len() < DAMAGED_MAX && reported.all.insert(ino) {
            reported.without_path.insert(ino);
        }
    }

    /// Takes some objects whose paths are to be found.
    pub(crate) fn take(&self) -> BTreeSet<Ino> {
        let mut reported = self.0.lock();
        let taken: BTreeSet<Ino> = reported.without_path.iter().copied().take(SEARCHED_MAX).collect();
        reported.without_path.retain(|ino| !taken.contains(ino));
        taken
    }
}

impl Volume {
    /// Logs damage found while reading, and returns the I/O error for the client.
    pub(crate) fn report(&self, of: Subject, error: &dyn fmt::Display) -> Error {
        tracing::error!(
            volume_id = %self.id(),
            %of,
            %error,
            "stored data could not be read; `holdfast check` finds all that is damaged"
        );
        if let Subject::Object(ino) | Subject::Data { ino, .. } = of {
            self.damaged.note(ino);
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
