//! Runs the published tests, at a scale that fits the machine and the server's free space, beside limits measured in
//! the same run.

use std::path::PathBuf;
use std::time::Duration;

use crate::client::Server;
use crate::error::LoadError;
use crate::hosts::{Combined, Coordinator, Peer, measure_on};
use crate::limits::{self, Scope};
use crate::published;
use crate::result::{Measurement, Report};
use crate::run::{Length, Observer, Options};
use crate::text::size;
use crate::workload::Workload;

mod machine;
mod recipes;
mod tiers;

pub use machine::Machine;
pub use tiers::RateLimits;

/// After this many failures in a row, the remaining tests would fail too.
const FAILURES_MAX: usize = 3;

/// The length of tests, and the amount of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A minute or two: a second per test, at the published number of threads.
    Quick,
    /// About ten minutes: over several numbers of threads.
    Standard,
    /// Hours: a minute per test, with twice the server's memory, as in the reports.
    Long,
}

/// How to run the suite.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The scale of the tests.
    pub scale: Scale,
    /// A directory whose file system and device are measured too.
    pub directory: Option<PathBuf>,
    /// An agent on the server's host, to measure TCP.
    pub peer: Option<Peer>,
    /// Local processes of the server, for its processor time.
    pub server_pids: Vec<u32>,
    /// The seed of random numbers. Chosen afresh if absent.
    pub seed: Option<u64>,
    /// Runs only the tests of these figures, or all tests if empty.
    pub only: Vec<String>,
}

/// One measurement of the suite.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteTest {
    /// The workload.
    pub workload: Workload,
    /// Virtual threads.
    pub threads: u32,
    /// Operations in flight per thread.
    pub depth: u32,
    /// Bytes of files of all threads together.
    pub working_set_bytes: u64,
    /// The published figures that correspond to this test.
    pub published: Vec<&'static str>,
}

/// Returns the tests for a machine.
#[must_use]
pub fn plan(scale: Scale, machine: &Machine) -> Vec<SuiteTest> {
    recipes::steps(scale, machine)
}

impl Scale {
    /// Returns how long each test is measured.
    #[must_use]
    pub const fn length(self) -> Duration {
        match self {
            Self::Quick => Duration::from_millis(800),
            Self::Standard => Duration::from_secs(5),
            Self::Long => Duration::from_secs(60),
        }
    }

    fn warmup(self) -> Duration {
        self.length() / 5
    }
}

/// Measures limits and all tests, on these hosts or else on this one, and adds the results to the report one by one; then, if
/// the server's limits can be set, the tiers that the machine can reach. A test that fails is noted, and the next one runs. Returns how
/// many tests failed and hosts were lost.
///
/// # Errors
/// If the server cannot be reached, or several tests in a row fail.
pub fn published(
    server: &Server,
    suite: &Suite,
    rates: Option<&mut dyn RateLimits>,
    mut hosts: Option<&mut Coordinator>,
    report: &mut Report,
    observer: &mut dyn Observer,
) -> Result<usize, LoadError> {
    let machine = Machine::of(server, report.server_memory_bytes)?;
    let mut steps = plan(suite.scale, &machine);
    if !suite.only.is_empty() {
        steps.retain(|step| step.published.iter().any(|id| suite.only.iter().any(|only| only == id)));
    }
    report.caches = caches(&report.caches, &steps);
    observer.begin("limits");
    let length = suite.scale.length().min(LIMITS_MAX);
    let scope = Scope { directory: suite.directory.as_deref(), peer: suite.peer.as_ref(), length };
    report.limits = limits::measure(server, &scope, hosts.as_deref_mut(), observer)?;
    let (mut failures, mut failures_in_a_row) = (0, 0);
    for (number, step) in steps.iter().enumerate() {
        if observer.is_interrupted() {
            report.notes.push(format!("Interrupted after {number} of {} tests.", steps.len()));
            break;
        }
        observer.begin(&title(number + 1, steps.len(), step));
        match measure_well(server, suite, step, hosts.as_deref_mut(), observer) {
            Ok(combined) => {
                let notes = combined.sentences();
                notes.iter().for_each(|note| observer.note(note));
                report.notes.extend(notes);
                failures += combined.failures.len();
                let published = step.published.iter().map(|id| (*id).to_owned()).collect();
                let measurement = Measurement { published, ..combined.measurement };
                limits::add_result(measurement, report, server, &scope, hosts.as_deref_mut(), observer);
                report.results.last().into_iter().for_each(|measurement| observer.measured(measurement));
                failures_in_a_row = 0;
            }
            Err(error) => {
                let words = format!("Failed: {}, threads: {}: {error}", step.workload.name(), step.threads);
                observer.note(&words);
                report.notes.push(words);
                failures += 1;
                failures_in_a_row += 1;
                if failures_in_a_row == FAILURES_MAX {
                    return Err(LoadError::new(format!("{FAILURES_MAX} tests in a row failed: {error}")));
                }
            }
        }
    }
    if let Some(rates) = rates
        && !observer.is_interrupted()
    {
        failures += tiers::sweep(server, suite, &machine, rates, hosts, report, observer)?;
    }
    Ok(failures)
}

/// Measures, and measures for longer if fewer operations ended than are in flight: that is too few to state a rate.
fn measure_well(
    server: &Server,
    suite: &Suite,
    step: &SuiteTest,
    mut hosts: Option<&mut Coordinator>,
    observer: &mut dyn Observer,
) -> Result<Combined, LoadError> {
    let operations_min = u64::from(step.threads) * u64::from(step.depth);
    let mut once = |length| {
        let options = Options { length: Length::Time(length), ..options(suite, step) };
        measure_on(hosts.as_deref_mut(), server, &step.workload, &options, observer)
            .map(|combined| (combined, observer.is_interrupted()))
    };
    let length = suite.scale.length();
    for length in [length, length * 5] {
        let (combined, is_interrupted) = once(length)?;
        if combined.measurement.operations >= operations_min || is_interrupted {
            return Ok(combined);
        }
    }
    let (combined, _) = once(length * 20)?;
    if combined.measurement.is_empty() {
        return Err(LoadError::new("nothing was measured: no operation ended in time"));
    }
    Ok(combined)
}

/// The longest measurement of a limit.
const LIMITS_MAX: Duration = Duration::from_secs(2);

fn options(suite: &Suite, step: &SuiteTest) -> Options {
    Options {
        threads: step.threads,
        depth: step.depth,
        working_set_bytes: step.working_set_bytes,
        seed: suite.seed,
        warmup: suite.scale.warmup(),
        server_pids: suite.server_pids.clone(),
        ..Options::default()
    }
}

/// Returns the title of a test, with the published tests it corresponds to.
fn title(number: usize, steps: usize, step: &SuiteTest) -> String {
    let mut tests: Vec<String> = Vec::new();
    for row in step.published.iter().filter_map(|id| published::find(id)) {
        let test = format!("{} {}", row.system.name(), row.test);
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    let tests = if tests.is_empty() { String::new() } else { format!(" [{}]", tests.join("; ")) };
    format!("{number}/{steps} {}, {} threads x {}{tests}", step.workload.name(), step.threads, step.depth)
}

/// Returns the declared caches, with the sizes of the data.
fn caches(declared: &str, steps: &[SuiteTest]) -> String {
    let sets = || steps.iter().map(|step| step.working_set_bytes).filter(|bytes| *bytes > 0);
    let [min, max] = [sets().min(), sets().max()].map(|bytes| size(bytes.unwrap_or(0)));
    format!(
        "server: {declared}; client: none. Working sets: {min} for tests published as cached, {max} for the others. \
         What fits the server's memory may have been read from it"
    )
}

#[cfg(test)]
mod tests;
