//! Runs other programs within time limits, and finds what they need.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

/// Interval between checks of a running program.
const POLL: Duration = Duration::from_millis(50);
/// Time limit of a release build.
const BUILD: Duration = Duration::from_secs(1800);

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask's manifest lies one folder below the root").to_path_buf()
}

/// The absolute path of cargo's target directory.
pub(crate) fn target_directory() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Builds the release binary of `holdfast` and returns its path.
pub(crate) fn build_holdfast() -> Result<PathBuf, String> {
    run(cargo(&["build", "--release", "--locked", "--package", "holdfast"]), BUILD)?;
    Ok(target_directory().join("release/holdfast"))
}

/// A loopback address that is free at the moment.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|user| user.trim() == "0")
}

/// Prefixes an I/O error with the path it concerns.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> String + use<> {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Random bytes for file contents.
pub(crate) fn random_bytes(random: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Returns the cargo that started this process, to run in the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a program. Kills it and its process group after `budget`.
pub(crate) fn run(mut command: Command, budget: Duration) -> Result<(), String> {
    let name = format!("{command:?}");
    let mut child = start(&mut command)?;
    match wait(&mut child, budget) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{name}: {status}")),
        None => Err(format!("{name}: killed after {} s", budget.as_secs())),
    }
}

/// Starts a program in a process group of its own, with no standard input.
pub(crate) fn start(command: &mut Command) -> Result<Child, String> {
    command.stdin(Stdio::null()).process_group(0);
    command.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))
}

/// Waits for a program started by [`start`]. Returns `None` if it exceeded the budget and was killed.
pub(crate) fn wait(child: &mut Child, budget: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + budget;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            stop(child);
            return None;
        }
        thread::sleep(POLL);
    }
}

/// Kills a program and its process group.
pub(crate) fn stop(child: &mut Child) {
    signal(child, "KILL");
    let _ = child.kill();
    let _ = child.wait();
}

/// Sends a signal to a program's process group.
pub(crate) fn signal(child: &Child, name: &str) {
    send(name, &format!("-{}", child.id()));
}

/// Sends a signal. The shell does it: kill(1) mistakes a group with a small number, such as -15, for a signal.
fn send(name: &str, to: &str) {
    let _ = Command::new("sh").args(["-c", "kill -s $0 -- $1", name, to]).stderr(Stdio::null()).status();
}

/// Kills all other processes of the process namespace whose process 1 this is.
pub(crate) fn kill_others() {
    // In the machine's own namespace, this would kill everything.
    assert_eq!(std::process::id(), 1, "this process has a namespace of its own");
    send("KILL", "-1");
}

/// Returns the standard output of a program that succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {}", output.status, stderr.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
