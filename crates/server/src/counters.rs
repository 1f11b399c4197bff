//! Counters and gauges of event loops.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nfs::service::CallId;

/// Procedures of NFSv3 and of MOUNT, by number.
const NFS_PROCEDURES: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];
const MOUNT_PROCEDURES: [&str; 6] = ["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"];

/// Counters of one event loop. Only the loop writes them.
#[derive(Default)]
pub(crate) struct Counters {
    nfs: [AtomicU64; NFS_PROCEDURES.len()],
    mount: [AtomicU64; MOUNT_PROCEDURES.len()],
    other: AtomicU64,
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
    /// Gauges, set in each turn.
    pub(crate) connections: AtomicUsize,
    pub(crate) parked: AtomicUsize,
    pub(crate) retry_queued: AtomicUsize,
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) held_bytes_highest: AtomicUsize,
    /// The limit of the loop; set once.
    pub(crate) held_bytes_max: AtomicUsize,
}

impl Counters {
    /// Makes the counters of a loop that may hold `held_bytes_max` bytes.
    pub(crate) fn new(held_bytes_max: usize) -> Counters {
        Counters { held_bytes_max: AtomicUsize::new(held_bytes_max), ..Counters::default() }
    }

    /// Counts a call.
    pub(crate) fn count(&self, call: Option<CallId>) {
        let counter = call.and_then(|call| {
            let procedure = usize::try_from(call.procedure).ok()?;
            match call.program {
                wire::nfs3::PROGRAM => self.nfs.get(procedure),
                wire::mount3::PROGRAM => self.mount.get(procedure),
                _ => None,
            }
        });
        add(counter.unwrap_or(&self.other), 1);
    }
}

/// Adds to a counter that only this thread writes.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// Sums over the loops.
pub(crate) struct Totals {
    pub(crate) calls: Vec<(String, u64)>,
    pub(crate) gauges: Vec<(&'static str, u64)>,
}

/// Sums the counters of all loops. Procedures that were never called are omitted.
pub(crate) fn totals<'a>(loops: impl Iterator<Item = &'a Counters> + Clone) -> Totals {
    let sum = |counter: fn(&Counters) -> u64| loops.clone().map(counter).sum::<u64>();
    let mut calls = Vec::new();
    for (number, name) in NFS_PROCEDURES.iter().enumerate() {
        let count = loops.clone().map(|counters| counters.nfs[number].load(Ordering::Relaxed)).sum();
        calls.push((format!("NFS3.{name}"), count));
    }
    for (number, name) in MOUNT_PROCEDURES.iter().enumerate() {
        let count = loops.clone().map(|counters| counters.mount[number].load(Ordering::Relaxed)).sum();
        calls.push((format!("MOUNT3.{name}"), count));
    }
    calls.push(("other".to_owned(), sum(|counters| counters.other.load(Ordering::Relaxed))));
    calls.retain(|(_, count): &(String, u64)| *count > 0);
    let wide = |value: &AtomicUsize| u64::try_from(value.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
    let gauges = vec![
        ("connections", loops.clone().map(|counters| wide(&counters.connections)).sum()),
        ("replies_parked", loops.clone().map(|counters| wide(&counters.parked)).sum()),
        ("calls_in_line", loops.clone().map(|counters| wide(&counters.retry_queued)).sum()),
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
    ];
    Totals { calls, gauges }
}
