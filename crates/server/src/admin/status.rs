//! The status of a running server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use volume::Volume;

use crate::config::memory;
use crate::counters::{Counters, totals};
use crate::net::workers::Workers;
use crate::protocol::Protocol;

/// The sources of the status.
pub(crate) struct Source {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) exports: Vec<String>,
    pub(crate) volumes: Vec<(String, Arc<Volume>)>,
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) protocol: Arc<Protocol>,
    pub(crate) workers: Arc<Workers>,
    /// The `memory` setting, bytes.
    pub(crate) memory: u64,
    pub(crate) started: Instant,
}

impl Source {
    /// Returns the current status.
    pub(crate) fn to_json(&self) -> Value {
        let totals = totals(self.counters.iter().map(Arc::as_ref));
        let mut server: Map<String, Value> =
            totals.gauges.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        server.insert("calls_queued_for_workers".to_owned(), json!(self.workers.queued()));
        let calls: Map<String, Value> =
            totals.calls.into_iter().map(|(name, count)| (name, json!(count))).collect();
        let volumes: Map<String, Value> =
            self.volumes.iter().map(|(name, volume)| (name.clone(), volume_json(volume))).collect();
        let (resident, highest) = memory::resident();
        let held = self.protocol.service.state_gauges();
        server.extend(held.into_iter().map(|(name, value)| (name.to_owned(), json!(value))));
        server.insert("memory_bytes".to_owned(), json!(self.memory));
        server.insert("memory_bytes_resident".to_owned(), json!(resident));
        server.insert("memory_bytes_resident_highest".to_owned(), json!(highest));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "listen": self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "exports": self.exports,
            "server": server,
            "calls": calls,
            "volumes": volumes,
        })
    }
}

fn volume_json(volume: &Volume) -> Value {
    let mut map: Map<String, Value> =
        volume.gauges().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    map.insert("id".to_owned(), json!(volume.id().to_string()));
    map.insert("refuses_changes".to_owned(), json!(volume.refuses_changes()));
    map.insert("damage".to_owned(), json!(volume.damage()));
    Value::Object(map)
}
