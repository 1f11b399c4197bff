//! `holdfast serve`: runs a server until a signal stops it.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use clap::Args;
use rados::Location;
use server::config::memory::{CEPH_MEMORY_BYTES_MIN, MEMORY_BYTES_MIN, default_memory_bytes};
use server::config::size::Size;
use server::config::{
    Config, JOURNAL_BYTES_DEFAULT, LEASE_SECONDS_DEFAULT, LISTEN_DEFAULT,
    SLOW_OPERATION_MILLISECONDS_DEFAULT, values,
};
use server::data;
use server::error::Error;
use server::limits::{THREADS_MAX, WORKERS_DEFAULT};
use server::server::{Server, Settings};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::logging::{self, Log};
use crate::report::{Outcome, print};

use greeting::greeting;

mod greeting;
mod grouped;
pub(super) mod notify;

const EXAMPLES: &str = "Examples:
  holdfast serve /srv/holdfast                          # for this machine only
  holdfast serve /srv/holdfast --listen 0.0.0.0:2049    # for all machines that can reach this one
  holdfast serve --config /etc/holdfast.toml            # with exports: see `holdfast config example`";

#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The data directory, or rados:POOL for a pool of a Ceph cluster; a volume "main" is created if there is nothing yet
    /// [default: `data` or `store` of the configuration file]
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    /// Address and port to listen on, such as 127.0.0.1:2049 or [::]:2049; may be repeated [default: 127.0.0.1:2049]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen)]
    listen: Vec<SocketAddr>,
    /// Directory for the journals of new pools, best on a device of its own [default: in the data directory]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Size of the journal of new pools, such as "64 MiB", rounded up to a multiple of 16 MiB; a new pool takes up to about
    /// three times as much [default: 512 MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::journal_size)]
    journal_size: Option<Size>,
    /// Configuration file; `holdfast config example` prints one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory limit of the server, such as "4 GiB" [default: a quarter of the machine's memory, or of the control group's
    /// limit if that is lower]
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    memory: Option<Size>,
    /// Register with the system's rpcbind, so that clients find the port
    #[arg(long)]
    rpcbind: bool,
    /// Serve a group for the agent of this machine, which starts the server
    #[arg(long, hide = true, conflicts_with = "listen")]
    group: bool,
    /// Minimum duration of each device sync (us), for benchmarks
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, hide = true)]
    sync_delay: u64,
    #[command(flatten)]
    log: Log,
}

impl Serve {
    /// The command line `holdfast serve DATA`.
    pub(crate) fn of(data: PathBuf) -> Serve {
        Serve { data: Some(data), ..Serve::default() }
    }
}

/// Exit code after a second signal, the one that shells report for SIGINT.
const INTERRUPTED: i32 = 130;

/// The number of arenas of glibc's allocator. The default is eight per core, and threads of one arena cannot use the free
/// memory of another; see `docs/decisions/2026-11-21-system-allocator.md`.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

pub(crate) fn run(serve: &Serve) -> Outcome {
    reexecute_with_few_arenas();
    let config = match &serve.config {
        Some(path) => read(path)?,
        None => Config::default(),
    };
    let log = logging::start(serve.log, &config);
    log.report_periodically()?;
    let chooses_memory = serve.memory.is_none() && config.memory.is_none();
    let mut settings = Settings { events: log.events(), ..settings(serve, config)? };
    let mut agent = None;
    if serve.group {
        let (group, memory, of_group) = grouped::take(&settings.data)?;
        (settings.group, agent) = (Some(group), Some(of_group));
        if chooses_memory {
            settings.memory = memory;
        }
        // The agent holds the sockets.
        settings.listen.clear();
    }
    abort_on_panic();
    // Before the server starts, so that no signal during a long replay is lost.
    let mut signals = signals()?;
    let server = Server::start(&settings)?;
    match &agent {
        Some(agent) => agent.ready(),
        None => print(&greeting(&server)),
    }
    notify::ready();
    for signal in signals.forever() {
        if signal == SIGHUP {
            notify::reloading();
            // The log says whether that succeeded.
            let _ = server.reloader().reload();
            notify::ready();
            continue;
        }
        notify::stopping();
        tracing::info!(signal = signal_name(signal), "stopping: finishing the calls in flight");
        break;
    }
    if agent.is_some_and(|agent| agent.is_silent()) {
        server.abandon(grouped::end);
        return Ok(ExitCode::FAILURE);
    }
    let stopped = server.stop();
    log.report();
    stopped.map(|()| ExitCode::SUCCESS)
}

/// Executes this program again with the environment variable that the allocator reads at startup. If that fails, the server
/// runs nevertheless, and may use more memory.
fn reexecute_with_few_arenas() {
    let (variable, arenas) = ARENAS;
    if std::env::var_os(variable).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    if let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) {
        let error = Command::new(program).arg0(name).args(arguments).env(variable, arenas).exec();
        eprintln!("holdfast: cannot set {variable}: {error}; the server may use more memory than its limit");
    }
}

/// Reads the configuration file at `path`.
pub(crate) fn read(path: &Path) -> Result<Config, Error> {
    Config::read(path).map_err(|error| Error::usage(error.to_string()))
}

/// Returns the addresses to listen on if none are given.
pub(crate) fn default_listen() -> Vec<SocketAddr> {
    vec![LISTEN_DEFAULT.parse().expect("the default is an address")]
}

/// Combines the command line, the configuration and the defaults, in this order of precedence.
pub(crate) fn settings(serve: &Serve, config: Config) -> Result<Settings, Error> {
    let data = serve.data.clone().or_else(|| config.data.clone()).ok_or_else(|| {
        Error::usage("no data directory is given: name it with `holdfast serve DATA`, or as `data` or `store` in the configuration")
    })?;
    let listen = match &serve.listen[..] {
        [] => config.listen.clone().unwrap_or_else(default_listen),
        given => given.to_vec(),
    };
    let least = if Location::is_one(&data) { CEPH_MEMORY_BYTES_MIN } else { MEMORY_BYTES_MIN };
    let memory =
        serve.memory.or(config.memory).map_or_else(|| default_memory_bytes().max(least), |size| size.0);
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    Ok(Settings {
        listen,
        journal: serve.journal.clone().or_else(|| config.journal.clone()),
        journal_bytes: serve
            .journal_size
            .or(config.journal_size)
            .map_or_else(|| data::journal_bytes(&data, JOURNAL_BYTES_DEFAULT), |size| size.0),
        data,
        memory,
        threads: config.threads.unwrap_or(cores.min(THREADS_MAX)),
        workers: config.workers.unwrap_or(WORKERS_DEFAULT),
        rpcbind: serve.rpcbind || config.rpcbind.unwrap_or(false),
        udp: config.udp.unwrap_or(true),
        lease: Duration::from_secs(config.lease.unwrap_or(LEASE_SECONDS_DEFAULT).into()),
        exports: config.export.clone(),
        sync_delay: Duration::from_micros(serve.sync_delay),
        counted_clients: config.metrics.clients.unwrap_or(0),
        slow_operation: Duration::from_millis(
            config.metrics.slow_operation.unwrap_or(SLOW_OPERATION_MILLISECONDS_DEFAULT).into(),
        ),
        config: (serve.config.clone(), config),
        events: Arc::default(),
        group: None,
    })
}

/// Aborts the process if any thread panics. A restart from the media is safer than a server with a half-finished change.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

/// Makes SIGTERM and SIGINT stop the program, a second one at once, and has SIGHUP reported too.
pub(super) fn signals() -> Result<Signals, Error> {
    let signals = stop_signals()?;
    signals.add_signal(SIGHUP).map_err(cannot_handle)?;
    Ok(signals)
}

/// Makes SIGTERM and SIGINT stop the program, a second one at once.
pub(super) fn stop_signals() -> Result<Signals, Error> {
    stop_flag()?;
    Signals::new([SIGTERM, SIGINT]).map_err(cannot_handle)
}

/// Returns a flag that SIGTERM and SIGINT set. A second signal ends the program at once.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Error> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag unset and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&seen))
            .map_err(cannot_handle)?;
        signal_hook::flag::register(signal, Arc::clone(&seen)).map_err(cannot_handle)?;
    }
    Ok(seen)
}

fn cannot_handle(error: std::io::Error) -> Error {
    Error::failed(format!("cannot handle signals: {error}; try again"))
}

fn signal_name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("unknown")
}
