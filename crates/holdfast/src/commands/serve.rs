//! `holdfast serve`.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use server::config::memory::{MEMORY_BYTES_MIN, default_memory_bytes};
use server::config::size::Size;
use server::config::{Config, JOURNAL_BYTES_DEFAULT, LEASE_SECONDS, LEASE_SECONDS_DEFAULT, LISTEN_DEFAULT};
use server::error::Error;
use server::limits::{THREADS_MAX, WORKERS_DEFAULT};
use server::server::{Server, Settings};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::Serve;
use crate::logging;
use crate::report::{Outcome, print};

/// Exit code after a second signal, as shells have it for an interrupted program.
const INTERRUPTED: i32 = 130;

/// How many arenas glibc's allocator may have. It makes eight for each core, and what is free in one is of no use to the
/// threads of another; see `docs/decisions/2026-11-21-system-allocator.md`.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

pub(crate) fn run(serve: &Serve) -> Outcome {
    start_over_with_few_arenas();
    let config = match &serve.config {
        Some(path) => Config::read(path).map_err(|error| Error::usage(error.to_string()))?,
        None => Config::default(),
    };
    logging::start(serve.log, &config);
    let settings = settings(serve, config)?;
    abort_on_panic();
    // Before the server starts, so that a signal during a long replay is not lost.
    let mut signals = signals()?;
    let server = Server::start(&settings)?;
    print(&greeting(&server));
    if let Some(signal) = signals.forever().next() {
        tracing::info!(signal = signal_name(signal), "stopping: finishing what is in flight");
    }
    server.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// Puts the same program in the place of this one, with the variable set that the allocator reads when a program starts.
/// If that fails, the server runs all the same, and may take more memory.
fn start_over_with_few_arenas() {
    let (variable, arenas) = ARENAS;
    if std::env::var_os(variable).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    if let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) {
        let error = Command::new(program).arg0(name).args(arguments).env(variable, arenas).exec();
        eprintln!("holdfast: the server may take more memory than it should: cannot start over: {error}");
    }
}

/// What the command line says, else the configuration, else the default.
fn settings(serve: &Serve, config: Config) -> Result<Settings, Error> {
    let data = serve.data.clone().or(config.data).ok_or_else(|| {
        Error::usage("no data directory is given: `holdfast serve DATA`, or `data` in the configuration")
    })?;
    let default: SocketAddr = LISTEN_DEFAULT.parse().expect("the default is an address");
    let listen = match &serve.listen[..] {
        [] => config.listen.unwrap_or_else(|| vec![default]),
        given => given.to_vec(),
    };
    let memory = serve.memory.or(config.memory).map_or_else(default_memory_bytes, |size| size.0);
    if memory < MEMORY_BYTES_MIN {
        let sentence = format!(
            "memory is {}, which is too little: give at least {}",
            Size(memory),
            Size(MEMORY_BYTES_MIN)
        );
        return Err(Error::usage(sentence));
    }
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    Ok(Settings {
        data,
        listen,
        journal: serve.journal.clone().or(config.journal),
        journal_bytes: config.journal_size.map_or(JOURNAL_BYTES_DEFAULT, |size| size.0),
        memory,
        threads: config.threads.unwrap_or(cores.min(THREADS_MAX)),
        workers: config.workers.unwrap_or(WORKERS_DEFAULT),
        rpcbind: serve.rpcbind || config.rpcbind.unwrap_or(false),
        lease: lease(config.lease)?,
        exports: config.export,
        sync_delay: Duration::from_micros(serve.sync_delay),
    })
}

/// How long a lease lasts.
fn lease(seconds: Option<u32>) -> Result<Duration, Error> {
    match seconds.unwrap_or(LEASE_SECONDS_DEFAULT) {
        seconds if LEASE_SECONDS.contains(&seconds) => Ok(Duration::from_secs(seconds.into())),
        seconds => Err(Error::usage(format!(
            "lease is {seconds} seconds: give at least {} and at most {}",
            LEASE_SECONDS.start(),
            LEASE_SECONDS.end()
        ))),
    }
}

/// A thread that panicked left something half done: better to start again from what is on media than to go on.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

/// The first signal is for us to handle; with the second one the process exits at once.
fn signals() -> Result<Signals, Error> {
    let cannot = |error: std::io::Error| Error::failed(format!("cannot handle signals: {error}; try again"));
    let seen = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag unset, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&seen))
            .map_err(cannot)?;
        signal_hook::flag::register(signal, Arc::clone(&seen)).map_err(cannot)?;
    }
    Signals::new([SIGTERM, SIGINT]).map_err(cannot)
}

fn signal_name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("unknown")
}

/// Where clients look for NFS unless they are told otherwise (RFC 8881 section 2.9.3).
const NFS_PORT: u16 = 2049;

/// What a user wants to know first.
fn greeting(server: &Server) -> String {
    let mut text = String::new();
    let mut line = |line: &str| writeln!(text, "{line}").expect("a String takes any text");
    for address in server.addresses() {
        line(&format!("Listening at {address}"));
    }
    line(&format!("Data is in {}", server.root().display()));
    if let Some(address) = server.addresses().first() {
        let (host, port) = (mountable(*address), address.port());
        let elsewhere = if port == NFS_PORT { String::new() } else { format!(" -o port={port}") };
        let transport = if address.is_ipv6() { "proto=tcp6" } else { "tcp" };
        for path in server.export_paths() {
            line("");
            line(&format!("Mount {path} on Linux:"));
            line(&format!("  sudo mount -t nfs{elsewhere} {host}:{path} /mnt"));
            line("with NFSv3 and locks that hold on that machine only:");
            line(&format!(
                "  sudo mount -t nfs -o vers=3,{transport},nolock,port={port},mountport={port} {host}:{path} /mnt"
            ));
            line("on macOS:");
            line(&format!(
                "  sudo mount_nfs -o vers=3,tcp,nolocks,port={port},mountport={port} {host}:{path} /private/mnt"
            ));
        }
    }
    line("");
    line(&format!("Stop with Ctrl-C, or: kill {}", std::process::id()));
    text
}

/// How a client on this machine names an address of ours.
fn mountable(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
