//! Counters and gauges of event loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nfs::summary::OperationId;

use census::Census;
use tallied::Tallied;

pub(crate) mod activity;
pub(crate) mod census;
pub(crate) mod grown;
pub(crate) mod histogram;
pub(crate) mod objects;
pub(crate) mod operations;
pub(crate) mod phases;
pub(crate) mod runs;
mod sketch;
pub(crate) mod steps;
pub(crate) mod tallied;
pub(crate) mod tally;

/// Counters of one event loop. Only the loop writes them.
pub(crate) struct Counters {
    /// What its calls did.
    pub(crate) calls: Arc<Tallied>,
    /// Who is connected.
    pub(crate) census: Census,
    /// Calls that were handed to workers.
    pub(crate) blocked: AtomicU64,
    /// Times that a call found no room in the engine.
    pub(crate) busy: AtomicU64,
    /// Calls that waited for memory for their replies.
    pub(crate) reply_blocked: AtomicU64,
    /// Replies that waited.
    pub(crate) waited: AtomicU64,
    /// Bytes read from sockets.
    pub(crate) received: AtomicU64,
    /// Connections that were closed on arrival, because no export admits their address.
    pub(crate) refused: AtomicU64,
    /// Connections that were closed because of what they sent.
    pub(crate) malformed: AtomicU64,
    /// Connections that were closed to make room for others.
    pub(crate) evicted: AtomicU64,
    /// Long calls that ended before they were done, to make room for others.
    pub(crate) cut_short: AtomicU64,
    /// Datagrams that were not answered, by reason.
    pub(crate) dropped: [AtomicU64; Dropped::ALL.len()],
    /// Gauges, set in each turn.
    pub(crate) connections: AtomicUsize,
    pub(crate) parked: AtomicUsize,
    pub(crate) retry_queued: AtomicUsize,
    pub(crate) rate_held: AtomicUsize,
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) held_bytes_highest: AtomicUsize,
    /// The limit of the loop; set once.
    pub(crate) held_bytes_max: AtomicUsize,
}

impl Counters {
    /// Makes the counters of a loop that may hold `held_bytes_max` bytes, and whose calls are counted by `calls`.
    pub(crate) fn new(held_bytes_max: usize, calls: Arc<Tallied>) -> Counters {
        let zero = || AtomicU64::new(0);
        let gauge = || AtomicUsize::new(0);
        Counters {
            calls,
            census: Census::default(),
            blocked: zero(),
            busy: zero(),
            reply_blocked: zero(),
            waited: zero(),
            received: zero(),
            refused: zero(),
            malformed: zero(),
            evicted: zero(),
            cut_short: zero(),
            dropped: Default::default(),
            connections: gauge(),
            parked: gauge(),
            retry_queued: gauge(),
            rate_held: gauge(),
            held_bytes: gauge(),
            held_bytes_highest: gauge(),
            held_bytes_max: AtomicUsize::new(held_bytes_max),
        }
    }

    /// Makes the counters of the thread that answers datagrams.
    pub(crate) fn without_connections(calls: Arc<Tallied>) -> Counters {
        Counters { census: Census::empty(), ..Counters::new(0, calls) }
    }
}

/// Why a datagram is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// No export admits the address of its sender.
    Stranger,
    /// Too many came before it.
    Rate,
    /// It is no call.
    Malformed,
    /// A reply would be longer than the call, or cannot be made.
    NoReply,
}

impl Dropped {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Dropped; 4] =
        [Dropped::Stranger, Dropped::Rate, Dropped::Malformed, Dropped::NoReply];

    /// Returns the name, as labels have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Dropped::Stranger => "stranger",
            Dropped::Rate => "rate",
            Dropped::Malformed => "malformed",
            Dropped::NoReply => "no_reply",
        }
    }
}

/// Adds to a counter that only this thread writes. Wraps, so that the largest number subtracts one.
#[inline]
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// Sums over the loops.
pub(crate) struct Totals {
    pub(crate) calls: Vec<(String, u64)>,
    pub(crate) gauges: Vec<(&'static str, u64)>,
}

/// Sums the counters of all loops. Operations that were never called are omitted.
pub(crate) fn totals<'a>(loops: impl Iterator<Item = &'a Counters> + Clone) -> Totals {
    let sum = |counter: fn(&Counters) -> u64| loops.clone().map(counter).sum::<u64>();
    let mut counts = vec![0; OperationId::COUNT];
    for (_, volume) in loops.clone().flat_map(|counters| counters.calls.volumes.entries()) {
        for (count, operation) in counts.iter_mut().zip(&volume.operations) {
            *count += operation.load(Ordering::Relaxed);
        }
    }
    let calls = OperationId::all().zip(counts).filter(|(_, count)| *count > 0).map(|(operation, count)| {
        (format!("{}.{}", operation.protocol().name().to_uppercase(), operation.name()), count)
    });
    let calls = calls.collect();
    let wide = |value: &AtomicUsize| u64::try_from(value.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
    let gauges = vec![
        ("connections", loops.clone().map(|counters| wide(&counters.connections)).sum()),
        ("replies_parked", loops.clone().map(|counters| wide(&counters.parked)).sum()),
        ("calls_in_line", loops.clone().map(|counters| wide(&counters.retry_queued)).sum()),
        ("calls_held_by_limits", loops.clone().map(|counters| wide(&counters.rate_held)).sum()),
        ("request_bytes_held", loops.clone().map(|counters| wide(&counters.held_bytes)).sum()),
        ("request_bytes_max", loops.clone().map(|counters| wide(&counters.held_bytes_max)).sum()),
        (
            "request_bytes_held_highest",
            loops.clone().map(|counters| wide(&counters.held_bytes_highest)).sum(),
        ),
        ("calls_waited_for_memory", sum(|counters| counters.reply_blocked.load(Ordering::Relaxed))),
        ("replies_waited", sum(|counters| counters.waited.load(Ordering::Relaxed))),
        ("calls_blocked", sum(|counters| counters.blocked.load(Ordering::Relaxed))),
        ("calls_busy", sum(|counters| counters.busy.load(Ordering::Relaxed))),
        ("bytes_received", sum(|counters| counters.received.load(Ordering::Relaxed))),
        ("connections_refused", sum(|counters| counters.refused.load(Ordering::Relaxed))),
        ("connections_malformed", sum(|counters| counters.malformed.load(Ordering::Relaxed))),
        ("connections_evicted", sum(|counters| counters.evicted.load(Ordering::Relaxed))),
        ("calls_cut_short", sum(|counters| counters.cut_short.load(Ordering::Relaxed))),
    ];
    Totals { calls, gauges }
}
