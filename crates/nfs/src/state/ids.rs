//! Identifiers of clients, sessions, stateids and files. Those that clients are given cannot be guessed: see [`cipher`].

use std::fmt;

use volume::ids::{Ino, VolumeId};

pub(crate) mod cipher;

/// A client of any minor version (`clientid4`): the instance of the server that handed it out, and a number, encrypted.
///
/// An instance begins when the server starts, and is identified by that second. So an id never recurs, even if a
/// restart lost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A session (`sessionid4`): its client, the instance that created it, and a number, encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

/// The part of a stateid that stays the same while its `seqid` counts (RFC 7530 section 9.1.4.2): the client it was
/// given to, and a number, encrypted. Even an unknown stateid so names its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Other(pub(crate) [u8; 12]);

impl Other {
    /// All zeros: the anonymous stateid, and with seqid 1 the current one.
    pub(crate) const ZEROS: Other = Other([0; 12]);
    /// All ones: the READ bypass stateid, and with seqid 0 the invalid one.
    pub(crate) const ONES: Other = Other([0xff; 12]);
}

/// A stateid (`stateid4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StateId {
    /// Counts the changes of the state.
    pub(crate) seqid: u32,
    /// Identifies the state.
    pub(crate) other: Other,
}

impl StateId {
    /// The anonymous stateid: no state; share reservations apply.
    pub(crate) const ANONYMOUS: StateId = StateId { seqid: 0, other: Other::ZEROS };
    /// The READ bypass stateid. It lets reads ignore locks, which are advisory here anyway.
    pub(crate) const BYPASS: StateId = StateId { seqid: u32::MAX, other: Other::ONES };
    /// Returns whether it stands for no state.
    pub(crate) fn is_without_state(self) -> bool {
        self == StateId::ANONYMOUS || self == StateId::BYPASS
    }
}

/// Identifies a file with opens, locks or delegations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    /// Its volume.
    pub(crate) volume: VolumeId,
    /// Its inode number there.
    pub(crate) ino: Ino,
}
