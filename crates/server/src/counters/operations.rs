//! Counts what calls did: operations by volume, errors, data, targets and clients; all but latencies.
//!
//! What a volume, a status or a client needs is made at its first use.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs::summary::{CallSummary, OperationId, Status, Transferred};
use volume::ids::VolumeId;

use crate::counters::activity::Watch;
use crate::counters::add;
use crate::counters::grown::Grown;
use crate::counters::tallied::{
    ClientCounters, ErrorKey, SIZE_UNIT, Tallied, TargetCounters, VolumeCounters,
};
use crate::limits::VOLUMES_COUNTED_MAX;

/// Where the calls of a connection are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The number of its listen address.
    pub(crate) target: u32,
    /// The place of its client, if clients are counted.
    pub(crate) client: Option<u32>,
}

/// What the latency of a call is counted by, after its operations were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallLabel {
    /// The place of its volume.
    volume: u32,
    pub(crate) operation: OperationId,
    target: u32,
    pub(crate) transferred: Transferred,
}

/// A volume with its counters and their place.
struct Found {
    volume: Option<VolumeId>,
    place: u32,
    counters: Arc<VolumeCounters>,
}

/// The counting loop's side.
pub(crate) struct OperationTally {
    tallied: Arc<Tallied>,
    volumes: Grown<Option<VolumeId>, VolumeCounters>,
    /// The volume of the last call.
    last: Found,
    /// The volumes by their places.
    ids: Vec<Option<VolumeId>>,
    errors: Grown<ErrorKey, AtomicU64>,
    clients: Grown<IpAddr, ClientCounters>,
    clients_counted: usize,
    clients_max: usize,
}

impl OperationTally {
    /// Counts for this number of listen addresses, and at most `clients_max` clients.
    pub(crate) fn new(targets: usize, clients_max: usize, activity: Arc<Watch>) -> OperationTally {
        let (mut volumes, errors, clients) = (Grown::new(), Grown::new(), Grown::new());
        let place = volumes.place(&None);
        let last = Found { volume: None, place: 0, counters: volumes.shared(place) };
        let tallied = Arc::new(Tallied {
            volumes: volumes.readable(),
            errors: errors.readable(),
            clients: clients.readable(),
            targets: (0..targets).map(|_| TargetCounters::default()).collect(),
            activity,
            slow: AtomicU64::new(0),
        });
        let (ids, clients_counted) = (vec![None], 0);
        OperationTally { tallied, volumes, last, ids, errors, clients, clients_counted, clients_max }
    }

    /// Returns the readers' view.
    pub(crate) fn tallied(&self) -> &Arc<Tallied> {
        &self.tallied
    }

    /// Returns where to count the calls of a new connection. Clients beyond the limit are not counted.
    pub(crate) fn connected(&mut self, target: usize, client: IpAddr) -> Counted {
        add(&self.tallied.targets[target].connections, 1);
        let mut place = None;
        if self.clients_max > 0 {
            let known = self.clients.find(&client);
            if known.is_some() || self.clients_counted < self.clients_max {
                self.clients_counted += usize::from(known.is_none());
                place = Some(self.clients.place(&client));
            }
        }
        Counted {
            target: u32::try_from(target).expect("there are few listen addresses"),
            client: place.map(|place| u32::try_from(place).expect("few clients are counted")),
        }
    }

    /// Notes the end of a connection.
    pub(crate) fn disconnected(&self, counted: Counted) {
        add(&self.target(counted.target).connections, u64::MAX);
    }

    /// Counts bytes that a connection has received, or that were replied by it.
    #[inline]
    pub(crate) fn count_bytes(&self, counted: Counted, bytes: usize) {
        let bytes = bytes as u64;
        add(&self.target(counted.target).bytes, bytes);
        if let Some(client) = counted.client {
            add(&self.clients.at(client as usize).bytes, bytes);
        }
    }

    /// Counts a connection that broke a rule.
    pub(crate) fn count_malformed(&self, counted: Counted) {
        add(&self.target(counted.target).errors, 1);
    }

    /// Like [`OperationTally::count`], but not inlined.
    #[inline(never)]
    pub(crate) fn count_apart(&mut self, summary: &CallSummary, counted: Counted, calls: u64) -> CallLabel {
        self.count(summary, counted, calls)
    }

    /// Counts a number of calls that all did this.
    #[inline(always)]
    pub(crate) fn count(&mut self, summary: &CallSummary, counted: Counted, calls: u64) -> CallLabel {
        if summary.volume != self.last.volume {
            self.find_volume(summary.volume);
        }
        let volume = &self.last.counters;
        let target = &self.tallied.targets[counted.target as usize];
        let (mut operations, mut last) = (0, summary.main);
        summary.for_each_operation(|operation, _| {
            (operations, last) = (operations + calls, operation);
            add(&volume.operations[operation.number()], calls);
        });
        add(&target.operations, operations);
        // Only the last operation can have failed.
        if summary.status != Status::OK {
            let key = (self.ids[self.last.place as usize], last, summary.status);
            count_error(&mut self.errors, target, key, calls);
        }
        if summary.transferred.read > 0 {
            volume.read_bytes.count(summary.transferred.read.into(), SIZE_UNIT, calls);
        }
        if summary.transferred.written > 0 {
            volume.written_bytes.count(summary.transferred.written.into(), SIZE_UNIT, calls);
        }
        if let Some(client) = counted.client {
            let client = self.clients.at(client as usize);
            add(&client.operations, operations);
            let bit = 1 << summary.main.protocol() as u32;
            client.protocols.store(client.protocols.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        }
        CallLabel {
            volume: self.last.place,
            operation: summary.main,
            target: counted.target,
            transferred: summary.transferred,
        }
    }

    #[cold]
    fn find_volume(&mut self, volume: Option<VolumeId>) {
        let is_new = self.volumes.find(&volume).is_none();
        let counted = volume.filter(|_| !is_new || self.volumes.len() < VOLUMES_COUNTED_MAX);
        let place = self.volumes.place(&counted);
        if place == self.ids.len() {
            self.ids.push(counted);
        }
        let counters = self.volumes.shared(place);
        let place = u32::try_from(place).expect("few volumes are counted");
        self.last = Found { volume, place, counters };
    }

    /// Counts that the effect of a call that was counted is lost, so that it failed after all.
    pub(crate) fn count_lost(&mut self, label: &CallLabel) {
        let key = (self.volume_id(label), label.operation, Status::IO);
        count_error(&mut self.errors, &self.tallied.targets[label.target as usize], key, 1);
    }

    /// Returns the counters of the volume that calls were about.
    #[inline]
    pub(crate) fn volume(&self, label: &CallLabel) -> &VolumeCounters {
        self.volumes.at(label.volume as usize)
    }

    /// Returns the volume that calls were about, if it is counted by itself.
    pub(crate) fn volume_id(&self, label: &CallLabel) -> Option<VolumeId> {
        self.ids[label.volume as usize]
    }

    #[inline]
    fn target(&self, target: u32) -> &TargetCounters {
        &self.tallied.targets[target as usize]
    }
}

/// Counts failed operations; for their target, only if the server is to blame.
#[cold]
fn count_error(errors: &mut Grown<ErrorKey, AtomicU64>, target: &TargetCounters, key: ErrorKey, calls: u64) {
    add(errors.of(&key), calls);
    let (_, operation, status) = key;
    if status.is_fault(operation.protocol()) {
        add(&target.errors, calls);
    }
}
