//! Inodes in memory: what is known of each, and its lock.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, RawMutex};

use crate::api::attributes::Attributes;
use crate::api::ids::{ExtentId, Ino, Seq};
use crate::api::request::Durability;
use crate::encoding::record::InodeRecord;
use crate::file::dirty::Dirty;

/// Parts that are locked one by one; a power of two.
const SHARDS: usize = 16;

/// What an allocation takes beside what was asked for, with the counters of an `Arc`, bytes.
const ALLOCATION_BYTES: u64 = 24;

/// What an inode takes that is not in use, bytes, with its place in the queue: but for what is kept of its map, and for unstable
/// data and truncations, which the journal and write-back bound.
const CELL_BYTES: u64 = 312;

const _: () = assert!(size_of::<Mutex<InodeState>>() as u64 + ALLOCATION_BYTES + 16 <= CELL_BYTES);

/// Inodes whose numbers follow each other and that share a place of the table; a power of two.
const GROUP: usize = 8;

/// What such a place takes, bytes, in a table that is half full.
const GROUP_BYTES: u64 = 2 * (size_of::<(u64, Group)>() as u64 + 1);

/// What an inode takes with its part of the table, where most have others beside them.
pub const INODE_BYTES: u64 = CELL_BYTES + GROUP_BYTES / 4;

/// What is known of an inode.
#[derive(Debug, Default)]
pub enum Presence {
    /// Nothing: its record was not read yet.
    #[default]
    Unknown,
    /// There is none of this number, or no more.
    Absent,
    /// Its record, newest state.
    Present(InodeRecord),
}

/// A piece of a file's map as the index holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexMapping {
    /// First offset in the file.
    pub start: u64,
    /// Offset behind the last.
    pub end: u64,
    /// Truncation count of its birth.
    pub birth: u32,
    /// The extent.
    pub extent: ExtentId,
    /// Bytes of the extent before this piece.
    pub offset: u32,
}

/// A part of a file's map, read from the index.
#[derive(Clone, Debug)]
pub struct MapWindow {
    /// Version of the index that it was read from.
    pub version: u64,
    /// Offset from which on it is complete.
    pub from: u64,
    /// Offset up to which it is complete.
    pub to: u64,
    /// Pieces that touch it, in file order.
    pub mappings: Arc<Vec<IndexMapping>>,
}

impl MapWindow {
    /// What it takes in memory.
    fn bytes(&self) -> u64 {
        let apart = size_of::<MapWindow>() + size_of::<Vec<IndexMapping>>();
        (apart + self.mappings.capacity() * size_of::<IndexMapping>()) as u64 + 3 * ALLOCATION_BYTES
    }
}

/// An inode in memory. Its lock is held for short pieces of work, never across I/O; several are locked in order of
/// their numbers.
#[derive(Debug)]
pub struct InodeState {
    /// Its number.
    pub ino: Ino,
    /// Its record.
    pub presence: Presence,
    /// The last journal entry that changed what it shows.
    pub seq: Seq,
    /// The last write-back round that a stable write of it waits for.
    pub flush_generation: u64,
    /// Its size, when unstable data reaches beyond the size in the record.
    pub unstable_size: Option<u64>,
    /// Its unstable data.
    pub dirty: Dirty,
    /// Bytes of unstable data that are counted to the volume's.
    pub counted_bytes: u64,
    /// Segment space that is reserved for it, bytes.
    pub reserved_bytes: u64,
    /// Whether the record holds times that are not in the journal yet.
    pub unsaved: bool,
    /// Counts changes of its map, so that what was found without the lock can be checked.
    pub map_changes: u64,
    /// What was last read of its map in the index; set by [`Inodes::keep_window`]. Most inodes in memory have none.
    window: Option<Box<MapWindow>>,
}

impl InodeState {
    /// One of which nothing is known.
    pub fn new(ino: Ino) -> InodeState {
        InodeState {
            ino,
            presence: Presence::Unknown,
            seq: Seq(0),
            flush_generation: 0,
            unstable_size: None,
            dirty: Dirty::default(),
            counted_bytes: 0,
            reserved_bytes: 0,
            unsaved: false,
            map_changes: 0,
            window: None,
        }
    }

    /// Its record. Only for states that were locked through [`crate::transaction::attempt::Attempt`], which loads it.
    pub fn record(&self) -> &InodeRecord {
        match &self.presence {
            Presence::Present(record) => record,
            _ => unreachable!("an inode is locked only with its record loaded"),
        }
    }

    /// Its record, to change it.
    pub fn record_mut(&mut self) -> &mut InodeRecord {
        match &mut self.presence {
            Presence::Present(record) => record,
            _ => unreachable!("an inode is locked only with its record loaded"),
        }
    }

    /// The size that it shows, bytes.
    pub fn size(&self) -> u64 {
        self.record().size.max(self.unstable_size.unwrap_or(0))
    }

    /// What GETATTR shows.
    pub fn attributes(&self) -> Attributes {
        let mut attributes = self.record().attributes(self.ino);
        if let Some(unstable) = self.unstable_size {
            attributes.size = attributes.size.max(unstable);
        }
        if !self.dirty.is_empty() {
            attributes.used = (attributes.used + self.dirty.bytes()).min(attributes.size);
        }
        attributes
    }

    /// Notes that its record, as it is now, was journaled by this entry.
    pub fn journaled(&mut self, seq: Seq) {
        self.seq = seq;
        self.unsaved = false;
    }

    /// What a reply that shows it waits for.
    pub fn durability(&self) -> Durability {
        Durability { seq: self.seq, flush_generation: self.flush_generation }
    }

    /// What was last read of its map in the index.
    pub fn window(&self) -> Option<&MapWindow> {
        self.window.as_deref()
    }

    /// What that takes in memory.
    fn window_bytes(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.bytes())
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
    /// What a shard may take but for maps.
    bytes_max: u64,
    /// What a shard may keep of maps.
    window_bytes_max: u64,
}

/// Inodes by their numbers, in groups: of a million of them the table is then small enough for the processor's cache.
#[derive(Debug, Default)]
struct Cells {
    groups: HashMap<u64, Group>,
    len: usize,
}

type Group = [Option<SharedInode>; GROUP];

/// The group of a number, and its place in it.
fn place(ino: Ino) -> (u64, usize) {
    let size = GROUP as u64;
    (ino.0 / size, usize::try_from(ino.0 % size).expect("a remainder is small"))
}

impl Cells {
    fn get(&self, ino: Ino) -> Option<&SharedInode> {
        let (group, within) = place(ino);
        self.groups.get(&group)?[within].as_ref()
    }

    fn insert(&mut self, ino: Ino, cell: SharedInode) {
        let (group, within) = place(ino);
        self.len += usize::from(self.groups.entry(group).or_default()[within].replace(cell).is_none());
    }

    fn remove(&mut self, ino: Ino) {
        let (group, within) = place(ino);
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
    /// In the order in which they are looked at when one has to go.
    order: VecDeque<Ino>,
    /// Those with a part of their map, in the order in which it goes; and some that are gone or have none any more.
    windows: VecDeque<Ino>,
    /// What those parts take.
    window_bytes: u64,
}

impl Inodes {
    /// Takes about `bytes`, at least what a few inodes take, more only while they are in use or not durable; and so many bytes of
    /// their maps.
    pub fn new(bytes: u64, window_bytes: u64) -> Inodes {
        Inodes {
            shards: Default::default(),
            bytes_max: (bytes / SHARDS as u64).max(4 * INODE_BYTES),
            window_bytes_max: window_bytes / SHARDS as u64,
        }
    }

    /// The inode of a number, known or not. `durable` and `flush_generation` tell which states may be forgotten for it.
    pub fn get(&self, ino: Ino, durable: Seq, flush_generation: u64) -> SharedInode {
        let mut shard = self.shard(ino).lock();
        if let Some(cell) = shard.cells.get(ino) {
            return Arc::clone(cell);
        }
        if shard.cells.bytes() + INODE_BYTES > self.bytes_max {
            shard.evict(durable, flush_generation);
        }
        let cell = Arc::new(Mutex::new(InodeState::new(ino)));
        shard.cells.insert(ino, Arc::clone(&cell));
        shard.order.push_back(ino);
        cell
    }

    /// The inode of a number, if it is in memory.
    pub fn peek(&self, ino: Ino) -> Option<SharedInode> {
        self.shard(ino).lock().cells.get(ino).cloned()
    }

    /// Keeps a part of the map of an inode that is in memory and locked; others go for it if there is no room.
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
        let mut shard = self.shard(state.ino).lock();
        shard.window_bytes = shard.window_bytes + after - before;
        if before == 0 {
            shard.windows.push_back(state.ino);
        }
        shard.forget_windows(self.window_bytes_max);
    }

    /// How many are in memory.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().cells.len).sum()
    }

    /// What the parts of their maps take that are in memory.
    pub fn window_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().window_bytes).sum()
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        let index = usize::try_from(place(ino).0 % SHARDS as u64).expect("a remainder is small");
        &self.shards[index]
    }
}

impl Shard {
    /// Forgets a few inodes that nobody uses: a second-chance queue would know better which, but needs a mark on the
    /// hot path.
    fn evict(&mut self, durable: Seq, flush_generation: u64) {
        let mut looks = 16;
        let mut evicted = 0;
        while looks > 0 && evicted < 2 {
            looks -= 1;
            let Some(ino) = self.order.pop_front() else { return };
            let cell = self.cells.get(ino).expect("the queue names each cell once");
            // With the shard locked nobody can get a new reference, so a count of one stays one.
            let mut forgotten = None;
            if Arc::strong_count(cell) == 1
                && let Some(state) = cell.try_lock()
                && state.can_be_forgotten(durable, flush_generation)
            {
                forgotten = Some(state.window_bytes());
            }
            if let Some(window_bytes) = forgotten {
                self.window_bytes -= window_bytes;
                self.cells.remove(ino);
                evicted += 1;
            } else {
                self.order.push_back(ino);
            }
        }
    }

    /// Forgets parts of maps that are not in use, the oldest first, while there are too many.
    fn forget_windows(&mut self, max: u64) {
        let mut looks = 32;
        while looks > 0 && (self.window_bytes > max || self.windows.len() > self.cells.len) {
            looks -= 1;
            let Some(ino) = self.windows.pop_front() else { return };
            let Some(cell) = self.cells.get(ino) else { continue };
            match cell.try_lock() {
                Some(mut state) => {
                    self.window_bytes -= state.window_bytes();
                    state.window = None;
                }
                None => self.windows.push_back(ino),
            }
        }
    }
}

#[cfg(test)]
mod tests;
