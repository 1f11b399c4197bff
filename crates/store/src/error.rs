//! The errors of this crate: one sentence each, with the path and the remedy.

use std::fmt;
use std::io;
use std::path::Path;

/// The kind of an error, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The pool or data directory does not exist.
    NotFound,
    /// The name is taken.
    Exists,
    /// The directory holds other files and is not a data directory.
    Foreign,
    /// The data directory belongs to another user.
    Owner,
    /// Another process holds the data directory or the pool.
    InUse,
    /// The name is not one that a pool can have, or a size is out of range.
    Invalid,
    /// The pool was created by a version of Holdfast whose format this one cannot read.
    WrongFormat,
    /// A required file is missing or has invalid contents.
    Damaged,
    /// The journal directory is missing or belongs to another pool.
    Journal,
    /// The device has no free space.
    Full,
    /// The operating system reported another error.
    Io,
    /// The engine could not create the pool.
    Engine,
}

/// An error of this crate: a sentence that says what failed and what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    sentence: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, sentence: impl Into<String>) -> Error {
        Error { kind, sentence: sentence.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Describes an error of the operating system in `action` (an infinitive, such as "create") on `path`.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Error {
        let kind = if is_full(error) { ErrorKind::Full } else { ErrorKind::Io };
        Error { kind, sentence: sentence(action, path, error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

/// Whether the device, or this user's quota on it, has no free space. Clients see both as "no space": a quota of the
/// underlying file system is not one of the pool.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds the action and the path to `error`. The kind stays, except that an exceeded quota becomes `StorageFull`.
pub(crate) fn in_context(action: &str, path: &Path, error: &io::Error) -> io::Error {
    let kind = if is_full(error) { io::ErrorKind::StorageFull } else { error.kind() };
    io::Error::new(kind, sentence(action, path, error))
}

fn sentence(action: &str, path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if is_full(error) => "free some space on that device",
        io::ErrorKind::PermissionDenied => {
            "give this user permission to read and write it, or choose another directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "remount that file system read-write, or choose another directory"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in the way: move it, or choose another directory"
        }
        io::ErrorKind::IsADirectory => "a directory is in the way: move it, or restore the file",
        io::ErrorKind::NotFound => "check the path, and that its file system is mounted",
        _ => "look in the kernel's log for errors of the device",
    };
    format!("cannot {action} {}: {error}; {advice}", path.display())
}
