//! NULL calls to the server: the cost of protocol and sockets.

use std::time::Duration;

use crate::client::Server;
use crate::error::LoadError;
use crate::hosts::Coordinator;
use crate::result::Measurement;
use crate::run::{Length, Observer, Options, measure as run};
use crate::workload::Workload;

/// Threads per host and their depth. More did not raise the rate on any server tested.
const THREADS: u32 = 8;
const DEPTH: u32 = 16;

/// Returns the calls per second of all hosts together with many calls in flight, and the median latency of a single
/// call in flight, from one host, in nanoseconds.
///
/// # Errors
/// If the server cannot be reached or does not answer, or a host is lost.
pub(super) fn measure(
    server: &Server,
    mut hosts: Option<&mut Coordinator>,
    length: Duration,
    observer: &mut dyn Observer,
) -> Result<(f64, u64), LoadError> {
    let count = hosts.as_deref().map_or(1, |hosts| hosts.hosts().len());
    let mut calls = |threads, depth| -> Result<Measurement, LoadError> {
        let length_of = Length::Time(length);
        let options =
            Options { threads, depth, warmup: length / 10, length: length_of, ..Options::default() };
        let Some(hosts) = &mut hosts else { return run(server, &Workload::Null, &options, observer) };
        let combined = hosts.measure(server, &Workload::Null, &options, observer)?;
        match combined.failures.first() {
            Some(failure) => Err(LoadError::new(failure.to_string())),
            None => Ok(combined.measurement),
        }
    };
    let many = THREADS.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    Ok((calls(many, DEPTH)?.operations_per_s, calls(1, 1)?.latency.p50_ns))
}
