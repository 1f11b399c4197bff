//! Counts user-mode instructions of a process with `perf stat`, where the processor and the system support it.

use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::process;

/// A running `perf stat` attached to a process.
#[derive(Debug)]
pub(super) struct Counter(Child);

/// Counts instructions and prints comma-separated fields, the count first.
const COUNT: &[&str] = &["stat", "-x", ",", "-e", "instructions:u"];

/// Time limit from SIGINT to exit.
const END: Duration = Duration::from_secs(5);

/// Whether instructions can be counted here. Most virtual machines cannot.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let output = Command::new("perf").args(COUNT).arg("true").output();
        output.is_ok_and(|output| output.status.success() && first_count(&output.stderr).is_some())
    })
}

fn first_count(text: &[u8]) -> Option<f64> {
    let text = String::from_utf8_lossy(text);
    text.lines().find_map(|line| line.split(',').next()?.parse().ok())
}

impl Counter {
    /// Starts counting. Returns `None` where counting is not available.
    pub(super) fn start(pid: u32) -> Option<Counter> {
        let mut command = Command::new("perf");
        command.args(COUNT).args(["-p", &pid.to_string()]).stderr(Stdio::piped());
        is_available().then(|| process::start(&mut command).ok()).flatten().map(Counter)
    }

    /// Stops, and returns the count.
    pub(super) fn finish(mut self) -> Option<f64> {
        use std::io::Read as _;
        process::signal(&self.0, "INT");
        process::wait(&mut self.0, END)?;
        let mut text = Vec::new();
        self.0.stderr.take()?.read_to_end(&mut text).ok()?;
        first_count(&text)
    }
}
