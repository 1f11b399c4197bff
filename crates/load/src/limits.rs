//! The most that the machine, the network and the protocol can do, measured with the same client code. Results are
//! reported as fractions of these limits.

use std::path::Path;
use std::time::Duration;

use crate::client::Server;
use crate::error::LoadError;
use crate::hosts::{Coordinator, Direction, Peer};
use crate::result::{FractionOfLimit, LimitKind, Limits, Measurement, Report};
use crate::run::Observer;
use crate::tcp_rate;
use crate::workload::{RateProcedure, Stability, Workload};

mod directory;
mod null;

/// What to measure besides NULL calls.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'w> {
    /// A directory of this machine.
    pub directory: Option<&'w Path>,
    /// An agent on the server's host, the other end of TCP. Without one, TCP is measured only if client and server
    /// share this machine.
    pub peer: Option<&'w Peer>,
    /// The approximate length of each part.
    pub length: Duration,
}

/// Measures limits on these hosts together, or else on this one.
///
/// # Errors
/// If a part fails, or a host is lost: the limit of fewer hosts would be too low.
pub fn measure(
    server: &Server,
    scope: &Scope<'_>,
    mut hosts: Option<&mut Coordinator>,
    observer: &mut dyn Observer,
) -> Result<Limits, LoadError> {
    let length = scope.length;
    let (null_calls_per_s, null_p50_ns) = null::measure(server, hosts.as_deref_mut(), length, observer)?;
    let mut line = |direction| -> Result<Option<f64>, LoadError> {
        let Some(peer) = scope.peer else { return Ok(None) };
        match &mut hosts {
            None => peer.rate(direction, length),
            Some(hosts) => hosts.line_rate(peer.address, direction, length, observer),
        }
        .map(Some)
    };
    let (mut received, sent) = (line(Direction::Receive)?, line(Direction::Send)?);
    // Measuring TCP through a network needs an agent at the other end.
    if received.is_none() && hosts.is_none() && server.address.ip().is_loopback() {
        received = Some(tcp_rate::measure(server.address.ip(), length)?);
    }
    Ok(Limits {
        null_calls_per_s: Some(null_calls_per_s),
        null_p50_ns: Some(null_p50_ns),
        tcp_bytes_per_s: received,
        tcp_sent_bytes_per_s: sent,
        tcp_peer: scope.peer.map(|peer| peer.address.to_string()),
        directory: scope.directory.map(|path| directory::measure(path, length)).transpose()?,
        not_valid: Vec::new(),
    })
}

/// Calls limit operations on blocks up to this size, bytes limit larger ones.
const SMALL_BLOCK_BYTES: u64 = 16 << 10;

/// Adds a result with its fraction of a limit. If the result is above the limit, measures the limits again and keeps the
/// higher ones; a limit that is still exceeded is marked as not valid, and no result is given as a fraction of it.
pub fn add_result(
    measurement: Measurement,
    report: &mut Report,
    server: &Server,
    scope: &Scope<'_>,
    hosts: Option<&mut Coordinator>,
    observer: &mut dyn Observer,
) {
    let limit = report.limits.fraction(&measurement);
    report.results.push(Measurement { limit, ..measurement });
    let kinds = report.exceeded_limits();
    if kinds.is_empty() {
        return;
    }
    if !observer.is_interrupted() {
        let is_device = kinds.iter().any(|kind| {
            matches!(kind, LimitKind::DirectoryRead | LimitKind::DirectoryWrite | LimitKind::DirectorySync)
        });
        let scope = Scope { directory: scope.directory.filter(|_| is_device), ..*scope };
        match measure(server, &scope, hosts, observer) {
            Ok(again) => report.limits.raise(&again),
            Err(error) => report.notes.push(format!("The limits could not be measured again: {error}")),
        }
        for it in &mut report.results {
            it.limit = report.limits.fraction(it);
        }
    }
    report.mark_exceeded_limits();
}

impl Limits {
    /// Keeps the higher one of each limit.
    fn raise(&mut self, again: &Self) {
        let higher = |old: &mut Option<f64>, new: Option<f64>| {
            if new > *old {
                *old = new;
            }
        };
        higher(&mut self.null_calls_per_s, again.null_calls_per_s);
        higher(&mut self.tcp_bytes_per_s, again.tcp_bytes_per_s);
        higher(&mut self.tcp_sent_bytes_per_s, again.tcp_sent_bytes_per_s);
        if let (Some(old), Some(new)) = (&mut self.directory, &again.directory) {
            old.read_bytes_per_s = old.read_bytes_per_s.max(new.read_bytes_per_s);
            old.write_bytes_per_s = old.write_bytes_per_s.max(new.write_bytes_per_s);
            old.syncs_per_s = old.syncs_per_s.max(new.syncs_per_s);
        }
    }

    /// Returns a result as a fraction of the limit it reaches first, if that limit was measured and is valid.
    #[must_use]
    pub fn fraction(&self, measurement: &Measurement) -> Option<FractionOfLimit> {
        self.nearest(measurement).filter(|it| !self.not_valid.contains(&it.limit))
    }

    /// Returns a result as a fraction of the limit it reaches first, if that limit was measured. The device limits
    /// stable writes if a directory was measured.
    pub(crate) fn nearest(&self, measurement: &Measurement) -> Option<FractionOfLimit> {
        let of = |limit, rate: f64, max: Option<f64>| {
            let max = max.filter(|max| *max > 0.0)?;
            Some(FractionOfLimit { limit, fraction: rate / max })
        };
        let calls = of(LimitKind::NullCalls, measurement.operations_per_s, self.null_calls_per_s);
        let received = of(LimitKind::TcpLineRate, measurement.bytes_per_s, self.tcp_bytes_per_s);
        let sent = of(LimitKind::TcpSentRate, measurement.bytes_per_s, self.tcp_sent_bytes_per_s);
        let line = if measurement.workload.only_writes() { sent.or(received) } else { received };
        let blocks = |block: u64| if block <= SMALL_BLOCK_BYTES { calls.clone() } else { line.clone() };
        let device = self.directory.as_ref();
        let written = device.map(|device| device.write_bytes_per_s);
        match measurement.workload {
            Workload::SequentialRead { block_bytes, .. }
            | Workload::Random { block_bytes, read_percent: 100, .. } => blocks(block_bytes),
            Workload::SequentialWrite { block_bytes, .. } => {
                of(LimitKind::DirectoryWrite, measurement.bytes_per_s, written)
                    .or_else(|| blocks(block_bytes))
            }
            // A single operation in flight waits for a sync of its own; concurrent ones share syncs.
            Workload::Random {
                stability: Stability::FileSync | Stability::DataSync | Stability::Commit,
                ..
            }
            | Workload::Rate {
                procedure:
                    RateProcedure::WriteFileSync | RateProcedure::WriteCommit | RateProcedure::CreateRemove,
            } if measurement.threads == 1 && measurement.depth == 1 => {
                let syncs = device.map(|device| device.syncs_per_s);
                of(LimitKind::DirectorySync, measurement.operations_per_s, syncs).or(calls)
            }
            Workload::Random { block_bytes, .. } => blocks(block_bytes),
            // A call of a listing returns many names, so the call rate does not limit it.
            Workload::Readdir { .. } | Workload::Null => None,
            Workload::Rate { .. } | Workload::Metadata { .. } | Workload::SmallFiles { .. } => calls,
        }
    }
}

#[cfg(test)]
mod tests;
