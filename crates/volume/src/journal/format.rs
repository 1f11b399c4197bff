//! The bytes of the journal: one header block, then batches.
//!
//! Everything is big-endian; every checksum is CRC32C. The pure functions here trust nothing that they read.
//!
//! `docs/format.md` describes the fields.
//!
//! The header has a checksum of its own, so that a torn batch still proves what it says of its predecessors: that
//! they were durable. It lies within one sector, which media keep or lose as a whole. It includes the position, so a
//! copy of a journal block inside an entry is invalid: a client cannot store a file whose bytes recovery mistakes for
//! a batch.

use std::fmt;

use crate::api::ids::{Generation, Seq};
use crate::api::time::Time;
use crate::media::BLOCK_BYTES;

/// Block of the ring: batches begin on one, so a torn batch never damages an earlier one.
pub const BLOCK: u64 = BLOCK_BYTES;

/// Bytes of a batch before its payload.
pub const HEADER_BYTES: usize = 88;

const RING_MAGIC: &[u8; 8] = b"HFRING01";
const BATCH_MAGIC: &[u8; 8] = b"HFBATCH2";

/// Bytes of the ring's header, without padding.
const RING_HEADER_BYTES: usize = 36;

/// Why bytes are not a batch or a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The magic number differs.
    Magic,
    /// They are too short.
    Short,
    /// A checksum does not match: torn, damaged or overwritten.
    Checksum,
    /// The checksums match, but the fields contradict each other.
    Contradiction,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FormatError::Magic => "does not begin with the journal's magic number",
            FormatError::Short => "ends too early",
            FormatError::Checksum => "does not match its checksum",
            FormatError::Contradiction => "has fields that contradict each other",
        })
    }
}

impl std::error::Error for FormatError {}

/// The ring's header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingHeader {
    /// Identity of the journal.
    pub journal: [u8; 16],
    /// Length of the ring in bytes.
    pub length: u64,
}

impl RingHeader {
    /// Encodes the whole block.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; block_usize()];
        block[..8].copy_from_slice(RING_MAGIC);
        block[8..24].copy_from_slice(&self.journal);
        block[24..32].copy_from_slice(&self.length.to_be_bytes());
        let checksum = crc32c::crc32c(&block[..32]);
        block[32..36].copy_from_slice(&checksum.to_be_bytes());
        block
    }

    /// Decodes the block.
    pub fn decode(bytes: &[u8]) -> Result<RingHeader, FormatError> {
        let bytes: &[u8; RING_HEADER_BYTES] = bytes.first_chunk().ok_or(FormatError::Short)?;
        if &bytes[..8] != RING_MAGIC {
            return Err(FormatError::Magic);
        }
        if u32_at(bytes, 32) != crc32c::crc32c(&bytes[..32]) {
            return Err(FormatError::Checksum);
        }
        Ok(RingHeader { journal: bytes[8..24].try_into().expect("16 bytes"), length: u64_at(bytes, 24) })
    }
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The journal that the batch belongs to.
    pub journal: [u8; 16],
    /// Its position in the ring.
    pub position: u64,
    /// Open-generation of its writer.
    pub generation: Generation,
    /// Number of entries, at least 1.
    pub count: u32,
    /// Sequence of its first entry.
    pub first_seq: Seq,
    /// Last sequence known durable when it was written; below `first_seq`.
    pub durable: Seq,
    /// No later time was handed out because of it.
    pub time_ceiling: Time,
    /// Last sequence that the index was known to cover, durably, when it was written.
    pub covered: Seq,
    /// Bytes of its payload.
    pub payload_bytes: u32,
    /// Checksum of its payload.
    pub payload_checksum: u32,
    /// Checksum of the previous batch.
    pub predecessor: u32,
    /// Its own checksum, over all fields above.
    pub checksum: u32,
}

impl BatchHeader {
    /// Decodes and verifies the first [`HEADER_BYTES`], without looking at the payload.
    pub fn decode(bytes: &[u8]) -> Result<BatchHeader, FormatError> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(FormatError::Short)?;
        if &bytes[..8] != BATCH_MAGIC {
            return Err(FormatError::Magic);
        }
        let header = BatchHeader {
            journal: bytes[8..24].try_into().expect("16 bytes"),
            position: u64_at(bytes, 24),
            generation: Generation(u32_at(bytes, 32)),
            count: u32_at(bytes, 36),
            first_seq: Seq(u64_at(bytes, 40)),
            durable: Seq(u64_at(bytes, 48)),
            time_ceiling: Time::from_nanos(i64::from_be_bytes(bytes[56..64].try_into().expect("8 bytes"))),
            covered: Seq(u64_at(bytes, 64)),
            payload_bytes: u32_at(bytes, 72),
            payload_checksum: u32_at(bytes, 76),
            predecessor: u32_at(bytes, 80),
            checksum: u32_at(bytes, 84),
        };
        if header.checksum != crc32c::crc32c(&bytes[..84]) {
            return Err(FormatError::Checksum);
        }
        let consistent = header.count > 0
            && header.durable < header.first_seq
            && header.first_seq.0.checked_add(u64::from(header.count)).is_some();
        if consistent { Ok(header) } else { Err(FormatError::Contradiction) }
    }

    /// Returns the sequence of the last entry.
    pub fn last_seq(&self) -> Seq {
        Seq(self.first_seq.0 + u64::from(self.count) - 1)
    }

    /// Returns the bytes that the batch takes in the ring, including padding.
    pub fn stored_bytes(&self) -> u64 {
        stored_bytes(u64::from(self.payload_bytes))
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(BATCH_MAGIC);
        bytes[8..24].copy_from_slice(&self.journal);
        bytes[24..32].copy_from_slice(&self.position.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.generation.0.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.count.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.first_seq.0.to_be_bytes());
        bytes[48..56].copy_from_slice(&self.durable.0.to_be_bytes());
        bytes[56..64].copy_from_slice(&self.time_ceiling.nanos().to_be_bytes());
        bytes[64..72].copy_from_slice(&self.covered.0.to_be_bytes());
        bytes[72..76].copy_from_slice(&self.payload_bytes.to_be_bytes());
        bytes[76..80].copy_from_slice(&self.payload_checksum.to_be_bytes());
        bytes[80..84].copy_from_slice(&self.predecessor.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[..84]);
        bytes[84..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

/// A batch that verified.
#[derive(Clone, Copy, Debug)]
pub struct DecodedBatch<'a> {
    /// Its header.
    pub header: BatchHeader,
    payload: &'a [u8],
}

impl<'a> DecodedBatch<'a> {
    /// Returns the entries with their sequence numbers, in order.
    pub fn entries(&self) -> impl Iterator<Item = (Seq, &'a [u8])> + use<'a> {
        let mut rest = self.payload;
        let first = self.header.first_seq.0;
        (first..first + u64::from(self.header.count)).map(move |seq| {
            let (entry, behind) = split_entry(rest).expect("decoding took the whole payload apart");
            rest = behind;
            (Seq(seq), entry)
        })
    }
}

/// Verifies a whole batch at the front of `bytes`, which may be longer. The caller compares journal, position and
/// predecessor.
pub fn decode_batch(bytes: &[u8]) -> Result<DecodedBatch<'_>, FormatError> {
    let header = BatchHeader::decode(bytes)?;
    let length = usize::try_from(header.payload_bytes).map_err(|_| FormatError::Short)?;
    let payload = bytes.get(HEADER_BYTES..).and_then(|rest| rest.get(..length)).ok_or(FormatError::Short)?;
    if header.payload_checksum != crc32c::crc32c(payload) {
        return Err(FormatError::Checksum);
    }
    let mut rest = payload;
    for _ in 0..header.count {
        (_, rest) = split_entry(rest).ok_or(FormatError::Contradiction)?;
    }
    if rest.is_empty() { Ok(DecodedBatch { header, payload }) } else { Err(FormatError::Contradiction) }
}

/// Encodes a batch with its padding into `out`, which is cleared first, and returns its checksum. Lengths and
/// checksums of `header` are computed from the entries.
pub fn encode_batch<E: AsRef<[u8]>>(mut header: BatchHeader, entries: &[E], out: &mut Vec<u8>) -> u32 {
    out.clear();
    out.resize(HEADER_BYTES, 0);
    for entry in entries {
        let entry = entry.as_ref();
        let length = u32::try_from(entry.len()).expect("a batch that fits the ring has entries below 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(entry);
    }
    header.count = u32::try_from(entries.len()).expect("a batch that fits the ring has below 2^32 entries");
    header.payload_bytes = u32::try_from(out.len() - HEADER_BYTES).expect("a batch is far below 4 GiB");
    header.payload_checksum = crc32c::crc32c(&out[HEADER_BYTES..]);
    let bytes = header.encode();
    out[..HEADER_BYTES].copy_from_slice(&bytes);
    out.resize(out.len().next_multiple_of(block_usize()), 0);
    u32_at(&bytes, 84)
}

/// Returns the bytes that entries take in a batch's payload.
pub fn payload_bytes<E: AsRef<[u8]>>(entries: &[E]) -> u64 {
    entries.iter().map(|entry| 4 + entry.as_ref().len() as u64).sum()
}

/// Returns the bytes that a batch with this payload takes in the ring.
pub fn stored_bytes(payload: u64) -> u64 {
    (HEADER_BYTES as u64 + payload).next_multiple_of(BLOCK)
}

/// [`BLOCK`] as a length in memory.
pub(super) fn block_usize() -> usize {
    usize::try_from(BLOCK).expect("a block fits memory")
}

fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
