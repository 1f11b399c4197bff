//! Restores the state from the records of all volumes, so that clients continue as if nothing had happened.
//!
//! Every lease is renewed. Orphaned records are deleted: state of a client that is gone, locks whose open is gone.
//! There is no grace period: nothing has to be reclaimed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::ids::{Ino, VolumeId};
use volume::state::StateChange;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::config::Counters;
use crate::state::files::enter;
use crate::state::files::share::Modes;
use crate::state::ids::{ClientId, FileId, Other, SessionId, StateId};
use crate::state::locks::ranges::Range;
use crate::state::record::{
    ClientRecord, CopyRecord, DelegationRecord, Key, LockStateRecord, MonitorRecord, OpenRecord, RangeRecord,
    Record, SessionRecord,
};
use crate::state::sessions::Session;
use crate::state::stateids::entry::StateEntry;
use crate::state::{Context, SharedState};

mod damaged;

pub use damaged::LostRecords;

/// The numbers of clients and sessions that each start has for itself.
const NUMBERS_OF_START: u32 = 1 << 20;

/// The records of all volumes, in the order of their dependencies.
#[derive(Debug, Default)]
pub(crate) struct Records {
    clients: Vec<(VolumeId, ClientId, ClientRecord)>,
    sessions: Vec<(VolumeId, SessionId, SessionRecord)>,
    opens: Vec<(FileId, Other, OpenRecord<'static>)>,
    delegations: Vec<(FileId, Other, DelegationRecord)>,
    lock_states: Vec<(FileId, Other, LockStateRecord)>,
    ranges: Vec<(FileId, Other, u64, RangeRecord)>,
    copies: Vec<(FileId, Other)>,
    /// The highest state of the status monitor.
    monitor: Option<u32>,
    /// The highest remembered sequence of each slot.
    highest: HashMap<(SessionId, u32), u32>,
    /// Records that do not decode.
    damaged: Vec<(VolumeId, Key)>,
    /// Volumes with records that could not be read.
    unreadable: Vec<VolumeId>,
}

impl Records {
    /// Adds a record of `volume`. Ignores those of other protocols.
    pub(crate) fn add(&mut self, volume: VolumeId, key: &[u8], value: &[u8]) {
        let Some(key) = Key::parse(key) else { return };
        if self.add_known(volume, key, value).is_none() {
            self.damaged.push((volume, key));
        }
    }

    /// Returns none if the value does not decode.
    fn add_known(&mut self, volume: VolumeId, key: Key, value: &[u8]) -> Option<()> {
        let file = |ino: Ino| FileId { volume, ino };
        match key {
            Key::Client(id) => self.clients.push((volume, id, ClientRecord::parse(value)?)),
            Key::Session(id) => self.sessions.push((volume, id, SessionRecord::parse(value)?)),
            Key::Monitor => self.monitor = self.monitor.max(Some(MonitorRecord::parse(value)?.state)),
            Key::Open(ino, other) => self.opens.push((file(ino), other, OpenRecord::parse(value)?)),
            Key::Delegation(ino, other) => {
                self.delegations.push((file(ino), other, DelegationRecord::parse(value)?));
            }
            Key::LockState(ino, other) => {
                self.lock_states.push((file(ino), other, LockStateRecord::parse(value)?));
            }
            Key::Range(ino, other, first) => {
                // No lock ends before it begins.
                let record = RangeRecord::parse(value).filter(|record| first <= record.last)?;
                self.ranges.push((file(ino), other, first, record));
            }
            Key::Copy(ino, other) => {
                let CopyRecord = CopyRecord::parse(value)?;
                self.copies.push((file(ino), other));
            }
        }
        Some(())
    }

    /// Returns the keys of clients and sessions in `home`.
    fn homed(&self, home: VolumeId) -> impl Iterator<Item = (Key, VolumeId)> {
        let clients = self.clients.iter().map(|(volume, id, _)| (Key::Client(*id), *volume));
        let sessions = self.sessions.iter().map(|(volume, id, _)| (Key::Session(*id), *volume));
        clients.chain(sessions).filter(move |(_, volume)| *volume == home)
    }

    /// Returns the keys of clients and sessions elsewhere, with the changes that write them.
    fn away(&self, home: VolumeId) -> impl Iterator<Item = (VolumeId, Key, StateChange)> {
        let clients = self.clients.iter().map(|(volume, id, record)| {
            let key = Key::Client(*id);
            (*volume, key, key.put(record))
        });
        let sessions = self.sessions.iter().map(|(volume, id, record)| {
            let key = Key::Session(*id);
            (*volume, key, key.put(record))
        });
        clients.chain(sessions).filter(move |(volume, ..)| *volume != home)
    }

    /// Notes a remembered request that came through a session. Its key is [`super::SlotGuard::request_key`], followed
    /// by the index of the operation and a checksum.
    pub(crate) fn remember_key(&mut self, key: &[u8]) {
        let Some((session, rest)) = key.split_first_chunk::<16>() else { return };
        let Some((slot, rest)) = rest.split_first_chunk::<4>() else { return };
        // Keys of other protocols are longer.
        if let (Some((sequence, _)), 16) = (rest.split_first_chunk::<4>(), rest.len()) {
            let (slot, sequence) = (u32::from_be_bytes(*slot), u32::from_be_bytes(*sequence));
            self.remember(SessionId(*session), slot, sequence);
        }
    }

    /// Notes that an operation of request `sequence` is remembered.
    fn remember(&mut self, session: SessionId, slot: u32, sequence: u32) {
        let highest = self.highest.entry((session, slot)).or_insert(sequence);
        // Sequences wrap around.
        if sequence.wrapping_sub(*highest) < 1 << 31 {
            *highest = sequence;
        }
    }
}

impl SharedState {
    /// Restores the state of the records, before any request. Deletes records without their basis; if the journal does
    /// not take that, the next start does. Returns which records are lost.
    pub(crate) fn restore(&self, context: &Context<'_>, mut records: Records) -> LostRecords {
        let (lost, dropped) = records.drop_incomplete(&self.keys);
        let monitor = records.monitor_state(&lost, context.store.generation());
        self.move_home(context, &mut records);
        let mut unbacked: BTreeMap<VolumeId, Vec<StateChange>> = BTreeMap::new();
        let mut drop_record = |volume: VolumeId, key: Key| {
            unbacked.entry(volume).or_default().push(key.deleted());
        };
        dropped.into_iter().for_each(|(volume, key)| drop_record(volume, key));
        let Records { clients, sessions, opens, delegations, lock_states, ranges, copies, highest, .. } =
            records;
        // An earlier start in the same second may have handed out numbers that no record names.
        let first = context.store.generation().wrapping_mul(NUMBERS_OF_START);
        self.numbers.store(first.into(), Ordering::Relaxed);
        for (_, id, record) in &clients {
            let holder = self.shares.holder(record.address());
            let client = Arc::new(Client::new(*id, record, context.now, holder));
            client.begin_generation(context.store.generation());
            self.clients.restore(&client);
        }
        self.restore_instances(&clients, &sessions);
        for (volume, id, record) in &sessions {
            match self
                .client_of_session(*id)
                .filter(|(client, _)| client.version == ClientProtocol::Sessions)
                .map(|(client, _)| client)
            {
                Some(client) => self.restore_session(*id, &client, record, &highest),
                None => drop_record(*volume, Key::Session(*id)),
            }
        }
        let mut restored = HashMap::new();
        for (file, other, record) in &opens {
            match self.restore_open(context, *file, *other, record) {
                Some(entry) => drop(restored.insert((*file, *other), entry)),
                None => drop_record(file.volume, Key::Open(file.ino, *other)),
            }
        }
        for (file, other, record) in &delegations {
            if !self.restore_delegation(context, *file, *other, *record) {
                drop_record(file.volume, Key::Delegation(file.ino, *other));
            }
        }
        let mut locking = HashMap::new();
        for (file, other, record) in &lock_states {
            let open = restored.get(&(*file, record.open));
            match open.and_then(|open| self.restore_lock_state(context, open, *other, record)) {
                Some(entry) => drop(locking.insert((*file, *other), entry)),
                None => drop_record(file.volume, Key::LockState(file.ino, *other)),
            }
        }
        for (file, other) in copies {
            if !self.restore_copy(file, other) {
                drop_record(file.volume, Key::Copy(file.ino, other));
            }
        }
        for (volume, change) in self.restore_ranges(context, &locking, ranges) {
            unbacked.entry(volume).or_default().push(change);
        }
        for (volume, changes) in unbacked {
            let _ = context.change(volume, &changes);
        }
        self.start_monitor(context, monitor);
        lost
    }

    /// Moves clients and sessions to the home volume if that was another one before. Records already there are newer.
    fn move_home(&self, context: &Context<'_>, records: &mut Records) {
        let home = context.store.home();
        let mut moved: BTreeMap<VolumeId, Vec<StateChange>> = BTreeMap::new();
        let known: HashSet<Key> = records.homed(home).map(|(key, _)| key).collect();
        let elsewhere: Vec<_> = records.away(home).collect();
        for (volume, key, put) in elsewhere {
            if !known.contains(&key) {
                moved.entry(home).or_default().push(put);
            }
            moved.entry(volume).or_default().push(key.deleted());
        }
        records.clients.retain(|(volume, id, _)| *volume == home || !known.contains(&Key::Client(*id)));
        records.sessions.retain(|(volume, id, _)| *volume == home || !known.contains(&Key::Session(*id)));
        // The home volume first: no record is deleted before its copy exists.
        if let Some(changes) = moved.remove(&home)
            && context.change(home, &changes).is_err()
        {
            return;
        }
        for (volume, changes) in moved {
            let _ = context.change(volume, &changes);
        }
    }

    /// Numbers this instance after all that records name. Ids older than the records are stale.
    fn restore_instances(
        &self,
        clients: &[(VolumeId, ClientId, ClientRecord)],
        sessions: &[(VolumeId, SessionId, SessionRecord)],
    ) {
        let of_clients = clients.iter().map(|(_, _, record)| record.instance);
        let of_sessions = sessions
            .iter()
            .filter_map(|(_, id, _)| self.client_of_session(*id))
            .map(|(_, instance)| instance);
        let known: HashSet<u32> = of_clients.chain(of_sessions).collect();
        if let (Some(oldest), Some(newest)) = (known.iter().min(), known.iter().max()) {
            self.oldest.store(*oldest, Ordering::Relaxed);
            self.newest_known.store(*newest, Ordering::Relaxed);
        }
    }

    /// Returns the client of a session, if it is known, and the instance that created the session.
    fn client_of_session(&self, id: SessionId) -> Option<(Arc<Client>, u32)> {
        self.keys
            .clients_of_session(id)
            .find_map(|(client, instance)| Some((self.clients.confirmed(client)?, instance)))
    }

    fn restore_session(
        &self,
        id: SessionId,
        client: &Arc<Client>,
        record: &SessionRecord,
        highest: &HashMap<(SessionId, u32), u32>,
    ) {
        let remembered = |slot| highest.get(&(id, slot)).copied();
        let session = Arc::new(Session::new(id, client, record, Some(&remembered)));
        self.insert(&mut client.inner.lock(), &session);
    }

    fn restore_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        other: Other,
        record: &OpenRecord<'_>,
    ) -> Option<Arc<StateEntry>> {
        let (client, number) = self.client_of(other)?;
        client.known(number);
        let owner =
            client.open_owner(&record.owner, || OwnerSequence::restored(context.now, record.confirmed));
        if record.confirmed {
            owner.sequence.confirm();
        }
        if let Some(principal) = record.principal {
            let _first = owner.is_of(principal);
        }
        let stateid = StateId { seqid: record.seqid, other };
        let entry = StateEntry::open(&client, file, stateid, &owner, Modes(record.modes), true);
        self.add(&entry).ok()?;
        let mut files = self.files.write(&file);
        enter(&mut files, context, file).opens.insert(&entry);
        Counters::up(&self.counters.opens);
        self.count_denial(None, Some(Modes(record.modes)));
        Some(entry)
    }

    fn restore_delegation(
        &self,
        context: &Context<'_>,
        file: FileId,
        other: Other,
        record: DelegationRecord,
    ) -> bool {
        let Some((client, number)) = self.client_of(other) else { return false };
        client.known(number);
        let stateid = StateId { seqid: record.seqid, other };
        let entry = StateEntry::delegation(&client, file, stateid, record.write);
        if self.add(&entry).is_err() {
            return false;
        }
        client.delegations.fetch_add(1, Ordering::Relaxed);
        let mut files = self.files.write(&file);
        enter(&mut files, context, file).delegations.insert(entry);
        self.modifications.restore();
        true
    }

    fn restore_lock_state(
        &self,
        context: &Context<'_>,
        open: &Arc<StateEntry>,
        other: Other,
        record: &LockStateRecord,
    ) -> Option<Arc<StateEntry>> {
        let (client, number) = self.client_of(other).filter(|(client, _)| client.id == open.client.id)?;
        client.known(number);
        let owner = open.client.lock_owner(&record.owner, || OwnerSequence::restored(context.now, true));
        let entry = StateEntry::locks(StateId { seqid: record.seqid, other }, &owner, open);
        self.add(&entry).ok()?;
        let mut files = self.files.write(&open.file);
        enter(&mut files, context, open.file).lock_states.insert(&entry);
        Counters::up(&self.counters.lock_states);
        Some(entry)
    }

    /// Restores locked ranges. If a crash interrupted a lock that replaces many ranges, some of these overlap the new one:
    /// they become what a lock makes of them. Returns the changes that do the same to the records, and delete those
    /// without a lock state.
    fn restore_ranges(
        &self,
        context: &Context<'_>,
        locking: &HashMap<(FileId, Other), Arc<StateEntry>>,
        mut ranges: Vec<(FileId, Other, u64, RangeRecord)>,
    ) -> Vec<(VolumeId, StateChange)> {
        // Exclusive ones last: each byte stays locked as strongly as it may have been.
        ranges.sort_by_key(|(.., record)| record.kind);
        let mut changes = Vec::new();
        let mut overlapping: HashMap<(FileId, Other), BTreeMap<u64, RangeRecord>> = HashMap::new();
        for (file, other, first, record) in &ranges {
            match locking.get(&(*file, *other)) {
                Some(entry) if self.restore_range(context, entry, *first, *record) => {}
                Some(_) => drop(overlapping.entry((*file, *other)).or_default()),
                None => changes.push((file.volume, Key::Range(file.ino, *other, *first).deleted())),
            }
        }
        for (file, other, first, record) in ranges {
            if let Some(records) = overlapping.get_mut(&(file, other)) {
                records.insert(first, record);
            }
        }
        for (key, records) in overlapping {
            let mended = locking.get(&key).map(|entry| self.mended_ranges(entry, &records));
            changes.extend(mended.into_iter().flatten().map(|change| (key.0.volume, change)));
        }
        changes
    }

    /// Restores a range. Returns whether it is one of its own: it neither overlaps nor adjoins another one of its owner.
    fn restore_range(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        first: u64,
        record: RangeRecord,
    ) -> bool {
        let Some(locks) = entry.as_locks() else { return true };
        let mut files = self.files.write(&entry.file);
        let state = enter(&mut files, context, entry.file);
        let change = state.locks.plan(&locks.owner, Range { first, last: record.last }, Some(record.kind));
        state.apply_ranges(&entry.client, &change);
        change.removed.is_empty() && !change.added.is_empty()
    }

    /// Returns the changes that make the records of a lock state's ranges what they are now. What is locked stays locked if
    /// only the first changes survive another crash.
    fn mended_ranges(&self, entry: &StateEntry, records: &BTreeMap<u64, RangeRecord>) -> Vec<StateChange> {
        let files = self.files.read(&entry.file);
        let (Some(state), Some(locks)) = (files.get(&entry.file), entry.as_locks()) else {
            return Vec::new();
        };
        let now: BTreeMap<u64, RangeRecord> = state
            .locks
            .of(&locks.owner)
            .map(|lock| (lock.range.first, RangeRecord { last: lock.range.last, kind: lock.kind }))
            .collect();
        let key = |first: &u64| Key::Range(entry.file.ino, entry.other, *first);
        let put = now.iter().filter(|(first, record)| records.get(*first) != Some(*record));
        let put = put.map(|(first, record)| key(first).put(record));
        let gone = records.keys().filter(|first| !now.contains_key(*first)).map(|first| key(first).deleted());
        put.chain(gone).collect()
    }
}
