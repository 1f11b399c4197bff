//! `holdfast bench`: a load generator for any server of NFSv3, NFSv4.1 or NFSv4.2.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use load::client::{Identity, Protocol, Server};
use load::error::LoadError;
use load::hosts::{Coordinator, Peer, Token};
use load::result::{Host, Report, Target};
use server::config::size::Size;
use server::error::Error;

use crate::report::Outcome;

mod agent;
mod clean;
mod compare;
mod limits;
mod report;
mod run;
mod suite;
mod watch;
mod work;

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a workload against a server
    Run(Box<run::Run>),
    /// Measure the limits of the server's protocol, of TCP and of a directory
    Limits(limits::Limits),
    /// Measure two servers in turn and compare them
    Compare(Box<compare::Compare>),
    /// Run the tests of published reports, at a scale that fits this machine
    Suite(Box<suite::SuiteCommand>),
    /// Run an agent that generates load for `bench run --agents`
    Agent(agent::AgentCommand),
    /// Remove the files of measurements that were killed
    Clean(clean::Clean),
    /// Render a saved result as a table or as a page
    Report(report::Report),
}

pub(crate) fn run(bench: &Bench) -> Outcome {
    match &bench.action {
        Action::Run(run) => run::run(run),
        Action::Limits(limits) => limits::run(limits),
        Action::Compare(compare) => compare::run(compare),
        Action::Suite(suite) => suite::run(suite),
        Action::Agent(agent) => agent::run(agent),
        Action::Clean(clean) => clean::run(clean),
        Action::Report(report) => report::run(report),
    }
}

/// The server and the caller.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetOptions {
    /// Server and export, such as 127.0.0.1:/main or filer:2049:/export/data
    #[arg(value_name = "HOST[:PORT]:/EXPORT")]
    target: String,
    #[command(flatten)]
    server: ServerOptions,
}

/// How to call the server, and its name in the report.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerOptions {
    /// Port of the server's MOUNT service, for NFSv3 [default: the NFS port, else the port that rpcbind names]
    #[arg(long, value_name = "PORT")]
    mount_port: Option<u16>,
    /// Name of the server in the report
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Memory of the server's machine, such as 64GiB: results that fit it are marked [default: this machine's, if the
    /// server is on it]
    #[arg(long, value_name = "SIZE", value_parser = work::parse_size)]
    server_memory: Option<Size>,
    #[command(flatten)]
    caches: CachesOption,
    #[command(flatten)]
    caller: CallerOptions,
}

/// The caches in between.
#[derive(Clone, Debug, Args)]
pub(crate) struct CachesOption {
    /// Caches between the client and the media, for the report
    #[arg(long, value_name = "WORDS", default_value = "not declared")]
    caches: String,
}

/// The caller, and the protocol of the calls.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallerOptions {
    /// Version of NFS: 3, 4.1 or 4.2
    #[arg(long, value_name = "VERSION", default_value = "3")]
    protocol: Protocol,
    /// Use local ports below 1024, which some servers require; needs root
    #[arg(long)]
    reserved_ports: bool,
    /// Local address of this host's connections [default: the system's choice]
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// User number of calls
    #[arg(long, value_name = "UID", default_value_t = 0)]
    uid: u32,
    /// Group number of calls
    #[arg(long, value_name = "GID", default_value_t = 0)]
    gid: u32,
}

impl TargetOptions {
    fn server(&self) -> Result<Server, Error> {
        self.server.server(&self.target)
    }

    /// Returns a report without results.
    fn report(&self, server: &Server) -> Report {
        self.server.report(server)
    }
}

impl ServerOptions {
    fn server(&self, target: &str) -> Result<Server, Error> {
        self.caller.server(target, self.mount_port)
    }

    /// Returns a report without results.
    fn report(&self, server: &Server) -> Report {
        let mut report = new_report(target(server, self.label.clone()), &self.caches);
        report.server_memory_bytes = server_memory_bytes(server, self.server_memory);
        report
    }
}

impl CallerOptions {
    fn server(&self, target: &str, mount_port: Option<u16>) -> Result<Server, Error> {
        let server = Server::parse(target).map_err(|error| Error::usage(error.to_string()))?;
        let identity = Identity { uid: self.uid, gid: self.gid };
        Ok(Server {
            protocol: self.protocol,
            mount_port,
            reserved_ports: self.reserved_ports,
            from: self.from,
            identity,
            ..server
        })
    }
}

/// Describes a server for the report.
fn target(server: &Server, label: Option<String>) -> Target {
    let (export, protocol) = (server.export.clone(), server.protocol);
    Target { address: server.address.to_string(), export, protocol, label }
}

/// Returns a report without results, with this machine and the current time.
fn new_report(target: Target, caches: &CachesOption) -> Report {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Report::new(target, Host::this(), caches.caches.clone(), since.map_or(0, |since| since.as_secs()))
}

/// Returns the memory of a server's machine: as the user gave it, or this machine's if the server has its address.
fn server_memory_bytes(server: &Server, given: Option<Size>) -> Option<u64> {
    let local = || load::memory_bytes().filter(|_| load::has_address(server.address.ip()));
    given.map(|size| size.0).or_else(local)
}

/// The options of limits.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitOptions {
    /// Also measure the file system and device of this directory, ideally the server's data directory
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Also measure TCP to and from a `holdfast bench agent` on the server's host
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    line_rate_peer: Option<String>,
    /// File with the secret that agents share
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl LimitOptions {
    /// Whether anything is measured besides NULL calls.
    fn is_given(&self) -> bool {
        self.directory.is_some() || self.line_rate_peer.is_some()
    }

    /// Returns the agent on the server's host.
    fn peer(&self) -> Result<Option<Peer>, Error> {
        let (Some(peer), Some(token)) = (&self.line_rate_peer, self.token()?) else { return Ok(None) };
        Peer::parse(peer, token).map(Some).map_err(failed)
    }

    fn token(&self) -> Result<Option<Token>, Error> {
        self.token_file.as_deref().map(Token::read).transpose().map_err(failed)
    }
}

/// Which hosts measure, and what they measure besides the workload.
#[derive(Clone, Debug, Args)]
pub(crate) struct HostOptions {
    #[command(flatten)]
    limits: LimitOptions,
    /// Local process of the server, to measure its processor time per operation; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Measure on these hosts, separated by commas, each of which runs `holdfast bench agent`, instead of this one. With
    /// --server-pid or --directory, run this on the server's host
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "token_file")]
    agents: Vec<String>,
}

impl HostOptions {
    /// Connects to the hosts that measure instead of this one, if there are any. The coordinator measures the server's
    /// processes and directory, so these options require that the server runs on this host.
    fn coordinator(&self, server: &Server) -> Result<Option<Coordinator>, Error> {
        let ip = server.address.ip();
        let local =
            [("--server-pid", !self.server_pid.is_empty()), ("--directory", self.limits.directory.is_some())];
        for (option, _) in local.into_iter().filter(|(_, is_given)| *is_given) {
            if !self.agents.is_empty() && !load::has_address(ip) {
                return Err(Error::usage(format!(
                    "{option} with --agents is for a coordinator on the server's host: {ip} is not an address of this one"
                )));
            }
        }
        match self.limits.token()? {
            Some(token) if !self.agents.is_empty() => {
                Coordinator::connect(&self.agents, &token).map(Some).map_err(failed)
            }
            _ => Ok(None),
        }
    }
}

/// Converts the error of a measurement to that of a command.
fn failed(error: LoadError) -> Error {
    Error::failed(error.to_string())
}
