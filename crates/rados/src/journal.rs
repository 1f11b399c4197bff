//! The log: a ring of objects. Each is written in full when the pool is created, so that later writes need no space.

use std::io::{self, IoSlice};
use std::sync::{Mutex, PoisonError};

use volume::media::RandomFile;

use crate::fence::{Owned, Pending, wait_for_all};
use crate::names::{OBJECT_BYTES, OBJECT_USIZE, PoolNames};
use crate::objects::{Piece, Step};

/// The objects of a ring that are read at the same time.
const READS_MAX: usize = 16;

/// The log of an open pool.
pub(crate) struct Journal {
    owned: Owned,
    names: PoolNames,
    objects: u64,
    /// Writes since the last sync.
    pending: Mutex<Vec<Pending>>,
}

/// Writes a ring of `objects` objects.
pub(crate) fn create(owned: &Owned, names: PoolNames, objects: u64) -> io::Result<()> {
    let zeros = vec![0; OBJECT_USIZE];
    owned.create_all((0..objects).map(|number| names.ring(number)), &zeros)
}

/// A part of a range: the number of the object, where in it, how many bytes.
struct Part {
    object: u64,
    within: u64,
    bytes: usize,
}

impl Journal {
    pub(crate) fn new(owned: Owned, names: PoolNames, objects: u64) -> Journal {
        Journal { owned, names, objects, pending: Mutex::default() }
    }

    fn length(&self) -> u64 {
        self.objects * OBJECT_BYTES
    }

    /// Returns the parts that lie in one object each.
    fn parts(&self, offset: u64, bytes: usize) -> io::Result<Vec<Part>> {
        let end = u64::try_from(bytes).ok().and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| end > self.length()) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the journal"));
        }
        let (mut parts, mut at, mut left) = (Vec::new(), offset, bytes);
        while left > 0 {
            let within = at % OBJECT_BYTES;
            let count = left.min(usize::try_from(OBJECT_BYTES - within).expect("an object fits memory"));
            parts.push(Part { object: at / OBJECT_BYTES, within, bytes: count });
            at += count as u64;
            left -= count;
        }
        Ok(parts)
    }
}

impl RandomFile for Journal {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the journal's length is fixed when its pool is created",
        ))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut rest = buffer;
        let mut pieces = Vec::new();
        for part in self.parts(offset, rest.len())? {
            let (first, after) = rest.split_at_mut(part.bytes);
            rest = after;
            pieces.push(Piece::new(self.names.ring(part.object), part.within, first));
        }
        for pieces in pieces.chunks_mut(READS_MAX) {
            self.owned.read(pieces);
        }
        for piece in pieces {
            let object = &piece.object;
            match piece.result {
                Ok(count) if count == piece.buffer.len() => {}
                Ok(_) => {
                    let what = format!("the object {object} of the journal is damaged: it is too short");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let what = format!("the object {object} of the journal is missing; restore it");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        for part in self.parts(offset, bytes.len())? {
            let (first, after) = rest.split_at(part.bytes);
            rest = after;
            let write = [IoSlice::new(first)];
            let started = self.owned.start(&self.names.ring(part.object), Step::Write(part.within, &write));
            self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(started);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock is kept, so that a second sync does not return before the writes that the first one waits for are stored.
        wait_for_all(std::mem::take(&mut *pending))
    }

    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}
