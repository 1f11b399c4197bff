//! What a thread knows about the content of its part of a file, for `--verify`.

use crate::verify::{self, BLOCK_BYTES};
use crate::workload::actor::Cause;

/// The content is not known: a write of it failed.
const UNKNOWN: u32 = 1 << 31;

/// A part of a file, block for block.
#[derive(Clone, Debug)]
pub(super) struct VerifiedRegion {
    file: u64,
    base: u64,
    /// How often each block was written, and perhaps [`UNKNOWN`].
    generations: Vec<u32>,
    /// Blocks that are being read or written. Nobody else begins with them.
    busy: Vec<bool>,
}

impl VerifiedRegion {
    /// Nothing was written yet. All sizes are multiples of a block's.
    pub(super) fn new(file: u64, base: u64, bytes: u64) -> Self {
        let blocks = usize::try_from(bytes.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX);
        Self { file, base, generations: vec![0; blocks], busy: vec![false; blocks] }
    }

    fn range(&self, offset: u64, bytes: u64) -> std::ops::Range<usize> {
        let block =
            |offset: u64| usize::try_from((offset - self.base) / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        block(offset)..block(offset + bytes)
    }

    /// Whether an operation with one of these blocks is in flight.
    pub(super) fn is_busy(&self, offset: u64, bytes: u64) -> bool {
        self.busy[self.range(offset, bytes)].contains(&true)
    }

    /// Whether all of these blocks were written, and it is known what.
    pub(super) fn is_known(&self, offset: u64, bytes: u64) -> bool {
        let is_known = |generation: &u32| *generation > 0 && generation & UNKNOWN == 0;
        self.generations[self.range(offset, bytes)].iter().all(is_known)
    }

    /// An operation begins.
    pub(super) fn begin(&mut self, offset: u64, bytes: u64) {
        let range = self.range(offset, bytes);
        self.busy[range].fill(true);
    }

    /// An operation is over.
    pub(super) fn ended(&mut self, offset: u64, bytes: u64, was_write: bool, succeeded: bool) {
        let range = self.range(offset, bytes);
        self.busy[range.clone()].fill(false);
        if was_write {
            for generation in &mut self.generations[range] {
                *generation = ((*generation & !UNKNOWN) + 1) | if succeeded { 0 } else { UNKNOWN };
            }
        }
    }

    /// Writes the next generation of blocks.
    pub(super) fn make(&self, data: &mut [u8], offset: u64) {
        let range = self.range(offset, data.len() as u64);
        let mut offset = offset;
        for (block, generation) in data.chunks_mut(BLOCK_BYTES).zip(&self.generations[range]) {
            verify::fill(block, self.file, offset, (generation & !UNKNOWN) + 1);
            offset += BLOCK_BYTES as u64;
        }
    }

    /// Compares blocks with what was written; returns how many were known.
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

    /// Of a call that moved `count` of `asked` bytes: as many as make whole blocks.
    pub(super) fn whole_blocks(count: u32, asked: u32) -> u32 {
        let block = u32::try_from(BLOCK_BYTES).expect("4096");
        if count == asked { count } else { count / block * block }
    }
}
