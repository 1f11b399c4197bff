//! One attempt of an operation: it works on what is in memory. If something is missing it stops, having changed
//! nothing; what is missing is then read without holding any lock, and the operation is tried again.
//!
//! So no lock is ever held across I/O, and an event loop can try an operation without risk of blocking.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::api::ids::{ExtentId, ObjectId, Seq, VolumeNumber};
use crate::api::quotas::Owner;
use crate::api::request::{Access, Answer, Durability, Error, Failure, Promised};
use crate::bytes::Bytes;
use crate::bytes::Value;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::file::coverage::Coverage;
use crate::file::inodes::{InodeState, LockedInode, MapWindow, Presence};
use crate::limits::{COUNT_RUNS_MAX, MAP_WINDOW_MAPPINGS};
use crate::pool::{Pool, Subject};
use crate::tables::read_view::ReadView;
use crate::volume::Volume;

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
    Map(ObjectId, u64, u64),
    /// Groups of blocks of extents, each with the part of a file that it holds.
    Blocks(Vec<((ExtentId, u32), Subject)>),
    /// Mappings of a file in the index, from an offset on, to be counted.
    Count(ObjectId, u64),
    /// The account of an owner in a volume, for which its usage counter is read.
    Account(VolumeNumber, Owner),
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
    /// A step of long work is done and kept; go on, but let go of all locks in between.
    NextStep,
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

/// What an attempt can see: the pool, and what was read for it.
#[derive(Debug)]
pub struct Attempt<'v> {
    /// The pool.
    pub pool: &'v Pool,
    /// What was read for it: nothing, for most operations.
    loaded: Option<Loaded>,
    /// The file whose mappings were counted, if they were very many.
    counted: Cell<Option<ObjectId>>,
    /// Steps in which mappings may be counted before the call gives its turn up.
    count_steps_left: Cell<u32>,
}

/// What was read for an operation.
#[derive(Debug, Default)]
struct Loaded {
    /// Version of the index that `records` and `windows` were read from.
    version: u64,
    records: BTreeMap<Key, Slot>,
    /// Windows of maps, by their first offset.
    windows: BTreeMap<(ObjectId, u64), MapWindow>,
    /// Groups of blocks of extents, which are immutable.
    blocks: BTreeMap<(ExtentId, u32), Bytes>,
    /// Windows that were read to count mappings: the first one, and the last ones.
    count_windows: Vec<(ObjectId, MapWindow)>,
}

impl Loaded {
    /// Reads a window, and returns whether it is new.
    fn load_window(
        &mut self,
        pool: &Pool,
        view: &ReadView,
        ino: ObjectId,
        range: (u64, u64),
    ) -> Result<bool, Error> {
        let window = pool.read_window(view, ino, range, MAP_WINDOW_MAPPINGS)?;
        Ok(self.windows.insert((ino, window.from), window).is_none())
    }

    /// Iterates over the windows of a file that begin at `last` or before.
    fn windows_of(&self, ino: ObjectId, last: u64) -> impl DoubleEndedIterator<Item = &MapWindow> {
        self.windows.range((ino, 0)..=(ino, last)).map(|(_, window)| window)
    }
}

/// Inodes locked together.
pub struct LockedInodes {
    guards: Vec<LockedInode>,
}

impl LockedInodes {
    /// Returns one of the locked inodes.
    pub fn get(&mut self, ino: ObjectId) -> &mut InodeState {
        self.guards
            .iter_mut()
            .find(|guard| guard.id == ino)
            .expect("only inodes that were locked are asked for")
    }

    fn holds(&self, ino: ObjectId) -> bool {
        self.guards.iter().any(|guard| guard.id == ino)
    }

    /// Whether all of them precede `ino` in the lock order.
    fn is_before(&self, ino: ObjectId) -> bool {
        self.guards.last().is_none_or(|guard| guard.id < ino)
    }

    /// Returns what a reply that shows all of them waits for.
    pub fn durability(&self) -> Durability {
        self.guards.iter().fold(Durability::NOW, |sum, guard| sum.and(guard.durability()))
    }

    /// Returns why an attempt stops; a failure may reveal the state of all of them.
    pub fn or_fail(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Failed(failure) => self.fail(failure.error),
            stop => stop,
        }
    }

    /// Returns a failure that may reveal the state of all of them.
    pub fn fail(&self, error: Error) -> Stop {
        Stop::Failed(Failure { error, after: self.durability() })
    }
}

impl Volume {
    /// Runs an operation to completion, unless the volume was deleted.
    pub(crate) fn run<T>(
        &self,
        access: Access,
        body: impl FnMut(&mut Attempt<'_>) -> Result<Promised<T>, Stop>,
    ) -> Answer<T> {
        if self.own.is_deleted() {
            return Err(Error::Stale.into());
        }
        Pool::run(self, access, body)
    }
}

impl Pool {
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
                Err(Stop::NextStep) => {
                    // The number of steps has a bound of its own.
                    tries -= 1;
                    #[cfg(test)]
                    self.hooks.reach(crate::hooks::Point::LocksReleased);
                }
                Err(Stop::TurnOver) => return Err(Error::WouldBlock.into()),
                Err(Stop::Missing(missing)) if access == Access::Cached => {
                    loads += 1;
                    if loads > LOADS_IN_PLACE_MAX || !attempt.load_in_place(&missing)? {
                        return Err(Error::WouldBlock.into());
                    }
                }
                Err(Stop::Missing(missing)) => {
                    // An attempt that finds more in memory than the one before comes nearer to the end.
                    tries -= usize::from(attempt.load(&missing)?);
                }
            }
        }
        // The objects change as fast as they are looked at.
        Err(Error::ObjectBusy.into())
    }
}

impl<'v> Attempt<'v> {
    fn new(pool: &'v Pool, access: Access) -> Attempt<'v> {
        let count_steps = match access {
            Access::Cached => COUNT_STEPS_IN_PLACE_MAX,
            Access::Blocking => COUNT_STEPS_MAX,
        };
        Attempt { pool, loaded: None, counted: Cell::new(None), count_steps_left: Cell::new(count_steps) }
    }
}

impl Attempt<'_> {
    /// Reads what is missing if the index seems to have it in memory: handing the call to a worker costs ten times as
    /// much. An absent name is left to a worker, which may read the names around it.
    fn load_in_place(&mut self, missing: &Missing) -> Result<bool, Error> {
        let view = self.pool.view();
        if !view.index.is_warm() {
            return Ok(false);
        }
        match missing {
            Missing::Record(key) => {
                let found = view
                    .index
                    .get(key)
                    .map_err(|error| self.pool.index_failed(Subject::of_key(key), &error))?;
                let Some(value) = found else { return Ok(false) };
                let slot = Some(Value::from(value));
                self.pool.remember_record(&view, key, &slot);
                self.follow(&view).0.records.insert(key.clone(), slot);
            }
            Missing::Map(ino, from, to) => {
                let pool = self.pool;
                self.follow(&view).0.load_window(pool, &view, *ino, (*from, *to))?;
            }
            Missing::Account(volume, owner) => self.pool.open_account(*volume, *owner)?,
            Missing::Blocks(_) | Missing::Count(..) => return Ok(false),
        }
        Ok(true)
    }

    /// Returns what was read, without what is from an index that was replaced, and whether it was.
    fn follow(&mut self, view: &ReadView) -> (&mut Loaded, bool) {
        let version = view.version;
        let loaded = self.loaded.get_or_insert_with(|| Loaded { version, ..Loaded::default() });
        let is_replaced = loaded.version != version;
        if is_replaced {
            loaded.version = version;
            loaded.records.clear();
            loaded.windows.clear();
            loaded.count_windows.clear();
        }
        (loaded, is_replaced)
    }

    /// Returns a group of blocks, if it was read.
    pub fn blocks(&self, group: (ExtentId, u32)) -> Option<&Bytes> {
        self.loaded.as_ref()?.blocks.get(&group)
    }

    /// Reads what is missing. No lock is held. Returns whether the next attempt finds all that this one found, and more.
    pub fn load(&mut self, missing: &Missing) -> Result<bool, Error> {
        let pool = self.pool;
        let view = pool.view();
        let (loaded, is_replaced) = self.follow(&view);
        let is_new = match missing {
            Missing::Record(key) => {
                let slot: Slot = view
                    .index
                    .get(key)
                    .map_err(|error| pool.index_failed(Subject::of_key(key), &error))?
                    .map(Value::from);
                pool.remember_record(&view, key, &slot);
                if slot.is_none() {
                    pool.fill_filter_around(key);
                }
                loaded.records.insert(key.clone(), slot).is_none()
            }
            Missing::Map(ino, from, to) => loaded.load_window(pool, &view, *ino, (*from, *to))?,
            Missing::Blocks(wanted) => {
                let before = loaded.blocks.len();
                loaded.blocks.extend(pool.read_blocks(&view, wanted)?);
                loaded.blocks.len() > before
            }
            Missing::Count(ino, offset) => {
                let window = pool.read_window(&view, *ino, (*offset, u64::MAX), COUNT_RUNS_MAX)?;
                if loaded.count_windows.len() >= COUNT_WINDOWS_MAX {
                    loaded.count_windows.remove(1);
                }
                loaded.count_windows.push((*ino, window));
                // What was counted is kept, even if the index was replaced.
                return Ok(true);
            }
            Missing::Account(volume, owner) => {
                pool.open_account(*volume, *owner)?;
                // It may be closed again before the next attempt, by others that open theirs.
                return Ok(false);
            }
        };
        Ok(is_new && !is_replaced)
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
        if let Some(loaded) = self.loaded.as_ref().filter(|loaded| loaded.version == view.version)
            && let Some(slot) = loaded.records.get(key)
        {
            return Ok(slot.clone());
        }
        self.pool.records.get(key).ok_or_else(|| Stop::Missing(Missing::Record(key.clone())))
    }

    /// Locks an inode and loads its record. A removed inode is `Stale`.
    pub fn lock(&self, ino: ObjectId) -> Result<LockedInode, Stop> {
        let pool = self.pool;
        let cell = pool.inodes.get(ino, pool.committer.durable(), pool.flushed_generation());
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
        let view = self.pool.view();
        let key = key::inode(state.id);
        // A change in a memtable may not be durable, and the entry that made it is unknown.
        let recent = view.recent(&key);
        let seq = if recent.is_some() { self.pool.committer.last_queued() } else { Seq(0) };
        let slot = match recent {
            Some(slot) => slot,
            None => self.older_record(&view, &key)?,
        };
        state.presence = match slot {
            Some(bytes) => {
                Presence::Present(self.pool.decode(Subject::Object(state.id), InodeRecord::decode(&bytes))?)
            }
            None => Presence::Absent,
        };
        state.seq = seq;
        Ok(())
    }

    /// Locks several inodes, in order.
    pub fn lock_all(&self, inos: &[ObjectId]) -> Result<LockedInodes, Stop> {
        let mut held = LockedInodes { guards: Vec::with_capacity(inos.len() + 1) };
        self.lock_more(&mut held, inos.to_vec())?;
        Ok(held)
    }

    /// Locks further inodes, in order. Those not held yet must follow all that are.
    fn lock_more(&self, held: &mut LockedInodes, mut inos: Vec<ObjectId>) -> Result<(), Stop> {
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
    pub fn name(&self, directory: ObjectId, name: &[u8]) -> Result<Option<NameRecord>, Stop> {
        let known = &self.pool.name_cache;
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
    pub fn name_unlocked(&self, directory: ObjectId, name: &[u8]) -> Result<Option<NameRecord>, Stop> {
        let view = self.pool.view();
        let key = key::name(directory, name);
        let slot = match view.recent(&key) {
            Some(slot) => slot,
            None if self.pool.negative_lookups.is_absent(directory, name) => None,
            None => self.older_record(&view, &key)?,
        };
        slot.map(|bytes| Ok(self.pool.decode(Subject::Object(directory), NameRecord::decode(&bytes))?))
            .transpose()
    }

    /// Locks directories, the objects that the given names in them refer to, and `more`.
    pub fn lock_names<const N: usize>(
        &self,
        names: [(ObjectId, &[u8]); N],
        more: &[ObjectId],
    ) -> Result<(LockedInodes, [Option<NameRecord>; N]), Stop> {
        let mut inos = Vec::with_capacity(2 * N + more.len());
        inos.extend(names.iter().map(|(directory, _)| *directory));
        inos.extend(more);
        let mut held = self.lock_all(&inos)?;
        let found = self.names(names, Self::name)?;
        let named = || {
            let of_names = names.iter().zip(&found);
            of_names.filter_map(|((directory, _), record)| Some(directory.sibling((*record)?.ino)))
        };
        // Objects are mostly created after their directory, and so follow it in the lock order.
        if named().all(|ino| held.holds(ino) || held.is_before(ino)) {
            self.lock_more(&mut held, named().collect())?;
            return Ok((held, found));
        }
        drop(held);
        #[cfg(test)]
        self.pool.hooks.reach(crate::hooks::Point::NamesUnlocked);
        inos.extend(named());
        let held = match self.lock_all(&inos) {
            Ok(held) => held,
            // The object of a name may be removed before it is locked; a removed directory stays removed. Nothing is
            // locked now, so lookups are not cached.
            Err(Stop::Failed(Failure { error: Error::Stale, after })) => {
                let is_same = self.names(names, Self::name_unlocked)? == found;
                #[cfg(test)]
                self.pool.hooks.reach(crate::hooks::Point::NamesCompared);
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
        names: [(ObjectId, &[u8]); N],
        find: impl Fn(&Self, ObjectId, &[u8]) -> Result<Option<NameRecord>, Stop>,
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
        let loaded = self.loaded.iter().flat_map(|loaded| loaded.windows_of(state.id, u64::MAX));
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
            && view.is_map_current(state.id, window.version)
        {
            return Ok(window.clone());
        }
        let before = self.loaded.as_ref().and_then(|loaded| loaded.windows_of(state.id, offset).next_back());
        match before.filter(|window| covers(window)) {
            Some(window) if view.is_map_current(state.id, window.version) => {
                self.pool.inodes.keep_window(state, window.clone());
                Ok(window.clone())
            }
            _ => Err(Stop::Missing(Missing::Map(state.id, offset, self.window_end(state, offset, to)))),
        }
    }

    /// Returns the window of a locked file's index map that covers `offset`, to count its mappings.
    pub fn count_window(&self, view: &ReadView, state: &InodeState, offset: u64) -> Result<MapWindow, Stop> {
        let known = self.loaded.iter().flat_map(|loaded| &loaded.count_windows);
        let known = known.map(|(ino, window)| (*ino, window));
        let mut current = known.filter(|(ino, window)| {
            *ino == state.id
                && window.from <= offset
                && offset < window.to
                && view.is_map_current(*ino, window.version)
        });
        match current.next() {
            Some((_, window)) => Ok(window.clone()),
            None => Err(Stop::Missing(Missing::Count(state.id, offset))),
        }
    }

    /// Notes that mappings of this file were counted in steps, which are kept with it until the call ends.
    pub fn note_counted(&self, ino: ObjectId) {
        self.counted.set(Some(ino));
    }

    /// Forgets what was counted, as the call has ended, unless that is much: others may be counting too.
    fn forget_counts(&self) {
        let Some(cell) = self.counted.get().and_then(|id| self.pool.inodes.peek(id)) else { return };
        let mut state = cell.lock();
        if let Some(notes) = state.notes.as_mut().filter(|notes| !notes.coverage.is_large()) {
            notes.coverage = Coverage::default();
            self.pool.inodes.count_notes(&mut state);
        }
    }

    /// Takes a step in counting mappings.
    ///
    /// # Errors
    /// [`Stop::TurnOver`] if this call has taken its steps.
    pub fn take_count_step(&self) -> Result<(), Stop> {
        let left = self.count_steps_left.get().checked_sub(1).ok_or(Stop::TurnOver)?;
        self.count_steps_left.set(left);
        Ok(())
    }
}
