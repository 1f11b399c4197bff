//! The sweep over tiers: the same load at each tier of rates that the machine can reach, first without a limit. What it gets is given
//! as a fraction of the tier, with its tails.

use super::recipes::{self, IN_FLIGHT_BYTES_MAX};
use super::{Machine, Suite, SuiteTest, measure_well};
use crate::client::Server;
use crate::error::LoadError;
use crate::hosts::Coordinator;
use crate::published::{TIERS, Tier};
use crate::report::units;
use crate::result::{Measurement, Report, TierRun, TierShare};
use crate::run::Observer;
use crate::workload::{Stability, Workload};

/// Limits the rates of what the suite measures.
pub trait RateLimits {
    /// Has the server hold the load to this tier, or to nothing.
    ///
    /// # Errors
    /// If the server does not set the limit.
    fn set(&mut self, tier: Option<&Tier>) -> Result<(), LoadError>;
}

/// Bytes of a block, and streams: enough to reach a limit, few enough that calls wait for little more than it demands.
const BLOCK_BYTES: u64 = 1 << 20;
const STREAMS: u32 = 16;

const _: () = assert!(STREAMS as u64 * BLOCK_BYTES <= IN_FLIGHT_BYTES_MAX);

/// Where the load goes.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Read,
    Write,
}

impl Direction {
    fn test(self, suite: &Suite, machine: &Machine) -> SuiteTest {
        let (block_bytes, shared_file) = (BLOCK_BYTES, false);
        let workload = match self {
            Direction::Read => Workload::SequentialRead { block_bytes, shared_file },
            Direction::Write => {
                Workload::SequentialWrite { block_bytes, shared_file, stability: Stability::Unstable }
            }
        };
        let working_set_bytes = recipes::small_set(suite.scale, machine).max(BLOCK_BYTES);
        let threads = STREAMS.min(u32::try_from(working_set_bytes / BLOCK_BYTES).unwrap_or(STREAMS));
        SuiteTest { workload, threads, depth: 1, working_set_bytes, published: Vec::new() }
    }

    fn name(self) -> &'static str {
        match self {
            Direction::Read => "reads",
            Direction::Write => "writes",
        }
    }

    /// Returns what a tier lets pass.
    #[expect(clippy::cast_precision_loss, reason = "rates of tiers have few digits")]
    fn cap(self, tier: &Tier) -> f64 {
        match self {
            Direction::Read => tier.read_bytes_per_s as f64,
            Direction::Write => tier.write_bytes_per_s as f64,
        }
    }
}

/// Measures reads and writes at each tier that they reach, and adds the runs to the report. Returns how many hosts were lost, or
/// 1 more if the sweep ended early.
///
/// # Errors
/// If the limit cannot be removed in the end.
pub(super) fn sweep(
    server: &Server,
    suite: &Suite,
    machine: &Machine,
    rates: &mut dyn RateLimits,
    mut hosts: Option<&mut Coordinator>,
    report: &mut Report,
    observer: &mut dyn Observer,
) -> Result<usize, LoadError> {
    let mut failures = 0;
    for direction in [Direction::Read, Direction::Write] {
        let test = direction.test(suite, machine);
        let mut measure = |observer: &mut dyn Observer| {
            measure_well(server, suite, &test, hosts.as_deref_mut(), observer).map(|combined| {
                failures += combined.failures.len();
                combined.measurement
            })
        };
        let swept = climb(direction, rates, &mut measure, report, observer);
        rates.set(None)?;
        if let Err(error) = swept {
            let words = format!("The sweep over tiers ended early, with {}: {error}", direction.name());
            observer.note(&words);
            report.notes.push(words);
            failures += 1;
        }
    }
    Ok(failures)
}

/// Measures without a limit, and at each tier that is below that.
fn climb(
    direction: Direction,
    rates: &mut dyn RateLimits,
    measure: &mut dyn FnMut(&mut dyn Observer) -> Result<Measurement, LoadError>,
    report: &mut Report,
    observer: &mut dyn Observer,
) -> Result<(), LoadError> {
    rates.set(None)?;
    observer.begin(&format!("tiers: {} without a limit", direction.name()));
    let free = measure(observer)?;
    let most = free.bytes_per_s;
    observer.measured(&free);
    report.tiers.push(TierRun { tier: None, measurement: free });
    for tier in &TIERS {
        let cap = direction.cap(tier);
        if observer.is_interrupted() {
            return Ok(());
        }
        if most < cap {
            report.notes.push(format!(
                "The tier {} was not reached: {} move {} without a limit, and it allows {}.",
                tier.name,
                direction.name(),
                units::bytes_per_second(most),
                units::bytes_per_second(cap)
            ));
            return Ok(());
        }
        observer.begin(&format!("tiers: {} at {}", direction.name(), tier.name));
        rates.set(Some(tier))?;
        let measurement = measure(observer)?;
        observer.measured(&measurement);
        let fraction = measurement.bytes_per_s / cap;
        let tier = TierShare { name: tier.name.to_owned(), cap_bytes_per_s: cap, fraction };
        report.tiers.push(TierRun { tier: Some(tier), measurement });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Host, Target};
    use crate::run::tests::fake::{Fake, Fault};
    use crate::suite::{Scale, published};

    /// Notes what was set.
    #[derive(Default)]
    struct Noted {
        set: Vec<Option<&'static str>>,
        /// Whether limits cannot be set.
        is_broken: bool,
    }

    impl RateLimits for Noted {
        fn set(&mut self, tier: Option<&Tier>) -> Result<(), LoadError> {
            self.set.push(tier.map(|tier| tier.name));
            if tier.is_some() && self.is_broken { Err(LoadError::new("no limits")) } else { Ok(()) }
        }
    }

    struct Silent;

    impl Observer for Silent {}

    fn measured(rate: f64) -> Measurement {
        let mut report = crate::report::tests::sample::report();
        Measurement { bytes_per_s: rate, ..report.results.remove(0) }
    }

    fn report() -> Report {
        let target = Target {
            address: String::new(),
            export: String::new(),
            protocol: Default::default(),
            label: None,
        };
        let host = Host { name: String::new(), cores: 1, kernel: String::new(), memory_bytes: None };
        Report::new(target, host, String::new(), 0)
    }

    #[test]
    fn tiers_are_measured_as_far_as_the_machine_reaches() {
        let (mut rates, mut report) = (Noted::default(), report());
        // Without a limit, and at 1 and 20 Gb/s; writes have half of that.
        let mut found = [2.4e9, 62.0e6, 1.25e9].into_iter();
        let mut measure = |_: &mut dyn Observer| Ok(measured(found.next().expect("three runs")));
        climb(Direction::Write, &mut rates, &mut measure, &mut report, &mut Silent).unwrap();
        assert_eq!(rates.set, [None, Some("oci-1"), Some("oci-20")]);
        let shares: Vec<Option<TierShare>> = report.tiers.iter().map(|run| run.tier.clone()).collect();
        let share = |name: &str, cap_bytes_per_s, fraction| {
            Some(TierShare { name: name.to_owned(), cap_bytes_per_s, fraction })
        };
        assert_eq!(shares, [None, share("oci-1", 62.5e6, 0.992), share("oci-20", 1.25e9, 1.0)]);
        assert!(report.notes[0].contains("oci-40 was not reached: writes move"), "{:?}", report.notes);
    }

    #[test]
    fn the_suite_sweeps_tiers_and_removes_the_limit() {
        let fake = Fake::start(Fault::None);
        let suite = Suite {
            scale: Scale::Quick,
            directory: None,
            peer: None,
            server_pids: Vec::new(),
            seed: Some(1),
            only: vec!["dell-mdtest-empty-create".to_owned()],
        };
        for is_broken in [false, true] {
            let (mut rates, mut report) = (Noted { is_broken, ..Noted::default() }, report());
            let failures =
                published(&fake.server, &suite, Some(&mut rates), None, &mut report, &mut Silent).unwrap();
            assert_eq!(rates.set.last(), Some(&None), "the limit is removed");
            assert!(report.tiers.iter().any(|run| run.tier.is_none()));
            let is_limited = rates.set.iter().any(Option::is_some);
            assert_eq!(failures > 0, is_broken && is_limited, "{:?}", report.notes);
        }
    }
}
