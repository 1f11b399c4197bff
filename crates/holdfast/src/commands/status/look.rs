//! Queries a server for what its summary shows.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use server::admin;
use server::admin::api::types::{ClientList, Event, EventList, Export, Status};
use server::error::Error;

/// The least time over which rates are measured.
const RATE_TIME: Duration = Duration::from_millis(500);

/// What a server showed at one moment.
pub(super) struct Look {
    pub(super) status: Status,
    pub(super) exports: Vec<Export>,
    pub(super) clients: ClientList,
    pub(super) events: Vec<Event>,
    pub(super) metrics: Metrics,
    at: Instant,
}

/// Rates, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) operations: f64,
    pub(super) bytes_read: f64,
    pub(super) bytes_written: f64,
}

/// The metrics as the server shows them in JSON.
pub(super) struct Metrics(pub(super) Value);

impl Metrics {
    /// Sums the series of a family that have these labels.
    pub(super) fn sum(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        let families = self.0.as_array().into_iter().flatten();
        let found = families.filter(|found| found["name"] == family);
        let series = found.flat_map(|found| found["series"].as_array().into_iter().flatten());
        let has_labels =
            |series: &&Value| labels.iter().all(|(name, value)| series["labels"][*name] == *value);
        series.filter(has_labels).filter_map(|series| series["value"].as_f64()).sum()
    }
}

impl Look {
    /// Asks the server of a data directory.
    pub(super) fn take(data: &Path) -> Result<Look, Error> {
        let events: EventList = admin::get(data, "/v1/events")?;
        Ok(Look {
            status: admin::status(data)?,
            exports: admin::get(data, "/v1/exports")?,
            clients: admin::get(data, "/v1/clients?limit=1000")?,
            events: events.events,
            metrics: Metrics(admin::get(data, "/v1/metrics")?),
            at: Instant::now(),
        })
    }

    /// Returns the rates since an earlier reading.
    pub(super) fn rates_since(&self, earlier: &Look) -> Rates {
        rates(&earlier.metrics, &self.metrics, self.at.saturating_duration_since(earlier.at))
    }

    /// Reads the metrics again after a moment, and returns the rates in between.
    pub(super) fn rates_from_now(&mut self, data: &Path) -> Result<Rates, Error> {
        thread::sleep(RATE_TIME);
        let metrics = Metrics(admin::get(data, "/v1/metrics")?);
        let now = Instant::now();
        let found = rates(&self.metrics, &metrics, now.saturating_duration_since(self.at));
        (self.metrics, self.at) = (metrics, now);
        Ok(found)
    }
}

#[cfg(test)]
impl Look {
    /// Makes a look for tests.
    pub(super) fn of(status: Status, exports: Vec<Export>, events: Vec<Event>, metrics: Metrics) -> Look {
        let clients = ClientList { clients: Vec::new(), next: None };
        Look { status, exports, clients, events, metrics, at: Instant::now() }
    }
}

/// Returns the rates between two readings, per second.
pub(super) fn rates(before: &Metrics, after: &Metrics, time: Duration) -> Rates {
    let seconds = time.as_secs_f64().max(0.001);
    // A server that restarted in between has counted less.
    let rate = |family: &str, labels: &[(&str, &str)]| {
        ((after.sum(family, labels) - before.sum(family, labels)) / seconds).max(0.0)
    };
    Rates {
        operations: rate("holdfast_operations_total", &[]),
        bytes_read: rate("holdfast_transferred_bytes_total", &[("direction", "read")]),
        bytes_written: rate("holdfast_transferred_bytes_total", &[("direction", "write")]),
    }
}
