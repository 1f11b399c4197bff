//! What can be said on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use server::config::size::Size;
use server::config::{LogFormat, LogLevel};
use volume::ids::SegmentId;
use volume::key::Table;

/// What follows the help of every command.
const EXIT_CODES: &str = "Exit codes: 0 it worked; 1 it failed, or faults were found; 2 the command line or the \
configuration is wrong; 3 the data directory or a volume is in use by another process.";

/// A network file server that keeps its promises.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a data directory over NFSv3
    Serve(Serve),
    /// Create, list, show and delete volumes
    Volume(Volume),
    /// Check volumes that no server has open, and say what is wrong with them
    Check(Check),
    /// Print what a volume consists of, for people who debug; no server may have it open
    Dump(Dump),
    /// Show what a running server is doing
    Status(Status),
    /// Help with the configuration file
    Config(Config),
    /// Measure any NFSv3 server: a load generator that needs no mount
    Bench(crate::commands::bench::Bench),
}

/// What is logged.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Log {
    /// How events are written [default: human]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<Format>,
    /// The least important events that are shown [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<Level>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> LogFormat {
        match format {
            Format::Human => LogFormat::Human,
            Format::Json => LogFormat::Json,
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> LogLevel {
        match level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
            Level::Trace => LogLevel::Trace,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The data directory; created, with a volume "main", if there is none
    #[arg(value_name = "DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Address and port to listen at, such as 127.0.0.1:2049 or [::]:2049; may be repeated [default: 127.0.0.1:2049]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Directory for the journals of new volumes, best on a device of its own
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// Configuration file; see `holdfast config example`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Bound of the server's memory, such as "4 GiB" [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,
    /// Register with the system's rpcbind, so that clients find the port by themselves
    #[arg(long)]
    pub(crate) rpcbind: bool,
    /// For measurements: let each sync of the device take so many microseconds at least
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, hide = true)]
    pub(crate) sync_delay: u64,
    #[command(flatten)]
    pub(crate) log: Log,
}

#[derive(Debug, Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    pub(crate) action: VolumeAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeAction {
    /// Create a volume; no server may be running on the data directory
    Create {
        /// The data directory; created if there is none
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Its name
        name: String,
        /// Directory for its journal, best on a device of its own
        #[arg(long, value_name = "DIR")]
        journal: Option<PathBuf>,
        /// Size of its journal, such as "512 MiB"
        #[arg(long, value_name = "SIZE")]
        journal_size: Option<Size>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the volumes
    List {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a volume
    Show {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Its name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a volume and all that is in it; no server may be running on the data directory
    Delete {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Its name
        name: String,
        /// Really delete it: nothing brings it back
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The data directory
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// Only this volume [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) volume: Option<String>,
    /// Do not read file data, which is most of the work
    #[arg(long)]
    pub(crate) no_data: bool,
    /// Faults that are listed for each volume; more are only counted
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) most_faults: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(subcommand)]
    pub(crate) what: DumpWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DumpWhat {
    /// The journal since the last checkpoint
    Journal(Dumped),
    /// The records of the index
    Records {
        #[command(flatten)]
        dumped: Dumped,
        /// Only this table: inode, name, cookie, map, reap, usage, symlink, extent, segment, reply or meta
        #[arg(long, value_parser = parse_table)]
        table: Option<Table>,
    },
    /// The extents of a segment
    Segment {
        #[command(flatten)]
        dumped: Dumped,
        /// The segment: its number in hexadecimal, as its file is named
        #[arg(value_parser = parse_segment)]
        id: SegmentId,
    },
}

/// The volume that is dumped, and how.
#[derive(Debug, Args)]
pub(crate) struct Dumped {
    /// The data directory
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// The volume
    #[arg(long, value_name = "NAME", default_value = server::server::FIRST_VOLUME)]
    pub(crate) volume: String,
    /// Print a line of JSON for each line
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_table(text: &str) -> Result<Table, String> {
    let named = |table: &Table| format!("{table:?}").eq_ignore_ascii_case(text);
    Table::ALL.into_iter().find(named).ok_or_else(|| "there is no such table".to_owned())
}

fn parse_segment(text: &str) -> Result<SegmentId, String> {
    u64::from_str_radix(text, 16).map(SegmentId).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The data directory
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print a commented configuration file
    Example,
    /// Check a configuration file
    Check {
        /// The file
        file: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
