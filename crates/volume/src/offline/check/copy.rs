//! A copy-on-write view of a file.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::media::RandomFile;

/// Bytes copied when one of them is written.
const BLOCK: u64 = 4096;

/// A view of a file in which writes stay in memory. The index library marks a file as open, and repairs it after a
/// crash; during a check that must not reach media.
pub(super) struct CopyOnWrite {
    below: Arc<dyn RandomFile>,
    state: Mutex<Blocks>,
}

struct Blocks {
    length: u64,
    /// Below this offset the view shows the file's own bytes, beyond it zeros.
    original: u64,
    /// Blocks that were written, by their number.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl CopyOnWrite {
    pub(super) fn new(below: Arc<dyn RandomFile>) -> io::Result<CopyOnWrite> {
        let length = below.len()?;
        Ok(CopyOnWrite {
            below,
            state: Mutex::new(Blocks { length, original: length, blocks: BTreeMap::new() }),
        })
    }

    fn read_below(&self, original: u64, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(original.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let (bytes, zeros) = buffer.split_at_mut(there);
        zeros.fill(0);
        if bytes.is_empty() { Ok(()) } else { self.below.read_at(offset, bytes) }
    }
}

/// Copies the overlap of `block`, which begins at `at`, into `buffer`, which begins at `offset`.
fn lay_over(buffer: &mut [u8], offset: u64, block: &[u8], at: u64) {
    let skip = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let (in_buffer, in_block) = (skip(offset, at), skip(at, offset));
    let (Some(to), Some(from)) = (buffer.get_mut(in_buffer..), block.get(in_block..)) else { return };
    let count = to.len().min(from.len());
    to[..count].copy_from_slice(&from[..count]);
}

impl RandomFile for CopyOnWrite {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().length)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.original = state.original.min(len);
        state.blocks.retain(|number, _| number * BLOCK < len);
        if let Some(block) = state.blocks.get_mut(&(len / BLOCK)) {
            block[usize::try_from(len % BLOCK).unwrap_or(0)..].fill(0);
        }
        state.length = len;
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= state.length);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.read_below(state.original, offset, buffer)?;
        for (number, block) in state.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            lay_over(buffer, offset, block, number * BLOCK);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= state.length);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        for number in offset / BLOCK..end.div_ceil(BLOCK) {
            let at = number * BLOCK;
            if !state.blocks.contains_key(&number) {
                let mut block = vec![0; usize::try_from(BLOCK).expect("a block is small")];
                self.read_below(state.original, at, &mut block)?;
                state.blocks.insert(number, block);
            }
            if let Some(block) = state.blocks.get_mut(&number) {
                lay_over(block, at, bytes, offset);
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::memory::{MemoryFile, Random};

    #[test]
    fn writes_are_read_back_and_leave_the_original_unchanged() {
        let mut random = Random::new(7);
        let before = random.bytes(20_000);
        let below = MemoryFile::holding(before.clone());
        let copy = CopyOnWrite::new(Arc::clone(&below) as Arc<dyn RandomFile>).unwrap();
        let mut model = before.clone();
        for round in 0..2000 {
            if round % 50 == 0 {
                let length = usize::try_from(random.below(40_000)).unwrap();
                model.resize(length, 0);
                copy.set_len(length as u64).unwrap();
            }
            let at = usize::try_from(random.below(model.len() as u64 + 1)).unwrap();
            let count = usize::try_from(random.below(10_000)).unwrap().min(model.len() - at);
            if random.below(2) == 0 {
                let bytes = random.bytes(count);
                model[at..at + count].copy_from_slice(&bytes);
                copy.write_at(at as u64, &bytes).unwrap();
            }
            let mut read = vec![9; count];
            copy.read_at(at as u64, &mut read).unwrap();
            assert_eq!(read, model[at..at + count]);
            assert!(copy.read_at(at as u64, &mut vec![0; model.len() - at + 1]).is_err());
        }
        assert_eq!(below.bytes(), before);
        assert_eq!(below.steps(), 0);
    }
}
