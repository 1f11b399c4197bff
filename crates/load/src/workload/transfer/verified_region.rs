//! The expected content of a thread's part of a file, for `--verify`.

use crate::client::cause::Cause;
use crate::verify::{self, BLOCK_BYTES};

/// A write of the block failed, so its content is unknown.
const UNKNOWN: u32 = 1 << 31;

/// The blocks of a part of a file.
#[derive(Clone, Debug)]
pub(super) struct VerifiedRegion {
    file: u64,
    base: u64,
    /// The number of writes of each block, perhaps with [`UNKNOWN`].
    generations: Vec<u32>,
    /// Blocks that are being read or written. No other operation may use them.
    busy: Vec<bool>,
}

impl VerifiedRegion {
    /// Begins with no block written. `base` and `bytes` are multiples of the block size.
    pub(super) fn new(file: u64, base: u64, bytes: u64) -> Self {
        let blocks = usize::try_from(bytes.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX);
        Self { file, base, generations: vec![0; blocks], busy: vec![false; blocks] }
    }

    fn range(&self, offset: u64, bytes: u64) -> std::ops::Range<usize> {
        let block =
            |offset: u64| usize::try_from((offset - self.base) / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        block(offset)..block(offset + bytes)
    }

    /// Whether an operation on one of these blocks is in flight.
    pub(super) fn is_busy(&self, offset: u64, bytes: u64) -> bool {
        self.busy[self.range(offset, bytes)].contains(&true)
    }

    /// Whether all of these blocks were written and their content is known.
    pub(super) fn is_known(&self, offset: u64, bytes: u64) -> bool {
        let is_known = |generation: &u32| *generation > 0 && generation & UNKNOWN == 0;
        self.generations[self.range(offset, bytes)].iter().all(is_known)
    }

    /// Begins an operation on these blocks.
    pub(super) fn begin(&mut self, offset: u64, bytes: u64) {
        let range = self.range(offset, bytes);
        self.busy[range].fill(true);
    }

    /// Ends an operation on these blocks.
    pub(super) fn ended(&mut self, offset: u64, bytes: u64, was_write: bool, succeeded: bool) {
        let range = self.range(offset, bytes);
        self.busy[range.clone()].fill(false);
        if was_write {
            for generation in &mut self.generations[range] {
                *generation = ((*generation & !UNKNOWN) + 1) | if succeeded { 0 } else { UNKNOWN };
            }
        }
    }

    /// Fills `data` with the next generation of blocks.
    pub(super) fn make(&self, data: &mut [u8], offset: u64) {
        let range = self.range(offset, data.len() as u64);
        let mut offset = offset;
        for (block, generation) in data.chunks_mut(BLOCK_BYTES).zip(&self.generations[range]) {
            verify::fill(block, self.file, offset, (generation & !UNKNOWN) + 1);
            offset += BLOCK_BYTES as u64;
        }
    }

    /// Checks blocks against what was written. Returns how many were known.
    pub(super) fn check(&self, data: &[u8], offset: u64) -> Result<u64, Cause> {
        let range = self.range(offset, data.len() as u64);
        let (mut offset, mut blocks) = (offset, 0);
        for (block, generation) in data.chunks(BLOCK_BYTES).zip(&self.generations[range]) {
            if generation & UNKNOWN == 0 {
                let verified = verify::check(block, self.file, offset, *generation);
                blocks += verified.map_err(|mistake| Cause::Wrong(mistake.words()))?;
            }
            offset += BLOCK_BYTES as u64;
        }
        Ok(blocks)
    }

    /// Rounds the `count` bytes that a call moved down to whole blocks, unless it moved all `asked` bytes.
    pub(super) fn whole_blocks(count: u32, asked: u32) -> u32 {
        let block = u32::try_from(BLOCK_BYTES).expect("4096");
        if count == asked { count } else { count / block * block }
    }
}
