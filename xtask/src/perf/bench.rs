//! Runs `holdfast bench --json` and extracts the figures.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::counter::Counter;
use super::cpu;
use crate::server::Target;

/// Time limit of a measurement.
const LIMIT_SECONDS: u32 = 900;

/// Durations of the warm-up and of the measurement, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) warmup: f64,
    pub(super) seconds: f64,
}

/// The figures of a measurement. Rates and latencies exclude the warm-up.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) operations_per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
    /// The server's CPU time per operation.
    pub(super) server_us: f64,
    /// The client's CPU time per operation, warm-up and preparation included.
    pub(super) client_us: f64,
    pub(super) gib_per_operation: f64,
    /// The server's user-mode instructions per operation, where they can be counted.
    pub(super) instructions: Option<f64>,
    /// Procedure, rate and median latency in microseconds of each phase.
    pub(super) phases: Vec<(String, f64, f64)>,
    /// Operations that failed.
    pub(super) failed: u64,
}

impl Sample {
    /// The rate of a phase.
    pub(super) fn phase_rate(&self, procedure: &str) -> Option<f64> {
        self.phases.iter().find(|phase| phase.0 == procedure).map(|phase| phase.1)
    }

    /// The median latency of a phase.
    pub(super) fn phase_p50_us(&self, procedure: &str) -> Option<f64> {
        self.phases.iter().find(|phase| phase.0 == procedure).map(|phase| phase.2)
    }
}

/// The client program.
#[derive(Debug)]
pub(super) struct Bench {
    binary: PathBuf,
}

impl Bench {
    pub(super) fn new(binary: &Path) -> Bench {
        Bench { binary: binary.to_owned() }
    }

    fn command(&self, verb: &str, target: &Target) -> Command {
        // A measurement that hangs is an error.
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &LIMIT_SECONDS.to_string()]).arg(&self.binary);
        command.args(["bench", verb, &format!("{}:/main", target.address), "--json"]);
        command.args(["--mount-port", &target.mount_port.to_string()]);
        command
    }

    /// Runs a workload with this number of threads and operations in flight per thread.
    pub(super) fn run(
        &self,
        target: &Target,
        workload: &[&str],
        (threads, depth): (u32, u32),
        time: Time,
    ) -> Result<Sample, String> {
        let mut command = self.command("run", target);
        command.args(["--threads", &threads.to_string(), "--depth", &depth.to_string()]);
        command.args(["--server-pid", &target.pid.to_string(), "--seconds", &time.seconds.to_string()]);
        command.args(["--warmup", &time.warmup.to_string()]).args(workload);
        let counter = Counter::start(target.pid);
        let client_before = cpu::of_children()?;
        let report = json(&mut command);
        let client_seconds = cpu::of_children()? - client_before;
        let instructions = counter.and_then(Counter::finish);
        let report = report?;
        let result = report.pointer("/results/0").ok_or("bench reports no results")?;
        sample(result, client_seconds, instructions)
    }

    /// Measures the limits of this machine: bytes per second through TCP, and the median latency in microseconds of a synced
    /// 4 KiB write in this directory.
    pub(super) fn limits(
        &self,
        target: &Target,
        directory: &Path,
        seconds: f64,
    ) -> Result<(f64, f64), String> {
        let mut command = self.command("limits", target);
        command.args(["--seconds", &seconds.to_string(), "--directory"]).arg(directory);
        let report = json(&mut command)?;
        let limits = report.get("limits").ok_or("bench reports no limits")?;
        Ok((number(limits, "/tcp_bytes_per_s")?, number(limits, "/directory/sync_p50_ns")? / 1e3))
    }

    /// Returns a command that runs a workload in the background until the caller stops it.
    pub(super) fn background(&self, target: &Target, workload: &[&str]) -> Command {
        let mut command = self.command("run", target);
        command.args(workload).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command
    }
}

/// Parses a program's output as JSON. Bench prints it even if operations failed and the exit status is not 0.
fn json(command: &mut Command) -> Result<Value, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{command:?}: {}: {}", output.status, stderr.trim())
    })
}

fn number(value: &Value, pointer: &str) -> Result<f64, String> {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.ok_or_else(|| format!("bench reports no {pointer}"))
}

fn sample(result: &Value, client_seconds: f64, instructions: Option<f64>) -> Result<Sample, String> {
    let operations = number(result, "/operations")?;
    let (seconds, warmup) = (number(result, "/seconds")?, number(result, "/warmup_seconds")?);
    // Operations of the warm-up are not reported; the same rate is assumed.
    let all_operations = (operations * (1.0 + warmup / seconds.max(1e-9))).max(1.0);
    let errors = result.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for error in errors {
        eprintln!("perf: {} failed: {error}", result["name"]);
    }
    let phases = result.get("phases").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let phase = |phase: &Value| -> Result<(String, f64, f64), String> {
        let name = phase["procedure"].as_str().unwrap_or_default().to_owned();
        Ok((name, number(phase, "/operations_per_s")?, number(phase, "/latency/p50_ns")? / 1e3))
    };
    Ok(Sample {
        operations_per_s: number(result, "/operations_per_s")?,
        bytes_per_s: number(result, "/bytes_per_s")?,
        p50_us: number(result, "/latency/p50_ns")? / 1e3,
        p99_us: number(result, "/latency/p99_ns")? / 1e3,
        p999_us: number(result, "/latency/p999_ns")? / 1e3,
        max_us: number(result, "/latency/max_ns")? / 1e3,
        server_us: number(result, "/server/cpu_ns_per_operation")? / 1e3,
        client_us: client_seconds * 1e6 / all_operations,
        gib_per_operation: number(result, "/bytes")? / operations.max(1.0) / f64::from(1u32 << 30),
        instructions: instructions.map(|count| count / all_operations),
        phases: phases.iter().map(phase).collect::<Result<_, _>>()?,
        failed: errors.iter().filter_map(|error| error["count"].as_u64()).sum(),
    })
}
