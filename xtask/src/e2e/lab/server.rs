//! The server of a test bed: starts, kills, stops and checks it, and reads its log and counters.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use super::{ADDRESS, Lab, PORT, Peer, Summary};
use crate::e2e::probe;
use crate::process::{self, root};

/// Time limit from a server's start to its first reply.
const START: Duration = Duration::from_secs(30);
/// Time limit from SIGTERM to exit.
const STOP: Duration = Duration::from_secs(20);
/// Time limit from a condition to the event that reports it.
const LOGGED: Duration = Duration::from_secs(30);
/// Time limit of the offline check.
const CHECK: Duration = Duration::from_secs(300);
/// Lines of the server's log that a failure shows.
const LOG_LINES_MAX: usize = 40;

impl Lab {
    /// Starts the server and waits until it answers.
    pub(in crate::e2e) fn start(&mut self) -> Result<(), String> {
        let command = self.command()?;
        self.start_command(command, START)
    }

    /// Starts the server with a command, and waits until it answers, at most for `limit`.
    pub(in crate::e2e) fn start_command(&mut self, command: Command, limit: Duration) -> Result<(), String> {
        self.spawn_command(command)?;
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if probe::null(PORT).is_ok() && probe::null_mount(self.peer.mount_port()).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                return Err(format!("the server exited at once: {status}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the server does not answer after {} s", limit.as_secs()))
    }

    /// Starts the server without waiting.
    pub(in crate::e2e) fn spawn(&mut self) -> Result<(), String> {
        let command = self.command()?;
        self.spawn_command(command)
    }

    fn spawn_command(&mut self, mut command: Command) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.map_err(process::at(&self.log()))?;
        let errors = log.try_clone().map_err(process::at(&self.log()))?;
        command.stdout(log).stderr(errors);
        self.server = Some(process::start(&mut command)?);
        Ok(())
    }

    fn command(&self) -> Result<Command, String> {
        if self.peer == Peer::Ganesha {
            let mut command = Command::new(root().join("e2e/peer/ganesha"));
            command.arg(&self.namespace).arg(self.folder.join("ganesha"));
            return Ok(command);
        }
        let configuration = self.write_configuration()?;
        let mut command = Command::new(self.binary());
        command.arg("serve").arg(self.data());
        for address in [Some(ADDRESS), self.listened.as_deref()].into_iter().flatten() {
            // Clients ask a portmapper for NLM's port.
            for port in [PORT, 111] {
                command.args(["--listen", &format!("{address}:{port}")]);
            }
        }
        command.arg("--config").arg(configuration);
        Ok(command)
    }

    /// Writes the configuration file and returns its path.
    pub(in crate::e2e) fn write_configuration(&self) -> Result<PathBuf, String> {
        let path = self.folder.join("holdfast.toml");
        let text = format!("journal_size = \"64 MiB\"\n{}\n\n{}", self.settings, self.exports);
        fs::write(&path, text).map_err(process::at(&path))?;
        Ok(path)
    }

    /// The server's log.
    pub(in crate::e2e) fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// The exit status of the server if it has exited.
    pub(in crate::e2e) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        let Some(server) = &mut self.server else { return Ok(None) };
        server.try_wait().map_err(|error| format!("the server: {error}"))
    }

    /// The server's process id.
    pub(in crate::e2e) fn process_id(&self) -> Result<u32, String> {
        self.server.as_ref().map(Child::id).ok_or_else(|| "no server runs".to_owned())
    }

    /// Kills the server and removes its data.
    pub(in crate::e2e) fn start_over(&mut self) -> Result<(), String> {
        self.kill();
        fs::remove_dir_all(self.data()).map_err(process::at(&self.data()))
    }

    /// Kills the server with SIGKILL.
    pub(in crate::e2e) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            process::stop(&mut server);
        }
    }

    /// Stops the server and checks its volumes. A scenario whose servers run on machines of their own has neither.
    pub(in crate::e2e) fn close(&mut self) -> Result<(), String> {
        if self.machines().exists() {
            return Ok(());
        }
        if self.peer == Peer::Ganesha {
            self.kill();
            return Ok(());
        }
        self.stop()?;
        // A scenario may have served it as another user, whose data directory root is refused.
        let mut own = Command::new("chown");
        own.args(["-R", "-H", "0:0"]).arg(self.data());
        process::run(own, CHECK)?;
        let mut check = Command::new(self.binary());
        check.arg("check").arg(self.data());
        process::run(check, CHECK).map_err(|why| format!("holdfast check: {why}"))
    }

    /// Stops the server with SIGTERM.
    pub(in crate::e2e) fn stop(&mut self) -> Result<(), String> {
        let Some(mut server) = self.server.take() else {
            return Err("no server runs".to_owned());
        };
        process::signal(&server, "TERM");
        match process::wait(&mut server, STOP) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the server exits with {status} after SIGTERM")),
            None => Err(format!("the server still runs {} s after SIGTERM", STOP.as_secs())),
        }
    }

    /// Sends SIGTERM to the server without waiting.
    pub(in crate::e2e) fn stop_soon(&self) {
        if let Some(server) = &self.server {
            process::signal(server, "TERM");
        }
    }

    /// Runs `holdfast check` on the volume, which must be sound and not in use, and returns its counts.
    pub(in crate::e2e) fn summary(&self) -> Result<Summary, String> {
        let mut check = Command::new(self.binary());
        let json = process::output(check.args(["check", "--json"]).arg(self.data()))?;
        let report: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| format!("holdfast check: {error}"))?;
        let count = |name: &str| {
            let count = report.pointer(&format!("/pools/0/summary/{name}")).and_then(|count| count.as_u64());
            count.ok_or_else(|| format!("holdfast check does not report {name}"))
        };
        Ok(Summary { inodes: count("inodes")?, extents: count("extents")?, live_bytes: count("live_bytes")? })
    }

    /// Returns the server's gauges and counters from `holdfast status`.
    pub(in crate::e2e) fn counters(&self) -> Result<serde_json::Map<String, serde_json::Value>, String> {
        let mut status = Command::new(self.binary());
        let json = process::output(status.args(["status", "--json"]).arg(self.data()))?;
        let report: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| format!("holdfast status: {error}"))?;
        let server = report.get("server").and_then(serde_json::Value::as_object);
        server.cloned().ok_or_else(|| "holdfast status has no section \"server\"".to_owned())
    }

    /// Counts the records of a table of the index. No server may run.
    pub(in crate::e2e) fn records(&self, table: &str) -> Result<usize, String> {
        let mut dump = Command::new(self.binary());
        dump.args(["dump", "records", "--json", "--table", table]).arg(self.data());
        Ok(process::output(&mut dump)?.lines().count())
    }

    /// Waits until the server's log contains an event.
    pub(in crate::e2e) fn await_log(&self, event: &str) -> Result<(), String> {
        let end = Instant::now() + LOGGED;
        while !fs::read_to_string(self.log()).map_err(process::at(&self.log()))?.contains(event) {
            if Instant::now() >= end {
                return Err(format!("the server's log does not contain \"{event}\""));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Prints the end of the server's log, and the TCP connections: a client that hangs may wait for a retransmission.
    pub(in crate::e2e) fn show_log(&self) {
        println!("---- TCP connections of the namespace (ss -tino)");
        let _ = Command::new("ss").arg("-tino").status();
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        println!("---- the end of the server's log ({})", self.log().display());
        for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES_MAX)) {
            println!("     {line}");
        }
    }
}
