//! The error that ends a measurement.

use std::fmt;

use wire::nfs3::NfsStat3;

/// An error that ends a measurement, as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl LoadError {
    /// Returns an error with this text.
    #[must_use]
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Returns the error for an NFS status during preparation, with advice.
    #[must_use]
    pub(crate) fn status(doing: &str, status: NfsStat3) -> Self {
        let advice = match status {
            NfsStat3::Acces | NfsStat3::Perm => {
                ": permission denied. The server may squash root or require a port below 1024: choose a user who may \
                 write there (--uid, --gid) or try --reserved-ports"
            }
            NfsStat3::NoSpc => ": the file system is full; a smaller --working-set needs less",
            NfsStat3::Dquot => ": the quota is used up; a smaller --working-set needs less",
            NfsStat3::Rofs => ": the export is read-only",
            NfsStat3::Stale | NfsStat3::BadHandle => {
                ": the handle is no longer valid; was the export changed?"
            }
            _ => "",
        };
        Self(format!("{doing}: the server answered {status}{advice}"))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}
