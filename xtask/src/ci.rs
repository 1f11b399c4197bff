//! The stages of continuous integration, which developers run too.

use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::process::{cargo, run};
use crate::report::{Report, usage};
use crate::{e2e, guided, perf, readme};

/// What `cargo xtask help ci` prints.
pub(crate) const HELP: &str = "\
cargo xtask ci STAGE...|all: run stages as continuous integration does, in the order given.

  smoke   formatting, lints without a warning, tidy
  readme  the commands of README.md
  test    every test of the workspace
  sim     the reference model, simulated crashes, NFSv4 clients and takeovers, with fixed and fresh seeds
  fuzz    each parser for 10 seconds, from golden messages and from random bytes; then libFuzzer (needs a C++ compiler)
  instructions
          instructions per operation, compared with docs/instructions.json (needs valgrind)
  perf    every measurement for a moment: each must run, and no operation may fail
  e2e     a real Linux client in User-Mode-Linux guests, one version of NFS per scenario (needs root; see `cargo xtask help e2e`)

Each step has a time budget and fails when it exceeds it. The last line is `N passed, N failed`.
";

/// Seconds that libFuzzer runs each target.
const GUIDED_SECONDS: u64 = 10;

type Stage = fn(&mut Report);

const STAGES: &[(&str, Stage)] = &[
    ("smoke", smoke),
    ("test", test),
    ("readme", readme),
    ("sim", sim),
    ("fuzz", fuzz),
    ("instructions", instructions),
    ("perf", perf_stage),
    ("e2e", e2e_stage),
];

/// `cargo xtask ci`.
pub(crate) fn command(names: &[&str]) -> ExitCode {
    let all: Vec<&str> = STAGES.iter().map(|(name, _)| *name).collect();
    let names = if names == ["all"] { &all } else { names };
    if names.is_empty() || names.iter().any(|name| !all.contains(name)) {
        return usage(HELP);
    }
    let mut report = Report::default();
    for name in names {
        let stage = STAGES.iter().find(|(known, _)| known == name);
        stage.expect("every name was checked above").1(&mut report);
    }
    report.finish()
}

/// Runs one program as a step.
fn step(report: &mut Report, name: &str, minutes: u64, command: Command) {
    let budget = Duration::from_secs(minutes * 60);
    report.step(name, budget, || run(command, budget).map(|()| String::new()));
}

fn smoke(report: &mut Report) {
    step(report, "smoke: format", 1, cargo(&["fmt", "--all", "--check"]));
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step(report, "smoke: lints", 8, cargo(&lints));
    step(report, "smoke: tidy", 2, cargo(&["xtask", "tidy"]));
}

fn test(report: &mut Report) {
    step(report, "test", 25, cargo(&[&readme::TEST[..], &["--locked"]].concat()));
}

fn readme(report: &mut Report) {
    let budget = Duration::from_secs(8 * 60);
    report.step("readme", budget, || readme::check(budget));
}

fn sim(report: &mut Report) {
    let simulate = ["run", "--release", "--locked", "-p", "sim", "--bin", "soak", "--"];
    let mut run = |name: &str, minutes: u64, arguments: &[&str]| {
        step(report, name, minutes, cargo(&[&simulate[..], arguments].concat()));
    };
    // Fixed seeds find old faults again, fresh ones new faults. Each run prints its seed.
    run("sim: model, fixed seeds", 8, &["model", "--runs", "20", "--seed", "1"]);
    run("sim: model, fresh seeds", 4, &["model", "--runs", "20"]);
    run("sim: crashes, fixed seeds", 4, &["crash", "--points", "5000", "--seed", "1"]);
    run("sim: crashes, fresh seeds", 6, &["crash", "--points", "10000"]);
    run("sim: full devices, fresh seeds", 3, &["full", "--points", "800"]);
    run("sim: failing media, fresh seeds", 2, &["faults", "--runs", "400"]);
    run("sim: damaged indexes, fresh seeds", 3, &["damage", "--points", "1000"]);
    run("sim: NFSv4, fixed seeds", 2, &["nfs4", "--runs", "400", "--points", "100000", "--seed", "1"]);
    run("sim: NFSv4, fresh seeds", 3, &["nfs4", "--runs", "800", "--points", "100000"]);
    run("sim: takeovers, fresh seeds", 4, &["failover", "--points", "50000"]);
}

fn fuzz(report: &mut Report) {
    let manifest = "fuzz/Cargo.toml";
    let build = ["build", "--release", "--locked", "--manifest-path", manifest];
    step(report, "fuzz: build", 8, cargo(&build));
    let all = ["run", "--release", "--locked", "--manifest-path", manifest, "--", "all", "--seconds", "10"];
    step(report, "fuzz: every target", 5, cargo(&all));
    let budget = Duration::from_secs(8 * 60);
    report.step("fuzz: libFuzzer", budget, || guided::run_all(GUIDED_SECONDS));
}

fn instructions(report: &mut Report) {
    report.step("instructions", Duration::from_secs(10 * 60), perf::instructions);
}

/// Checks that every figure can be measured. Figures of a shared machine are not judged.
fn perf_stage(report: &mut Report) {
    report.step("perf: every row for a moment", Duration::from_secs(10 * 60), perf::smoke);
}

fn e2e_stage(report: &mut Report) {
    report.step("e2e", e2e::SAMPLE, e2e::run_sample);
}
