//! What a lease asks of the store, and what comes back.

use std::fmt;

use crate::name::Name;
use crate::record::{Damage, Epoch, LeaseRecord};
use crate::time::Time;

/// Names a call that a lease made, so that its answer is told from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The version of an object: changes with each change of the object, and never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the lease object with its version.
    Read {
        /// The call.
        call: CallId,
    },
    /// Replace the contents of the lease object, if it still has this version, in one operation.
    Write {
        /// The call.
        call: CallId,
        /// The version that the object must have.
        version: Version,
        /// The new contents.
        record: LeaseRecord,
    },
    /// Mark all objects of the group that are changed in place with this epoch, each in one operation that is refused if the
    /// object has a higher one. May be repeated: an object that has this epoch is sealed. Nothing may be read before it is
    /// done.
    Seal {
        /// The call.
        call: CallId,
        /// The epoch.
        epoch: Epoch,
    },
    /// Tell everybody who watches the lease object that it changed. Needs no answer, and may get lost.
    Notify,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What the lease object holds.
    Read {
        /// Its version.
        version: Version,
        /// Its contents.
        bytes: Vec<u8>,
    },
    /// The lease object was replaced.
    Written {
        /// Its version now.
        version: Version,
    },
    /// All objects have the epoch.
    Sealed,
    /// The lease object has another version, or an object has a higher epoch. Nothing was changed by this.
    Refused,
    /// There is no such object.
    Missing,
    /// The store does not talk to this process any more.
    Blocked,
    /// Something else went wrong. Whether the call was executed is not known.
    Failed,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The answer to a call. It may come late, twice, or never.
    Answer {
        /// The call.
        call: CallId,
        /// The answer.
        answer: Answer,
    },
    /// Somebody says that the lease object changed.
    Notified,
    /// The store refused a change in place because of its epoch, or does not talk to this process any more.
    Fenced,
}

/// Why a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As its owner wished.
    GivenUp,
    /// Another process took it.
    Taken {
        /// The node of that process.
        by: Name,
        /// The epoch in which it owns the lease.
        epoch: Epoch,
    },
    /// Somebody released it in the owner's name.
    Released,
    /// The store refused what this process asked for.
    Fenced,
    /// There is no lease object.
    Missing,
    /// The lease object is damaged.
    Damaged(Damage),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::GivenUp => write!(f, "the lease was given up"),
            End::Taken { by, epoch } => write!(f, "the node {by} took the lease in epoch {}", epoch.0),
            End::Released => write!(f, "the lease was released in the name of this process"),
            End::Fenced => write!(f, "the store takes no more changes from this process"),
            End::Missing => write!(f, "the group has no lease object"),
            End::Damaged(damage) => write!(f, "{damage}"),
        }
    }
}

/// Why the lease object is being read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Take,
    Renew,
    GiveUp,
}

/// A call whose answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) purpose: Purpose,
    pub(super) sent: Time,
    /// When its answer is no longer waited for.
    pub(super) expires: Time,
}
