//! Reports of stored data that cannot be read: what it belongs to goes into the log, the client gets an I/O error.

use std::fmt;

use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::encoding::codec::Malformed;
use crate::encoding::key;
use crate::tables::index::IndexError;
use crate::volume::Volume;

/// What damaged data belongs to. Objects are named by their number, the fileid that clients see: `find -inum` on a client
/// and `holdfast check` find the path.
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

impl Volume {
    /// Logs damage found while reading, and returns the I/O error for the client.
    pub(crate) fn report(&self, of: Subject, error: &dyn fmt::Display) -> Error {
        tracing::error!(
            volume_id = %self.id(),
            %of,
            %error,
            "stored data could not be read; `find -inum` on a client finds the path of an inode, `holdfast check` \
             finds all that is damaged"
        );
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
