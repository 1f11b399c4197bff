//! NULL calls of the same server: what protocol and sockets cost, when nothing is done.

use std::time::Duration;

use crate::client::Server;
use crate::error::LoadError;
use crate::hosts::Coordinator;
use crate::result::Limits;
use crate::run::{Length, Observer, Options, measure as run};
use crate::workload::Workload;

/// Threads and depth at which rates have stopped to grow, on anything that we have seen.
const THREADS: u32 = 8;
const DEPTH: u32 = 16;

/// The rate with many calls in flight, per second, and the median latency of one alone, in nanoseconds.
///
/// # Errors
/// If the server cannot be reached or does not answer.
pub fn measure(
    server: &Server,
    length: Duration,
    observer: &mut dyn Observer,
) -> Result<(f64, u64), LoadError> {
    let common = Options { warmup: length / 10, length: Length::Time(length), ..Options::default() };
    let many = Options { threads: THREADS, depth: DEPTH, ..common.clone() };
    let rate = run(server, &Workload::Null, &many, observer)?.operations_per_s;
    let alone = Options { threads: 1, depth: 1, ..common };
    let p50_ns = run(server, &Workload::Null, &alone, observer)?.latency.p50_ns;
    Ok((rate, p50_ns))
}

/// The same rate of several hosts together; the latency is that of one call at a time on one of them. Nothing else can
/// be measured from afar.
///
/// # Errors
/// If no host has a result.
pub fn measure_hosts(
    hosts: &mut Coordinator,
    server: &Server,
    length: Duration,
    observer: &mut dyn Observer,
) -> Result<Limits, LoadError> {
    let count = u32::try_from(hosts.hosts().len()).unwrap_or(u32::MAX);
    let common = Options { warmup: length / 10, length: Length::Time(length), ..Options::default() };
    let many = Options { threads: THREADS.saturating_mul(count), depth: DEPTH, ..common.clone() };
    let rate = hosts.measure(server, &Workload::Null, &many, observer)?.0.operations_per_s;
    let alone = Options { threads: 1, depth: 1, ..common };
    let p50_ns = hosts.measure(server, &Workload::Null, &alone, observer)?.0.latency.p50_ns;
    Ok(Limits { null_calls_per_s: Some(rate), null_p50_ns: Some(p50_ns), ..Limits::default() })
}
