//! A transaction under construction: records, usage and the cached reply become one journal entry and one change of
//! the active memtable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{MutexGuard, RwLockReadGuard};

use crate::api::ids::{ObjectId, Seq, VolumeNumber};
use crate::api::quotas::{Owner, QuotaKind};
use crate::api::request::{Durability, Encode, Error, FlushWait, Journaled, Request};
use crate::api::state;
use crate::api::state::StateChange;
use crate::api::time::Time;
use crate::api::trees::TreeState;
use crate::bytes::Value;
use crate::encoding::entry::{Draft, Remembered};
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{ExtentMapping, InodeRecord, QuotaRecord, Source, TreeRecord};
use crate::file::extent_map::{decode_verified, memtable_mappings};
use crate::limits::REQUEST_ANSWER_BYTES_MAX;
use crate::pool::Pool;
use crate::quotas::{Accounts, Ledger, Owners, Reservation};
use crate::tables::read_view::ReadView;
use crate::tables::usage;
use crate::transaction::apply;
use crate::transaction::attempt::Stop;
use crate::transaction::growth::ONE_OBJECT;
use crate::volume::Volume;

/// Most bytes of a mapping in an entry besides its record: tag, key and lengths.
const MAPPING_OVERHEAD_BYTES: usize = 32;

/// The read view, which stays unchanged while this is held.
pub(crate) type LockedView<'v> = RwLockReadGuard<'v, Arc<ReadView>>;

/// A transaction. While it exists no memtable is frozen, so it must be short: no I/O, and no call of [`Pool::view`]
/// but through it.
pub struct Change<'v> {
    pool: &'v Pool,
    view: LockedView<'v>,
    draft: Draft,
    inline_bytes: u64,
    /// Mappings that it puts.
    mapped: u64,
    /// The accounts of the volume, unless a background step changes it.
    ledger: Option<&'v Ledger>,
    /// What is reserved of limits, which the usage that it adds replaces.
    growth: Vec<Reservation>,
    /// The accounts, locked, if what it adds to the usage is counted there already.
    accounts: Option<MutexGuard<'v, Accounts>>,
    /// The quota that it sets, with the flush that writes back everything accepted so far.
    quota: Option<Box<NewQuota>>,
    /// The flush that the cached reply waits for.
    flush: FlushWait,
}

/// A quota to be set.
#[derive(Debug)]
pub struct NewQuota {
    /// Whose.
    pub owner: Owner,
    /// Its record; an empty one removes it.
    pub record: QuotaRecord,
    /// A flush that writes back everything accepted so far.
    pub flush: u64,
    /// The time, from which on soft limits that are below what is used are exceeded.
    pub now: Time,
}

/// In which volume a transaction is.
#[derive(Clone, Copy)]
struct In<'v> {
    volume: VolumeNumber,
    /// The accounts of the volume, if they are at hand.
    ledger: Option<&'v Ledger>,
}

impl In<'_> {
    fn number(volume: VolumeNumber) -> In<'static> {
        In { volume, ledger: None }
    }
}

impl Volume {
    /// Begins a caller's transaction that adds something.
    ///
    /// # Errors
    /// The errors of [`Volume::begin_freeing`], and if there is no room to checkpoint what it adds, those of
    /// [`SpaceLedger::require_checkpoint`](crate::segments::space::SpaceLedger::require_checkpoint).
    pub(crate) fn begin(&self) -> Result<Change<'_>, Error> {
        self.begin_adding(self.place())
    }

    /// Begins a transaction that adds a value of an extended attribute, or a target of a link, of this length.
    ///
    /// # Errors
    /// Those of [`Volume::begin`], and `ObjectBusy` until the next checkpoint if the memtable has no room for the value.
    pub(crate) fn begin_with_long_value(&self, bytes: usize) -> Result<Change<'_>, Error> {
        let change = self.begin()?;
        let (active, bytes) = (&change.view().active, bytes as u64);
        let held = active.long_value_bytes();
        if bytes > 0 && held > 0 && held + bytes > self.limits.long_value_bytes() {
            drop(change);
            self.checkpoints.kick();
            return Err(Error::ObjectBusy);
        }
        active.add_long_value(bytes);
        Ok(change)
    }

    /// Begins a transaction that adds records of protocol state. On a full disk there is still room for them, as far as it is not
    /// used up.
    ///
    /// # Errors
    /// The errors of [`Volume::begin_freeing`], and `NoSpace`, without a wait, if the index has no room for them.
    pub(crate) fn begin_state(&self) -> Result<Change<'_>, Error> {
        if !self.space.can_keep_state() {
            return Err(Error::NoSpace);
        }
        self.begin_removing(self.place())
    }

    /// Checks that [`Volume::begin_state`] would succeed, as it does while what is returned is held.
    ///
    /// # Errors
    /// Those of [`Volume::begin`].
    pub(crate) fn may_keep_state(&self) -> Result<LockedView<'_>, Error> {
        if !self.space.can_keep_state() {
            return Err(Error::NoSpace);
        }
        self.may_remove(self.number())
    }

    /// Begins a caller's transaction that works on a full disk too: it removes, or changes what exists.
    ///
    /// # Errors
    /// `ReadOnly` if the volume refuses changes, `Busy` if the journal or the memtables are so full that only background
    /// work may go on.
    pub(crate) fn begin_freeing(&self) -> Result<Change<'_>, Error> {
        self.begin_removing(self.place())
    }

    fn place(&self) -> In<'_> {
        In { volume: self.number(), ledger: Some(&self.own.ledger) }
    }
}

impl Pool {
    /// Like [`Volume::begin`], in a volume of this number.
    pub(crate) fn begin(&self, volume: VolumeNumber) -> Result<Change<'_>, Error> {
        self.begin_adding(In::number(volume))
    }

    /// Like [`Volume::begin_freeing`], in a volume of this number.
    pub(crate) fn begin_freeing(&self, volume: VolumeNumber) -> Result<Change<'_>, Error> {
        self.begin_removing(In::number(volume))
    }

    fn begin_adding<'v>(&'v self, place: In<'v>) -> Result<Change<'v>, Error> {
        self.space.require_checkpoint().inspect_err(|error| self.request_space(*error))?;
        self.begin_removing(place)
    }

    fn begin_removing<'v>(&'v self, place: In<'v>) -> Result<Change<'v>, Error> {
        Ok(Change::new(self, self.may_remove(place.volume)?, place))
    }

    fn may_remove(&self, volume: VolumeNumber) -> Result<LockedView<'_>, Error> {
        if self.committer.is_busy() || self.memtables_are_full() {
            self.checkpoints.kick();
            return Err(if self.refuses_changes().is_some() { Error::ReadOnly } else { Error::Busy });
        }
        self.may_change(volume)
    }

    /// Whether one memtable is being checkpointed and the next one is full already.
    pub(crate) fn memtables_are_full(&self) -> bool {
        self.memtable_holds(self.limits.memtable_bytes)
    }

    /// Whether one memtable is being checkpointed and the next one is half full already: changes of very many records wait
    /// then, so that others find room until the checkpoint is done.
    pub(crate) fn memtables_are_half_full(&self) -> bool {
        self.memtable_holds(self.limits.memtable_bytes / 2)
    }

    /// Whether one memtable is being checkpointed and the next one already holds this many bytes.
    fn memtable_holds(&self, bytes: u64) -> bool {
        let view = self.view.read();
        view.frozen.is_some() && view.active.bytes() >= bytes
    }

    /// Begins a transaction of background work.
    ///
    /// # Errors
    /// `ReadOnly` if the pool refuses changes, `Stale` if the volume was deleted, `Busy` if the journal is full: what is
    /// queued must fit, or no checkpoint could empty it.
    pub(crate) fn begin_background(&self, volume: VolumeNumber) -> Result<Change<'_>, Error> {
        if self.committer.is_full() {
            self.checkpoints.kick();
            return Err(if self.refuses_changes().is_some() { Error::ReadOnly } else { Error::Busy });
        }
        Ok(Change::new(self, self.may_change(volume)?, In::number(volume)))
    }

    /// Locks the view for a change of a volume, if it takes changes.
    fn may_change(&self, volume: VolumeNumber) -> Result<LockedView<'_>, Error> {
        if self.refuses_changes().is_some() {
            return Err(Error::ReadOnly);
        }
        let view = self.view.read();
        if self.is_deleted(volume) { Err(Error::Stale) } else { Ok(view) }
    }
}

/// A mapping that newer ones replace.
struct Older {
    end: u64,
    /// Its value, unless nothing remains of it.
    value: Option<Value>,
}

impl<'v> Change<'v> {
    fn new(pool: &'v Pool, view: LockedView<'v>, place: In<'v>) -> Change<'v> {
        let In { volume, ledger } = place;
        Change {
            pool,
            view,
            draft: Draft::new(volume),
            inline_bytes: 0,
            mapped: 0,
            ledger,
            growth: Vec::new(),
            accounts: None,
            quota: None,
            flush: FlushWait::default(),
        }
    }

    /// Returns the read view, which stays unchanged until the transaction is done.
    pub fn view(&self) -> &ReadView {
        &self.view
    }

    /// Puts a record.
    pub fn put(&mut self, key: Key, value: Vec<u8>) {
        self.draft.push(key, Some(value.into()));
    }

    /// Deletes a record.
    pub fn delete(&mut self, key: Key) {
        self.draft.push(key, None);
    }

    /// Puts a record whose key no layer holds, not even as a tombstone.
    pub fn put_new(&mut self, key: Key, value: Vec<u8>) {
        self.draft.mark_next_fresh();
        self.put(key, value);
    }

    /// Deletes a record on which no remaining record depends, so that it leaves no tombstone if [`Change::put_new`]
    /// put it into the same layer.
    pub fn forget(&mut self, key: Key) {
        self.draft.mark_next_fresh();
        self.delete(key);
    }

    /// Puts an inode's record.
    pub fn put_inode(&mut self, ino: ObjectId, record: &InodeRecord) {
        self.put(key::inode(ino), record.encode());
    }

    /// Adds bytes and inodes to the usage of the inode's owners.
    pub fn add_usage(&mut self, inode: &InodeRecord, bytes: i64, inodes: i64) {
        if bytes != 0 || inodes != 0 {
            self.draft.add_usage(usage::deltas(inode, bytes, inodes));
        }
    }

    /// Adds a new object to the usage of its owners, and nothing else. The commit follows, as this may lock the accounts until then.
    ///
    /// # Errors
    /// Those of [`Volume::reserve_growth`].
    pub fn add_object(
        &mut self,
        volume: &Volume,
        request: &Request<'_>,
        inode: &InodeRecord,
    ) -> Result<(), Stop> {
        self.add_usage(inode, 0, 1);
        let Some(ledger) = self.ledger.filter(|ledger| ledger.is_limited()) else { return Ok(()) };
        let mut accounts = ledger.lock();
        if accounts.count_object(Owners::of(inode)) {
            self.accounts = Some(accounts);
            return Ok(());
        }
        drop(accounts);
        self.add_growth(volume.reserve_growth(request, Owners::of(inode), ONE_OBJECT)?.keep());
        Ok(())
    }

    /// Adds to the usage of the volume that an object which has a name gets or loses so many.
    pub fn add_further_names(&mut self, count: i64) {
        self.draft.add_usage([usage::further_names(count)]);
    }

    /// Moves what an inode uses to another tree: bytes, and the inode itself.
    pub fn move_usage(&mut self, inode: &InodeRecord, tree: u64, bytes: i64) {
        self.draft.add_usage(usage::moved(inode.tree, tree, bytes));
    }

    /// Records segment space reserved for inline data in this entry; the checkpoint that moves the data releases it.
    pub fn add_inline(&mut self, reserved: u64) {
        self.inline_bytes += reserved;
    }

    /// Records what is reserved for what this transaction adds to the usage; its commit releases it.
    pub fn add_growth(&mut self, reserved: Option<Reservation>) {
        self.growth.extend(reserved);
    }

    /// Sets a quota of the volume.
    pub fn set_quota(&mut self, quota: NewQuota) {
        self.quota = Some(Box::new(quota));
    }

    /// Puts the record of a quota tree.
    pub fn put_tree(&mut self, root: ObjectId, state: TreeState) {
        self.put(key::tree(root), TreeRecord { state }.encode());
    }

    /// Deletes a quota tree, and its limits.
    pub fn delete_tree(&mut self, root: ObjectId) {
        self.delete(key::tree(root));
        self.remove_tree_quota(root);
    }

    /// Removes the limits of a quota tree.
    pub fn remove_tree_quota(&mut self, root: ObjectId) {
        let owner = Owner::new(QuotaKind::Tree, root.ino.0);
        self.set_quota(NewQuota {
            owner,
            record: QuotaRecord::default(),
            flush: 0,
            now: Time::from_nanos(0),
        });
    }

    /// Puts the record of a quota, or deletes an empty one.
    fn put_quota(&mut self, owner: Owner, record: &QuotaRecord) {
        let key = key::quota(self.draft.volume(), owner);
        if record.is_empty() { self.delete(key) } else { self.put(key, record.encode()) }
    }

    /// Counts the usage in the accounts of the volume, and puts the records of quotas that change with it.
    fn settle(&mut self, ledger: &Ledger, accounts: &mut Accounts) {
        if let Some(quota) = self.quota.take() {
            let NewQuota { owner, record, flush, now } = *quota;
            let record = ledger.set(accounts, owner, record, flush);
            let record = accounts.note_exceeded(owner, now).map_or(record, |(_, record)| record);
            self.put_quota(owner, &record);
        }
        for (owner, record) in accounts.settle(self.draft.usage(), &self.growth) {
            self.put_quota(owner, &record);
        }
    }

    /// Puts mappings of a file: `(end, mapping)` in file order, not overlapping. Clips the mappings in the active
    /// memtable that they cover. At most once per file and transaction, as it reads the memtable and not the
    /// transaction.
    pub fn map<B: AsRef<[u8]>>(&mut self, ino: ObjectId, mappings: &[(u64, ExtentMapping<B>)]) {
        let mut older: Vec<Older> = Vec::new();
        // Run by run: mappings between two runs, possibly very many, stay as they are.
        for run in mappings.chunk_by(|(end, _), (_, next)| *end == next.start) {
            let (Some((_, first)), Some((last_end, _))) = (run.first(), run.last()) else { continue };
            let run = (first.start, *last_end);
            memtable_mappings(&self.view.active, ino, run, &mut |start, end, value| {
                // A mapping that spans two runs is visited twice.
                if older.last().is_none_or(|last| last.end < end) {
                    // Usually nothing remains of it, and then its data need not be read.
                    let value = (start < run.0 || end > run.1).then(|| value.clone());
                    older.push(Older { end, value });
                }
            });
        }
        let inline = mappings.iter().filter(|(_, mapping)| matches!(mapping.source, Source::Inline(_)));
        let data: usize = inline.map(|(_, mapping)| mapping.encoded_bytes() + MAPPING_OVERHEAD_BYTES).sum();
        if data > 0 {
            self.draft.prepare(data);
        }
        for old in older {
            self.cut_back(ino, &old, mappings);
        }
        for (end, mapping) in mappings {
            self.put_mapping(ino, *end, mapping);
        }
    }

    fn put_mapping<B: AsRef<[u8]>>(&mut self, ino: ObjectId, end: u64, mapping: &ExtentMapping<B>) {
        self.mapped += 1;
        let key = key::map(ino, end);
        if matches!(mapping.source, Source::Inline(_)) {
            self.draft.push_mapping(key, mapping);
        } else {
            self.put(key, mapping.encode());
        }
    }

    /// Replaces an older mapping with what newer ones leave of it.
    fn cut_back<B>(&mut self, ino: ObjectId, old: &Older, newer: &[(u64, ExtentMapping<B>)]) {
        // A newer mapping that ends there replaces the record.
        if newer.binary_search_by_key(&old.end, |(end, _)| *end).is_err() {
            self.delete(key::map(ino, old.end));
        }
        let Some(value) = &old.value else { return };
        let (old_piece, old_end) = (decode_verified(value), old.end);
        let mut cursor = old_piece.start;
        let first = newer.partition_point(|(end, _)| *end <= cursor);
        for (end, mapping) in newer[first..].iter().take_while(|(_, mapping)| mapping.start < old_end) {
            if cursor < mapping.start {
                self.put_mapping(ino, mapping.start, &clip_mapping(&old_piece, cursor, mapping.start));
            }
            cursor = *end;
        }
        if cursor < old_end {
            self.put_mapping(ino, old_end, &clip_mapping(&old_piece, cursor, old_end));
        }
    }

    /// Journals the state records that were deferred: they precede the transaction.
    pub fn journal_deferred_state(&self) {
        self.pool.deferred_state.take(|records| {
            let mut draft = Draft::default();
            for (volume, key, deferred) in records {
                let value = deferred.make();
                debug_assert!(value.len() <= deferred.bytes_max(), "{} bytes in {deferred:?}", value.len());
                draft.push(key::state(volume, &key), Some(Value::from(value)));
            }
            let (bytes, entry) = draft.finish();
            self.pool.committer.push(bytes);
            self.view.active.apply(entry.records, &entry.fresh);
        });
    }

    /// Journals the transaction and makes it visible. The caller holds the locks of everything it changes.
    pub fn commit(mut self) -> Seq {
        self.journal_deferred_state();
        let found;
        let ledger = match self.ledger {
            None if self.pool.has_limits.load(Ordering::Acquire) => {
                found = self.pool.volumes.read().get(&self.draft.volume()).cloned();
                found.as_ref().map(|own| &own.ledger)
            }
            ledger => ledger,
        };
        let accounts = self.accounts.take().or_else(|| {
            let ledger = ledger.filter(|ledger| ledger.has_accounts() && self.concerns_limits())?;
            let mut accounts = ledger.lock();
            self.settle(ledger, &mut accounts);
            Some(accounts)
        });
        let (bytes, entry) = self.draft.finish();
        let seq = self.pool.committer.push(bytes);
        let active = &self.view.active;
        let should_count = ledger.is_some_and(|ledger| ledger.note_mapped(active.layer, self.mapped));
        if self.inline_bytes > 0 {
            active.add_inline(self.inline_bytes);
        }
        let after = Durability { seq, flush: self.flush };
        let names = self.pool.follow_names(&entry.records);
        #[cfg(test)]
        self.pool.hooks.reach(crate::hooks::Point::NamesFollowed);
        apply::apply(entry, after, active, &self.pool.usage, &self.pool.duplicate_requests);
        // Until the records of quotas are in the memtable, so that of two that change the same one the last one holds.
        drop(accounts);
        self.pool.negative_lookups.note(&names);
        let full = active.bytes() >= self.pool.limits.memtable_bytes;
        drop(self.view);
        if full || should_count {
            self.pool.checkpoints.kick();
        }
        seq
    }

    /// Whether it changes what accounts say.
    fn concerns_limits(&self) -> bool {
        !self.draft.usage().is_empty() || !self.growth.is_empty() || self.quota.is_some()
    }

    /// Puts and deletes protocol state records, which the caller checked against their limits.
    pub fn put_state(&mut self, changes: &[StateChange]) {
        for change in changes {
            self.draft
                .push(key::state(self.draft.volume(), &change.key), change.value.clone().map(Value::from));
        }
    }

    /// Like [`Change::commit`], with the protocol's state and with the request's answer cached, unless it is too
    /// long. The reply shows what was locked, so a repetition waits for the same, `shown`.
    pub fn commit_answered<T>(
        mut self,
        request: &Request<'_>,
        shown: Durability,
        result: &T,
        encode: Encode<'_, T>,
    ) -> Seq {
        if let Some(key) = request.key {
            self.flush = shown.flush;
            let Journaled { answer, state } = encode(result);
            debug_assert!(state::fit_an_entry(&state), "state that no entry takes");
            self.put_state(&state);
            debug_assert!(answer.len() <= REQUEST_ANSWER_BYTES_MAX, "{} bytes", answer.len());
            if answer.len() <= REQUEST_ANSWER_BYTES_MAX {
                self.draft.remember(Remembered { key: key.clone(), time: request.now, answer });
            }
        }
        self.commit()
    }
}

/// Returns `[start, end)` of a mapping that begins at `mapping.start`.
pub fn clip_mapping(mapping: &ExtentMapping, start: u64, end: u64) -> ExtentMapping {
    let skip = start - mapping.start;
    let source = match &mapping.source {
        Source::Inline(bytes) => {
            let from = usize::try_from(skip).expect("inline data is far below 4 GiB");
            let length = usize::try_from(end - start).expect("inline data is far below 4 GiB");
            Source::Inline(bytes[from..from + length].into())
        }
        Source::Hole => Source::Hole,
        Source::Lost => Source::Lost,
        Source::Extent { id, offset } => Source::Extent {
            id: *id,
            offset: offset + u32::try_from(skip).expect("an extent is far below 4 GiB"),
        },
    };
    ExtentMapping { start, birth: mapping.birth, source }
}
