//! Errors of this crate: one sentence with the path it concerns and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

/// What kind of trouble it is, for callers that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No such volume or data directory.
    NotFound,
    /// There is a volume of that name.
    Exists,
    /// Another process uses it.
    InUse,
    /// A name that no volume can have, or a size out of range.
    Invalid,
    /// Written by a version of Holdfast that this one cannot read.
    WrongFormat,
    /// A file that must be there is missing, or holds what it cannot hold.
    Damaged,
    /// The journal directory is missing or belongs to another volume.
    Journal,
    /// No room on the device.
    Full,
    /// The operating system refused something else.
    Io,
    /// The engine could not create the volume.
    Engine,
}

/// Why something could not be done: one sentence that says what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    sentence: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, sentence: impl Into<String>) -> Error {
        Error { kind, sentence: sentence.into() }
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// From the operating system's refusal of `action` (an infinitive: "create") on `path`.
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

/// Whether the device, or this user's share of it, has no room. Both are "no space" to a client: a quota of the
/// file system below is not one of the volume's.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The same error with what was attempted and where; its kind stays, except that a full quota becomes `StorageFull`.
pub(crate) fn in_context(action: &str, path: &Path, error: &io::Error) -> io::Error {
    let kind = if is_full(error) { io::ErrorKind::StorageFull } else { error.kind() };
    io::Error::new(kind, sentence(action, path, error))
}

fn sentence(action: &str, path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if is_full(error) => "free some space on that device",
        io::ErrorKind::PermissionDenied => "let this user read and write it, or choose another directory",
        io::ErrorKind::ReadOnlyFilesystem => {
            "remount that file system read-write, or choose another directory"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in the way: move it, or choose another directory"
        }
        io::ErrorKind::IsADirectory => "a directory is in the way: move it, or restore the file",
        io::ErrorKind::NotFound => "check the path, and that its file system is mounted",
        _ => "see the kernel's log for what the device reports",
    };
    format!("cannot {action} {}: {error}; {advice}", path.display())
}
