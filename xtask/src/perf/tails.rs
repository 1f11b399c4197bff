//! Interference between clients and with background work: GETATTR beside streaming writers, many clients at once, and
//! maximal latencies during checkpoints and cleaning.

use super::bench::{Sample, Time};
use super::results::{Figure, Goal, median};
use super::{Run, cpu};
use crate::process;
use crate::server::Server;

/// Streaming writers, which overwrite their working set.
const WRITERS: &[&str] =
    &["sequential-write", "--block", "1MiB", "--threads", "8", "--depth", "2", "--working-set", "512MiB"];

/// 99th percentile of GETATTR beside the writers, relative to GETATTR alone.
const FAIRNESS_RATIO_MAX: f64 = 10.0;

/// Maximal latency of any operation.
const STALL_MS_MAX: f64 = 250.0;

/// Time that background load runs before a measurement, enough to fill the journal and to leave dead segments.
const RAMP_SECONDS: f64 = 4.0;

/// Background load for the tails: small changes for checkpoints, and garbage for the cleaner.
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

/// Clients with a file each, and one operation in flight.
const CROWD: (u32, u32) = (1024, 1);

/// 99th percentile of a durable write by one of them, relative to the median.
const CROWD_RATIO_MAX: f64 = 4.0;

/// Measured workloads: title, arguments, threads and depth.
const FOREGROUND: &[(&str, &[&str], (u32, u32))] = &[
    ("GETATTR", &["getattr"], (1, 1)),
    ("cached READ 4 KiB", &["random", "--working-set", "8MiB"], (1, 1)),
    ("CREATE + REMOVE", &["create-remove"], (4, 4)),
    ("WRITE 4 KiB FILE_SYNC", &["write-file-sync"], (4, 4)),
];

/// Measures GETATTR alone and beside eight streaming writers, in turns.
pub(super) fn fairness(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&[])?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..run.options.rounds {
        let time = run.time();
        alone.push(run.sample(&server, &["getattr"], (1, 1), time)?);
        let samples = beside_load(run, &server, (&server, WRITERS), &[(&["getattr"], (1, 1))], time)?;
        beside.extend(samples);
        // The writers' removal of their files must not overlap the next round.
        cpu::wait_until_idle(server.target.pid, super::REST)?;
    }
    let ratio = alone.iter().zip(&beside).map(|(alone, beside)| beside.p99_us / alone.p99_us).collect();
    let p99 = |samples: &[Sample]| samples.iter().map(|sample| sample.p99_us).collect::<Vec<_>>();
    let mut figure = |name: &str, values, unit, goal| {
        run.figures.push(Figure { name: name.to_owned(), values, unit, goal });
    };
    figure("GETATTR of one client, p99", p99(&alone), " µs", Goal::None);
    figure("GETATTR of one client beside eight streaming writers, p99", p99(&beside), " µs", Goal::None);
    figure(
        "GETATTR beside eight streaming writers: p99, of that alone",
        ratio,
        "×",
        Goal::AtMost(FAIRNESS_RATIO_MAX),
    );
    Ok(())
}

/// Measures how evenly many clients are served that each write to a file of their own.
pub(super) fn crowd(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&[])?;
    let mut samples = Vec::new();
    for _ in 0..run.options.rounds {
        let time = run.time();
        samples.push(run.sample(&server, &["write-file-sync", "--working-set", "64MiB"], CROWD, time)?);
    }
    let title = format!("WRITE 4 KiB FILE_SYNC of {} clients with a file each", CROWD.0);
    let mut figure = |name: &str, value: &dyn Fn(&Sample) -> f64, unit, goal| {
        let values = samples.iter().map(value).collect();
        run.figures.push(Figure { name: format!("{title}{name}"), values, unit, goal });
    };
    let goal = Goal::AtMost(CROWD_RATIO_MAX);
    figure(": p99, of p50", &|sample| sample.p99_us / sample.p50_us, "×", goal);
    figure(", p50", &|sample| sample.p50_us, " µs", Goal::None);
    figure(", p99", &|sample| sample.p99_us, " µs", Goal::None);
    Ok(())
}

/// Measures percentiles and the maximum of several operations during checkpoints and cleaning.
pub(super) fn tails(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&[])?;
    let work = |server: &Server| -> Result<[f64; 2], String> {
        Ok([server.gauge("checkpoints")?, server.gauge("segments_cleaned")?])
    };
    let before = work(&server)?;
    let foreground: Vec<_> = FOREGROUND.iter().map(|(_, workload, size)| (*workload, *size)).collect();
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); FOREGROUND.len()];
    for _ in 0..run.options.rounds {
        let round = beside_load(run, &server, (&server, CHURN), &foreground, run.time())?;
        for (list, sample) in samples.iter_mut().zip(round) {
            list.push(sample);
        }
    }
    let after = work(&server)?;
    let mut figure = |name: String, values, unit, goal| run.figures.push(Figure { name, values, unit, goal });
    for ((title, ..), samples) in FOREGROUND.iter().zip(&samples) {
        let percentiles: [(&str, fn(&Sample) -> f64); 3] = [
            ("p50", |sample| sample.p50_us),
            ("p99", |sample| sample.p99_us),
            ("p99.9", |sample| sample.p999_us),
        ];
        for (name, percentile) in percentiles {
            let values: Vec<f64> = samples.iter().map(percentile).collect();
            figure(
                format!("{title} beside checkpoints and the cleaner, {name}"),
                vec![median(&values)],
                " µs",
                Goal::None,
            );
        }
        let longest = samples.iter().map(|sample| sample.max_us / 1e3).fold(0.0, f64::max);
        let name = format!("{title} beside checkpoints and the cleaner, maximum of all rounds");
        figure(name, vec![longest], " ms", Goal::AtMost(STALL_MS_MAX));
    }
    for (name, (after, before)) in
        ["checkpoints", "segments cleaned"].into_iter().zip(after.iter().zip(before))
    {
        figure(format!("{name} meanwhile"), vec![after - before], "", Goal::None);
    }
    Ok(())
}

/// Measures workloads one after the other beside a background load of the same server or another.
pub(super) fn beside_load(
    run: &mut Run<'_>,
    server: &Server,
    (loaded, background): (&Server, &[&str]),
    measured: &[(&[&str], (u32, u32))],
    time: Time,
) -> Result<Vec<Sample>, String> {
    let mut command = run.bench.background(&loaded.target, &[background, &["--seconds", "600"]].concat());
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
    // On SIGINT it removes its files.
    process::signal(&load, "INT");
    process::wait(&mut load, super::REST * 4);
    match samples {
        Ok(_) if is_over => Err("the background load ended early".to_owned()),
        samples => samples,
    }
}
