//! What the process uses, and what clients hold in it.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::config::memory;
use crate::metrics::Source;
use crate::metrics::registry::{
    CALLS_QUEUED_FOR_WORKERS, CEPH_TRAFFIC, CEPH_TRAFFIC_MAX, MEMORY_MAX, PROCESS_CPU, PROCESS_MAX_FDS,
    PROCESS_OPEN_FDS, PROCESS_RESIDENT, PROCESS_RESIDENT_HIGHEST, PROCESS_START, STATE,
};
use crate::metrics::series::{Scrape, Value};

/// Adds what the system says of this process. What it does not say is left out.
#[expect(clippy::cast_precision_loss, reason = "Prometheus counts time in floating point numbers")]
pub(super) fn add(source: &Source, scrape: &mut Scrape) {
    scrape.number(&CALLS_QUEUED_FOR_WORKERS, [], source.workers.queued() as u64);
    for (kind, value) in source.protocol.service().state_gauges() {
        scrape.number(&STATE, [kind.into()], value);
    }
    scrape.number(&MEMORY_MAX, [], source.memory);
    if let Some(traffic) = &source.traffic {
        scrape.number(&CEPH_TRAFFIC, [], traffic.bytes());
        scrape.number(&CEPH_TRAFFIC_MAX, [], traffic.bytes_max());
    }
    let (resident, highest) = memory::resident();
    scrape.number(&PROCESS_RESIDENT, [], resident);
    scrape.number(&PROCESS_RESIDENT_HIGHEST, [], highest);
    let used = clock_gettime(ClockId::ProcessCPUTime);
    scrape.push(&PROCESS_CPU, [], Value::Real(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9));
    let started = source.started.nanos() as f64 / 1e9;
    scrape.push(&PROCESS_START, [], Value::Real(started));
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One is open for this list.
        scrape.number(&PROCESS_OPEN_FDS, [], (open.count() as u64).saturating_sub(1));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        scrape.number(&PROCESS_MAX_FDS, [], most);
    }
}
