//! What one client feels of others and of background work: GETATTR beside streaming writers, and the longest times while
//! checkpoints are made and the cleaner runs.

use super::bench::{Sample, Time};
use super::facts::{Fact, Goal, median};
use super::server::{NO_DELAY, Server};
use super::{Run, cpu};
use crate::process;

/// Writers that stream, and how much they write over and over.
const WRITERS: &[&str] =
    &["sequential-write", "--block", "1MiB", "--threads", "8", "--depth", "2", "--working-set", "512MiB"];

/// How much slower the slowest hundredth of another client's GETATTRs may become.
const FAIRNESS_MOST: f64 = 10.0;

/// The longest that any operation may take, in milliseconds.
const STALL_MOST_MS: f64 = 250.0;

/// The writers have written so long before anything is measured: the journal has been full, segments have died.
const RAMP_SECONDS: f64 = 4.0;

/// What others do while the tails are measured: small changes for checkpoints, and garbage for the cleaner.
const CHURN: &[&str] = &[
    "random",
    "--mix",
    "0",
    "--block",
    "64KiB",
    "--threads",
    "4",
    "--depth",
    "4",
    "--working-set",
    "512MiB",
];

/// What is measured meanwhile: its title, the workload, and threads and depth.
const FELT: &[(&str, &[&str], (u32, u32))] = &[
    ("GETATTR", &["getattr"], (1, 1)),
    ("cached READ 4 KiB", &["random", "--working-set", "8MiB"], (1, 1)),
    ("CREATE + REMOVE", &["create-remove"], (4, 4)),
    ("WRITE 4 KiB FILE_SYNC", &["write-file-sync"], (4, 4)),
];

/// GETATTR alone, and beside eight streaming writers, in turn.
pub(super) fn fairness(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(NO_DELAY)?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..run.options.rounds {
        let time = run.time();
        alone.push(run.sample(&server, &["getattr"], (1, 1), time)?);
        let samples = beside_others(run, &server, WRITERS, &[(&["getattr"], (1, 1))], time)?;
        beside.extend(samples);
        // Removing what they wrote is not part of the next round.
        cpu::wait_for_rest(server.target.pid, super::REST)?;
    }
    let ratio = alone.iter().zip(&beside).map(|(alone, beside)| beside.p99_us / alone.p99_us).collect();
    let p99 = |samples: &[Sample]| samples.iter().map(|sample| sample.p99_us).collect::<Vec<_>>();
    let mut fact = |name: &str, values, unit, goal| {
        run.facts.push(Fact { name: name.to_owned(), values, unit, goal });
    };
    fact("GETATTR of one client, p99", p99(&alone), " µs", Goal::None);
    fact("GETATTR of one client beside eight streaming writers, p99", p99(&beside), " µs", Goal::None);
    fact("GETATTR beside eight streaming writers: p99 of that alone", ratio, "×", Goal::Most(FAIRNESS_MOST));
    Ok(())
}

/// Percentiles and the longest time of several operations while checkpoints are made and the cleaner runs.
pub(super) fn tails(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(NO_DELAY)?;
    let work = |server: &Server| -> Result<[f64; 2], String> {
        Ok([server.gauge("checkpoints")?, server.gauge("segments_cleaned")?])
    };
    let before = work(&server)?;
    let felt: Vec<_> = FELT.iter().map(|(_, workload, size)| (*workload, *size)).collect();
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); FELT.len()];
    for _ in 0..run.options.rounds {
        let round = beside_others(run, &server, CHURN, &felt, run.time())?;
        for (list, sample) in samples.iter_mut().zip(round) {
            list.push(sample);
        }
    }
    let after = work(&server)?;
    let mut fact = |name: String, values, unit, goal| run.facts.push(Fact { name, values, unit, goal });
    for ((title, ..), samples) in FELT.iter().zip(&samples) {
        let figures: [(&str, fn(&Sample) -> f64); 3] = [
            ("p50", |sample| sample.p50_us),
            ("p99", |sample| sample.p99_us),
            ("p99.9", |sample| sample.p999_us),
        ];
        for (name, figure) in figures {
            let values: Vec<f64> = samples.iter().map(figure).collect();
            fact(
                format!("{title} beside checkpoints and the cleaner, {name}"),
                vec![median(&values)],
                " µs",
                Goal::None,
            );
        }
        let longest = samples.iter().map(|sample| sample.max_us / 1e3).fold(0.0, f64::max);
        let name = format!("{title} beside checkpoints and the cleaner, the longest of all rounds");
        fact(name, vec![longest], " ms", Goal::Most(STALL_MOST_MS));
    }
    for (name, (after, before)) in
        ["checkpoints", "segments cleaned"].into_iter().zip(after.iter().zip(before))
    {
        fact(format!("{name} meanwhile"), vec![after - before], "", Goal::None);
    }
    Ok(())
}

/// Measures one workload after the other while others work.
fn beside_others(
    run: &mut Run<'_>,
    server: &Server,
    others: &[&str],
    measured: &[(&[&str], (u32, u32))],
    time: Time,
) -> Result<Vec<Sample>, String> {
    let mut command = run.bench.background(&server.target, &[others, &["--seconds", "600"]].concat());
    let mut load = process::start(&mut command)?;
    let ramp = if run.options.quick { RAMP_SECONDS / 4.0 } else { RAMP_SECONDS };
    std::thread::sleep(std::time::Duration::from_secs_f64(ramp));
    let samples = measured.iter().map(|(workload, size)| {
        let sample = run.bench.run(&server.target, workload, *size, time)?;
        run.failed += sample.failed;
        Ok(sample)
    });
    let samples: Result<Vec<Sample>, String> = samples.collect();
    let is_over = matches!(load.try_wait(), Ok(Some(_)));
    // It removes its files when it is interrupted.
    process::signal(&load, "INT");
    process::wait(&mut load, super::REST * 4);
    match samples {
        Ok(_) if is_over => Err("the load beside it ended early".to_owned()),
        samples => samples,
    }
}
