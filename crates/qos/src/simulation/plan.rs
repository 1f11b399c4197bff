//! What happens in a run: limiters, clients, and when which of them change.

use std::time::Duration;

use fastrand::Rng;

use super::judge::Fair;
use crate::cost::{Class, Cost};
use crate::limits::{BURST_MIN, Dimension, Limits};
use crate::queue::OWED_MAX;

pub(super) const MIB: u64 = 1 << 20;

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) loops: u16,
    /// How late timers fire at most.
    pub(super) lateness: Duration,
    /// For how long clients send calls.
    pub(super) duration: Duration,
    /// Events after which they stop too.
    pub(super) events_max: usize,
    /// The limits that each limiter has at first.
    pub(super) limiters: Vec<Limits>,
    pub(super) clients: Vec<Client>,
    /// When limits change, which, and what they are then.
    pub(super) changes: Vec<(Duration, usize, Limits)>,
}

/// A client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) comes: Duration,
    pub(super) goes: Duration,
    /// The limiters that apply to its connections; connections take them in turn.
    pub(super) limiters: Vec<Vec<usize>>,
    /// Those that each of its calls passes afterwards, one stage after another.
    pub(super) later: Vec<Vec<usize>>,
    pub(super) connections: usize,
    /// Calls that each connection has outstanding.
    pub(super) depth: usize,
    pub(super) mix: Mix,
    pub(super) size: Size,
    /// How long a call runs, at most; a half of it at least.
    pub(super) latency: Duration,
    /// Whether it pauses between calls, for up to this long.
    pub(super) pause: Duration,
}

/// What a client's calls do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Of 100 calls.
    pub(super) writes: u8,
    pub(super) metadata: u8,
    pub(super) debt_only: u8,
    /// READs that are short.
    pub(super) short: u8,
    /// READs and WRITEs that move more than they asked for.
    pub(super) owing: u8,
    /// The most that they owe, bytes.
    pub(super) owed_max: u32,
}

impl Mix {
    pub(super) const READS: Mix =
        Mix { writes: 0, metadata: 0, debt_only: 0, short: 0, owing: 0, owed_max: 0 };

    /// Returns the cost of a call at each stage.
    pub(super) fn costs(self, size: Size, stages: usize, rng: &mut Rng) -> Vec<Cost> {
        let bytes = size.bytes(rng);
        if rng.u8(..100) < self.debt_only {
            return vec![Cost::metadata().debt_only(); stages];
        }
        let mut costs = vec![self.cost(bytes, rng)];
        costs.extend((1..stages).map(|_| self.cost(size.bytes(rng), rng)));
        costs
    }

    fn cost(self, bytes: u32, rng: &mut Rng) -> Cost {
        let kind = rng.u8(..100);
        if kind < self.metadata {
            Cost::metadata()
        } else if kind < self.metadata + self.writes {
            Cost::write(bytes)
        } else {
            Cost::read(bytes)
        }
    }

    /// Returns the bytes that a call moves after all.
    pub(super) fn moved(self, cost: Cost, rng: &mut Rng) -> u32 {
        if cost.class == Class::Read && rng.u8(..100) < self.short {
            return cost.bytes - rng.u32(0..=cost.bytes);
        }
        let can_owe = self.owing > 0 && cost.class != Class::Metadata;
        if can_owe && rng.u8(..100) < self.owing {
            cost.bytes + rng.u32(..=self.owed_max)
        } else {
            cost.bytes
        }
    }
}

/// How large calls are, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Fixed(u32),
    UpTo(u32),
}

impl Size {
    fn bytes(self, rng: &mut Rng) -> u32 {
        match self {
            Size::Fixed(bytes) => bytes,
            Size::UpTo(bytes) => rng.u32(0..=bytes),
        }
    }

    fn random(rng: &mut Rng) -> Size {
        let bytes = 1 << rng.u32(12..=20);
        if rng.bool() { Size::Fixed(bytes) } else { Size::UpTo(bytes) }
    }
}

/// Returns a duration below `most`.
pub(super) fn below(most: Duration, rng: &mut Rng) -> Duration {
    most.mul_f64(rng.f64())
}

impl Plan {
    /// Returns the plan of a seed: a few seconds of up to eight clients, which share volumes and targets.
    pub(super) fn random(rng: &mut Rng) -> Plan {
        let duration = Duration::from_secs(1) + below(Duration::from_secs(9), rng);
        let (targets, volumes) = (rng.usize(1..=2), rng.usize(1..=3));
        let clients: Vec<Client> = (0..rng.usize(1..=8))
            .map(|index| Client::random(index, targets, volumes, duration, rng))
            .collect();
        let limiters: Vec<Limits> = (0..targets + volumes + clients.len()).map(|_| limits(rng)).collect();
        let changes = if rng.bool() { rng.usize(1..=6) } else { 0 };
        let changes =
            (0..changes).map(|_| (below(duration, rng), rng.usize(..limiters.len()), limits(rng))).collect();
        Plan {
            loops: rng.u16(1..=4),
            lateness: below(Duration::from_millis(4), rng),
            duration,
            events_max: 3000,
            changes,
            limiters,
            clients,
        }
    }

    /// Has some clients owe bytes after their calls, and pass limiters one after another.
    pub(super) fn with_debts_and_stages(mut self, rng: &mut Rng) -> Plan {
        let all = self.limiters.len();
        for client in &mut self.clients {
            client.mix.owing = *rng.choice(&[0, 0, 10, 100]).expect("not empty");
            client.mix.owed_max = 1 << rng.u32(12..=24);
            if rng.u8(..3) == 0 {
                for _ in 0..rng.usize(1..=2) {
                    let count = rng.usize(1..=2);
                    client.later.push(rng.choose_multiple(0..all, count));
                }
            }
        }
        self
    }

    /// Returns for how long calls may wait while none of their kind goes on: while each client is served as much as the largest
    /// call, once for each flow of one client, at the slowest gate; and the burst that was used up before. All that is owed
    /// comes on top, before and after each call.
    pub(super) fn stop_max(&self) -> Duration {
        let limits = self.limiters.iter().chain(self.changes.iter().map(|(.., limits)| limits));
        let fair: Vec<Fair> = self.clients.iter().map(Client::fair).collect();
        let largest = fair.iter().map(|fair| fair.largest).max().unwrap_or(0) as f64;
        let flows = fair.iter().map(|fair| fair.flows).max().unwrap_or(0) as f64;
        let owing = self.clients.iter().filter(|client| client.mix.owing > 0);
        let owed_most = owing.map(|client| f64::from(client.mix.owed_max)).fold(0.0, f64::max);
        let longest = limits
            .flat_map(|limits| Dimension::ALL.map(|dimension| (dimension, limits.rate(dimension))))
            .filter_map(|(dimension, rate)| {
                let rate = rate? as f64;
                let owed = (owed_most / rate).min(OWED_MAX.as_secs_f64());
                Some(if dimension.is_bytes() { largest / rate + owed } else { 1.0 / rate })
            })
            .fold(0.0, f64::max);
        let owed = if owed_most > 0.0 { OWED_MAX } else { Duration::ZERO };
        owed + Duration::from_secs_f64(0.5 + longest * flows * self.clients.len() as f64)
    }
}

impl Client {
    pub(super) fn fair(&self) -> Fair {
        let writes = self.mix.writes > 0;
        let reads = self.mix.writes + self.mix.metadata < 100;
        let classes = i128::from(writes) + i128::from(reads) + i128::from(self.mix.metadata > 0);
        let (Size::Fixed(bytes) | Size::UpTo(bytes)) = self.size;
        Fair {
            flows: classes * i128::try_from(self.limiters.len() + self.later.len()).expect("few"),
            largest: i128::from(bytes),
            is_held: self.mix.debt_only == 0,
        }
    }

    fn random(index: usize, targets: usize, volumes: usize, duration: Duration, rng: &mut Rng) -> Client {
        let mut ways = Vec::new();
        for _ in 0..rng.usize(1..=2) {
            let mut way = vec![rng.usize(..targets), targets + rng.usize(..volumes)];
            if rng.u8(..3) == 0 {
                way.push(targets + volumes + index);
            }
            ways.push(way);
        }
        let is_steady = rng.bool();
        let connections = rng.usize(1..=6);
        Client {
            comes: if is_steady { Duration::ZERO } else { below(duration, rng) },
            goes: if is_steady { duration * 2 } else { below(duration * 2, rng) },
            limiters: ways,
            later: Vec::new(),
            connections,
            depth: rng.usize(1..=6),
            mix: Mix {
                writes: *rng.choice(&[0, 0, 30, 80]).expect("not empty"),
                metadata: *rng.choice(&[0, 0, 20]).expect("not empty"),
                debt_only: *rng.choice(&[0, 0, 0, 10, 100]).expect("not empty"),
                short: *rng.choice(&[0, 0, 50, 100]).expect("not empty"),
                owing: 0,
                owed_max: 0,
            },
            size: Size::random(rng),
            latency: Duration::from_micros(500) + below(Duration::from_millis(8), rng),
            pause: if rng.u8(..4) == 0 { below(Duration::from_millis(300), rng) } else { Duration::ZERO },
        }
    }
}

/// Returns limits in few dimensions, some of them low.
fn limits(rng: &mut Rng) -> Limits {
    let mut limits = Limits::NONE;
    for _ in 0..*rng.choice(&[0, 1, 1, 2, 4]).expect("not empty") {
        let dimension = *rng.choice(&Dimension::ALL).expect("not empty");
        let rate =
            if dimension.is_bytes() { MIB << rng.u32(0..=5) | rng.u64(..MIB) } else { 10 + rng.u64(..1000) };
        limits = limits.with(dimension, rate).expect("within bounds");
    }
    if rng.u8(..4) == 0 {
        let burst = BURST_MIN + below(Duration::from_millis(400), rng);
        limits = limits.with_burst(burst).expect("within bounds");
    }
    limits
}
