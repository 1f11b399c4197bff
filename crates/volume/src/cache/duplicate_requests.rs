//! The duplicate request cache (rule 11 of `docs/design.md`): bounded, holds the answers to non-idempotent requests,
//! and is rebuilt from the journal and from what checkpoints carry over.
//!
//! A full cache evicts what has expired, or else the oldest answer of the greediest: of the origin that has the most, and
//! among its clients of the one that has the most. So nobody can evict the answers of clients with few, neither in memory nor
//! in the index, which holds no answers but those in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;

use crate::api::ids::VolumeNumber;
use crate::api::request::{Caller, Durability, FlushWait, RequestKey};
use crate::api::time::Time;
use crate::encoding::record::ReplyRecord;
use crate::limits::REPLIES_MAX;

/// How long checkpoints carry over an answer: longer than any client waits before it retransmits.
pub const REMEMBER: Duration = Duration::from_secs(300);

/// Answers that a checkpoint looks at without letting others at the cache.
const LOOKED_AT_ONCE: usize = 256;

/// The duplicate request cache.
#[derive(Debug, Default)]
pub struct DuplicateRequestCache {
    state: Mutex<Tables>,
}

/// Tells answers apart, also those to requests with the same key; grows.
type Number = u64;

#[derive(Debug)]
struct Tables {
    /// Most answers, in memory and in the index.
    max: usize,
    next: Number,
    answers: HashMap<RequestKey, CachedReply>,
    /// The keys of all answers, oldest first.
    order: BTreeMap<Number, RequestKey>,
    clients: HashMap<Caller, Client>,
    origins: HashMap<Caller, Origin>,
    greediest: Ranks,
    /// Answers that belong to a journal entry and were added since the last freeze.
    fresh: BTreeSet<Number>,
    /// The rows of the index, with the times of their answers.
    rows: HashMap<RequestKey, Time>,
    /// The same, oldest first.
    stored: BTreeSet<(Time, RequestKey)>,
    /// Rows whose answers were evicted.
    evicted: Vec<RequestKey>,
}

/// A cached answer.
#[derive(Debug)]
struct CachedReply {
    record: ReplyRecord,
    /// The flush that the first reply waited for besides its entry; none after a restart.
    flush: FlushWait,
    number: Number,
}

/// A client, and the answers to its requests.
#[derive(Debug)]
struct Client {
    origin: Caller,
    answers: BTreeSet<Number>,
}

/// An origin, with its clients by how many answers they have.
#[derive(Debug, Default)]
struct Origin {
    answers: usize,
    greediest: Ranks,
}

/// Callers by the number of binary digits of how many answers they have: that changes seldom, and is near enough.
#[derive(Debug, Default)]
struct Ranks(BTreeSet<(u32, Caller)>);

impl Ranks {
    /// Follows a change of how many answers `who` has.
    fn update(&mut self, who: Caller, before: usize, after: usize) {
        let (before, after) = (before.checked_ilog2(), after.checked_ilog2());
        if before == after {
            return;
        }
        if let Some(digits) = before {
            self.0.remove(&(digits, who));
        }
        if let Some(digits) = after {
            self.0.insert((digits, who));
        }
    }

    fn greediest(&self) -> Option<Caller> {
        self.0.last().map(|(_, who)| *who)
    }
}

/// What a checkpoint does to the reply table: it deletes first, then puts.
#[derive(Debug, Default)]
pub struct ReplyChanges {
    /// Answers to store.
    pub put: Vec<(RequestKey, ReplyRecord)>,
    /// Answers that have expired or were evicted.
    pub delete: Vec<RequestKey>,
}

/// The answers that a checkpoint stores, unless they are evicted before.
#[derive(Debug, Default)]
pub struct FreshReplies(BTreeSet<Number>);

impl DuplicateRequestCache {
    /// Sets the maximum number of answers.
    pub fn bound(&self, max: usize) {
        let mut state = self.state.lock();
        state.max = max;
        state.evict(None);
    }

    /// Returns the answer to an earlier request with this key, and what a reply that repeats it waits for: no less
    /// than the first reply did.
    pub fn lookup(&self, key: &RequestKey) -> Option<(Arc<[u8]>, Durability)> {
        let state = self.state.lock();
        let CachedReply { record, flush, .. } = state.answers.get(key)?;
        Some((Arc::clone(&record.answer), Durability { seq: record.seq, flush: *flush }))
    }

    /// Caches an answer whose reply waits for its entry and for `flush`. With `durable` it is part of a
    /// journal entry, so checkpoints carry it over.
    pub fn insert(&self, key: RequestKey, record: ReplyRecord, flush: FlushWait, durable: bool) {
        let mut state = self.state.lock();
        if durable {
            let number = state.next;
            state.fresh.insert(number);
        }
        state.insert(key, record, flush);
    }

    /// Loads an answer from the index when a volume is opened; oldest first.
    pub fn load(&self, key: RequestKey, record: ReplyRecord) {
        let mut state = self.state.lock();
        state.note_stored(&key, record.time);
        state.insert(key, record, FlushWait::default());
    }

    /// Returns what was added since the last call. Takes a moment only, as nobody can change the volume meanwhile.
    pub fn take_fresh(&self) -> FreshReplies {
        FreshReplies(std::mem::take(&mut self.state.lock().fresh))
    }

    /// Returns what the next checkpoint stores and deletes, and notes that it did.
    pub fn changes(&self, fresh: &FreshReplies, now: Time) -> ReplyChanges {
        let mut changes = ReplyChanges { put: Vec::new(), delete: self.state.lock().take_evicted() };
        let expires = |time: Time| now.since(time) > REMEMBER;
        loop {
            let mut state = self.state.lock();
            let looked_at = changes.delete.len();
            while changes.delete.len() < looked_at + LOOKED_AT_ONCE
                && state.stored.first().is_some_and(|(time, _)| expires(*time))
                && let Some((_, key)) = state.stored.pop_first()
            {
                state.rows.remove(&key);
                changes.delete.push(key);
            }
            if changes.delete.len() == looked_at {
                break;
            }
        }
        let mut numbers = fresh.0.iter().peekable();
        while numbers.peek().is_some() {
            let mut state = self.state.lock();
            for number in numbers.by_ref().take(LOOKED_AT_ONCE) {
                let Some(key) = state.order.get(number).cloned() else { continue };
                let Some(answer) = state.answers.get(&key) else { continue };
                let record = answer.record.clone();
                if !expires(record.time) {
                    state.note_stored(&key, record.time);
                    changes.put.push((key, record));
                }
            }
        }
        changes
    }

    /// Makes the next checkpoint store all answers that the index has, as some of its rows are lost.
    pub fn store_all_again(&self) {
        let mut state = self.state.lock();
        state.stored.clear();
        for (key, _) in std::mem::take(&mut state.rows) {
            if let Some(number) = state.answers.get(&key).map(|answer| answer.number) {
                state.fresh.insert(number);
            }
        }
    }

    /// Forgets the answers of a volume, and lets the next checkpoint delete their rows.
    pub fn forget_volume(&self, volume: VolumeNumber) {
        let mut state = self.state.lock();
        let of_volume = state.answers.iter().filter(|(key, _)| key.volume() == volume);
        let answers: Vec<(RequestKey, Number)> =
            of_volume.map(|(key, answer)| (key.clone(), answer.number)).collect();
        answers.iter().for_each(|(key, number)| state.forget(key, *number));
        let mut rows: Vec<RequestKey> =
            state.rows.keys().filter(|key| key.volume() == volume).cloned().collect();
        // In an order that a simulation can repeat.
        rows.sort_unstable();
        rows.into_iter().for_each(|key| state.evict_row(key));
    }

    /// Visits all keys of a volume, in no order. `visit` must not call the cache.
    pub fn each_key(&self, volume: VolumeNumber, visit: &mut dyn FnMut(&RequestKey)) {
        let state = self.state.lock();
        state.answers.keys().filter(|key| key.volume() == volume).for_each(visit);
    }

    /// Returns the number of cached answers.
    pub fn len(&self) -> usize {
        self.state.lock().answers.len()
    }
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            max: REPLIES_MAX,
            next: 0,
            answers: HashMap::new(),
            order: BTreeMap::new(),
            clients: HashMap::new(),
            origins: HashMap::new(),
            greediest: Ranks::default(),
            fresh: BTreeSet::new(),
            rows: HashMap::new(),
            stored: BTreeSet::new(),
            evicted: Vec::new(),
        }
    }
}

impl Tables {
    fn note_stored(&mut self, key: &RequestKey, time: Time) {
        if let Some(before) = self.rows.insert(key.clone(), time) {
            self.stored.remove(&(before, key.clone()));
        }
        self.stored.insert((time, key.clone()));
    }

    /// Returns the rows whose answers were evicted, unless they have newer ones since.
    fn take_evicted(&mut self) -> Vec<RequestKey> {
        let mut evicted = std::mem::take(&mut self.evicted);
        evicted.retain(|key| !self.rows.contains_key(key));
        evicted
    }

    fn insert(&mut self, key: RequestKey, record: ReplyRecord, flush: FlushWait) {
        let (number, now) = (self.next, record.time);
        self.next += 1;
        let replaced = self.answers.get(&key).map(|answer| answer.number);
        if let Some(replaced) = replaced {
            self.forget(&key, replaced);
        }
        self.answers.insert(key.clone(), CachedReply { record, flush, number });
        let (client, origin) = (key.client(), key.origin());
        self.order.insert(number, key);
        let known = self.clients.entry(client).or_insert_with(|| Client { origin, answers: BTreeSet::new() });
        known.answers.insert(number);
        let (before, counted) = (known.answers.len() - 1, known.origin);
        if counted == origin {
            self.count(origin, client, before, before + 1);
        } else {
            // It was not known before a restart, or the client moved.
            known.origin = origin;
            self.count(counted, client, before, 0);
            self.count(origin, client, 0, before + 1);
        }
        self.evict(Some(now));
    }

    /// Follows a change of how many answers a client has.
    fn count(&mut self, origin: Caller, client: Caller, before: usize, after: usize) {
        let of_origin = self.origins.entry(origin).or_default();
        let answers = of_origin.answers + after - before;
        self.greediest.update(origin, of_origin.answers, answers);
        of_origin.answers = answers;
        of_origin.greediest.update(client, before, after);
        if answers == 0 {
            self.origins.remove(&origin);
        }
    }

    /// Evicts answers while there are too many.
    fn evict(&mut self, now: Option<Time>) {
        while self.answers.len() > self.max
            && let Some((key, number)) = self.next_to_go(now)
        {
            self.forget(&key, number);
            self.evict_row(key);
        }
    }

    /// Lets the next checkpoint delete a row, if there is one.
    fn evict_row(&mut self, key: RequestKey) {
        if let Some(time) = self.rows.remove(&key) {
            self.stored.remove(&(time, key.clone()));
            self.evicted.push(key);
        }
    }

    fn next_to_go(&self, now: Option<Time>) -> Option<(RequestKey, Number)> {
        let (number, key) = self.order.first_key_value()?;
        let has_expired =
            |now: Time| self.answers.get(key).is_some_and(|answer| now.since(answer.record.time) > REMEMBER);
        if now.is_some_and(has_expired) {
            return Some((key.clone(), *number));
        }
        let origin = self.origins.get(&self.greediest.greediest()?)?;
        let client = self.clients.get(&origin.greediest.greediest()?)?;
        let number = client.answers.first()?;
        Some((self.order.get(number)?.clone(), *number))
    }

    /// Removes an answer, but not its row.
    fn forget(&mut self, key: &RequestKey, number: Number) {
        self.answers.remove(key);
        self.order.remove(&number);
        self.fresh.remove(&number);
        let client = key.client();
        let Some(known) = self.clients.get_mut(&client) else { return };
        known.answers.remove(&number);
        let (after, origin) = (known.answers.len(), known.origin);
        if after == 0 {
            self.clients.remove(&client);
        }
        self.count(origin, client, after + 1, after);
    }
}

#[cfg(test)]
mod tests;
