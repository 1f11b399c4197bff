//! Identifiers of what clients hold.

use std::fmt;

use volume::ids::{Ino, VolumeId};

/// A client, of any minor version (`clientid4`): the instance of the server that gave it out, and a number.
///
/// An instance begins when the server starts, and is named by the second of that, so that an id is never given out twice
/// although what a restart forgot is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

impl ClientId {
    /// The id of client `number` of `instance`.
    pub(crate) fn new(instance: u32, number: u32) -> ClientId {
        ClientId(u64::from(instance) << 32 | u64::from(number))
    }

    /// The instance that gave it out.
    pub(crate) fn instance(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("the upper half of 64 bits")
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A session (`sessionid4`): its client, the instance that made it, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

impl SessionId {
    /// The id of session `number` that `instance` made for `client`.
    pub(crate) fn new(client: ClientId, instance: u32, number: u32) -> SessionId {
        let mut bytes = [0; 16];
        let (left, right) = bytes.split_at_mut(8);
        left.copy_from_slice(&client.0.to_be_bytes());
        right.copy_from_slice(&(u64::from(instance) << 32 | u64::from(number)).to_be_bytes());
        SessionId(bytes)
    }
}

/// What of a stateid stays the same while its `seqid` counts (RFC 7530 section 9.1.4.2): the client that it was given to,
/// and a number. So even of one that is not known it can be told whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Other(pub(crate) [u8; 12]);

impl Other {
    /// All zeros: the anonymous stateid, and with seqid 1 the current one.
    pub(crate) const ZEROS: Other = Other([0; 12]);
    /// All ones: the READ bypass stateid, and with seqid 0 the invalid one.
    pub(crate) const ONES: Other = Other([0xff; 12]);

    /// The stateid with `number` of `client`.
    pub(crate) fn new(client: ClientId, number: u32) -> Other {
        let mut bytes = [0; 12];
        let (left, right) = bytes.split_at_mut(8);
        left.copy_from_slice(&client.0.to_be_bytes());
        right.copy_from_slice(&number.to_be_bytes());
        Other(bytes)
    }

    /// Whose it is.
    pub(crate) fn client(self) -> ClientId {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        ClientId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Its number among those of its client.
    pub(crate) fn number(self) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// A stateid (`stateid4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StateId {
    /// Counts the changes of what it stands for.
    pub(crate) seqid: u32,
    /// What it stands for.
    pub(crate) other: Other,
}

impl StateId {
    /// The anonymous one: no state, share reservations apply.
    pub(crate) const ANONYMOUS: StateId = StateId { seqid: 0, other: Other::ZEROS };
    /// The same, but reads need not heed locks. Here locks are advisory, so that it makes no difference.
    pub(crate) const BYPASS: StateId = StateId { seqid: u32::MAX, other: Other::ONES };
    /// Whether it stands for no state at all.
    pub(crate) fn is_without_state(self) -> bool {
        self == StateId::ANONYMOUS || self == StateId::BYPASS
    }
}

/// A file, by which opens, locks and delegations are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    /// Its volume.
    pub(crate) volume: VolumeId,
    /// Its number there.
    pub(crate) ino: Ino,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stateid_tells_whose_it_is() {
        let client = ClientId::new(0x6543_2100, 7);
        assert_eq!(client.instance(), 0x6543_2100);
        let other = Other::new(client, 9);
        assert_eq!((other.client(), other.number()), (client, 9));
        assert!(!StateId { seqid: 1, other }.is_without_state());
    }
}
