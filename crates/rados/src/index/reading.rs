//! Reading an index: blocks in memory, and runs of blocks in objects.

use std::io;

use super::map::{BLOCK, BLOCK_BYTES, Place};
use super::{PagedFile, State};
use crate::objects::Piece;

/// How often a read looks for a block anew whose object was removed meanwhile.
const LOOKS_MAX: usize = 8;

impl PagedFile {
    /// Reads bytes whether or not they lie within the length.
    pub(super) fn read_blocks(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut result = Ok(());
        for _ in 0..LOOKS_MAX {
            result = self.try_read(offset, buffer);
            match &result {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => return result,
            }
        }
        result
    }

    fn try_read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut wanted = self.not_in_memory(offset, buffer);
        wanted.retain_mut(|wanted| match self.cache.get(&wanted.place) {
            Some(block) => {
                wanted.fill_from(&block);
                false
            }
            None => true,
        });
        // Adjacent blocks of an object are read at once.
        let runs: Vec<&mut [Wanted<'_>]> =
            wanted.chunk_by_mut(|one, next| one.place.is_before(next.place)).collect();
        let mut buffers: Vec<Vec<u8>> = runs.iter().map(|run| vec![0; run.len() * BLOCK]).collect();
        let mut pieces = Vec::with_capacity(runs.len());
        {
            let state = self.state();
            for (run, buffer) in runs.iter().zip(&mut buffers) {
                let (number, slot) = run[0].place.get().expect("a hole is in memory");
                let packed = state.map.objects.get(&number).ok_or(io::ErrorKind::NotFound)?;
                let name = self.names.blocks(self.number, packed.epoch, number);
                pieces.push(Piece::new(name, slot * BLOCK_BYTES, buffer));
            }
        }
        self.owned.read(&mut pieces);
        for piece in pieces {
            if piece.result? != piece.buffer.len() {
                let what = format!("the object {} of the index is too short", piece.object);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        for (run, buffer) in runs.into_iter().zip(buffers) {
            for (wanted, block) in run.iter_mut().zip(buffer.chunks_exact(BLOCK)) {
                wanted.fill_from(block);
                self.cache.insert(wanted.place, block.into());
            }
        }
        Ok(())
    }

    /// Fills what is in memory, and returns the rest.
    fn not_in_memory<'b>(&self, offset: u64, buffer: &'b mut [u8]) -> Vec<Wanted<'b>> {
        let state = self.state();
        let mut wanted = Vec::new();
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let within = usize::try_from(at % BLOCK_BYTES).expect("within a block");
            let count = rest.len().min(BLOCK - within);
            let (part, after) = rest.split_at_mut(count);
            let block = at / BLOCK_BYTES;
            if let Some(place) = state.copy(block, within, part) {
                wanted.push(Wanted { place, within, part });
            }
            at += count as u64;
            rest = after;
        }
        wanted
    }
}

/// A block that is not in memory, or a part of it.
struct Wanted<'b> {
    place: Place,
    within: usize,
    part: &'b mut [u8],
}

impl Wanted<'_> {
    fn fill_from(&mut self, block: &[u8]) {
        self.part.copy_from_slice(&block[self.within..self.within + self.part.len()]);
    }
}

impl State {
    /// Copies a part of a block that is in memory; returns the place of one that is not.
    fn copy(&self, block: u64, within: usize, part: &mut [u8]) -> Option<Place> {
        if let Some(dirty) = self.dirty.get(&block) {
            part.copy_from_slice(&dirty.bytes[within..within + part.len()]);
            return None;
        }
        let place = self.map.place(block);
        let Some((number, slot)) = place.get() else {
            part.fill(0);
            return None;
        };
        let Some(bytes) = self.flying.get(&number) else { return Some(place) };
        let from = usize::try_from(slot * BLOCK_BYTES).expect("within an object") + within;
        part.copy_from_slice(&bytes[from..from + part.len()]);
        None
    }
}
