//! The status of the server.

use std::collections::BTreeMap;

use volume::Volume;

use crate::admin::Source;
use crate::clock;
use crate::config::memory;
use crate::counters::totals;
use crate::http::Response;

use super::problem::Problem;
use super::types::{Status, VolumeStatus};
use super::{Api, Asked, json};

pub(super) fn answer(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &api.source.status())
}

impl Source {
    /// Returns the current status.
    pub(super) fn status(&self) -> Status {
        let measured = &self.measured;
        let service = measured.protocol.service();
        let totals = totals(measured.counters.iter().map(AsRef::as_ref));
        let mut server = named(totals.gauges);
        server.extend(named(service.state_gauges()));
        let (resident, highest) = memory::resident();
        server.extend(named(vec![
            ("calls_queued_for_workers", u64::try_from(measured.workers.queued()).unwrap_or(u64::MAX)),
            ("memory_bytes", measured.memory),
            ("memory_bytes_resident", resident),
            ("memory_bytes_resident_highest", highest),
        ]));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: clock::now().since(measured.started).as_secs(),
            listen: measured.targets.iter().map(ToString::to_string).collect(),
            exports: nfs::exports::networks_by_path(service.exports())
                .into_iter()
                .map(|(path, _)| path.to_owned())
                .collect(),
            server,
            calls: totals.calls.into_iter().collect(),
            volumes: measured
                .volumes()
                .iter()
                .map(|volume| (volume.name().to_string(), self.volume_status(volume)))
                .collect(),
            reload_failed: self.reloader.failure(),
        }
    }
}

impl Source {
    fn volume_status(&self, volume: &Volume) -> VolumeStatus {
        let mut commits = self.measured.protocol.commits.iter();
        let of_pool = commits.find(|commits| commits.is_of(volume.pool()));
        VolumeStatus {
            id: volume.id().to_string(),
            refuses_changes: volume.refuses_changes(),
            damage: volume.damage(),
            // One with a size is full when that is used up, which its free space shows.
            is_full: volume.size().is_none() && of_pool.is_some_and(|commits| commits.is_full()),
            gauges: named(volume.gauges()),
        }
    }
}

fn named(gauges: Vec<(&'static str, u64)>) -> BTreeMap<String, u64> {
    gauges.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
