//! Long runs of the simulations, fuzzers and scenarios. `docs/proofs.md` records their results.

use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::Duration;

use crate::process::{cargo, run};
use crate::report::{Report, usage};
use crate::{e2e, guided};

/// Default duration of `threads` and `fuzz`.
const MINUTES: u64 = 10;
/// Time limit of runs that end by their own count.
const LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// What `cargo xtask help soak` prints.
pub(crate) const HELP: &str = "\
cargo xtask soak: long runs of the simulations, fuzzers and scenarios.

  soak crash [--points N] [--seed S]
                                    simulated crashes, 200,000 by default; a seed replays a run
  soak nfs4 [--runs N] [--points N] [--seed S]
                                    simulated NFSv4 clients, 5,000 runs by default; a point is a server crash
  soak failover [--points N] [--seed S]
                                    simulated nodes that take over from each other, 100,000 schedules by default
  soak damage [--points N] [--seed S]
                                    each block of an index damaged; then crashes while an index is replaced, 20,000 by default
  soak kill [--rounds N]            kill -9 under real clients, 200 rounds by default (needs root)
  soak fsx [--minutes N]            the file system exerciser, an hour by default (needs root)
  soak nodes [--minutes N]          nodes of a Ceph cluster die, come and go for an hour by default (needs root)
  soak remove                       remove 6 GiB and a million files beside another client (needs root, 20 GB of disk)
  soak threads [--minutes N]        the engine under real threads and kill -9, 10 minutes by default
  soak fuzz [--minutes N]           libFuzzer on each target, 10 minutes by default (needs a C++ compiler)

Each prints the seed that replays it and ends with `N passed, N failed`.
";

/// `cargo xtask soak`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    match arguments {
        ["crash", rest @ ..] => simulated("crash", rest, &["--points", "200000"]),
        ["nfs4", rest @ ..] => simulated("nfs4", rest, &["--runs", "5000", "--points", "1000000"]),
        ["failover", rest @ ..] => simulated("failover", rest, &["--points", "100000"]),
        ["damage", rest @ ..] => damage(rest),
        ["kill"] => e2e::command(&["kill", "--rounds", "200"]),
        ["kill", "--rounds", rounds] => e2e::command(&["kill", "--rounds", rounds]),
        ["fsx"] => e2e::command(&["fsx", "--minutes", "60"]),
        ["fsx", "--minutes", minutes] => e2e::command(&["fsx", "--minutes", minutes]),
        ["nodes"] => e2e::command(&["nodes", "--minutes", "60"]),
        ["nodes", "--minutes", minutes] => e2e::command(&["nodes", "--minutes", minutes]),
        ["remove"] => e2e::command(&["remove", "--long"]),
        ["threads"] => threads(MINUTES),
        ["threads", "--minutes", minutes] => for_minutes(minutes, threads),
        ["fuzz"] => fuzz(MINUTES),
        ["fuzz", "--minutes", minutes] => for_minutes(minutes, fuzz),
        _ => usage(HELP),
    }
}

fn for_minutes(minutes: &str, soak: fn(u64) -> ExitCode) -> ExitCode {
    minutes.parse::<NonZeroU64>().map_or_else(|_| usage(HELP), |minutes| soak(minutes.get()))
}

/// Runs the two tests one after the other, each for half the time.
fn threads(minutes: u64) -> ExitCode {
    let test =
        ["test", "--locked", "-p", "store", "--test", "threads", "--", "--nocapture", "--test-threads", "1"];
    let mut command = cargo(&test);
    command.env("HOLDFAST_STRESS_SECONDS", (minutes * 30).to_string());
    let mut report = Report::default();
    let budget = Duration::from_secs((minutes + 15) * 60);
    report.step("threads", budget, || run(command, budget).map(|()| String::new()));
    report.finish()
}

/// Damages each block of an index, then runs the simulator.
fn damage(arguments: &[&str]) -> ExitCode {
    let test = ["test", "--release", "--locked", "-p", "volume", "--lib", "damage_of", "--", "--nocapture"];
    let mut command = cargo(&test);
    command.env("HOLDFAST_DAMAGED_BLOCKS", "all");
    match run(command, LIMIT) {
        Ok(()) => simulated("damage", arguments, &["--points", "20000"]),
        Err(why) => {
            eprintln!("soak: {why}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(minutes: u64) -> ExitCode {
    let mut report = Report::default();
    report.step("libFuzzer", LIMIT, || guided::run_all(minutes * 60));
    report.finish()
}

/// Runs the simulator, which parses its own arguments and prints its own report.
fn simulated(test: &str, arguments: &[&str], default: &[&str]) -> ExitCode {
    let mut words = vec!["run", "--release", "--locked", "-p", "sim", "--bin", "soak", "--", test];
    words.extend(if arguments.is_empty() { default } else { arguments });
    match run(cargo(&words), LIMIT) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("soak: {why}");
            ExitCode::FAILURE
        }
    }
}
