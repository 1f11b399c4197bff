//! Inodes in memory: their state and their locks.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, RawMutex};

use crate::api::attributes::Attributes;
use crate::api::ids::{ExtentId, ObjectId, Seq, VolumeNumber};
use crate::api::request::{Durability, FlushWait};
use crate::encoding::record::InodeRecord;
use crate::file::dirty::Dirty;
use crate::file::notes::Notes;
use crate::quotas::Kinds;

/// Number of shards, each with a lock of its own; a power of two.
const SHARDS: usize = 16;

/// Overhead of an allocation with the counters of an `Arc`, bytes.
const ALLOCATION_BYTES: u64 = 24;

/// Memory of an unused inode with its place in the queue, bytes. Windows of its map count separately; unstable data
/// and truncations are bounded by the journal and write-back.
const CELL_BYTES: u64 = 336;

const _: () = assert!(size_of::<Mutex<InodeState>>() as u64 + ALLOCATION_BYTES + 32 <= CELL_BYTES);

/// Consecutive inodes that share a slot of the table; a power of two.
const GROUP: usize = 8;

/// Memory of such a slot, bytes, in a table that is half full.
const GROUP_BYTES: u64 = 2 * (size_of::<(GroupId, Group)>() as u64 + 1);

/// Memory of an inode with its part of the table, where neighbours are mostly present.
pub const INODE_BYTES: u64 = CELL_BYTES + GROUP_BYTES / 4;

/// Whether an inode's record is loaded.
#[derive(Debug, Default)]
pub enum Presence {
    /// The record was not read yet.
    #[default]
    Unknown,
    /// No inode has this number, or it was removed.
    Absent,
    /// The newest record.
    Present(InodeRecord),
}

/// An extent mapping of the index, or a range whose mappings are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexMapping {
    /// First offset in the file.
    pub start: u64,
    /// Offset after the last.
    pub end: u64,
    /// Truncation count at its birth.
    pub birth: u32,
    /// The extent.
    pub extent: ExtentId,
    /// Where in the extent it begins.
    pub offset: u32,
}

impl IndexMapping {
    /// Stands for the extents of a range whose mappings are lost. Extents are numbered from 1.
    const LOST: ExtentId = ExtentId(0);

    /// Returns a range whose mappings are lost. No truncation is known to hide them.
    pub fn lost(start: u64, end: u64) -> IndexMapping {
        IndexMapping { start, end, birth: u32::MAX, extent: IndexMapping::LOST, offset: 0 }
    }

    /// Whether what the range holds is lost.
    pub fn is_lost(&self) -> bool {
        self.extent == IndexMapping::LOST
    }
}

/// A part of a file's map, read from the index.
#[derive(Clone, Debug)]
pub struct MapWindow {
    /// Version of the index.
    pub version: u64,
    /// Offset from which on it is complete.
    pub from: u64,
    /// Offset up to which it is complete.
    pub to: u64,
    /// Mappings that touch it, in file order.
    pub mappings: Arc<Vec<IndexMapping>>,
}

impl MapWindow {
    /// Returns its memory.
    fn bytes(&self) -> u64 {
        let apart = size_of::<MapWindow>() + size_of::<Vec<IndexMapping>>();
        (apart + self.mappings.capacity() * size_of::<IndexMapping>()) as u64 + 3 * ALLOCATION_BYTES
    }
}

/// What is reserved of the limits of a file's owners for its unstable data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldGrowth {
    /// Bytes.
    pub bytes: u64,
    /// The kinds of owners in whose accounts they are reserved.
    pub kinds: Kinds,
}

/// An inode in memory. Its lock is held for short pieces of work, never across I/O. Several are locked in the order
/// of their numbers.
#[derive(Debug)]
pub struct InodeState {
    /// Which one it is.
    pub id: ObjectId,
    /// Its record.
    pub presence: Presence,
    /// The last journal entry that changed its visible state.
    pub seq: Seq,
    /// The last flush generation that a stable write to it waits for.
    pub flush_generation: u64,
    /// Its size, if unstable data extends beyond the size in the record.
    pub unstable_size: Option<u64>,
    /// Its unstable data.
    pub dirty: Dirty,
    /// Its unstable bytes as counted in the volume's total.
    pub counted_bytes: u64,
    /// Segment space reserved for it, bytes.
    pub reserved_bytes: u64,
    /// What is reserved of limits for its unstable data.
    pub growth: HeldGrowth,
    /// Whether the record holds times that are not in the journal yet.
    pub unsaved: bool,
    /// Whether the last flush could not save its unstable data. It takes no more until a flush can.
    pub is_set_aside: bool,
    /// What long work found out. Call [`Inodes::count_notes`] after a change.
    pub notes: Option<Box<Notes>>,
    /// The window of its index map that was read last; set by [`Inodes::keep_window`].
    window: Option<Box<MapWindow>>,
}

impl InodeState {
    /// Returns an inode whose record is not loaded.
    pub fn new(id: ObjectId) -> InodeState {
        InodeState {
            id,
            presence: Presence::Unknown,
            seq: Seq(0),
            flush_generation: 0,
            unstable_size: None,
            dirty: Dirty::default(),
            counted_bytes: 0,
            reserved_bytes: 0,
            growth: HeldGrowth::default(),
            unsaved: false,
            is_set_aside: false,
            notes: None,
            window: None,
        }
    }

    /// Returns the record of an inode that was locked through [`crate::transaction::attempt::Attempt`], which loads
    /// it.
    pub fn record(&self) -> &InodeRecord {
        match &self.presence {
            Presence::Present(record) => record,
            _ => unreachable!("an inode is locked only with its record loaded"),
        }
    }

    /// Returns the record for changing it.
    pub fn record_mut(&mut self) -> &mut InodeRecord {
        match &mut self.presence {
            Presence::Present(record) => record,
            _ => unreachable!("an inode is locked only with its record loaded"),
        }
    }

    /// Returns the visible size, bytes.
    pub fn size(&self) -> u64 {
        self.record().size.max(self.unstable_size.unwrap_or(0))
    }

    /// Returns the visible attributes.
    pub fn attributes(&self) -> Attributes {
        let mut attributes = self.record().attributes(self.id.ino);
        if let Some(unstable) = self.unstable_size {
            attributes.size = attributes.size.max(unstable);
        }
        if !self.dirty.is_empty() {
            let data = (self.record().used + self.dirty.bytes()).min(attributes.size);
            attributes.used = data + u64::from(self.record().xattr_bytes);
        }
        attributes
    }

    /// Notes a change of its map from `start` to `end`, which has this many mapped bytes more than before.
    pub fn note_mapped(&mut self, start: u64, end: u64, bytes: i64) {
        if let Some(notes) = &mut self.notes {
            notes.coverage.change(start, end, bytes);
        }
    }

    /// Notes that this entry journaled the record as it is now.
    pub fn journaled(&mut self, seq: Seq) {
        self.seq = seq;
        self.unsaved = false;
    }

    /// Returns what a reply that shows the inode waits for.
    pub fn durability(&self) -> Durability {
        Durability { seq: self.seq, flush: self.flush_wait(self.flush_generation) }
    }

    /// Returns how something waits for this file to be saved by a flush.
    pub fn flush_wait(&self, generation: u64) -> FlushWait {
        FlushWait { generation, file: (generation != 0).then_some(self.id) }
    }

    /// Returns the window of its index map that was read last.
    pub fn window(&self) -> Option<&MapWindow> {
        self.window.as_deref()
    }

    /// Returns the memory of that window.
    fn window_bytes(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.bytes())
    }

    /// Returns the memory that is counted for its notes.
    fn note_bytes(&self) -> u64 {
        self.notes.as_ref().map_or(0, |notes| notes.counted_bytes)
    }

    /// Counts the memory of its notes anew, and drops them if there is nothing in them.
    fn recount_notes(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.counted_bytes = notes.memory_bytes();
        }
        self.notes.take_if(|notes| notes.counted_bytes == 0);
    }

    fn can_be_forgotten(&self, durable: Seq, flush_generation: u64) -> bool {
        self.dirty.is_empty()
            && !self.unsaved
            && self.seq <= durable
            && self.flush_generation <= flush_generation
    }
}

/// A shared inode.
pub type SharedInode = Arc<Mutex<InodeState>>;

/// A locked inode.
pub type LockedInode = ArcMutexGuard<RawMutex, InodeState>;

/// All inodes in memory; bounded.
#[derive(Debug)]
pub struct Inodes {
    shards: [Mutex<Shard>; SHARDS],
    /// Memory limit of a shard, without windows.
    bytes_max: u64,
    /// Memory limit of the windows in a shard.
    window_bytes_max: u64,
    /// Memory limit of the notes in a shard.
    note_bytes_max: u64,
}

/// Inodes by number, in groups, so that the table of a million fits the processor's cache.
#[derive(Debug, Default)]
struct Cells {
    groups: HashMap<GroupId, Group>,
    len: usize,
}

type Group = [Option<SharedInode>; GROUP];

/// Consecutive objects of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupId {
    volume: VolumeNumber,
    /// The number of the first, divided by [`GROUP`].
    number: u64,
}

/// Hashes both numbers as one word.
impl Hash for GroupId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number ^ u64::from(self.volume.0) << 40);
    }
}

/// Returns the group of an inode, and the place in it.
fn place(id: ObjectId) -> (GroupId, usize) {
    let size = GROUP as u64;
    let group = GroupId { volume: id.volume, number: id.ino.0 / size };
    (group, usize::try_from(id.ino.0 % size).expect("a remainder is small"))
}

impl Cells {
    fn get(&self, id: ObjectId) -> Option<&SharedInode> {
        let (group, within) = place(id);
        self.groups.get(&group)?[within].as_ref()
    }

    fn insert(&mut self, id: ObjectId, cell: SharedInode) {
        let (group, within) = place(id);
        self.len += usize::from(self.groups.entry(group).or_default()[within].replace(cell).is_none());
    }

    fn remove(&mut self, id: ObjectId) {
        let (group, within) = place(id);
        let Some(cells) = self.groups.get_mut(&group) else { return };
        self.len -= usize::from(cells[within].take().is_some());
        if cells.iter().all(Option::is_none) {
            self.groups.remove(&group);
        }
    }

    fn bytes(&self) -> u64 {
        self.len as u64 * CELL_BYTES + self.groups.len() as u64 * GROUP_BYTES
    }
}

#[derive(Debug, Default)]
struct Shard {
    cells: Cells,
    /// Inodes in the order in which eviction considers them.
    order: VecDeque<ObjectId>,
    /// Inodes with a window, in the order of eviction; may contain some without.
    windows: VecDeque<ObjectId>,
    /// Memory of the windows.
    window_bytes: u64,
    /// Inodes with notes, in the order in which they give way; may contain some without.
    noted: VecDeque<ObjectId>,
    /// Memory of the notes.
    note_bytes: u64,
}

impl Inodes {
    /// Returns a table of about `bytes` of inodes, `window_bytes` of windows, and `note_bytes` of notes. It holds a few
    /// inodes at least, and exceeds its share only while inodes are in use or not durable.
    pub fn new(bytes: u64, window_bytes: u64, note_bytes: u64) -> Inodes {
        Inodes {
            shards: Default::default(),
            bytes_max: (bytes / SHARDS as u64).max(4 * INODE_BYTES),
            window_bytes_max: window_bytes / SHARDS as u64,
            note_bytes_max: note_bytes / SHARDS as u64,
        }
    }

    /// Returns an inode, loaded or not. `durable` and `flush_generation` tell which states may be
    /// evicted for it.
    pub fn get(&self, id: ObjectId, durable: Seq, flush_generation: u64) -> SharedInode {
        let mut shard = self.shard(id).lock();
        if let Some(cell) = shard.cells.get(id) {
            return Arc::clone(cell);
        }
        if shard.cells.bytes() + INODE_BYTES > self.bytes_max {
            shard.evict(durable, flush_generation);
        }
        let cell = Arc::new(Mutex::new(InodeState::new(id)));
        shard.cells.insert(id, Arc::clone(&cell));
        shard.order.push_back(id);
        cell
    }

    /// Returns an inode, if in memory.
    pub fn peek(&self, id: ObjectId) -> Option<SharedInode> {
        self.shard(id).lock().cells.get(id).cloned()
    }

    /// Stores a window in a locked inode, evicting others if there is no room.
    pub fn keep_window(&self, state: &mut InodeState, window: MapWindow) {
        let before = state.window_bytes();
        match &mut state.window {
            Some(kept) => **kept = window,
            none => *none = Some(Box::new(window)),
        }
        let after = state.window_bytes();
        if before == after {
            return;
        }
        let mut shard = self.shard(state.id).lock();
        shard.window_bytes = shard.window_bytes + after - before;
        if before == 0 {
            shard.windows.push_back(state.id);
        }
        shard.forget_windows(self.window_bytes_max);
    }

    /// Counts the notes of a locked inode, which changed. If there is no room, those of others give way.
    pub fn count_notes(&self, state: &mut InodeState) {
        let before = state.note_bytes();
        state.recount_notes();
        let after = state.note_bytes();
        if before == after {
            return;
        }
        let mut shard = self.shard(state.id).lock();
        shard.note_bytes = shard.note_bytes + after - before;
        if before == 0 {
            shard.noted.push_back(state.id);
        }
        shard.forget_notes(self.note_bytes_max);
    }

    /// Returns the memory of all notes.
    pub fn note_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().note_bytes).sum()
    }

    /// Returns the number of inodes in memory.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().cells.len).sum()
    }

    /// Returns the memory of all windows.
    pub fn window_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().window_bytes).sum()
    }

    fn shard(&self, id: ObjectId) -> &Mutex<Shard> {
        let (group, _) = place(id);
        let spread = group.number.wrapping_add(group.volume.0.into());
        let index = usize::try_from(spread % SHARDS as u64).expect("a remainder is small");
        &self.shards[index]
    }
}

impl Shard {
    /// Evicts a few unused inodes. A second-chance queue would choose better, but needs a mark on the hot path.
    fn evict(&mut self, durable: Seq, flush_generation: u64) {
        let mut looks = 16;
        let mut evicted = 0;
        while looks > 0 && evicted < 2 {
            looks -= 1;
            let Some(id) = self.order.pop_front() else { return };
            let cell = self.cells.get(id).expect("the queue names each cell once");
            // With the shard locked nobody can get a new reference, so a count of one stays one.
            let mut forgotten = None;
            if Arc::strong_count(cell) == 1
                && let Some(state) = cell.try_lock()
                && state.can_be_forgotten(durable, flush_generation)
            {
                forgotten = Some((state.window_bytes(), state.note_bytes()));
            }
            if let Some((window_bytes, note_bytes)) = forgotten {
                self.window_bytes -= window_bytes;
                self.note_bytes -= note_bytes;
                self.cells.remove(id);
                evicted += 1;
            } else {
                self.order.push_back(id);
            }
        }
    }

    /// Evicts windows that are not in use, oldest first, while there are too many.
    fn forget_windows(&mut self, max: u64) {
        let mut looks = 32;
        while looks > 0 && (self.window_bytes > max || self.windows.len() > self.cells.len) {
            looks -= 1;
            let Some(id) = self.windows.pop_front() else { return };
            let Some(cell) = self.cells.get(id) else { continue };
            match cell.try_lock() {
                Some(mut state) => {
                    self.window_bytes -= state.window_bytes();
                    state.window = None;
                }
                None => self.windows.push_back(id),
            }
        }
    }

    /// Shortens the notes that are not in use, oldest first, while there are too many; those that are short are forgotten.
    fn forget_notes(&mut self, max: u64) {
        let mut looks = 32;
        while looks > 0 && (self.note_bytes > max || self.noted.len() > self.cells.len) {
            looks -= 1;
            let Some(id) = self.noted.pop_front() else { return };
            let Some(cell) = self.cells.get(id) else { continue };
            let Some(mut state) = cell.try_lock() else {
                self.noted.push_back(id);
                continue;
            };
            self.note_bytes -= state.note_bytes();
            match &mut state.notes {
                Some(notes) if notes.coverage.is_large() => notes.coverage.shrink(),
                notes => *notes = None,
            }
            state.recount_notes();
            self.note_bytes += state.note_bytes();
            if state.notes.is_some() {
                self.noted.push_back(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
