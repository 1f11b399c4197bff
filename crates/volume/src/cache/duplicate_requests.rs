//! The duplicate request cache (rule 11 of `docs/design.md`): bounded, holds the answers to non-idempotent requests,
//! and is rebuilt from the journal and from what checkpoints carry over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;

use crate::api::ids::Seq;
use crate::api::request::{Durability, RequestKey};
use crate::api::time::Time;
use crate::encoding::record::ReplyRecord;
use crate::limits::{REPLIES_MAX, REPLIES_PER_CLIENT_MAX};

/// How long checkpoints carry over an answer: longer than any client waits before it retransmits.
pub const REMEMBER: Duration = Duration::from_secs(300);

/// Bytes of a key that identify the client.
const CLIENT_BYTES: usize = 16;

/// The duplicate request cache.
#[derive(Debug, Default)]
pub struct DuplicateRequestCache {
    state: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    /// Most answers, in memory and in the index.
    max: usize,
    answers: HashMap<RequestKey, CachedReply>,
    /// Keys of each client, oldest first.
    clients: HashMap<Box<[u8]>, VecDeque<RequestKey>>,
    /// All keys, oldest first; a key that was evicted or used again is skipped.
    order: VecDeque<(RequestKey, Seq)>,
    /// Keys added since the last freeze.
    fresh: Vec<RequestKey>,
    /// Keys put into the index, oldest first; a key that was used again occurs more than once.
    stored: VecDeque<(Time, RequestKey)>,
    /// The rows of the index, with the times of their answers.
    rows: HashMap<RequestKey, Time>,
}

/// A cached answer.
#[derive(Debug)]
struct CachedReply {
    record: ReplyRecord,
    /// The flush generation that the first reply waited for besides its entry; 0 after a restart.
    flush_generation: u64,
}

/// What a checkpoint does to the reply table: it deletes first, then puts.
#[derive(Debug, Default)]
pub struct ReplyChanges {
    /// Answers to store.
    pub put: Vec<(RequestKey, ReplyRecord)>,
    /// Expired answers.
    pub delete: Vec<RequestKey>,
}

impl DuplicateRequestCache {
    /// Sets the maximum number of answers.
    pub fn bound(&self, max: usize) {
        let mut state = self.state.lock();
        state.max = max;
        state.forget_what_is_too_much();
    }

    /// Returns the answer to an earlier request with this key, and what a reply that repeats it waits for: no less
    /// than the first reply did.
    pub fn lookup(&self, key: &RequestKey) -> Option<(Arc<[u8]>, Durability)> {
        let state = self.state.lock();
        let CachedReply { record, flush_generation } = state.answers.get(key)?;
        Some((
            Arc::clone(&record.answer),
            Durability { seq: record.seq, flush_generation: *flush_generation },
        ))
    }

    /// Caches an answer whose reply waits for its entry and for `flush_generation`. With `durable` it is part of a
    /// journal entry, so checkpoints carry it over.
    pub fn insert(&self, key: RequestKey, record: ReplyRecord, flush_generation: u64, durable: bool) {
        let mut state = self.state.lock();
        if durable {
            state.fresh.push(key.clone());
        }
        state.insert(key, CachedReply { record, flush_generation });
    }

    /// Loads an answer from the index when a volume is opened; oldest first.
    pub fn load(&self, key: RequestKey, record: ReplyRecord) {
        let mut state = self.state.lock();
        state.note_stored(&key, record.time);
        state.insert(key, CachedReply { record, flush_generation: 0 });
    }

    /// Returns what the next checkpoint stores and deletes.
    pub fn take_changes(&self, now: Time) -> ReplyChanges {
        let mut state = self.state.lock();
        let mut changes = ReplyChanges::default();
        while state.stored.front().is_some_and(|(time, _)| now.since(*time) > REMEMBER)
            || state.stored.len() > state.max
        {
            let (time, key) = state.stored.pop_front().expect("checked to be there");
            // A key that was reused has a newer answer in its row.
            if state.rows.get(&key) == Some(&time) {
                state.rows.remove(&key);
                changes.delete.push(key);
            }
        }
        for key in std::mem::take(&mut state.fresh) {
            let Some(record) = state.answers.get(&key).map(|answer| answer.record.clone()) else { continue };
            if now.since(record.time) <= REMEMBER {
                state.note_stored(&key, record.time);
                changes.put.push((key, record));
            }
        }
        changes
    }

    /// Makes the next checkpoint store all answers that the index has, as some of its rows are lost.
    pub fn store_all_again(&self) {
        let mut state = self.state.lock();
        let rows: Vec<RequestKey> = state.rows.drain().map(|(key, _)| key).collect();
        state.stored.clear();
        state.fresh.extend(rows);
    }

    /// Visits all keys, in no order. `visit` must not call the cache.
    pub fn each_key(&self, visit: &mut dyn FnMut(&RequestKey)) {
        self.state.lock().answers.keys().for_each(visit);
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
            answers: HashMap::new(),
            clients: HashMap::new(),
            order: VecDeque::new(),
            fresh: Vec::new(),
            stored: VecDeque::new(),
            rows: HashMap::new(),
        }
    }
}

impl Tables {
    fn note_stored(&mut self, key: &RequestKey, time: Time) {
        self.stored.push_back((time, key.clone()));
        self.rows.insert(key.clone(), time);
    }

    fn insert(&mut self, key: RequestKey, answer: CachedReply) {
        self.order.push_back((key.clone(), answer.record.seq));
        if self.answers.insert(key.clone(), answer).is_none() {
            let client = key.0.get(..CLIENT_BYTES).unwrap_or(&key.0);
            if !self.clients.contains_key(client) {
                self.clients.insert(client.into(), VecDeque::new());
            }
            let of_client = self.clients.get_mut(client).expect("it is there now");
            of_client.push_back(key.clone());
            if of_client.len() > REPLIES_PER_CLIENT_MAX {
                let oldest = of_client.pop_front().expect("it holds more than its limit");
                self.answers.remove(&oldest);
            }
        }
        self.forget_what_is_too_much();
    }

    fn forget_what_is_too_much(&mut self) {
        while self.answers.len() > self.max || self.order.len() > 2 * self.max {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((key, seq)) = self.order.pop_front() else { return };
        if self.answers.get(&key).is_none_or(|answer| answer.record.seq != seq) {
            return;
        }
        self.answers.remove(&key);
        let client = key.0.get(..CLIENT_BYTES).unwrap_or(&key.0);
        if let Some(of_client) = self.clients.get_mut(client) {
            // The oldest key of all is also the oldest of its client, unless it was reused.
            if of_client.front() == Some(&key) {
                of_client.pop_front();
            } else {
                of_client.retain(|other| *other != key);
            }
            if of_client.is_empty() {
                self.clients.remove(client);
            }
        }
    }
}

#[cfg(test)]
mod tests;
