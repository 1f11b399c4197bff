//! Tests of the binary: servers on loopback addresses with ports that the system chooses, and commands.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

#[path = "cli/access.rs"]
mod access;
#[path = "cli/administration.rs"]
mod administration;
#[path = "cli/backup.rs"]
mod backup;
#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/client.rs"]
mod client;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/copies.rs"]
mod copies;
#[path = "cli/definitions.rs"]
mod definitions;
#[path = "cli/groups.rs"]
mod groups;
#[path = "cli/hosts.rs"]
mod hosts;
#[path = "cli/interface.rs"]
mod interface;
#[path = "cli/log.rs"]
mod log;
#[cfg(target_os = "linux")]
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/pool_copy.rs"]
mod pool_copy;
#[path = "cli/pools.rs"]
mod pools;
#[path = "cli/qos.rs"]
mod qos;
#[path = "cli/quotas.rs"]
mod quotas;
#[path = "cli/random_requests.rs"]
mod random_requests;
#[path = "cli/reload.rs"]
mod reload;
#[path = "cli/repair.rs"]
mod repair;
#[path = "cli/revisions.rs"]
mod revisions;
#[path = "cli/running.rs"]
mod running;
#[path = "cli/schema.rs"]
mod schema;
#[cfg(target_os = "linux")]
#[path = "cli/service.rs"]
mod service;
#[path = "cli/serving.rs"]
mod serving;
#[path = "cli/settings.rs"]
mod settings;
#[path = "cli/top.rs"]
mod top;
#[path = "cli/trees.rs"]
mod trees;
#[path = "cli/volumes.rs"]
mod volumes;
