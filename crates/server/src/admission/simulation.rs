//! Random hosts send records to one loop, or have it make replies, by a virtual clock: honest ones are served in bounded time,
//! whatever others do.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use wire::limits::RECORD_BYTES_MAX;

use super::eviction::{Because, Holder};
use super::pace::Pace;
use super::*;
use crate::limits::{
    BLOCKED_CHECK, EVICTIONS_PER_TURN_MAX, FAST_FIRST, FAST_PACE_MIN, LOOP_BYTES_MIN, PACE_MIN, PACE_TIME,
    REQUESTS_EIGHTHS, SHORT_REPLY_ROOM_MAX, WAIT_MAX,
};

mod replies;

/// The step of the clock.
const STEP: Duration = Duration::from_millis(10);

/// How long a run is.
const RUN: Duration = Duration::from_secs(120);

/// The longest that a client takes to connect again.
const RECONNECT: Duration = Duration::from_millis(50);

/// How a host moves its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// At an even pace, bytes a second.
    Even(u32),
    /// Nothing.
    Silent,
    /// As little as the least pace demands, as late as possible.
    LastMoment,
    /// A record at once, the next one not at all.
    Alternating,
}

/// What a connection does.
#[derive(Clone, Copy, Debug)]
enum State {
    Idle { until: Instant },
    Blocked,
    Sending { left: usize, pace: Pace, began: Instant },
}

struct Peer {
    key: ConnectionKey,
    manner: Manner,
    is_honest: bool,
    /// The longest record that it sends, bytes.
    longest: usize,
    length: usize,
    /// When it began to try to send the current record.
    tried: Instant,
    state: State,
    /// Records that it sent, connections that were closed, and the longest that a record took.
    sent: usize,
    closed: usize,
    slowest: Duration,
}

struct World {
    admission: Admission,
    limit: usize,
    peers: Vec<Peer>,
    now: Instant,
    random: Rng,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        let limit = LOOP_BYTES_MIN * random.usize(1..4);
        let admission = Admission::new(limit);
        let mut world = World { admission, limit, peers: Vec::new(), now: Instant::now(), random };
        for _ in 0..world.random.usize(1..4) {
            let pace = world.random.u32(20 << 20..200 << 20);
            world.add(Manner::Even(pace), true, RECORD_BYTES_MAX, 1);
            let pace = world.random.u32(PACE_MIN + PACE_MIN / 10..FAST_PACE_MIN / 2);
            world.add(Manner::Even(pace), true, RECORD_BYTES_MAX, 1);
        }
        for _ in 0..world.random.usize(0..12) {
            let manner = match world.random.u8(0..6) {
                0 => Manner::Even(PACE_MIN + PACE_MIN / 50),
                1 => Manner::Even(FAST_PACE_MIN + FAST_PACE_MIN / 50),
                2 => Manner::LastMoment,
                3 => Manner::Alternating,
                4 => Manner::Even(world.random.u32(1..PACE_MIN)),
                _ => Manner::Silent,
            };
            let longest = *world.random.choice(&[SMALL_RECORD_BYTES_MAX, RECORD_BYTES_MAX]).unwrap();
            let connections = world.random.usize(1..5);
            world.add(manner, false, longest, connections);
        }
        world
    }

    /// Adds a host with so many connections.
    fn add(&mut self, manner: Manner, is_honest: bool, longest: usize, connections: usize) {
        let address = std::net::Ipv4Addr::from_bits(u32::try_from(self.peers.len()).unwrap());
        let address = std::net::IpAddr::from(address).into();
        for _ in 0..connections {
            let origin = self.admission.budget.origins.join(address);
            let key = ConnectionKey { index: self.peers.len(), generation: 0, origin };
            let state = State::Idle { until: self.now };
            let (tried, slowest) = (self.now, Duration::ZERO);
            let (length, sent, closed) = (longest, 0, 0);
            self.peers.push(Peer {
                key,
                manner,
                is_honest,
                longest,
                length,
                tried,
                state,
                sent,
                closed,
                slowest,
            });
        }
    }

    fn run(&mut self) {
        let end = self.now + RUN;
        let (mut checked, mut ticked) = (self.now, self.now);
        while self.now < end {
            let mut order: Vec<usize> = (0..self.peers.len()).collect();
            self.random.shuffle(&mut order);
            for number in order {
                self.act(number);
            }
            self.go_on();
            if self.now >= checked + BLOCKED_CHECK {
                checked = self.now;
                self.evict();
            }
            if self.now >= ticked + Duration::from_secs(1) {
                ticked = self.now;
                self.admission.budget.origins.forget_paces(self.now);
            }
            assert!(self.admission.budget.held() <= self.limit / 8 * REQUESTS_EIGHTHS);
            self.now += STEP;
        }
    }

    fn act(&mut self, number: usize) {
        let (now, peer) = (self.now, &mut self.peers[number]);
        match peer.state {
            State::Idle { until } if now >= until => {
                let want = Want::Record { length: peer.length, counted: 0 };
                if self.admission.may_go_on(peer.key, want) {
                    self.begin(number);
                } else {
                    peer.state = State::Blocked;
                    self.admission.block(peer.key, want, now);
                }
            }
            State::Idle { .. } | State::Blocked => {}
            State::Sending { left, mut pace, began } => {
                let moved = moved(peer, began, left, now);
                pace.moved(moved, now);
                peer.state = State::Sending { left: left - moved, pace, began };
                if left == moved {
                    self.complete(number, pace);
                    // The next record may be there already.
                    self.act(number);
                }
            }
        }
    }

    fn begin(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        peer.state = State::Sending { left: peer.length, pace: Pace::begin(self.now), began: self.now };
        self.admission.budget.count_requests(peer.key.origin, 0, peer.length);
    }

    fn complete(&mut self, number: usize, pace: Pace) {
        let (now, peer) = (self.now, &mut self.peers[number]);
        self.admission.budget.count_requests(peer.key.origin, peer.length, 0);
        if let Some(standing) = pace.of_record(peer.length, now) {
            self.admission.budget.origins.note(peer.key.origin, standing, now);
        }
        peer.sent += 1;
        peer.slowest = peer.slowest.max(now - peer.tried);
        let pause = if peer.is_honest { self.random.u64(0..3000) } else { 0 };
        let until = now + Duration::from_millis(pause);
        (peer.tried, peer.state) = (until, State::Idle { until });
        peer.length = self.random.usize(peer.longest / 4..=peer.longest);
    }

    /// Resumes those for which there is memory, and returns them.
    fn go_on(&mut self) -> Vec<ConnectionKey> {
        let (mut goes_on, mut went_on) = (true, Vec::new());
        while std::mem::take(&mut goes_on) {
            let mut pass = self.admission.pass(Blocked::Read);
            while let Some(waiter) = self.admission.next_of(&mut pass, self.now) {
                self.begin(waiter.key.index);
                went_on.push(waiter.key);
                goes_on = true;
            }
        }
        went_on
    }

    fn evict(&mut self) {
        let holders: Vec<Holder> = self.peers.iter().filter_map(holder).collect();
        let mut candidates = self.admission.candidates(Short::Requests, holders.into_iter(), self.now);
        for half in Half::BOTH {
            for _ in 0..EVICTIONS_PER_TURN_MAX {
                let waiters = self.admission.waiting_too_long(Short::Requests, half, self.now);
                let Some(waiter) = waiters.first() else { break };
                let Some(closed) = self.admission.make_room(waiter, &mut candidates) else { break };
                closed.into_iter().for_each(|key| self.close(key.index));
                candidates.went_on(self.go_on());
            }
        }
    }

    fn close(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        assert!(matches!(peer.state, State::Sending { .. }));
        self.admission.budget.count_requests(peer.key.origin, peer.length, 0);
        peer.closed += 1;
        peer.key.generation += 1;
        peer.state = State::Idle { until: self.now + RECONNECT };
    }

    /// Returns the longest that an honest host may take for a record.
    fn bound(&self, peer: &Peer) -> Duration {
        let Manner::Even(pace) = peer.manner else { unreachable!("honest hosts move") };
        let is_fast = pace >= FAST_PACE_MIN;
        let pace_min = if is_fast { FAST_PACE_MIN } else { PACE_MIN };
        // Each other host goes before it once at most.
        let record = Duration::from_secs(u64::try_from(RECORD_BYTES_MAX).unwrap()) / pace_min;
        let turn = record + WAIT_MAX + 2 * BLOCKED_CHECK;
        let half = self.limit / 8 * REQUESTS_EIGHTHS / 2 - SMALL_REQUESTS_BYTES / 2;
        let records = u32::try_from(half / RECORD_BYTES_MAX).unwrap();
        let origins: BTreeSet<_> = self.peers.iter().map(|peer| peer.key.origin).collect();
        let turns = u32::try_from(origins.len()).unwrap().div_ceil(records);
        // One that is not fast, and not yet known for that, has its turn among fast ones first.
        let own = Duration::from_secs(u64::try_from(RECORD_BYTES_MAX).unwrap()) / pace;
        let own = own + FAST_FIRST;
        turn * turns + if is_fast { own } else { 2 * own + Duration::from_secs(1) * turns }
    }
}

/// Returns the bytes that a peer moves in a step.
fn moved(peer: &Peer, began: Instant, left: usize, now: Instant) -> usize {
    let steps = u32::try_from(Duration::from_secs(1).as_millis() / STEP.as_millis()).unwrap();
    let even = |pace: u32| usize::try_from(pace / steps + 1).unwrap().min(left);
    match peer.manner {
        Manner::Even(pace) => even(pace),
        Manner::Silent => 0,
        Manner::LastMoment => {
            let age = now - began;
            let due = age + STEP >= PACE_TIME && age.as_millis() % PACE_TIME.as_millis() >= 1980;
            let burst = usize::try_from(PACE_MIN).unwrap() * 2;
            if due { burst.min(left) } else { 0 }
        }
        Manner::Alternating if peer.sent.is_multiple_of(2) => left,
        Manner::Alternating => 0,
    }
}

fn holder(peer: &Peer) -> Option<Holder> {
    match peer.state {
        State::Sending { pace, .. } => {
            Some(Holder { key: peer.key, bytes: peer.length, because: Because::Pace(pace) })
        }
        _ => None,
    }
}

#[test]
fn honest_hosts_are_served_in_bounded_time_whatever_others_do() {
    let first = u64::from(std::process::id());
    for seed in first..first + 20 {
        let mut world = World::new(seed);
        world.run();
        for peer in world.peers.iter().filter(|peer| peer.is_honest) {
            let bound = world.bound(peer);
            // The one that it still sends counts as well.
            let trying = world.now.saturating_duration_since(peer.tried);
            let slowest = peer.slowest.max(trying);
            assert!(slowest <= bound, "seed {seed}: {:?} took {slowest:?}, not {bound:?}", peer.manner);
            let Manner::Even(pace) = peer.manner else { unreachable!("honest hosts move") };
            let closed_max = usize::from(pace < FAST_PACE_MIN);
            assert!(peer.closed <= closed_max, "seed {seed}: {:?} was closed {}x", peer.manner, peer.closed);
        }
    }
}
