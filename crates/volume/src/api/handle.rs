//! File handles: permanent, and not guessable.
//!
//! 36 bytes: format (4, big-endian 1), volume id (8), inode number (8), snapshot id (8), SipHash-2-4 of the 28 bytes
//! before it (8), keyed by a secret that the volume stores. Every server of the volume accepts it; a guessed one is
//! refused. NFSv3 allows 64 bytes (RFC 1813 section 2.4), NFSv4 128.

use siphasher::sip::SipHasher24;

use crate::api::ids::{Ino, SnapshotId, VolumeId};

/// Length of a handle in bytes.
pub const HANDLE_BYTES: usize = 36;

/// Format number of the handles that this release makes.
const FORMAT: u32 = 1;

/// A decoded handle, before its checksum is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The volume; a server of many volumes selects by it.
    pub volume: VolumeId,
    /// The object.
    pub ino: Ino,
    /// The snapshot, or [`SnapshotId::LIVE`].
    pub snapshot: SnapshotId,
    mac: u64,
}

impl Handle {
    /// Returns the handle of an object, with its checksum.
    pub fn new(volume: VolumeId, ino: Ino, snapshot: SnapshotId, secret: &[u8; 16]) -> Handle {
        let mut handle = Handle { volume, ino, snapshot, mac: 0 };
        handle.mac = handle.checksum(secret);
        handle
    }

    /// Returns the bytes that clients hold.
    pub fn to_bytes(&self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..28].copy_from_slice(&self.unsealed());
        bytes[28..].copy_from_slice(&self.mac.to_be_bytes());
        bytes
    }

    /// Decodes a client's bytes without verifying the checksum. Returns `None` if they do not have the format of a
    /// handle.
    pub fn parse(bytes: &[u8]) -> Option<Handle> {
        let bytes: &[u8; HANDLE_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        (bytes[..4] == FORMAT.to_be_bytes()).then(|| Handle {
            volume: VolumeId(word(4)),
            ino: Ino(word(12)),
            snapshot: SnapshotId(word(20)),
            mac: word(28),
        })
    }

    /// Checks whether a server with this secret made the handle.
    pub fn is_genuine(&self, secret: &[u8; 16]) -> bool {
        self.mac == self.checksum(secret)
    }

    fn unsealed(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&FORMAT.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.volume.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.ino.0.to_be_bytes());
        bytes[20..].copy_from_slice(&self.snapshot.0.to_be_bytes());
        bytes
    }

    fn checksum(&self, secret: &[u8; 16]) -> u64 {
        SipHasher24::new_with_key(secret).hash(&self.unsealed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_anywhere_is_refused() {
        let secret = [7; 16];
        let bytes = Handle::new(VolumeId(5), Ino(6), SnapshotId::LIVE, &secret).to_bytes();
        assert!(Handle::parse(&bytes).expect("our own").is_genuine(&secret));
        for bit in 0..HANDLE_BYTES * 8 {
            let mut forged = bytes;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!Handle::parse(&forged).is_some_and(|handle| handle.is_genuine(&secret)), "bit {bit}");
        }
        assert!(Handle::parse(&bytes[..35]).is_none());
    }
}
