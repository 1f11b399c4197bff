//! A file in memory that can lose power: for tests of what is written on [`RandomFile`].

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{RandomFile, SECTOR_BYTES};

const SECTOR: usize = 512;

/// A small generator of repeatable random numbers (xorshift64*).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

#[derive(Clone, Debug)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Debug, Default)]
struct State {
    /// What reads see.
    current: Vec<u8>,
    /// What media hold for sure.
    synced: Vec<u8>,
    pending: Vec<Pending>,
    /// Writes, length changes and syncs so far.
    steps: u64,
    /// Every step from this one on fails.
    fail_from: Option<u64>,
    /// Longest length that there is room for.
    room: Option<usize>,
}

/// The file.
#[derive(Debug, Default)]
pub(crate) struct MemoryFile(Mutex<State>);

impl MemoryFile {
    /// A file that holds these bytes durably.
    pub(crate) fn holding(bytes: Vec<u8>) -> Arc<MemoryFile> {
        let state = State { current: bytes.clone(), synced: bytes, ..State::default() };
        Arc::new(MemoryFile(Mutex::new(state)))
    }

    /// What reads see now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().current.clone()
    }

    /// Flips bits durably behind everybody's back.
    pub(crate) fn flip(&self, at: usize, mask: u8) {
        let mut state = self.0.lock();
        state.current[at] ^= mask;
        state.synced[at] ^= mask;
    }

    /// Writes, length changes and syncs so far.
    pub(crate) fn steps(&self) -> u64 {
        self.0.lock().steps
    }

    /// Makes every step from the `step`th on fail; `None` heals.
    pub(crate) fn fail_from(&self, step: Option<u64>) {
        self.0.lock().fail_from = step;
    }

    /// Bounds the length.
    pub(crate) fn set_room(&self, room: Option<usize>) {
        self.0.lock().room = room;
    }

    /// What media hold after power was lost now: of what was not synced, each sector of each write is kept or not.
    pub(crate) fn after_power_loss(&self, random: &mut Random) -> Arc<MemoryFile> {
        let state = self.0.lock();
        let mut bytes = state.synced.clone();
        // Most, few or half of the sectors survive: extremes find different faults than an even mix.
        let keep = [0, 10, 50, 90, 100][usize::try_from(random.below(5)).unwrap()];
        for pending in &state.pending {
            match pending {
                Pending::Length(length) if random.below(100) < keep => {
                    let (low, high) = (bytes.len().min(*length), bytes.len().max(*length));
                    // A crash may find the change of a length half done.
                    let halfway = low + usize::try_from(random.below((high - low + 1) as u64)).unwrap();
                    bytes.resize(if random.below(4) == 0 { halfway } else { *length }, 0);
                }
                Pending::Length(_) => {}
                Pending::Write { offset, bytes: written } => {
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

    fn step(state: &mut State) -> io::Result<()> {
        state.steps += 1;
        match state.fail_from {
            Some(from) if state.steps > from => Err(io::Error::other("the device is gone")),
            _ => Ok(()),
        }
    }
}

impl RandomFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().current.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        MemoryFile::step(&mut state)?;
        let len = usize::try_from(len).unwrap();
        if state.room.is_some_and(|room| len > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.current.resize(len, 0);
        state.pending.push(Pending::Length(len));
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let offset = usize::try_from(offset).unwrap();
        let bytes = state.current.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        MemoryFile::step(&mut state)?;
        let offset = usize::try_from(offset).unwrap();
        state.current[offset..offset + bytes.len()].copy_from_slice(bytes);
        state.pending.push(Pending::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        MemoryFile::step(&mut state)?;
        let State { current, synced, pending, .. } = &mut *state;
        for pending in pending.drain(..) {
            match pending {
                Pending::Length(length) => synced.resize(length, 0),
                Pending::Write { offset, bytes } => {
                    synced[offset..offset + bytes.len()].copy_from_slice(&bytes)
                }
            }
        }
        debug_assert_eq!(synced.len(), current.len());
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let state = self.0.lock();
        let wanted = state.current.len() + usize::try_from(bytes).unwrap();
        match state.room {
            Some(room) if wanted > room => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

const _: () = assert!(SECTOR as u64 == SECTOR_BYTES);

/// An inode of that type, otherwise empty.
pub(crate) fn record_of(file_type: crate::attributes::FileType) -> crate::record::InodeRecord {
    let time = crate::time::Time::EPOCH;
    crate::record::InodeRecord {
        epoch: crate::ids::Epoch(0),
        file_type,
        mode: 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        size: 0,
        used: 0,
        mapped_end: 0,
        device: crate::attributes::Device::default(),
        atime: time,
        mtime: time,
        ctime: time,
        change: 1,
        parent: crate::ids::Ino(0),
        next_cookie: crate::ids::Cookie(0),
        entries: 0,
        tree: 0,
        create_verifier: None,
        truncations: 0,
        cuts: Vec::new(),
        xattrs: 0,
        xattr_bytes: 0,
    }
}
