//! Why the server could not start or stop as it should.

use std::fmt;

/// What kind of trouble it is, as far as a caller decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was asked for makes no sense: the command line or the configuration is to be corrected.
    Usage,
    /// Another process uses the data directory or a volume.
    InUse,
    /// Anything else.
    Failed,
}

/// A sentence that says what is wrong and what to do.
#[derive(Debug)]
pub struct Error {
    /// What kind of trouble it is.
    pub kind: ErrorKind,
    /// The sentence.
    pub sentence: String,
}

impl Error {
    /// A failure.
    pub fn failed(sentence: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Failed, sentence: sentence.into() }
    }

    /// A mistake in what was asked for.
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
            store::ErrorKind::Invalid => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        Error { kind, sentence: error.to_string() }
    }
}
