//! What lies between processes and the store: calls and answers that come late, twice or never, links that are cut, a store that
//! hangs.

use std::collections::{BTreeMap, VecDeque};

use cluster::Epoch;

use super::journal::{Purpose, Request};
use super::objects::Outcome;
use super::process::LEASE;
use crate::random::Random;

/// Calls of one process to one object, which are executed in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    pub node: usize,
    pub instance: u64,
    pub object: String,
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Call {
    /// The epoch of the process when it made the call.
    pub author: Epoch,
    pub request: Request,
}

/// An answer under way.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub node: usize,
    pub instance: u64,
    pub purpose: Purpose,
    pub outcome: Outcome,
}

/// The network and the front of the store.
#[derive(Debug)]
pub struct Network {
    random: Random,
    /// Whether everything works.
    is_calm: bool,
    lanes: BTreeMap<Lane, VecDeque<Call>>,
    /// Until when calls of each node do not reach the lease, and the other objects.
    cut_until: Vec<[u64; 2]>,
    /// Until when answers do not reach each node.
    deaf_until: Vec<u64>,
    /// Until when objects with this beginning hang.
    hung: Vec<(String, u64)>,
    /// Of a thousand messages of each node, those about the lease, and the others, that take long.
    slow: Vec<[u64; 2]>,
    /// How long these take at most, ms.
    slow_millis: u64,
    /// Of a thousand messages that may get lost or come twice, those that do.
    lost: u64,
}

/// Converts milliseconds.
pub fn nanos(millis: u64) -> u64 {
    millis * 1_000_000
}

impl Network {
    pub fn new(mut random: Random, nodes: usize, is_reliable: bool) -> Network {
        let lost = if is_reliable { 0 } else { random.below(60) };
        let rate = |random: &mut Random| if is_reliable { 0 } else { *random.pick(&[0, 10, 50, 300]) };
        let slow = (0..nodes).map(|_| [rate(&mut random), rate(&mut random)]).collect();
        let slow_millis = *random.pick(&[1000, 2500, 8000]);
        let lanes = BTreeMap::new();
        let (cut_until, deaf_until, hung) = (vec![[0; 2]; nodes], vec![0; nodes], Vec::new());
        Network { random, is_calm: false, lanes, cut_until, deaf_until, hung, slow, slow_millis, lost }
    }

    /// From now on, nothing is slow or gets lost.
    pub fn calm(&mut self) {
        self.is_calm = true;
    }

    /// Puts a call on its way. Returns the lane that it is in.
    pub fn send(&mut self, node: usize, instance: u64, author: Epoch, request: Request) -> Lane {
        let lane = Lane { node, instance, object: request.object.clone() };
        self.lanes.entry(lane.clone()).or_default().push_back(Call { author, request });
        lane
    }

    /// Returns when a message of a node that is sent now arrives, or one to it. `is_data`: whether it is not about the lease.
    pub fn arrival(&mut self, now: u64, node: usize, is_data: bool) -> u64 {
        let base = nanos(1) / 5 + self.random.below(nanos(3));
        let slow = !self.is_calm && self.random.chance(self.slow[node][usize::from(is_data)], 1000);
        let more = if slow { self.random.below(nanos(self.slow_millis)) } else { 0 };
        now + base + more
    }

    /// Returns when the store can execute a call, if not now.
    pub fn blocked_until(&mut self, now: u64, lane: &Lane) -> Option<u64> {
        let hung = self.hung.iter().filter(|(beginning, _)| lane.object.starts_with(beginning.as_str()));
        let until = hung.map(|(_, until)| *until).max().unwrap_or(0);
        let until = until.max(self.cut_until[lane.node][usize::from(lane.object != LEASE)]);
        // After it hung, a store takes the calls of different clients in any order.
        (until > now).then(|| until + self.random.below(nanos(300)))
    }

    /// Takes the next call of a lane, and says whether it gets lost.
    pub fn take(&mut self, lane: &Lane) -> Option<(Call, bool)> {
        let call = self.lanes.get_mut(lane)?.pop_front()?;
        let is_lost = self.is_lost(call.request.purpose);
        Some((call, is_lost))
    }

    /// Returns how many times an answer arrives.
    pub fn answers(&mut self, purpose: Purpose) -> u64 {
        if self.is_lost(purpose) {
            return 0;
        }
        let is_twice =
            !self.is_calm && matches!(purpose, Purpose::Lease(_)) && self.random.chance(self.lost, 1000);
        1 + u64::from(is_twice)
    }

    fn is_lost(&mut self, purpose: Purpose) -> bool {
        let may_be = matches!(purpose, Purpose::Lease(_) | Purpose::Seal(_));
        may_be && !self.is_calm && self.random.chance(self.lost, 1000)
    }

    /// Returns until when no answer reaches a node.
    pub fn deaf_until(&self, node: usize) -> u64 {
        self.deaf_until[node]
    }

    /// Cuts a node off: from the lease, from the other objects, or both, and maybe from answers.
    pub fn cut(&mut self, node: usize, until: u64) {
        let (lease, data) = *self.random.pick(&[(until, 0), (0, until), (until, until)]);
        self.cut_until[node] = [lease, data];
        self.deaf_until[node] = if self.random.chance(1, 2) { until } else { 0 };
    }

    /// Lets objects whose names begin so hang.
    pub fn hang(&mut self, beginning: &str, until: u64) {
        self.hung.push((beginning.to_owned(), until));
    }
}
