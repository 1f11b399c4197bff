//! The anchor: the position in the journal that a checkpoint covers, as the index stores it.

use crate::api::ids::Seq;
use crate::media::BLOCK_BYTES;

/// Where replay begins: the last batch that a checkpoint covers, and the position after it.
///
/// Only a batch that was synced may become the anchor of a durable checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Identity of the journal.
    pub journal: [u8; 16],
    /// Its last entry; zero if the journal is new.
    pub seq: Seq,
    /// Position of that batch in the ring, bytes.
    pub start: u64,
    /// Position where the next batch begins, unless it wraps to the start of the ring.
    pub position: u64,
    /// Checksum of that batch; zero if the journal is new.
    pub checksum: u32,
}

impl Anchor {
    /// Bytes of an encoded anchor.
    pub const BYTES: usize = 44;

    /// Encodes the anchor for the index: the fields in order, big-endian.
    pub fn to_bytes(self) -> [u8; Anchor::BYTES] {
        let mut bytes = [0; Anchor::BYTES];
        bytes[..16].copy_from_slice(&self.journal);
        bytes[16..24].copy_from_slice(&self.seq.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.start.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.position.to_be_bytes());
        bytes[40..].copy_from_slice(&self.checksum.to_be_bytes());
        bytes
    }

    /// Decodes an anchor; `None` if the bytes cannot be one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Anchor> {
        let bytes: &[u8; Anchor::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let anchor = Anchor {
            journal: bytes[..16].try_into().expect("16 bytes"),
            seq: Seq(word(16)),
            start: word(24),
            position: word(32),
            checksum: u32::from_be_bytes(bytes[40..].try_into().expect("four bytes")),
        };
        let sensible = anchor.start >= BLOCK_BYTES
            && anchor.start <= anchor.position
            && anchor.start.is_multiple_of(BLOCK_BYTES)
            && anchor.position.is_multiple_of(BLOCK_BYTES);
        sensible.then_some(anchor)
    }
}
