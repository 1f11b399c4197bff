//! One attempt of an operation: it works on what is in memory. If something is missing it stops, having changed
//! nothing; what is missing is then read without holding any lock, and the operation is tried again.
//!
//! So no lock is ever held across I/O, and an event loop can try an operation without risk of blocking.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::api::ids::{ExtentId, Ino, Seq};
use crate::api::request::{Access, Answer, Durability, Error, Failure, Promised};
use crate::bytes::Bytes;
use crate::bytes::Value;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::file::inodes::{InodeState, LockedInode, MapWindow, Presence};
use crate::limits::{COUNT_AT_ONCE_BYTES, COUNT_RUNS_MAX, MAP_WINDOW_MAPPINGS};
use crate::tables::read_view::ReadView;
use crate::volume::{Subject, Volume};

/// Most attempts that find the volume changed beneath them before the caller has to retry.
const TRIES_MAX: usize = 1000;

/// Most records and windows that one call reads in an event loop: a hundred microseconds' work, if they are in memory.
const LOADS_IN_PLACE_MAX: usize = 32;

/// Most steps of [`COUNT_RUNS_MAX`] mappings that one call counts on a worker thread: about as long as a large WRITE.
const COUNT_STEPS_MAX: u32 = 128;

/// The same in an event loop.
const COUNT_STEPS_IN_PLACE_MAX: u32 = 4;

/// Most windows that are kept for counting. The first one is kept longest: it is where changes at the beginning of the
/// range make the count go back to.
const COUNT_WINDOWS_MAX: usize = 4;

/// Something that must first be read from media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A record of the index.
    Record(Key),
    /// The mappings of a file in the index that touch `[from, to)`, or the first of them.
    Map(Ino, u64, u64),
    /// Groups of blocks of extents, each with the part of a file that it holds.
    Blocks(Vec<((ExtentId, u32), Subject)>),
    /// Mappings of a file in the index, from an offset on, to be counted.
    Count(Ino, u64),
}

/// Why an attempt stopped.
#[derive(Debug)]
pub enum Stop {
    /// The operation fails.
    Failed(Failure),
    /// Something is not in memory.
    Missing(Missing),
    /// Something changed meanwhile; try again.
    Again,
    /// The work is long, and what was done so far is kept: the call gives its turn up.
    TurnOver,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error.into())
    }
}

/// What an attempt can see: the volume, and what was read for it.
#[derive(Debug)]
pub struct Attempt<'v> {
    /// The volume.
    pub volume: &'v Volume,
    /// Version of the index that `records` and `windows` were read from.
    version: u64,
    records: BTreeMap<Key, Slot>,
    windows: Vec<(Ino, MapWindow)>,
    /// Groups of blocks of extents, which are immutable.
    pub blocks: BTreeMap<(ExtentId, u32), Bytes>,
    /// Windows that were read to count mappings: the first one, and the last ones.
    count_windows: Vec<(Ino, MapWindow)>,
    /// The file whose mappings were counted, if they were very many.
    counted: Cell<Option<Ino>>,
    /// Steps in which mappings may be counted before the call gives its turn up.
    count_steps_left: Cell<u32>,
}

/// Inodes locked together.
pub struct LockedInodes {
    guards: Vec<LockedInode>,
}

impl LockedInodes {
    /// Returns one of the locked inodes.
    pub fn get(&mut self, ino: Ino) -> &mut InodeState {
        self.guards
            .iter_mut()
            .find(|guard| guard.ino == ino)
            .expect("only inodes that were locked are asked for")
    }

    fn holds(&self, ino: Ino) -> bool {
        self.guards.iter().any(|guard| guard.ino == ino)
    }

    /// Whether all of them precede `ino` in the lock order.
    fn is_before(&self, ino: Ino) -> bool {
        self.guards.last().is_none_or(|guard| guard.ino < ino)
    }

    /// Returns what a reply that shows all of them waits for.
    pub fn durability(&self) -> Durability {
        self.guards.iter().fold(Durability::NOW, |sum, guard| sum.and(guard.durability()))
    }

    /// Returns a failure that may reveal the state of all of them.
    pub fn fail(&self, error: Error) -> Stop {
        Stop::Failed(Failure { error, after: self.durability() })
    }
}

impl Volume {
    /// Runs an operation to completion.
    pub(crate) fn run<T>(
        &self,
        access: Access,
        mut body: impl FnMut(&mut Attempt<'_>) -> Result<Promised<T>, Stop>,
    ) -> Answer<T> {
        let mut attempt = Attempt::new(self, access);
        let (mut tries, mut loads) = (0, 0);
        while tries < TRIES_MAX {
            tries += 1;
            match body(&mut attempt) {
                Ok(promised) => {
                    attempt.forget_counts();
                    return Ok(promised);
                }
                Err(Stop::Failed(failure)) => {
                    attempt.forget_counts();
                    return Err(failure);
                }
                Err(Stop::Again) => {}
                Err(Stop::TurnOver) => return Err(Error::WouldBlock.into()),
                Err(Stop::Missing(missing)) if access == Access::Cached => {
                    loads += 1;
                    if loads > LOADS_IN_PLACE_MAX || !attempt.load_in_place(&missing)? {
                        return Err(Error::WouldBlock.into());
                    }
                }
                Err(Stop::Missing(missing)) => {
                    attempt.load(&missing)?;
                    if matches!(missing, Missing::Count(..)) {
                        // What was counted is kept, so every such attempt comes nearer to the end.
                        tries -= 1;
                    }
                }
            }
        }
        // The objects change as fast as they are looked at.
        Err(Error::ObjectBusy.into())
    }
}

impl<'v> Attempt<'v> {
    fn new(volume: &'v Volume, access: Access) -> Attempt<'v> {
        let count_steps = match access {
            Access::Cached => COUNT_STEPS_IN_PLACE_MAX,
            Access::Blocking => COUNT_STEPS_MAX,
        };
        Attempt {
            volume,
            version: volume.view().version,
            records: BTreeMap::new(),
            windows: Vec::new(),
            blocks: BTreeMap::new(),
            count_windows: Vec::new(),
            counted: Cell::new(None),
            count_steps_left: Cell::new(count_steps),
        }
    }
}

impl Attempt<'_> {
    /// Reads what is missing if the index seems to have it in memory: handing the call to a worker costs ten times as
    /// much. An absent name is left to a worker, which may read the names around it.
    fn load_in_place(&mut self, missing: &Missing) -> Result<bool, Error> {
        let view = self.volume.view();
        if !view.index.is_warm() {
            return Ok(false);
        }
        match missing {
            Missing::Record(key) => {
                let found = view
                    .index
                    .get(key)
                    .map_err(|error| self.volume.index_failed(Subject::of_key(key), &error))?;
                let Some(value) = found else { return Ok(false) };
                self.follow(&view);
                let slot = Some(Value::from(value));
                self.volume.remember_record(&view, key, &slot);
                self.records.insert(key.clone(), slot);
            }
            Missing::Map(ino, from, to) => {
                self.follow(&view);
                self.load_window(&view, *ino, (*from, *to))?;
            }
            Missing::Blocks(_) | Missing::Count(..) => return Ok(false),
        }
        Ok(true)
    }

    /// Drops what was read from an index that was replaced.
    fn follow(&mut self, view: &ReadView) {
        if view.version != self.version {
            self.version = view.version;
            self.records.clear();
            self.windows.clear();
            self.count_windows.clear();
        }
    }

    fn load_window(&mut self, view: &ReadView, ino: Ino, range: (u64, u64)) -> Result<(), Error> {
        let window = self.volume.read_window(view, ino, range, MAP_WINDOW_MAPPINGS)?;
        self.windows.retain(|(of, kept)| *of != ino || kept.from != window.from);
        self.windows.push((ino, window));
        Ok(())
    }

    /// Reads what is missing. No lock is held.
    pub fn load(&mut self, missing: &Missing) -> Result<(), Error> {
        let view = self.volume.view();
        self.follow(&view);
        match missing {
            Missing::Record(key) => {
                let slot: Slot = view
                    .index
                    .get(key)
                    .map_err(|error| self.volume.index_failed(Subject::of_key(key), &error))?
                    .map(Value::from);
                self.volume.remember_record(&view, key, &slot);
                if slot.is_none() {
                    self.volume.fill_filter_around(key);
                }
                self.records.insert(key.clone(), slot);
            }
            Missing::Map(ino, from, to) => self.load_window(&view, *ino, (*from, *to))?,
            Missing::Blocks(wanted) => {
                for (block, of) in wanted {
                    if let Some(bytes) = self.volume.read_block(&view, *block, *of)? {
                        self.blocks.insert(*block, bytes);
                    }
                }
            }
            Missing::Count(ino, offset) => {
                let window = self.volume.read_window(&view, *ino, (*offset, u64::MAX), COUNT_RUNS_MAX)?;
                if self.count_windows.len() >= COUNT_WINDOWS_MAX {
                    self.count_windows.remove(1);
                }
                self.count_windows.push((*ino, window));
            }
        }
        Ok(())
    }

    /// Returns a record from memory.
    pub fn record(&self, view: &ReadView, key: &Key) -> Result<Slot, Stop> {
        match view.recent(key) {
            Some(slot) => Ok(slot),
            None => self.older_record(view, key),
        }
    }

    /// Returns a record that no memtable holds.
    fn older_record(&self, view: &ReadView, key: &Key) -> Result<Slot, Stop> {
        if view.version == self.version
            && let Some(slot) = self.records.get(key)
        {
            return Ok(slot.clone());
        }
        self.volume.records.get(key).ok_or_else(|| Stop::Missing(Missing::Record(key.clone())))
    }

    /// Locks an inode and loads its record. A removed inode is `Stale`.
    pub fn lock(&self, ino: Ino) -> Result<LockedInode, Stop> {
        let volume = self.volume;
        let cell = volume.inodes.get(ino, volume.committer.durable(), volume.flushed_generation());
        let mut state = cell.lock_arc();
        if matches!(state.presence, Presence::Unknown) {
            self.fill(&mut state)?;
        }
        match state.presence {
            Presence::Present(_) => Ok(state),
            _ => Err(Failure { error: Error::Stale, after: state.durability() }.into()),
        }
    }

    /// Loads the record of a locked inode.
    fn fill(&self, state: &mut InodeState) -> Result<(), Stop> {
        let view = self.volume.view();
        let key = key::inode(state.ino);
        // A change in a memtable may not be durable, and the entry that made it is unknown.
        let recent = view.recent(&key);
        let seq = if recent.is_some() { self.volume.committer.last_queued() } else { Seq(0) };
        let slot = match recent {
            Some(slot) => slot,
            None => self.older_record(&view, &key)?,
        };
        state.presence = match slot {
            Some(bytes) => Presence::Present(
                self.volume.decode(Subject::Object(state.ino), InodeRecord::decode(&bytes))?,
            ),
            None => Presence::Absent,
        };
        state.seq = seq;
        Ok(())
    }

    /// Locks several inodes, in order.
    pub fn lock_all(&self, inos: &[Ino]) -> Result<LockedInodes, Stop> {
        let mut held = LockedInodes { guards: Vec::with_capacity(inos.len() + 1) };
        self.lock_more(&mut held, inos.to_vec())?;
        Ok(held)
    }

    /// Locks further inodes, in order. Those not held yet must follow all that are.
    fn lock_more(&self, held: &mut LockedInodes, mut inos: Vec<Ino>) -> Result<(), Stop> {
        inos.sort_unstable();
        inos.dedup();
        for ino in inos {
            if !held.holds(ino) {
                held.guards.push(self.lock(ino)?);
            }
        }
        Ok(())
    }

    /// Returns what a name refers to, in a directory that the caller has locked.
    pub fn name(&self, directory: Ino, name: &[u8]) -> Result<Option<NameRecord>, Stop> {
        let known = &self.volume.name_cache;
        if let Some(record) = known.get(directory, name) {
            return Ok(Some(record));
        }
        let found = self.name_unlocked(directory, name)?;
        if let Some(record) = &found {
            known.put(directory, name, record);
        }
        Ok(found)
    }

    /// Returns what a name refers to, or did a moment ago, as the directory is not locked.
    pub fn name_unlocked(&self, directory: Ino, name: &[u8]) -> Result<Option<NameRecord>, Stop> {
        let view = self.volume.view();
        let key = key::name(directory, name);
        let slot = match view.recent(&key) {
            Some(slot) => slot,
            None if self.volume.negative_lookups.is_absent(directory, name) => None,
            None => self.older_record(&view, &key)?,
        };
        slot.map(|bytes| Ok(self.volume.decode(Subject::Object(directory), NameRecord::decode(&bytes))?))
            .transpose()
    }

    /// Locks directories, the objects that the given names in them refer to, and `more`.
    pub fn lock_names<const N: usize>(
        &self,
        names: [(Ino, &[u8]); N],
        more: &[Ino],
    ) -> Result<(LockedInodes, [Option<NameRecord>; N]), Stop> {
        let mut inos = Vec::with_capacity(2 * N + more.len());
        inos.extend(names.iter().map(|(directory, _)| *directory));
        inos.extend(more);
        let mut held = self.lock_all(&inos)?;
        let found = self.names(names, Self::name)?;
        let named = || found.iter().flatten().map(|record| record.ino);
        // Objects are mostly created after their directory, and so follow it in the lock order.
        if named().all(|ino| held.holds(ino) || held.is_before(ino)) {
            self.lock_more(&mut held, named().collect())?;
            return Ok((held, found));
        }
        drop(held);
        #[cfg(test)]
        self.volume.hooks.reach(crate::hooks::Point::NamesUnlocked);
        inos.extend(named());
        let held = match self.lock_all(&inos) {
            Ok(held) => held,
            // The object of a name may be removed before it is locked; a removed directory stays removed. Nothing is
            // locked now, so lookups are not cached.
            Err(Stop::Failed(Failure { error: Error::Stale, after })) => {
                let is_same = self.names(names, Self::name_unlocked)? == found;
                #[cfg(test)]
                self.volume.hooks.reach(crate::hooks::Point::NamesCompared);
                return Err(if is_same {
                    Failure { error: Error::Stale, after }.into()
                } else {
                    Stop::Again
                });
            }
            Err(stop) => return Err(stop),
        };
        if self.names(names, Self::name)? != found {
            return Err(Stop::Again);
        }
        Ok((held, found))
    }

    fn names<const N: usize>(
        &self,
        names: [(Ino, &[u8]); N],
        find: impl Fn(&Self, Ino, &[u8]) -> Result<Option<NameRecord>, Stop>,
    ) -> Result<[Option<NameRecord>; N], Stop> {
        let mut found = [None; N];
        for (slot, (directory, name)) in found.iter_mut().zip(names) {
            *slot = find(self, directory, name)?;
        }
        Ok(found)
    }

    /// Returns up to where to read the map from `offset`: far for sequential access and for a map that seems short, no
    /// farther than `to` for random access to a long one.
    fn window_end(&self, state: &InodeState, offset: u64, to: u64) -> u64 {
        let loaded = self.windows.iter().filter(|(ino, _)| *ino == state.ino).map(|(_, window)| window);
        let mut known = state.window().into_iter().chain(loaded).peekable();
        let is_first = known.peek().is_none();
        if is_first || known.any(|window| window.to == offset || window.to == u64::MAX) {
            u64::MAX
        } else {
            to
        }
    }

    /// Returns the window of a locked file's index map that covers `offset`. What follows is wanted up to `to`.
    pub fn window(
        &self,
        view: &ReadView,
        state: &mut InodeState,
        (offset, to): (u64, u64),
    ) -> Result<MapWindow, Stop> {
        let covers = |window: &MapWindow| window.from <= offset && offset < window.to;
        if let Some(window) = state.window()
            && covers(window)
            && view.is_map_current(state.ino, window.version)
        {
            return Ok(window.clone());
        }
        let loaded = self.windows.iter().find(|(ino, window)| *ino == state.ino && covers(window));
        match loaded {
            Some((_, window)) if view.is_map_current(state.ino, window.version) => {
                self.volume.inodes.keep_window(state, window.clone());
                Ok(window.clone())
            }
            _ => Err(Stop::Missing(Missing::Map(state.ino, offset, self.window_end(state, offset, to)))),
        }
    }

    /// Returns the window of a locked file's index map that covers `offset`, to count its mappings.
    pub fn count_window(&self, view: &ReadView, state: &InodeState, offset: u64) -> Result<MapWindow, Stop> {
        let known = self.count_windows.iter().map(|(ino, window)| (*ino, window));
        let mut current = known.filter(|(ino, window)| {
            *ino == state.ino
                && window.from <= offset
                && offset < window.to
                && view.is_map_current(*ino, window.version)
        });
        match current.next() {
            Some((_, window)) => Ok(window.clone()),
            None => Err(Stop::Missing(Missing::Count(state.ino, offset))),
        }
    }

    /// Notes that mappings of this file were counted in steps, which are kept with it until the call ends.
    pub fn note_counted(&self, ino: Ino) {
        self.counted.set(Some(ino));
    }

    /// Forgets what was counted, as the call has ended, unless that is much: others may be counting too.
    fn forget_counts(&self) {
        let Some(cell) = self.counted.get().and_then(|ino| self.volume.inodes.peek(ino)) else { return };
        cell.lock().coverage.take_if(|coverage| !coverage.is_large());
    }

    /// Takes a step in counting the mappings of a range of this many bytes.
    ///
    /// # Errors
    /// [`Stop::TurnOver`] if the range is large and this call has taken its steps.
    pub fn take_count_step(&self, bytes: u64) -> Result<(), Stop> {
        let left = self.count_steps_left.get();
        if left == 0 && bytes > COUNT_AT_ONCE_BYTES {
            return Err(Stop::TurnOver);
        }
        self.count_steps_left.set(left.saturating_sub(1));
        Ok(())
    }
}
