//! The configuration file: TOML, every key optional, unknown keys refused. `docs/configuration.md` explains each.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use qos::tiers::Tiers;
use rustix::fs::OFlags;

use crate::config::mistake::Mistake;
use crate::config::size::Size;

/// A commented configuration with the defaults.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// Default address: this machine only, at NFS's port, which does not need root.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:2049";

/// Default size of a new pool's journal, bytes.
pub const JOURNAL_BYTES_DEFAULT: u64 = 512 << 20;

/// Default duration of a lease, seconds.
pub const LEASE_SECONDS_DEFAULT: u32 = 60;

/// Default of the least duration of an operation that is reported as slow, milliseconds.
pub const SLOW_OPERATION_MILLISECONDS_DEFAULT: u32 = 1000;

/// Permitted durations of a lease, seconds: clients renew it after two thirds, and an hour is too long to wait for a lock.
pub const LEASE_SECONDS: std::ops::RangeInclusive<u32> = 5..=3600;

/// The contents of a configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Addresses and ports to listen on.
    pub listen: Option<Vec<SocketAddr>>,
    /// The data directory, or the name of a namespace of a Ceph cluster.
    pub data: Option<PathBuf>,
    /// Directory for the journals of new pools.
    pub journal: Option<PathBuf>,
    /// Bytes of the journal of new pools.
    pub journal_size: Option<Size>,
    /// Limit of the process's memory.
    pub memory: Option<Size>,
    /// Event loops; one per core by default.
    pub threads: Option<usize>,
    /// Threads for calls that wait for the disk.
    pub workers: Option<usize>,
    /// Whether to register with the system's rpcbind.
    pub rpcbind: Option<bool>,
    /// Whether to take datagrams at the ports of `listen`, too.
    pub udp: Option<bool>,
    /// Duration of a lease of NFSv4, seconds.
    pub lease: Option<u32>,
    /// What is logged.
    pub log: Log,
    /// What is counted, and reported as slow.
    pub metrics: Metrics,
    /// Administration over the network.
    pub api: Api,
    /// Names of listen addresses, by which rate limits and metrics name them.
    pub targets: Vec<(String, SocketAddr)>,
    /// Tiers: rate limits by name, besides the built-in ones.
    pub tiers: Tiers,
    /// Exports; if there are none, every volume is exported at `/NAME`.
    pub export: Vec<Export>,
}

/// Settings of administration over the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// Address and port; without one, only processes of this machine can connect, to the socket in the data directory.
    pub listen: Option<SocketAddr>,
    /// The file of the certificate, in PEM. Required unless the address is a loopback address.
    pub certificate: Option<PathBuf>,
    /// The file of its key, in PEM.
    pub key: Option<PathBuf>,
    /// The networks from which connections are accepted; if empty, all are. Without a list, those that exports admit, and the
    /// server's own machine.
    pub clients: Option<Vec<IpNet>>,
}

/// Settings of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The format of events.
    pub format: Option<LogFormat>,
    /// The level of the least important events that are logged.
    pub level: Option<LogLevel>,
}

/// Settings of metrics and events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Clients whose operations and bytes are counted; none by default.
    pub clients: Option<usize>,
    /// The least duration of an operation that is reported as slow, milliseconds.
    pub slow_operation: Option<u32>,
}

/// Formats of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text for each event.
    #[default]
    Human,
    /// A line with a JSON object for each event.
    Json,
}

/// Levels of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The path that clients mount.
    pub path: String,
    /// The name of the volume.
    pub volume: String,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whose identity is replaced by the anonymous one.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
    /// Networks that may use it; if there are none, every client that can reach the server.
    pub clients: Vec<IpNet>,
    /// Whether a client must call from a port below 1024.
    pub require_privileged_port: bool,
    /// Whether clients of NFSv4 may be given delegations.
    pub delegations: bool,
}

/// Whose identity an export replaces by the anonymous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// The superuser's.
    #[default]
    Root,
    /// All users'.
    All,
    /// No user's.
    None,
}

impl LogFormat {
    /// All formats with their names.
    const ALL: &[(&'static str, LogFormat)] = &[("human", LogFormat::Human), ("json", LogFormat::Json)];
}

impl LogLevel {
    /// All levels with their names.
    const ALL: &[(&'static str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
}

impl Squash {
    /// All choices with their names.
    const ALL: &[(&'static str, Squash)] =
        &[("root", Squash::Root), ("all", Squash::All), ("none", Squash::None)];
}

/// Why a configuration is refused: each mistake with its place.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The longest configuration file, bytes. A larger file was named by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Config {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or it has mistakes, which are all shown.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let name = path.display().to_string();
        let bytes = read_bounded(path).map_err(|error| ConfigError(cannot_read(&name, &error)))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let sentence =
                format!("{name} has more than {}: name a configuration file", Size(FILE_BYTES_MAX));
            return Err(ConfigError(sentence));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let lossy = String::from_utf8_lossy(error.as_bytes());
            let sentence = "this is not UTF-8: save the file as UTF-8".to_owned();
            ConfigError(mistake::show(&name, &lossy, &[Mistake { span: valid..valid + 1, sentence }]))
        })?;
        Config::parse(&name, &text, memory::machine_bytes()).map_err(ConfigError)
    }

    /// Returns the keys, of those that take effect only when a server starts, whose values differ in `other`.
    #[must_use]
    pub fn restart_keys(&self, other: &Config) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != other.listen),
            ("data", self.data != other.data),
            ("journal", self.journal != other.journal),
            ("journal_size", self.journal_size != other.journal_size),
            ("memory", self.memory != other.memory),
            ("threads", self.threads != other.threads),
            ("workers", self.workers != other.workers),
            ("rpcbind", self.rpcbind != other.rpcbind),
            ("udp", self.udp != other.udp),
            ("lease", self.lease != other.lease),
            ("log", self.log != other.log),
            ("metrics", self.metrics != other.metrics),
            ("api", self.api != other.api),
            ("targets", self.targets != other.targets),
        ];
        differs.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// Checks the text of the file `name` for a machine with `machine` bytes of memory; the error shows each mistake in it.
    fn parse(name: &str, text: &str, machine: Option<u64>) -> Result<Config, String> {
        reader::parse(text, machine).map_err(|mistakes| mistake::show(name, text, &mistakes))
    }
}

/// Reads a regular file. Opening a FIFO could block for ever; reading a directory fails with an error of its own.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn cannot_read(name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no configuration file {name}: check the path, or write one with `holdfast config example > {name}`"
        ),
        io::ErrorKind::IsADirectory => format!("{name} is a directory: name the configuration file in it"),
        io::ErrorKind::PermissionDenied => {
            format!("cannot read the configuration file {name}: {error}; let this user read it")
        }
        _ => format!("cannot read the configuration file {name}: {error}; check the path"),
    }
}

pub mod audience;
mod convert;
mod keys;
pub mod memory;
mod mistake;
mod reader;
pub mod size;
#[cfg(test)]
mod tests;
pub mod values;
