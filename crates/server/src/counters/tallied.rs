//! The counters of the calls of one event loop, as scrapes read them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nfs::summary::{Class, OperationId, Status};
use volume::ids::VolumeId;

use crate::counters::activity::Watch;
use crate::counters::grown::Readable;
use crate::counters::histogram::Histogram;
use crate::counters::phases::Phase;

/// The first bound of latencies: 16 microseconds, in nanoseconds. The last is 2^22 times it, 67 seconds.
pub(crate) const DURATION_UNIT: u64 = 16_000;
pub(crate) const DURATION_BUCKETS: usize = 24;

/// The first bound of the sizes of READ and WRITE: 1 KiB. The last is 4 MiB.
pub(crate) const SIZE_UNIT: u64 = 1 << 10;
pub(crate) const SIZE_BUCKETS: usize = 14;

/// Counters of the calls about one volume, or about none.
#[derive(Debug)]
pub(crate) struct VolumeCounters {
    /// By [`OperationId::number`].
    pub(crate) operations: [AtomicU64; OperationId::COUNT],
    /// By [`Class::number`], in nanoseconds.
    pub(crate) durations: [Histogram<DURATION_BUCKETS>; Class::ALL.len()],
    /// By the number of the [`Phase`], in nanoseconds.
    pub(crate) phases: [AtomicU64; Phase::COUNT],
    pub(crate) read_bytes: Histogram<SIZE_BUCKETS>,
    pub(crate) written_bytes: Histogram<SIZE_BUCKETS>,
}

impl Default for VolumeCounters {
    fn default() -> VolumeCounters {
        VolumeCounters {
            operations: [const { AtomicU64::new(0) }; OperationId::COUNT],
            durations: Default::default(),
            phases: Default::default(),
            read_bytes: Histogram::default(),
            written_bytes: Histogram::default(),
        }
    }
}

/// Counters of what came by one listen address.
#[derive(Debug, Default)]
pub(crate) struct TargetCounters {
    pub(crate) operations: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// Counters of one client.
#[derive(Debug, Default)]
pub(crate) struct ClientCounters {
    pub(crate) operations: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// A bit for each [`nfs::summary::Protocol`] that it has used.
    pub(crate) protocols: AtomicU64,
}

/// What failed operations are counted by.
pub(crate) type ErrorKey = (Option<VolumeId>, OperationId, Status);

/// What a loop has counted, for readers.
#[derive(Debug)]
pub(crate) struct Tallied {
    pub(crate) volumes: Arc<Readable<Option<VolumeId>, VolumeCounters>>,
    pub(crate) errors: Arc<Readable<ErrorKey, AtomicU64>>,
    pub(crate) clients: Arc<Readable<IpAddr, ClientCounters>>,
    /// By the number of the listen address.
    pub(crate) targets: Vec<TargetCounters>,
    /// Activities, while somebody watches.
    pub(crate) activity: Arc<Watch>,
    /// Calls that took longer than the threshold for an event.
    pub(crate) slow: AtomicU64,
}
