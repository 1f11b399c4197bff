//! The errors of this crate: one sentence each, with the object and the remedy.

use std::fmt;
use std::io;

use crate::librados::Failed;
use crate::location::Location;

/// The kind of an error, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such pool, of the cluster or of Holdfast.
    NotFound,
    /// The name is taken.
    Exists,
    /// Another process has the namespace.
    InUse,
    /// Something was named that cannot be.
    Invalid,
    /// A version of Holdfast wrote it whose format this one cannot read.
    WrongFormat,
    /// An object is missing or damaged.
    Damaged,
    /// The pool has no space left.
    Full,
    /// The cluster cannot be used.
    Unusable,
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

    /// Describes an error of the cluster in `action` (an infinitive, such as "read the catalogue").
    pub(crate) fn io(action: &str, location: &Location, error: &io::Error) -> Error {
        let (kind, advice) = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (ErrorKind::Full, "free some space in the pool, or add OSDs")
            }
            io::ErrorKind::InvalidData | io::ErrorKind::NotFound => {
                (ErrorKind::Damaged, "restore the objects of the namespace")
            }
            io::ErrorKind::PermissionDenied => (
                ErrorKind::Unusable,
                "give the user `osd 'allow rwx pool=POOL'` for the pool, and for its data pool (docs/rados.md)",
            ),
            _ if crate::fence::is_fenced(error) => {
                (ErrorKind::InUse, "another process took the namespace; `holdfast` must not run twice on it")
            }
            _ => (ErrorKind::Unusable, "look at `ceph status`"),
        };
        Error { kind, sentence: format!("cannot {action} in {location}: {error}; {advice}") }
    }

    /// Says why the cluster could not be connected to.
    pub(crate) fn connect(location: &Location, failed: &Failed) -> Error {
        let user = &location.user;
        let sentence = match failed {
            Failed::Load(error) => format!(
                "cannot load librados.so.2, which {location} needs: install the package librados2, version 16 or later ({error})"
            ),
            Failed::Configuration(error) => format!(
                "cannot read the configuration of the Ceph cluster: {error}; put it in /etc/ceph/ceph.conf, or name its file in \
                 the variable CEPH_CONF"
            ),
            Failed::Option(option, error) => format!("Ceph refuses the option {option}: {error}; correct it"),
            Failed::Connect(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                format!(
                    "the Ceph cluster refuses the user client.{user}: check its key and its rights (docs/rados.md)"
                )
            }
            Failed::Connect(error) if error.kind() == io::ErrorKind::NotFound => format!(
                "there is no key of the Ceph user client.{user}: put it in /etc/ceph/ceph.client.{user}.keyring, where this user \
                 can read it"
            ),
            Failed::Connect(error) => format!(
                "cannot connect to the Ceph cluster as client.{user}: {error}; check that its monitors run, and that this machine \
                 reaches them"
            ),
        };
        Error { kind: ErrorKind::Unusable, sentence }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
