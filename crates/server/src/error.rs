//! Errors of starting and stopping a server.

use std::fmt;

/// Kinds of errors that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line or the configuration must be corrected.
    Usage,
    /// Another process uses the data directory or a pool.
    InUse,
    /// What exists stands in the way: the name is taken, or the configuration exports the volume.
    Conflict,
    /// There is nothing of that name.
    NotFound,
    /// Any other error.
    Failed,
}

/// An error: a sentence that says what happened and what to do.
#[derive(Debug)]
pub struct Error {
    /// The kind.
    pub kind: ErrorKind,
    /// The sentence.
    pub sentence: String,
}

impl Error {
    /// Makes an error of kind [`ErrorKind::Failed`].
    pub fn failed(sentence: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Failed, sentence: sentence.into() }
    }

    /// Gives the error the kind [`ErrorKind::NotFound`], if it is about something missing.
    pub(crate) fn not_found_if(self, is_missing: bool) -> Error {
        Error { kind: if is_missing { ErrorKind::NotFound } else { self.kind }, ..self }
    }

    /// Makes an error of kind [`ErrorKind::Usage`].
    pub fn usage(sentence: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Usage, sentence: sentence.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        let kind = match error.kind() {
            store::ErrorKind::InUse => ErrorKind::InUse,
            store::ErrorKind::Exists => ErrorKind::Conflict,
            store::ErrorKind::Invalid | store::ErrorKind::Foreign | store::ErrorKind::Owner => {
                ErrorKind::Usage
            }
            _ => ErrorKind::Failed,
        };
        Error { kind, sentence: error.to_string() }
    }
}

impl From<rados::Error> for Error {
    fn from(error: rados::Error) -> Error {
        let kind = match error.kind() {
            rados::ErrorKind::InUse => ErrorKind::InUse,
            rados::ErrorKind::Exists => ErrorKind::Conflict,
            rados::ErrorKind::NotFound => ErrorKind::NotFound,
            rados::ErrorKind::Invalid => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        Error { kind, sentence: error.to_string() }
    }
}
