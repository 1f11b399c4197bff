//! Calls that rate limits hold, and connections that are read no further because too much is held for their clients.
//!
//! What is held takes memory of its loop: a client may hold one part in [`HELD_SHARE`] of it, all clients a quarter.

use std::collections::{BTreeMap, VecDeque};

use nfs::service::KeptRecord;
use qos::ClientId;

use crate::admission::ConnectionKey;
use crate::counters::phases::Timing;
use crate::limits::{DEFERRED_OVERHEAD_BYTES, HELD_ALL_SHARE, HELD_SHARE};
use crate::rates::Charged;

/// A call that is held, or was.
pub(crate) struct HeldCall {
    pub(crate) owner: ConnectionKey,
    pub(crate) record: KeptRecord,
    pub(crate) charged: Charged,
    pub(crate) timing: Timing,
}

impl HeldCall {
    /// Returns the bytes that the budget counts for it among requests.
    pub(crate) fn request_bytes(&self) -> usize {
        self.record.memory_bytes() + DEFERRED_OVERHEAD_BYTES
    }
}

/// The calls that a loop holds.
pub(crate) struct HeldCalls {
    /// By their tokens, which begin with the place of the connection.
    calls: BTreeMap<u64, HeldCall>,
    next: u32,
    bytes: usize,
    by_client: BTreeMap<ClientId, usize>,
    /// The limit of the loop's memory.
    limit: usize,
    /// Connections that are not read, by client, in the order in which they stopped.
    stopped: BTreeMap<ClientId, VecDeque<ConnectionKey>>,
}

impl HeldCalls {
    pub(crate) fn new(limit: usize) -> HeldCalls {
        HeldCalls {
            calls: BTreeMap::new(),
            next: 0,
            bytes: 0,
            by_client: BTreeMap::new(),
            limit,
            stopped: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether a call of this many bytes may be held. The first of a client may be, whatever its size.
    pub(crate) fn has_room(&self, client: ClientId, bytes: usize) -> bool {
        match self.by_client.get(&client) {
            None => true,
            Some(held) => {
                held + bytes <= self.limit / HELD_SHARE && self.bytes + bytes <= self.limit / HELD_ALL_SHARE
            }
        }
    }

    /// Returns a token that no held call of the connection at this place has.
    pub(crate) fn next_token(&mut self, place: usize) -> u64 {
        self.next = self.next.wrapping_add(1);
        first_token(place) | u64::from(self.next)
    }

    pub(crate) fn insert(&mut self, token: u64, call: HeldCall) {
        let bytes = call.request_bytes();
        self.bytes += bytes;
        *self.by_client.entry(call.charged.client()).or_insert(0) += bytes;
        self.calls.insert(token, call);
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<HeldCall> {
        let call = self.calls.remove(&token)?;
        let bytes = call.request_bytes();
        self.bytes -= bytes;
        if let Some(held) = self.by_client.get_mut(&call.charged.client()) {
            *held -= bytes;
            if *held == 0 {
                self.by_client.remove(&call.charged.client());
            }
        }
        Some(call)
    }

    /// Returns the tokens of the calls that a connection has here.
    pub(crate) fn tokens_of(&self, owner: ConnectionKey) -> Vec<u64> {
        self.calls_of(owner).map(|(token, _)| token).collect()
    }

    /// Returns the bytes of the calls that a connection has here.
    pub(crate) fn bytes_of(&self, owner: ConnectionKey) -> usize {
        self.calls_of(owner).map(|(_, call)| call.request_bytes()).sum()
    }

    fn calls_of(&self, owner: ConnectionKey) -> impl Iterator<Item = (u64, &HeldCall)> {
        let of_place =
            self.calls.range(first_token(owner.index)..=first_token(owner.index) | u64::from(u32::MAX));
        of_place.filter(move |(_, call)| call.owner == owner).map(|(token, call)| (*token, call))
    }

    /// Notes that a connection is not read any more.
    pub(crate) fn stop(&mut self, client: ClientId, connection: ConnectionKey) {
        self.stopped.entry(client).or_default().push_back(connection);
    }

    /// Takes the connection of a client that stopped first.
    pub(crate) fn take_stopped(&mut self, client: ClientId) -> Option<ConnectionKey> {
        let queue = self.stopped.get_mut(&client)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.stopped.remove(&client);
        }
        first
    }

    /// Puts a connection back that is still not read.
    pub(crate) fn stop_again(&mut self, client: ClientId, connection: ConnectionKey) {
        self.stopped.entry(client).or_default().push_front(connection);
    }
}

fn first_token(place: usize) -> u64 {
    (place as u64) << 32
}
