//! Metrics: what event loops, volumes and the process count, read at one moment and written as text or JSON.
//!
//! Reading stops nobody: a loop writes its counters with plain stores, and the loads here may see a call counted by one of
//! them and not yet by another. A scrape runs on the requester's thread, never on an event loop.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use volume::Volume;
use volume::ids::VolumeId;
use volume::limits::INTERNAL_NAME;
use volume::time::Time;

use crate::counters::Counters;
use crate::net::workers::Workers;
use crate::pools::OpenPool;
use crate::protocol::Protocol;
use crate::rates::Rates;

mod calls;
mod json;
mod pools;
mod process;
mod rates;
mod registry;
mod series;
mod text;

pub use registry::{ALL, Family, Kind};
pub use series::Scrape;

use registry::BUILD_INFO;

/// What is measured: shared parts of a running server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) pools: Vec<OpenPool>,
    /// Of the event loops.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// The listen addresses.
    pub(crate) targets: Vec<SocketAddr>,
    /// Rate limits, which have the names of targets, by the numbers that loops count by.
    pub(crate) rates: Arc<Rates>,
    pub(crate) protocol: Arc<Protocol>,
    pub(crate) workers: Arc<Workers>,
    /// The `memory` setting, bytes.
    pub(crate) memory: u64,
    /// What is under way to a Ceph cluster, if that has the pools.
    pub(crate) traffic: Option<Arc<rados::Traffic>>,
    /// When the server started.
    pub(crate) started: Time,
}

impl Source {
    /// Reads all metrics. Takes time in proportion to the number of series and of segments.
    pub(crate) fn scrape(&self) -> Scrape {
        let mut scrape = Scrape::default();
        scrape.number(&BUILD_INFO, [env!("CARGO_PKG_VERSION").into()], 1);
        pools::add(self, &mut scrape);
        calls::add(self, &mut scrape);
        rates::add(self, &mut scrape);
        process::add(self, &mut scrape);
        scrape.limited()
    }

    /// Returns the names of the volumes that are served, and an empty one for what is about no volume.
    pub(crate) fn names(&self) -> HashMap<Option<VolumeId>, Arc<str>> {
        let volumes = self.volumes();
        let named = volumes.iter().map(|volume| (Some(volume.id()), volume.name()));
        named.chain([(None, Arc::from(""))]).collect()
    }

    /// Returns the volumes that are served now, but the home, sorted by name.
    pub(crate) fn volumes(&self) -> Vec<Arc<Volume>> {
        let service = self.protocol.service();
        let mut volumes: Vec<Arc<Volume>> = service.volumes().cloned().collect();
        volumes.retain(|volume| !volume.name().starts_with(INTERNAL_NAME));
        volumes.sort_by_cached_key(|volume| volume.name());
        volumes
    }
}

#[cfg(test)]
mod tests;
