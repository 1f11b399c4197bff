//! Runs the binary.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The time limit of each operation, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory for one test, removed if the test passes.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a configuration for a small server, with `more`.
    pub(crate) fn config(&self, more: &str) -> PathBuf {
        let path = self.path("holdfast.toml");
        let text = format!("journal_size = \"32 MiB\"\nmemory = \"128 MiB\"\nworkers = 2\n{more}");
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Returns a path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command to completion.
pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed and print JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).unwrap()
}

/// Makes a data directory with the volume `main` in the pool `default`, and returns its path.
pub(crate) fn with_main(scratch: &Scratch) -> PathBuf {
    let data = scratch.path("data");
    succeed(&["volume", "create", text(&data), "main", "--journal-size", "16 MiB"]);
    data
}

/// Runs a command that must fail with this code; returns its error message.
pub(crate) fn fail(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    // The last message may have several lines.
    let start = said.rfind("\nholdfast: ").map_or(0, |newline| newline + 1);
    let sentence = said[start..].trim_end().to_owned();
    assert!(sentence.starts_with("holdfast: "), "{arguments:?}: {said}");
    sentence
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The output when it was ready.
    pub(crate) greeting: String,
}

impl Server {
    /// Starts a server on `data` and waits until it is ready.
    pub(crate) fn start(data: &Path, config: &Path, more: &[&str]) -> Server {
        Server::start_with(data, config, more, &[])
    }

    /// The same with these environment variables.
    pub(crate) fn start_with(
        data: &Path,
        config: &Path,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Server {
        let mut arguments = vec!["serve", text(data), "--config", text(config)];
        if !more.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        Server::launch(&arguments, variables)
    }

    /// Starts a small server without a configuration file.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_without_config(data: &Path, variables: &[(&str, &str)]) -> Server {
        let small = ["--journal-size", "32 MiB", "--memory", "128 MiB"];
        Server::launch(&[&["serve", text(data), "--listen", "127.0.0.1:0"], &small[..]].concat(), variables)
    }

    fn launch(arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let mut command = command(arguments);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut greeting = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !greeting.contains("Stop with") {
            if lines.read_line(&mut greeting).unwrap() == 0 {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the server did not start: {said}");
            }
        }
        let address = greeting.lines().find_map(|line| line.strip_prefix("Listening on ")).unwrap();
        Server { address: address.parse().unwrap(), child, greeting }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Lets it read its exports again.
    #[cfg(target_os = "linux")]
    pub(crate) fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Stops it with SIGTERM; returns its log.
    pub(crate) fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let status = self.wait();
        let log = self.log();
        assert_eq!(status.code(), Some(0), "{log}");
        log
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.kill_now();
        self.wait();
    }

    /// Kills it while clients use it.
    pub(crate) fn kill_now(&self) {
        self.signal(Signal::KILL);
    }

    fn wait(&mut self) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not exit");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&mut self) -> String {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has exited already if the test passed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
