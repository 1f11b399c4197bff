//! The configuration file: TOML, every key optional, unknown keys refused. `docs/configuration.md` explains each.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ipnet::IpNet;
use serde::Deserialize;

use crate::config::size::Size;

/// A commented configuration with the defaults.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// Default address: this machine only, at NFS's port, which does not need root.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:2049";

/// Default size of a new volume's journal, bytes.
pub const JOURNAL_BYTES_DEFAULT: u64 = 512 << 20;

/// Default duration of a lease, seconds.
pub const LEASE_SECONDS_DEFAULT: u32 = 60;

/// Permitted durations of a lease, seconds: clients renew it after two thirds, and an hour is too long to wait for a lock.
pub const LEASE_SECONDS: std::ops::RangeInclusive<u32> = 5..=3600;

/// The contents of a configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses and ports to listen on.
    pub listen: Option<Vec<SocketAddr>>,
    /// The data directory.
    pub data: Option<PathBuf>,
    /// Directory for the journals of new volumes.
    pub journal: Option<PathBuf>,
    /// Bytes of the journal of new volumes.
    pub journal_size: Option<Size>,
    /// Limit of the process's memory.
    pub memory: Option<Size>,
    /// Event loops; one per core by default.
    pub threads: Option<usize>,
    /// Threads for calls that wait for the disk.
    pub workers: Option<usize>,
    /// Whether to register with the system's rpcbind.
    pub rpcbind: Option<bool>,
    /// Duration of a lease of NFSv4, seconds.
    pub lease: Option<u32>,
    /// What is logged.
    #[serde(default)]
    pub log: Log,
    /// Exports; if there are none, every volume is exported at `/NAME`.
    #[serde(default)]
    pub export: Vec<Export>,
}

/// Settings of the log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// The format of events.
    pub format: Option<LogFormat>,
    /// The level of the least important events that are logged.
    pub level: Option<LogLevel>,
}

/// Formats of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text for each event.
    #[default]
    Human,
    /// A line with a JSON object for each event.
    Json,
}

/// Levels of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Failures that need attention.
    Error,
    /// Conditions that may become failures.
    Warn,
    /// Events for operators; none per request.
    #[default]
    Info,
    /// Connections as well.
    Debug,
    /// Everything.
    Trace,
}

/// One export: a path that clients mount, and its rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The path that clients mount.
    pub path: String,
    /// The name of the volume.
    pub volume: String,
    /// Whether changes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// Whose identity is replaced by the anonymous one.
    #[serde(default)]
    pub squash: Squash,
    /// The anonymous user.
    #[serde(default = "nobody")]
    pub anonymous_uid: u32,
    /// The anonymous group.
    #[serde(default = "nobody")]
    pub anonymous_gid: u32,
    /// Networks that may use it; if there are none, every client that can reach the server.
    #[serde(default)]
    pub clients: Vec<Network>,
    /// Whether a client must call from a port below 1024.
    #[serde(default)]
    pub require_privileged_port: bool,
    /// Whether clients of NFSv4 may be given delegations.
    #[serde(default = "yes")]
    pub delegations: bool,
}

/// The default of settings that are on.
fn yes() -> bool {
    true
}

/// The usual user and group `nobody`.
fn nobody() -> u32 {
    65534
}

/// Whose identity an export replaces by the anonymous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// The superuser's.
    #[default]
    Root,
    /// All users'.
    All,
    /// No user's.
    None,
}

/// A network, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(pub IpNet);

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Network, String> {
        let single = || text.parse().map(|address: std::net::IpAddr| IpNet::from(address));
        IpNet::from_str(&text).or_else(|_| single()).map(Network).map_err(|_| {
            format!("{text:?} is not a network: write an address such as \"10.0.0.7\" or a network such as \"10.0.0.0/8\"")
        })
    }
}

/// Why a configuration is refused: one sentence, with the position.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks the file at `path`.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError(format!(
                "cannot read the configuration {}: {error}; check the path given with --config",
                path.display()
            ))
        })?;
        Config::parse(&text).map_err(|sentence| ConfigError(format!("{}: {sentence}", path.display())))
    }

    /// Reads and checks a configuration's text.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| match error.span() {
            Some(span) => {
                let (line, column) = place(text, span.start);
                format!("line {line}, column {column}: {}", error.message().replace('\n', ", "))
            }
            None => error.message().replace('\n', ", "),
        })?;
        config.check()?;
        Ok(config)
    }

    /// Checks what types cannot express.
    fn check(&self) -> Result<(), String> {
        let mut paths = std::collections::BTreeSet::new();
        for export in &self.export {
            let path = &export.path;
            if !path.starts_with('/') || path.contains("//") || (path.len() > 1 && path.ends_with('/')) {
                return Err(format!("the export path {path:?} must begin with '/' and have no empty parts"));
            }
            if !paths.insert(path) {
                return Err(format!("there are two exports with the path {path:?}; remove one"));
            }
        }
        if self.listen.as_ref().is_some_and(Vec::is_empty) {
            return Err("listen is empty: name an address and port, or remove the key".to_owned());
        }
        for (name, value, most) in [
            ("threads", self.threads, crate::limits::THREADS_MAX),
            ("workers", self.workers, crate::limits::WORKERS_MAX),
        ] {
            if value.is_some_and(|value| value == 0 || value > most) {
                return Err(format!("{name} must be between 1 and {most}"));
            }
        }
        Ok(())
    }
}

/// Returns line and column, both counted from 1, of the byte at `offset`.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

pub mod memory;
pub mod size;
#[cfg(test)]
mod tests;
