//! A file in memory that can lose power, fail and be full.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Random;
use crate::media::{RandomFile, SECTOR_BYTES};

/// A change that no sync has covered.
#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// What a power loss needs to know.
#[derive(Debug)]
struct Durable {
    /// The bytes at the last sync.
    bytes: Vec<u8>,
    /// The changes since then, in order.
    unsynced: Vec<Change>,
}

#[derive(Debug)]
struct Content {
    /// What reads see.
    current: Vec<u8>,
    /// `None` if the file cannot lose power.
    durable: Option<Durable>,
    /// Writes, length changes and syncs so far.
    steps: u64,
    /// All later steps fail once this many were made.
    fail_from: Option<u64>,
    /// The greatest length that there is room for.
    len_max: Option<usize>,
    /// Whether writes fail for lack of space.
    is_full: bool,
    /// Bytes that cannot be read.
    unreadable: Range<usize>,
    /// Which of the next reads of those bytes succeed nevertheless; `None` for none of all.
    passing: Option<VecDeque<bool>>,
}

/// A file in memory.
#[derive(Debug)]
pub struct MemoryFile(Mutex<Content>);

impl MemoryFile {
    /// Returns a file that holds `bytes` durably.
    #[must_use]
    pub fn holding(bytes: Vec<u8>) -> Arc<MemoryFile> {
        let durable = Durable { bytes: bytes.clone(), unsynced: Vec::new() };
        MemoryFile::with(bytes, Some(durable))
    }

    /// Returns a file that cannot lose power, and so keeps no second copy of its bytes.
    #[must_use]
    pub fn always_powered(bytes: Vec<u8>) -> Arc<MemoryFile> {
        MemoryFile::with(bytes, None)
    }

    fn with(current: Vec<u8>, durable: Option<Durable>) -> Arc<MemoryFile> {
        let state = Content {
            current,
            durable,
            steps: 0,
            fail_from: None,
            len_max: None,
            is_full: false,
            unreadable: 0..0,
            passing: None,
        };
        Arc::new(MemoryFile(Mutex::new(state)))
    }

    /// Returns what reads see now.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().current.clone()
    }

    /// Changes bytes durably, as media that rot do.
    pub fn damage(&self, change: impl Fn(&mut [u8])) {
        let mut state = self.0.lock();
        change(&mut state.current);
        if let Some(durable) = &mut state.durable {
            change(&mut durable.bytes);
        }
    }

    /// Flips the bits of `mask` in the byte at `at`, durably.
    pub fn flip(&self, at: usize, mask: u8) {
        self.damage(|bytes| bytes[at] ^= mask);
    }

    /// Returns the number of writes, length changes and syncs so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.lock().steps
    }

    /// Makes every write, length change and sync fail after the first `steps` of them; `None` heals the file.
    pub fn fail_from(&self, steps: Option<u64>) {
        self.0.lock().fail_from = steps;
    }

    /// Makes reads of any of these bytes fail, as those of a bad sector do.
    pub fn set_unreadable(&self, bytes: Range<usize>) {
        let mut state = self.0.lock();
        state.unreadable = bytes;
        state.passing = None;
    }

    /// Makes the next reads of any of these bytes succeed or fail, in this order; those after them succeed.
    pub fn set_flaky(&self, bytes: Range<usize>, succeed: impl IntoIterator<Item = bool>) {
        let mut state = self.0.lock();
        state.unreadable = bytes;
        state.passing = Some(succeed.into_iter().collect());
    }

    /// Returns how many of the reads that [`MemoryFile::set_flaky`] lists are still to come.
    #[must_use]
    pub fn flaky_reads_left(&self) -> usize {
        self.0.lock().passing.as_ref().map_or(0, VecDeque::len)
    }

    /// Bounds the length, reserved space included.
    pub fn set_room(&self, len_max: Option<usize>) {
        self.0.lock().len_max = len_max;
    }

    /// Makes writes fail for lack of space, as on a file system that copies on write.
    pub fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    /// Returns what media hold after power was lost now: each sector of each unsynced write is kept or lost.
    ///
    /// # Panics
    /// The file is [`MemoryFile::always_powered`].
    #[must_use]
    pub fn after_power_loss(&self, random: &mut Random) -> Arc<MemoryFile> {
        let state = self.0.lock();
        let durable = state.durable.as_ref().expect("the file can lose power");
        let mut bytes = durable.bytes.clone();
        // Most, few or half of the sectors survive: extremes find other faults than an even mix.
        let keep = [0, 10, 50, 90, 100][random.index(5)];
        for change in &durable.unsynced {
            match change {
                Change::Length(length) if random.below(100) < keep => {
                    let (low, high) = (bytes.len().min(*length), bytes.len().max(*length));
                    // A crash may find the change of a length half done.
                    let halfway = low + random.index(high - low + 1);
                    bytes.resize(if random.below(4) == 0 { halfway } else { *length }, 0);
                }
                Change::Length(_) => {}
                Change::Write { offset, bytes: written } => {
                    let mut at = 0;
                    while at < written.len() {
                        let count = (SECTOR - (offset + at) % SECTOR).min(written.len() - at);
                        if random.below(100) < keep && offset + at < bytes.len() {
                            let count = count.min(bytes.len() - offset - at);
                            bytes[offset + at..][..count].copy_from_slice(&written[at..][..count]);
                        }
                        at += count;
                    }
                }
            }
        }
        MemoryFile::holding(bytes)
    }
}

impl Content {
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        match self.fail_from {
            Some(from) if self.steps > from => Err(io::Error::other("the device is gone")),
            _ => Ok(()),
        }
    }

    fn check_room(&self, len: usize) -> io::Result<()> {
        match self.len_max {
            _ if self.is_full => Err(io::ErrorKind::StorageFull.into()),
            Some(max) if len > max => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn changed(&mut self, change: impl FnOnce() -> Change) {
        if let Some(durable) = &mut self.durable {
            durable.unsynced.push(change());
        }
    }
}

impl RandomFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().current.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step()?;
        let len = in_memory(len)?;
        state.check_room(len)?;
        state.current.resize(len, 0);
        state.changed(|| Change::Length(len));
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        let offset = in_memory(offset)?;
        if offset < state.unreadable.end && state.unreadable.start < offset + buffer.len() {
            let passes = state.passing.as_mut().is_some_and(|next| next.pop_front().unwrap_or(true));
            if !passes {
                return Err(io::Error::other("a sector cannot be read"));
            }
        }
        let bytes = state.current.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step()?;
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let offset = in_memory(offset)?;
        state.current[offset..offset + bytes.len()].copy_from_slice(bytes);
        state.changed(|| Change::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step()?;
        let Content { current, durable: Some(durable), .. } = &mut *state else { return Ok(()) };
        for change in durable.unsynced.drain(..) {
            match change {
                Change::Length(length) => durable.bytes.resize(length, 0),
                Change::Write { offset, bytes } => {
                    durable.bytes[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        debug_assert_eq!(durable.bytes.len(), current.len());
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let state = self.0.lock();
        state.check_room(state.current.len() + in_memory(bytes)?)
    }
}

/// Bytes that a torn write keeps or loses as one.
const SECTOR: usize = 512;
const _: () = assert!(SECTOR as u64 == SECTOR_BYTES);

/// Converts a length or an offset to one of memory.
pub(super) fn in_memory(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}
