//! Identifiers of clients, sessions, stateids and files.

use std::fmt;

use volume::ids::{Ino, VolumeId};

/// A client of any minor version (`clientid4`): the instance of the server that handed it out, and a number.
///
/// An instance begins when the server starts, and is identified by that second. So an id never recurs, even if a
/// restart lost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

impl ClientId {
    /// Returns the id of client `number` of `instance`.
    pub(crate) fn new(instance: u32, number: u32) -> ClientId {
        ClientId(u64::from(instance) << 32 | u64::from(number))
    }

    /// Returns the instance that handed it out.
    pub(crate) fn instance(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("the upper half of 64 bits")
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A session (`sessionid4`): its client, the instance that created it, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

impl SessionId {
    /// Returns the id of session `number` that `instance` created for `client`.
    pub(crate) fn new(client: ClientId, instance: u32, number: u32) -> SessionId {
        let mut bytes = [0; 16];
        let (left, right) = bytes.split_at_mut(8);
        left.copy_from_slice(&client.0.to_be_bytes());
        right.copy_from_slice(&(u64::from(instance) << 32 | u64::from(number)).to_be_bytes());
        SessionId(bytes)
    }
}

/// The part of a stateid that stays the same while its `seqid` counts (RFC 7530 section 9.1.4.2): the client it was
/// given to, and a number. Even an unknown stateid so names its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Other(pub(crate) [u8; 12]);

impl Other {
    /// All zeros: the anonymous stateid, and with seqid 1 the current one.
    pub(crate) const ZEROS: Other = Other([0; 12]);
    /// All ones: the READ bypass stateid, and with seqid 0 the invalid one.
    pub(crate) const ONES: Other = Other([0xff; 12]);

    /// Returns stateid `number` of `client`.
    pub(crate) fn new(client: ClientId, number: u32) -> Other {
        let mut bytes = [0; 12];
        let (left, right) = bytes.split_at_mut(8);
        left.copy_from_slice(&client.0.to_be_bytes());
        right.copy_from_slice(&number.to_be_bytes());
        Other(bytes)
    }

    /// Returns the client.
    pub(crate) fn client(self) -> ClientId {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        ClientId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Returns the number among those of the client.
    pub(crate) fn number(self) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stateids_name_their_client() {
        let client = ClientId::new(0x6543_2100, 7);
        assert_eq!(client.instance(), 0x6543_2100);
        let other = Other::new(client, 9);
        assert_eq!((other.client(), other.number()), (client, 9));
        assert!(!StateId { seqid: 1, other }.is_without_state());
    }
}
