//! The data of a WRITE: as it arrives, and once it has arrived.
//!
//! It is received into buffers that are cut where extents are, so that it becomes unstable data, and later extents,
//! without being copied.

use std::borrow::Cow;
use std::io::IoSliceMut;
use std::sync::Arc;

use super::pool::{Filling, Pool};
use super::{BLOCK, Bytes};
use crate::limits::{EXTENT_BYTES_MAX, INLINE_WRITE_BYTES_MAX};

const _: () = assert!(EXTENT_BYTES_MAX.is_multiple_of(BLOCK));

/// The data of a WRITE while it arrives: received into buffers, cut where extents are cut, checksummed while it is in the
/// processor's cache. If it is dropped, its buffers return to their pool.
#[derive(Debug)]
pub struct Arriving {
    pool: Arc<Pool>,
    offset: u64,
    length: usize,
    /// Bytes for which there is memory.
    allocated: usize,
    pieces: Vec<Filling>,
    /// How many of them nothing is missing from.
    complete: usize,
}

impl Arriving {
    /// Expects `length` bytes for `offset` of a file. Allocates nothing yet.
    pub(crate) fn new(pool: &Arc<Pool>, offset: u64, length: usize) -> Arriving {
        let pool = Arc::clone(pool);
        Arriving { pool, offset, length, allocated: 0, pieces: Vec::new(), complete: 0 }
    }

    /// Returns memory for the next missing bytes, for one vectored read, with arbitrary contents: the rest of the piece
    /// under way, and following ones, which are allocated now, while it is less than `max` bytes. A piece has at most
    /// [`EXTENT_BYTES_MAX`]. Empty if nothing is missing.
    pub fn spaces(&mut self, max: usize) -> Vec<IoSliceMut<'_>> {
        let mut offered: usize = self.pieces[self.complete..].iter().map(Filling::missing).sum();
        while self.allocated < self.length && offered < max.max(1) {
            offered += self.allocate();
        }
        self.pieces[self.complete..].iter_mut().map(|piece| IoSliceMut::new(piece.space())).collect()
    }

    /// Records that so many bytes were received into [`Arriving::spaces`], and checksums the blocks that they complete.
    ///
    /// # Panics
    /// If they are more than there was space for.
    pub fn received(&mut self, bytes: usize) {
        let mut rest = bytes;
        while rest > 0 {
            let piece = &mut self.pieces[self.complete];
            let here = rest.min(piece.missing());
            piece.received(here);
            self.complete += usize::from(piece.missing() == 0);
            rest -= here;
        }
    }

    /// Copies the next bytes: those that came with the header.
    ///
    /// # Panics
    /// If they are more than is missing.
    pub fn take(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.missing(), "more bytes than the WRITE has");
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.complete == self.pieces.len() {
                self.allocate();
            }
            let piece = &mut self.pieces[self.complete];
            let (here, later) = rest.split_at(rest.len().min(piece.missing()));
            piece.take(here);
            self.complete += usize::from(piece.missing() == 0);
            rest = later;
        }
    }

    /// Returns how many bytes have not been received.
    pub fn missing(&self) -> usize {
        let incomplete: usize = self.pieces[self.complete..].iter().map(Filling::missing).sum();
        self.length - self.allocated + incomplete
    }

    /// Returns the memory that has been allocated so far, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(Filling::memory_bytes).sum()
    }

    /// Returns the data.
    ///
    /// # Panics
    /// If bytes are missing.
    pub fn finish(self) -> Received {
        assert_eq!(self.missing(), 0, "all bytes have been received");
        let pieces = self.pieces.into_iter().map(Filling::finish).collect();
        Received { pieces, offset: self.offset, length: self.length }
    }

    /// Allocates the next piece, and returns its length.
    fn allocate(&mut self) -> usize {
        let length = piece_length(self.offset + self.allocated as u64, self.length - self.allocated);
        self.pieces.push(self.pool.fill(length, is_checksummed(self.length)));
        self.allocated += length;
        length
    }
}

/// The data of a WRITE that has arrived. A clone shares it, as a call may have to run again.
#[derive(Clone, Debug)]
pub struct Received {
    pieces: Arc<[Bytes]>,
    offset: u64,
    length: usize,
}

impl Received {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the bytes in order, in pieces.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.pieces.iter().map(|piece| &**piece)
    }
}

/// The data of a WRITE.
#[derive(Clone, Copy, Debug)]
pub enum WriteData<'a> {
    /// Bytes that belong to the caller, and are copied.
    Bytes(&'a [u8]),
    /// Bytes that arrived in buffers, which are shared.
    Received(&'a Received),
}

impl<'a> WriteData<'a> {
    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        match self {
            WriteData::Bytes(bytes) => bytes.len(),
            WriteData::Received(received) => received.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes in one piece, copied if they are not.
    pub(crate) fn contiguous(self) -> Cow<'a, [u8]> {
        match self {
            WriteData::Bytes(bytes) => Cow::Borrowed(bytes),
            WriteData::Received(received) => match &*received.pieces {
                [] => Cow::Borrowed(&[]),
                [only] => Cow::Borrowed(only),
                several => Cow::Owned(several.iter().flat_map(|piece| piece.iter().copied()).collect()),
            },
        }
    }

    /// Calls `each` with every piece that becomes an extent unchanged, and where in the file it begins, if the data is
    /// for `offset`. Data that was received for another offset is copied, as its pieces are cut elsewhere.
    pub(crate) fn for_each_piece(self, pool: &Arc<Pool>, offset: u64, mut each: impl FnMut(u64, Bytes)) {
        match self {
            WriteData::Bytes(bytes) => {
                let (mut at, mut rest) = (offset, bytes);
                while !rest.is_empty() {
                    let (here, later) = rest.split_at(piece_length(at, rest.len()));
                    let mut filling = pool.fill(here.len(), is_checksummed(bytes.len()));
                    filling.take(here);
                    each(at, filling.finish());
                    at += here.len() as u64;
                    rest = later;
                }
            }
            WriteData::Received(received) if received.offset == offset => {
                let mut at = offset;
                for piece in &*received.pieces {
                    each(at, piece.clone());
                    at += piece.len() as u64;
                }
            }
            WriteData::Received(received) => {
                let mut arriving = Arriving::new(pool, offset, received.length);
                received.slices().for_each(|slice| arriving.take(slice));
                WriteData::Received(&arriving.finish()).for_each_piece(pool, offset, each);
            }
        }
    }
}

impl<'a> From<&'a [u8]> for WriteData<'a> {
    fn from(bytes: &'a [u8]) -> WriteData<'a> {
        WriteData::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for WriteData<'a> {
    fn from(bytes: &'a [u8; N]) -> WriteData<'a> {
        WriteData::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for WriteData<'a> {
    fn from(bytes: &'a Vec<u8>) -> WriteData<'a> {
        WriteData::Bytes(bytes)
    }
}

impl<'a> From<&'a Received> for WriteData<'a> {
    fn from(received: &'a Received) -> WriteData<'a> {
        WriteData::Received(received)
    }
}

/// Returns the length of the piece that begins at `offset` of a file, if `rest` bytes are left: extents are cut at
/// multiples of the largest.
fn piece_length(offset: u64, rest: usize) -> usize {
    let to_boundary = EXTENT_BYTES_MAX as u64 - offset % EXTENT_BYTES_MAX as u64;
    usize::try_from(to_boundary).map_or(rest, |to_boundary| to_boundary.min(rest))
}

/// Whether data of this length is checksummed as it arrives. Less may travel in the journal, which does not need them.
fn is_checksummed(length: usize) -> bool {
    length > INLINE_WRITE_BYTES_MAX
}

#[cfg(test)]
mod tests;
