//! NULL calls of the same server: what protocol and sockets cost, when nothing is done.

use std::time::Duration;

use crate::client::Server;
use crate::error::LoadError;
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
