//! Isolation: calls of one client beside 64 writers whose address has a rate limit. As a control, the same writers are limited by
//! another server on the machine: what differs is what the calls lose in this server, and the rest what processes take from each
//! other on its processors.

use super::bench::Sample;
use super::results::{Figure, Goal};
use super::{Run, cpu, tails};
use crate::server::Server;

/// The writers' address, and what it may write.
const WRITERS_ADDRESS: &str = "127.0.0.2";
const LIMIT: &str = "24MiB";

const WRITERS: &[&str] = &[
    "random",
    "--mix",
    "0",
    "--block",
    "64KiB",
    "--threads",
    "64",
    "--working-set",
    "32MiB",
    "--from",
    WRITERS_ADDRESS,
];

/// 99th percentile beside the writers, relative to that alone.
const RATIO_MAX: f64 = 2.0;

/// The client's calls: title and arguments.
const CALLS: [(&str, &[&str]); 2] =
    [("GETATTR", &["getattr"]), ("cached READ 4 KiB", &["random", "--working-set", "8MiB"])];

/// One at a time.
const SIZE: (u32, u32) = (1, 1);

/// Measures each kind of call alone, beside the writers, and beside those of the other server, in turns.
pub(super) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let (server, other) = (run.server(&[])?, run.server(&[])?);
    for server in [&server, &other] {
        let words = ["--client", WRITERS_ADDRESS, "--write-bytes", LIMIT];
        server.administer(&["qos", "set"], &words)?;
    }
    let mut samples = CALLS.map(|_| [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..run.options.rounds {
        for ((_, workload), [alone, beside, control]) in CALLS.iter().zip(&mut samples) {
            let time = run.time();
            alone.push(run.sample(&server, workload, SIZE, time)?);
            beside.extend(beside_writers(run, &server, &server, workload)?);
            control.extend(beside_writers(run, &server, &other, workload)?);
        }
    }
    for ((title, _), [alone, beside, control]) in CALLS.iter().zip(&samples) {
        let ratio = |of: &[Sample], to: &[Sample]| -> Vec<f64> {
            of.iter().zip(to).map(|(of, to)| of.p99_us / to.p99_us).collect()
        };
        let mut figure = |name: &str, values, unit, goal| {
            run.figures.push(Figure { name: format!("{title} {name}"), values, unit, goal });
        };
        for (name, of) in [
            ("alone, p99", alone),
            ("beside 64 throttled writers, p99", beside),
            ("beside those of another server, p99", control),
        ] {
            figure(name, of.iter().map(|sample| sample.p99_us).collect(), " µs", Goal::None);
        }
        let goal = Goal::AtMost(RATIO_MAX);
        figure("beside 64 throttled writers: p99, of that alone", ratio(beside, alone), "×", goal);
        let name = "beside 64 throttled writers: p99, of that beside those of another server";
        figure(name, ratio(beside, control), "×", Goal::None);
    }
    Ok(())
}

/// Measures beside the writers of `loaded`.
fn beside_writers(
    run: &mut Run<'_>,
    server: &Server,
    loaded: &Server,
    workload: &[&str],
) -> Result<Vec<Sample>, String> {
    let time = run.time();
    let samples = tails::beside_load(run, server, (loaded, WRITERS), &[(workload, SIZE)], time)?;
    cpu::wait_until_idle(loaded.target.pid, super::REST)?;
    Ok(samples)
}
