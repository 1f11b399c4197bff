//! The index: a random-access file of blocks, kept in objects that are written once.
//!
//! A checkpoint changes blocks all over the index. To write each in place would be an operation for every block, and a crash
//! between them would leave a mixture. Instead, changed blocks wait in memory until there are enough for an object of 4 MiB, or until
//! a sync. The object gets a name that was never used; a sync then appends to the index's *head* where these blocks are now, in one
//! operation that names the epoch of its sender. Until then nothing refers to the object, so an owner that has lost the
//! namespace leaves at most objects without references.
//!
//! Which objects such an owner, or a crash, may have left is known without listing the pool: the head says up to which number
//! objects may exist. Objects that are mostly dead are rewritten with the next sync, and removed after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;
use volume::media::RandomFile;

use crate::fence::{Owned, Pending};
use crate::names::{OBJECT_BYTES, PoolNames};
use crate::space::Room;
use map::{BLOCK, BLOCK_BYTES, Change, Map, Place};

mod current;
mod head;
mod map;
mod reading;
#[cfg(test)]
mod tests;
mod writing;

pub(crate) use current::{CurrentIndex, length, remove_all, seal};
pub(crate) use writing::OPENING_BYTES;

/// Blocks that are kept in memory after they were read: 32 MiB.
const CACHED_BLOCKS_MAX: usize = 8192;

/// An index of an open pool.
pub(crate) struct PagedFile {
    owned: Owned,
    names: PoolNames,
    /// Which of the pool's indexes it is.
    number: u64,
    room: Arc<Room>,
    /// Taken before `state`, and held while the cluster is waited for.
    writer: Mutex<Writer>,
    state: Mutex<State>,
    cache: Cache<Place, Arc<[u8]>>,
}

/// What readers see.
#[derive(Default)]
struct State {
    map: Map,
    /// Blocks that wait for being written.
    dirty: BTreeMap<u64, Dirty>,
    /// The objects that are being written.
    flying: BTreeMap<u64, Arc<Vec<u8>>>,
}

struct Dirty {
    bytes: Box<[u8]>,
    /// Whether a part of it was written: likely to be read again.
    is_partial: bool,
}

/// What has changed since the last sync.
#[derive(Default)]
struct Writer {
    /// Blocks whose places differ from those in the head.
    moved: BTreeSet<u64>,
    /// Objects that the head does not have yet.
    written: Vec<u64>,
    /// Objects that were removed, but that the head still has.
    removed: Vec<u64>,
    pending: VecDeque<(u64, Pending)>,
    /// The length and the next number, as the head has them.
    stored: (u64, u64),
    /// Bytes of the head now, and when it began anew.
    head_bytes: (u64, u64),
    /// The length of the head's object.
    head_length: u64,
    /// Objects below this number are allocated.
    allocated: u64,
}

impl Writer {
    fn is_unchanged(&self, state: &State) -> bool {
        self.moved.is_empty() && state.dirty.is_empty() && self.stored.0 == state.map.length
    }
}

impl PagedFile {
    fn empty(owned: Owned, names: PoolNames, number: u64, room: Arc<Room>) -> PagedFile {
        PagedFile {
            owned,
            names,
            number,
            room,
            writer: Mutex::default(),
            state: Mutex::default(),
            cache: Cache::new(CACHED_BLOCKS_MAX),
        }
    }

    /// Creates an empty index.
    fn create(owned: Owned, names: PoolNames, number: u64, room: Arc<Room>) -> io::Result<PagedFile> {
        let mut bytes = Vec::new();
        let change = Change { epoch: owned.epoch(), ..Change::default() };
        head::encode(&change, &mut bytes);
        owned.create(names.head(number), &bytes)?;
        let file = PagedFile::empty(owned, names, number, room);
        let length = bytes.len() as u64;
        *file.writer() = Writer { head_bytes: (length, length), head_length: length, ..Writer::default() };
        Ok(file)
    }

    /// Opens an index that is sealed, and removes what an interrupted sync left.
    fn open(owned: Owned, names: PoolNames, number: u64, room: Arc<Room>) -> io::Result<PagedFile> {
        let file = PagedFile::empty(owned, names, number, room);
        file.load(&mut file.writer())?;
        let (dead, left) = {
            let map = &file.state().map;
            let dead = map.objects.iter().filter(|(_, packed)| packed.live == 0);
            let dead: Vec<(u64, u64)> = dead.map(|(number, packed)| (*number, packed.epoch)).collect();
            (dead, (map.next..map.reserved).map(|number| (number, map.epoch)).collect::<Vec<_>>())
        };
        let name = |(object, epoch): &(u64, u64)| names.blocks(number, *epoch, *object);
        file.owned.remove_all(dead.iter().chain(&left).map(name))?;
        file.forget(&mut file.writer(), dead.iter().map(|(number, _)| *number));
        // Numbers are not used again, even with another epoch: one number, one object.
        let mut state = file.state();
        state.map.next = state.map.reserved;
        drop(state);
        Ok(file)
    }

    /// Reads the head. What was written since the last sync is forgotten.
    fn load(&self, writer: &mut Writer) -> io::Result<()> {
        let head = read_head(&self.owned, self.names, self.number)?;
        *writer = Writer {
            stored: (head.map.length, head.map.next),
            head_bytes: (head.bytes, head.first),
            head_length: head.length,
            allocated: writer.allocated,
            ..Writer::default()
        };
        *self.state() = State { map: head.map, ..State::default() };
        Ok(())
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RandomFile for PagedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().map.length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut writer = self.writer();
        let (old, next) = {
            let state = self.state();
            (state.map.length, state.map.next)
        };
        let allocated = writer.allocated.saturating_sub(next) * OBJECT_BYTES;
        if length > old.saturating_add(allocated) {
            self.room.check(length - old)?;
        }
        let within = usize::try_from(length % BLOCK_BYTES).expect("within a block");
        if length < old && within > 0 {
            // What a later growth shows there is zeros.
            self.write_block(length / BLOCK_BYTES, within, &vec![0; BLOCK - within])?;
        }
        let mut state = self.state();
        let lost = state.map.set_length(length);
        writer.moved.extend(lost);
        drop(state.dirty.split_off(&length.div_ceil(BLOCK_BYTES)));
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.check_range(offset, buffer.len())?;
        self.read_blocks(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_range(offset, bytes.len())?;
        let mut writer = self.writer();
        let result = self.write_all(&mut writer, offset, bytes);
        self.or_go_back(&mut writer, result)
    }

    fn sync(&self) -> io::Result<()> {
        let mut writer = self.writer();
        if writer.is_unchanged(&self.state()) {
            return Ok(());
        }
        let result = self.sync_all(&mut writer);
        self.or_go_back(&mut writer, result)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.allocate(&mut self.writer(), bytes, Room::check)
    }
}

impl PagedFile {
    fn check_range(&self, offset: u64, bytes: usize) -> io::Result<()> {
        let end = u64::try_from(bytes).ok().and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| end > self.state().map.length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the index"));
        }
        Ok(())
    }
}

/// A head, read.
struct Head {
    map: Map,
    /// Bytes of all records, and of the first one.
    bytes: u64,
    first: u64,
    /// The length of the object.
    length: u64,
}

/// Reads the head of an index.
fn read_head(owned: &Owned, names: PoolNames, number: u64) -> io::Result<Head> {
    let object = names.head(number);
    let bytes = owned.read_whole(&object)?.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("the object {object} is missing: restore it"))
    })?;
    let (mut map, mut result, mut first, mut all) = (Map::default(), Ok(()), 0, 0);
    head::decode(&bytes, |change, end| {
        first = if first == 0 { end } else { first };
        all = end;
        if result.is_ok() {
            result = map.apply(change);
        }
    })?;
    result?;
    Ok(Head { map, bytes: all as u64, first: first as u64, length: bytes.len() as u64 })
}

/// Removes an index with all its objects.
fn remove(owned: &Owned, names: PoolNames, number: u64) -> io::Result<u64> {
    let object = names.head(number);
    if owned.read_whole(&object)?.is_none() {
        return Ok(0);
    }
    let map = read_head(owned, names, number)?.map;
    let known = map.objects.iter().map(|(object, packed)| (*object, packed.epoch));
    let left = (map.next..map.reserved).map(|object| (object, map.epoch));
    owned.remove_all(known.chain(left).map(|(object, epoch)| names.blocks(number, epoch, object)))?;
    owned.remove_all([object])?;
    Ok(map.objects.values().map(|packed| u64::from(packed.blocks) * BLOCK_BYTES).sum())
}
