//! Why a call failed.

use std::fmt;

use wire::nfs3::NfsStat3;
use wire::nfs4::NfsStat4;
use wire::xdr::DecodeError;

/// The status of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    V3(NfsStat3),
    V4(NfsStat4),
}

impl Status {
    /// Whether the name does not exist.
    pub(crate) const fn is_missing(self) -> bool {
        matches!(self, Self::V3(NfsStat3::NoEnt) | Self::V4(NfsStat4::NoEnt))
    }

    /// Returns what the user can do about it, as the end of a sentence.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::V3(NfsStat3::Acces | NfsStat3::Perm)
            | Self::V4(NfsStat4::Access | NfsStat4::Perm | NfsStat4::WrongSec) => {
                ": permission denied. The server may squash root or require a port below 1024: choose a user who may \
                 write there (--uid, --gid) or try --reserved-ports"
            }
            Self::V3(NfsStat3::NoSpc) | Self::V4(NfsStat4::NoSpc) => {
                ": the file system is full; a smaller --working-set needs less"
            }
            Self::V3(NfsStat3::Dquot) | Self::V4(NfsStat4::Dquot) => {
                ": the quota is used up; a smaller --working-set needs less"
            }
            Self::V3(NfsStat3::Rofs) | Self::V4(NfsStat4::Rofs) => ": the export is read-only",
            Self::V3(NfsStat3::Stale | NfsStat3::BadHandle)
            | Self::V4(NfsStat4::Stale | NfsStat4::BadHandle) => {
                ": the handle is no longer valid; was the export changed?"
            }
            Self::V4(NfsStat4::MinorVersMismatch) => {
                ": the server does not speak this minor version of NFSv4; choose another --protocol"
            }
            _ => "",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V3(status) => status.fmt(f),
            Self::V4(status) => status.fmt(f),
        }
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The server returned this status for this procedure or operation.
    Status(&'static str, Status),
    /// The server did not execute the procedure.
    Rpc(String),
    /// The results of this procedure or operation cannot be decoded.
    Malformed(&'static str, DecodeError),
    /// The results are well-formed but wrong.
    Wrong(&'static str),
}

impl Cause {
    /// Returns the status, if the server returned one.
    pub(crate) const fn status(&self) -> Option<Status> {
        match self {
            Self::Status(_, status) => Some(*status),
            _ => None,
        }
    }

    /// Describes it, with advice if there is any.
    pub(crate) fn explained(&self) -> String {
        match self {
            Self::Status(name, status) => format!("{name}: the server answered {status}{}", status.advice()),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(name, status) => write!(f, "{name}: {status}"),
            Self::Rpc(words) => f.write_str(words),
            Self::Malformed(name, error) => write!(f, "reply to {name}: {error}"),
            Self::Wrong(words) => f.write_str(words),
        }
    }
}
