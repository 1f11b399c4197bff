//! What the machine, the network and the protocol can do at best, measured with the same client code: the figures
//! that results are fractions of.

use std::time::Duration;

use crate::client::Server;
use crate::error::LoadError;
use crate::result::{FractionOfLimit, LimitKind, Limits, Measurement};
use crate::run::Observer;
use crate::workload::{RateProcedure, Stability, Workload};

mod directory;
mod null;
mod tcp;

pub use directory::measure as measure_directory;
pub use null::{measure as measure_null, measure_hosts};
pub use tcp::measure as measure_tcp;

/// Measures all that can be: NULL calls always, TCP if the server is on this machine, a directory if one is given.
/// Each part takes about as long as `length`.
///
/// # Errors
/// Of whichever part fails.
pub fn measure(
    server: &Server,
    directory: Option<&std::path::Path>,
    length: Duration,
    observer: &mut dyn Observer,
) -> Result<Limits, LoadError> {
    let (null_calls_per_s, null_p50_ns) = measure_null(server, length, observer)?;
    // Through a network, only a program at its other end could tell.
    let is_local = server.address.ip().is_loopback();
    let tcp_bytes_per_s = if is_local { Some(measure_tcp(server.address.ip(), length)?) } else { None };
    let directory = directory.map(|path| measure_directory(path, length)).transpose()?;
    Ok(Limits {
        null_calls_per_s: Some(null_calls_per_s),
        null_p50_ns: Some(null_p50_ns),
        tcp_bytes_per_s,
        directory,
    })
}

/// Operations of blocks up to this are limited by calls, larger ones by bytes.
const SMALL_BLOCK_BYTES: u64 = 16 << 10;

impl Limits {
    /// A result as a fraction of the limit that it runs into first; none if that limit is not known. For what has to
    /// be stable, that is the device, if a directory was measured.
    #[must_use]
    pub fn fraction(&self, measurement: &Measurement) -> Option<FractionOfLimit> {
        let of = |limit, rate: f64, most: Option<f64>| {
            let most = most.filter(|most| *most > 0.0)?;
            Some(FractionOfLimit { limit, fraction: rate / most })
        };
        let calls = of(LimitKind::NullCalls, measurement.operations_per_s, self.null_calls_per_s);
        let line = of(LimitKind::TcpLineRate, measurement.bytes_per_s, self.tcp_bytes_per_s);
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
            // One client in flight waits for one sync; many share theirs.
            Workload::Random {
                stability: Stability::FileSync | Stability::DataSync | Stability::Commit,
                ..
            }
            | Workload::Rate { procedure: RateProcedure::WriteFileSync | RateProcedure::WriteCommit }
                if measurement.threads == 1 && measurement.depth == 1 =>
            {
                let syncs = device.map(|device| device.syncs_per_s);
                of(LimitKind::DirectorySync, measurement.operations_per_s, syncs).or(calls)
            }
            Workload::Random { block_bytes, .. } => blocks(block_bytes),
            Workload::Rate { procedure: RateProcedure::CreateRemove }
                if measurement.threads == 1 && measurement.depth == 1 =>
            {
                let syncs = device.map(|device| device.syncs_per_s);
                of(LimitKind::DirectorySync, measurement.operations_per_s, syncs).or(calls)
            }
            // A listing brings many names with a call, so its rate is no fraction of calls.
            Workload::Readdir { .. } | Workload::Null => None,
            Workload::Rate { .. } | Workload::Metadata { .. } | Workload::SmallFiles { .. } => calls,
        }
    }
}
