//! What the event loops have counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nfs::link_local::Shown;
use nfs::summary::{Class, OperationId, Protocol, Status};
use volume::ids::VolumeId;

use crate::counters::histogram::Snapshot;
use crate::counters::phases::Phase;
use crate::counters::tallied::{
    DURATION_BUCKETS, DURATION_UNIT, SIZE_BUCKETS, SIZE_UNIT, TargetCounters, VolumeCounters,
};
use crate::counters::{Counters, Dropped};
use crate::metrics::Source;
use crate::metrics::registry::{
    CALLS_BLOCKED, CALLS_BUSY, CALLS_CUT_SHORT, CALLS_HELD, CALLS_IN_LINE, CALLS_WAITED_FOR_MEMORY,
    CLIENT_BYTES, CLIENT_INFO, CLIENT_OPERATIONS, CONNECTIONS, CONNECTIONS_EVICTED, CONNECTIONS_MALFORMED,
    CONNECTIONS_REFUSED, DATAGRAMS_DROPPED, Family, IO_SIZE, OPERATION_DURATION, OPERATION_ERRORS,
    OPERATION_PHASE, OPERATIONS, RECEIVED, REPLIES_PARKED, REPLIES_WAITED, REQUEST_BYTES,
    REQUEST_BYTES_HIGHEST, REQUEST_BYTES_MAX, SLOW_OPERATIONS, TARGET_BYTES, TARGET_CONNECTIONS,
    TARGET_ERRORS, TARGET_OPERATIONS, TRANSFERRED,
};
use crate::metrics::series::{Buckets, Scrape, Value};

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

/// The counters of a volume, summed over the loops.
struct Summed {
    operations: [u64; OperationId::COUNT],
    durations: [Snapshot<DURATION_BUCKETS>; Class::ALL.len()],
    phases: [u64; Phase::COUNT],
    /// Of READ and WRITE.
    sizes: [Snapshot<SIZE_BUCKETS>; 2],
}

impl Default for Summed {
    fn default() -> Summed {
        Summed {
            operations: [0; OperationId::COUNT],
            durations: Default::default(),
            phases: [0; Phase::COUNT],
            sizes: Default::default(),
        }
    }
}

impl Summed {
    fn add(&mut self, counters: &VolumeCounters) {
        add_all(&mut self.operations, &counters.operations);
        add_all(&mut self.phases, &counters.phases);
        for (sum, histogram) in self.durations.iter_mut().zip(&counters.durations) {
            sum.add(&histogram.read());
        }
        let [read, written] = &mut self.sizes;
        read.add(&counters.read_bytes.read());
        written.add(&counters.written_bytes.read());
    }
}

fn add_all(sums: &mut [u64], counters: &[AtomicU64]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Ordering::Relaxed);
    }
}

/// Adds what the event loops have counted. Series that are zero everywhere are left out.
pub(super) fn add(source: &Source, scrape: &mut Scrape) {
    add_volumes(source, scrape);
    add_errors(source, scrape);
    add_targets(source, scrape);
    add_clients(source, scrape);
    add_loops(source, scrape);
}

fn add_volumes(source: &Source, scrape: &mut Scrape) {
    let names = source.names();
    let mut volumes: BTreeMap<Arc<str>, Summed> = BTreeMap::new();
    for (id, counters) in source.counters.iter().flat_map(|counters| counters.calls.volumes.entries()) {
        if let Some(name) = names.get(&id) {
            volumes.entry(Arc::clone(name)).or_default().add(&counters);
        }
    }
    for (name, sums) in &volumes {
        add_volume(name, sums, scrape);
    }
}

#[expect(clippy::cast_precision_loss, reason = "sums are shown as floating point numbers")]
fn add_volume(name: &Arc<str>, sums: &Summed, scrape: &mut Scrape) {
    for (operation, count) in OperationId::all().zip(sums.operations).filter(|(_, count)| *count > 0) {
        let labels = [name.into(), operation.protocol().name().into(), operation.name().into()];
        scrape.number(&OPERATIONS, labels, count);
    }
    for (class, snapshot) in Class::ALL.iter().zip(&sums.durations).filter(|(_, found)| found.count() > 0) {
        let buckets =
            Buckets::doubling(&snapshot.buckets, DURATION_UNIT as f64 / NANOS, snapshot.sum as f64 / NANOS);
        scrape.push(&OPERATION_DURATION, [name.into(), class.name().into()], Value::Histogram(buckets));
    }
    if sums.phases.iter().any(|nanos| *nanos > 0) {
        for (phase, nanos) in Phase::ALL.iter().zip(sums.phases) {
            let seconds = Value::Real(nanos as f64 / NANOS);
            scrape.push(&OPERATION_PHASE, [name.into(), phase.name().into()], seconds);
        }
    }
    for (direction, snapshot) in ["read", "write"].into_iter().zip(&sums.sizes) {
        if snapshot.count() > 0 {
            let buckets = Buckets::doubling(&snapshot.buckets, SIZE_UNIT as f64, snapshot.sum as f64);
            scrape.push(&IO_SIZE, [name.into(), direction.into()], Value::Histogram(buckets));
            scrape.number(&TRANSFERRED, [name.into(), direction.into()], snapshot.sum);
        }
    }
}

fn add_errors(source: &Source, scrape: &mut Scrape) {
    let names = source.names();
    let mut errors: BTreeMap<(Arc<str>, OperationId, Status), u64> = BTreeMap::new();
    let entries = source.counters.iter().flat_map(|counters| counters.calls.errors.entries());
    for ((id, operation, status), count) in entries {
        let id: Option<VolumeId> = id;
        if let Some(name) = names.get(&id) {
            *errors.entry((Arc::clone(name), operation, status)).or_default() +=
                count.load(Ordering::Relaxed);
        }
    }
    for ((name, operation, status), count) in errors {
        let protocol = operation.protocol();
        let labels =
            [(&name).into(), protocol.name().into(), operation.name().into(), status.name(protocol).into()];
        scrape.number(&OPERATION_ERRORS, labels, count);
    }
}

fn add_targets(source: &Source, scrape: &mut Scrape) {
    let columns: [(&'static Family, fn(&TargetCounters) -> &AtomicU64); 4] = [
        (&TARGET_OPERATIONS, |target| &target.operations),
        (&TARGET_BYTES, |target| &target.bytes),
        (&TARGET_ERRORS, |target| &target.errors),
        (&TARGET_CONNECTIONS, |target| &target.connections),
    ];
    for (number, name) in source.rates.target_names().into_iter().enumerate() {
        let label: Arc<str> = name.into();
        for (family, column) in columns {
            let of_loop = |counters: &Arc<Counters>| {
                counters.calls.targets.get(number).map_or(0, |target| column(target).load(Ordering::Relaxed))
            };
            scrape.number(family, [(&label).into()], source.counters.iter().map(of_loop).sum());
        }
    }
}

fn add_clients(source: &Source, scrape: &mut Scrape) {
    // Operations, bytes, protocols.
    let mut clients: BTreeMap<IpAddr, [u64; 3]> = BTreeMap::new();
    for (client, counters) in source.counters.iter().flat_map(|counters| counters.calls.clients.entries()) {
        let [operations, bytes, protocols] = clients.entry(client).or_default();
        *operations += counters.operations.load(Ordering::Relaxed);
        *bytes += counters.bytes.load(Ordering::Relaxed);
        *protocols |= counters.protocols.load(Ordering::Relaxed);
    }
    for (client, [operations, bytes, protocols]) in clients {
        let label: Arc<str> = Shown(client).to_string().into();
        scrape.number(&CLIENT_OPERATIONS, [(&label).into()], operations);
        scrape.number(&CLIENT_BYTES, [(&label).into()], bytes);
        let used = Protocol::ALL.iter().filter(|protocol| protocols & (1 << **protocol as u32) > 0);
        let used: Vec<&str> = used.map(|protocol| protocol.name()).collect();
        scrape.number(&CLIENT_INFO, [(&label).into(), used.join(",").into()], 1);
    }
}

fn add_loops(source: &Source, scrape: &mut Scrape) {
    let sums: [(&'static Family, fn(&Counters) -> &AtomicU64); 10] = [
        (&SLOW_OPERATIONS, |counters| &counters.calls.slow),
        (&CONNECTIONS_REFUSED, |counters| &counters.refused),
        (&CONNECTIONS_MALFORMED, |counters| &counters.malformed),
        (&CONNECTIONS_EVICTED, |counters| &counters.evicted),
        (&CALLS_CUT_SHORT, |counters| &counters.cut_short),
        (&CALLS_BLOCKED, |counters| &counters.blocked),
        (&CALLS_BUSY, |counters| &counters.busy),
        (&CALLS_WAITED_FOR_MEMORY, |counters| &counters.reply_blocked),
        (&REPLIES_WAITED, |counters| &counters.waited),
        (&RECEIVED, |counters| &counters.received),
    ];
    for (family, counter) in sums {
        let of_loop = |counters: &Arc<Counters>| counter(counters).load(Ordering::Relaxed);
        scrape.number(family, [], source.counters.iter().map(of_loop).sum());
    }
    for reason in Dropped::ALL {
        let dropped = |counters: &Arc<Counters>| counters.dropped[reason as usize].load(Ordering::Relaxed);
        let sum = source.counters.iter().map(dropped).sum();
        scrape.number(&DATAGRAMS_DROPPED, [reason.name().into()], sum);
    }
    let gauges: [(&'static Family, fn(&Counters) -> &AtomicUsize); 7] = [
        (&CONNECTIONS, |counters| &counters.connections),
        (&REPLIES_PARKED, |counters| &counters.parked),
        (&CALLS_IN_LINE, |counters| &counters.retry_queued),
        (&CALLS_HELD, |counters| &counters.rate_held),
        (&REQUEST_BYTES, |counters| &counters.held_bytes),
        (&REQUEST_BYTES_HIGHEST, |counters| &counters.held_bytes_highest),
        (&REQUEST_BYTES_MAX, |counters| &counters.held_bytes_max),
    ];
    for (family, gauge) in gauges {
        let of_loop = |counters: &Arc<Counters>| gauge(counters).load(Ordering::Relaxed) as u64;
        scrape.number(family, [], source.counters.iter().map(of_loop).sum());
    }
}
