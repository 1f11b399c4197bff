//! The long versions of the proofs; what they found is recorded in `docs/proofs.md`.

use std::process::ExitCode;
use std::time::Duration;

use crate::process::{cargo, run};
use crate::{e2e, usage};

/// What `cargo xtask help soak` prints.
pub(crate) const HELP: &str = "\
cargo xtask soak: the long versions of the proofs.

  soak crash [--points N] [--seed S]
                                    simulated crashes, 200,000 by default; a seed replays a run
  soak kill [--rounds N]            kill -9 under real clients, 200 rounds by default (needs root)
  soak fsx [--minutes N]            the file system exerciser, an hour by default (needs root)

Each prints a seed that replays it, and ends with `N passed, N failed`.
";

/// `cargo xtask soak`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    match arguments {
        ["crash", rest @ ..] => crash(rest),
        ["kill"] => e2e::command(&["kill", "--rounds", "200"]),
        ["kill", "--rounds", rounds] => e2e::command(&["kill", "--rounds", rounds]),
        ["fsx"] => e2e::command(&["fsx", "--minutes", "60"]),
        ["fsx", "--minutes", minutes] => e2e::command(&["fsx", "--minutes", minutes]),
        _ => usage(HELP),
    }
}

/// The simulator has its own arguments and its own report.
fn crash(arguments: &[&str]) -> ExitCode {
    let mut words = vec!["run", "--release", "--locked", "-p", "sim", "--bin", "soak", "--", "crash"];
    words.extend(if arguments.is_empty() { &["--points", "200000"] } else { arguments });
    let forever = Duration::from_secs(30 * 24 * 3600);
    match run(cargo(&words), forever) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("soak: {why}");
            ExitCode::FAILURE
        }
    }
}
