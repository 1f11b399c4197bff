//! Runs steps, prints their results with the time each took, and ends with a line of counts.

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Prints the usage of a command and returns the exit code for wrong arguments.
pub(crate) fn usage(text: &str) -> ExitCode {
    eprint!("{text}");
    ExitCode::from(2)
}

/// The steps that have run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    /// The first line of each step's result.
    results: Vec<String>,
}

impl Report {
    /// Runs one step. Exceeding the budget is a failure: a check that takes too long is soon not run at all.
    pub(crate) fn step(
        &mut self,
        name: &str,
        budget: Duration,
        run: impl FnOnce() -> Result<String, String>,
    ) {
        println!("==== {name} (budget {} s)", budget.as_secs());
        let start = Instant::now();
        let outcome = run();
        let elapsed = start.elapsed();
        let outcome = match outcome {
            Ok(_) if elapsed > budget => Err(format!("exceeded its budget of {} s", budget.as_secs())),
            other => other,
        };
        let seconds = elapsed.as_secs_f64();
        let result = match outcome {
            Ok(note) => {
                self.passed += 1;
                let colon = if note.is_empty() { "" } else { ": " };
                format!("PASS {name} in {seconds:.1} s{colon}{note}")
            }
            Err(why) => {
                format!("FAIL {name} in {seconds:.1} s: {why}")
            }
        };
        println!("{result}");
        self.results.push(result.lines().next().unwrap_or_default().to_owned());
    }

    /// Prints every result again, for those who see only the end of a long output, and the counts as the last line.
    pub(crate) fn finish(self) -> ExitCode {
        println!("==== results");
        for result in &self.results {
            println!("{result}");
        }
        let failed = self.results.len() - self.passed;
        println!("{} passed, {failed} failed", self.passed);
        if failed == 0 && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
