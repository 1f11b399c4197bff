//! Self-describing blocks for `--verify`: a reader can tell whether a block belongs to this file and offset, and
//! whether it is the version that was written last.
//!
//! A block is 4096 bytes: magic number (8), file (8), offset (8), generation (4), CRC32C of everything after the
//! magic number except itself (4), and random bytes seeded by file, offset and generation.

use crate::random::generator;

/// The size of a block.
pub(crate) const BLOCK_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"HFbench1";
const HEAD_BYTES: usize = 32;

/// A block's identity and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Identifies this file of this measurement.
    pub(crate) file: u64,
    /// The block's offset in the file, in bytes.
    pub(crate) offset: u64,
    /// Counts the writes of the block, from 1.
    pub(crate) generation: u32,
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockError {
    /// There is no magic number.
    NotABlock,
    /// The checksum is wrong.
    Checksum,
    /// It belongs to another file.
    File,
    /// It belongs to another offset.
    Offset,
    /// It is not the version that was written last.
    Generation,
}

impl BlockError {
    /// Returns the cause of the failure in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::NotABlock => "READ: wrong data (not a block)",
            Self::Checksum => "READ: wrong data (damaged)",
            Self::File => "READ: wrong data (of another file)",
            Self::Offset => "READ: wrong data (of another offset)",
            Self::Generation => "READ: wrong data (of another version)",
        }
    }
}

/// Fills `data` with blocks of one generation, the first of them at `offset`.
pub(crate) fn fill(data: &mut [u8], file: u64, offset: u64, generation: u32) {
    let mut offset = offset;
    for block in data.chunks_mut(BLOCK_BYTES) {
        fill_block(block, Stamp { file, offset, generation });
        offset += BLOCK_BYTES as u64;
    }
}

fn fill_block(block: &mut [u8], stamp: Stamp) {
    let (head, body) = block.split_at_mut(HEAD_BYTES.min(block.len()));
    generator(stamp.file ^ u64::from(stamp.generation), stamp.offset).fill(body);
    let mut written = [0; HEAD_BYTES];
    written[..8].copy_from_slice(&MAGIC);
    written[8..16].copy_from_slice(&stamp.file.to_be_bytes());
    written[16..24].copy_from_slice(&stamp.offset.to_be_bytes());
    written[24..28].copy_from_slice(&stamp.generation.to_be_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&written[8..28]), body);
    written[28..].copy_from_slice(&checksum.to_be_bytes());
    head.copy_from_slice(&written[..head.len()]);
}

/// Checks blocks of one generation, the first of them at `offset`. Returns their number.
pub(crate) fn check(data: &[u8], file: u64, offset: u64, generation: u32) -> Result<u64, BlockError> {
    let (mut offset, mut blocks) = (offset, 0);
    for block in data.chunks(BLOCK_BYTES) {
        check_block(block, Stamp { file, offset, generation })?;
        offset += BLOCK_BYTES as u64;
        blocks += 1;
    }
    Ok(blocks)
}

fn check_block(block: &[u8], expected: Stamp) -> Result<(), BlockError> {
    let Some((head, body)) = block.split_first_chunk::<HEAD_BYTES>() else {
        return Err(BlockError::NotABlock);
    };
    if head[..8] != MAGIC {
        return Err(BlockError::NotABlock);
    }
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head[8..28]), body);
    if head[28..] != checksum.to_be_bytes() {
        return Err(BlockError::Checksum);
    }
    if head[8..16] != expected.file.to_be_bytes() {
        return Err(BlockError::File);
    }
    if head[16..24] != expected.offset.to_be_bytes() {
        return Err(BlockError::Offset);
    }
    if head[24..28] != expected.generation.to_be_bytes() {
        return Err(BlockError::Generation);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_blocks_are_valid() {
        let mut data = vec![0; 3 * BLOCK_BYTES];
        fill(&mut data, 9, 4096, 2);
        assert_eq!(check(&data, 9, 4096, 2), Ok(3));
    }

    #[test]
    fn every_fault_of_a_block_is_distinguished() {
        let mut data = vec![0; BLOCK_BYTES];
        assert_eq!(check(&data, 9, 4096, 2), Err(BlockError::NotABlock));
        fill(&mut data, 9, 4096, 2);
        assert_eq!(check(&data, 8, 4096, 2), Err(BlockError::File));
        assert_eq!(check(&data, 9, 0, 2), Err(BlockError::Offset));
        assert_eq!(check(&data, 9, 4096, 3), Err(BlockError::Generation));
        for at in [8, 20, 31, 32, 4095] {
            data[at] ^= 1;
            assert_eq!(check(&data, 9, 4096, 2), Err(BlockError::Checksum), "byte {at}");
            data[at] ^= 1;
        }
        assert_eq!(check(&data[..16], 9, 4096, 2), Err(BlockError::NotABlock));
    }
}
