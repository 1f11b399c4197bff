//! Errors of the index.

use std::fmt;
use std::io;

/// Why the index refused. After any of these the index accepts no changes until [`super::Index::reopen`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexError {
    /// The device has no room for it.
    Full,
    /// Stored bytes do not verify or make no sense.
    Corrupt(String),
    /// Reading, writing or syncing failed.
    Io(String),
    /// An earlier error closed it, or this snapshot predates a reopening.
    Closed,
}

impl IndexError {
    /// The error of a read that needs a lost record.
    pub(crate) fn lost() -> IndexError {
        IndexError::Corrupt("what was asked for was lost with blocks that could not be read".to_owned())
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Full => f.write_str("no room for the index to grow"),
            IndexError::Corrupt(what) => write!(f, "the index is damaged: {what}"),
            IndexError::Io(what) => write!(f, "the index failed: {what}"),
            IndexError::Closed => f.write_str("the index is closed after an earlier error"),
        }
    }
}

impl std::error::Error for IndexError {}

impl From<redb::Error> for IndexError {
    fn from(error: redb::Error) -> IndexError {
        match error {
            redb::Error::Io(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => IndexError::Full,
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    IndexError::Corrupt(error.to_string())
                }
                _ => IndexError::Io(error.to_string()),
            },
            redb::Error::Corrupted(what) => IndexError::Corrupt(what),
            redb::Error::PreviousIo | redb::Error::DatabaseClosed => IndexError::Closed,
            redb::Error::TableDoesNotExist(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::UpgradeRequired(_) => IndexError::Corrupt(error.to_string()),
            other => IndexError::Io(other.to_string()),
        }
    }
}

macro_rules! through_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for IndexError {
            fn from(error: $error) -> IndexError {
                IndexError::from(redb::Error::from(error))
            }
        })*
    };
}

through_redb!(
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::DatabaseError
);
