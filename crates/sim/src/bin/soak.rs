//! Runs the simulation for as long as asked: `soak crash --points 200000 [--seed S]`, `soak model --runs 100 [--seed
//! S]`, `soak nfs4 --runs 1000 [--seed S]`, `soak failover --points 100000 [--seed S]`.
//!
//! A seed determines everything that a run does. A failure prints its seed and the shrunk events.

use std::process::ExitCode;
use std::time::Instant;

use sim::proofs::{crash, damage, full_device, media_faults, model};
use sim::workload::Profile;
use sim::{failover, nfs4};

/// Events of one model run.
const MODEL_EVENTS: usize = 1500;
/// Lists of events that shrinking tries.
const SHRINK_TRIES: usize = 1500;
/// Crashes in each phase of a run on a full device.
const FULL_BOUNDARIES: usize = 60;

/// Damaged copies of the index of each run.
const DAMAGED_COPIES: u64 = 30;

/// Seeds tried to find a failure again with a smaller plan.
const NFS4_TRIES: u64 = 30;

struct Arguments {
    what: String,
    points: u64,
    runs: u64,
    seed: u64,
}

fn arguments() -> Result<Arguments, String> {
    let usage = "usage: soak crash|model|full|faults|damage|nfs4|failover [--points N] [--runs N] [--seed S]";
    let mut given = std::env::args().skip(1);
    let what = given.next().ok_or(usage)?;
    let fresh =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |age| age.as_secs());
    let mut arguments = Arguments { what, points: 5000, runs: u64::MAX, seed: fresh };
    while let Some(option) = given.next() {
        let value = given.next().and_then(|value| value.parse().ok()).ok_or(usage)?;
        match option.as_str() {
            "--points" => arguments.points = value,
            "--runs" => arguments.runs = value,
            "--seed" => arguments.seed = value,
            _ => return Err(usage.to_owned()),
        }
    }
    Ok(arguments)
}

/// Returns the workload of a seed: of two in eight, one that meets limits all the time, over RPC and not.
fn profile(seed: u64) -> Profile {
    if seed % 8 >= 6 { Profile::limited() } else { Profile::default() }
}

fn crashes(arguments: &Arguments) -> Result<(), String> {
    let (began, mut points, mut runs) = (Instant::now(), 0, 0);
    while points < arguments.points && runs < arguments.runs {
        let seed = arguments.seed + runs;
        let profile = Profile { reopen: false, ..profile(seed) };
        points += crash::run(seed, &crash::Plan { profile, ..crash::Plan::default() })
            .map_err(|failure| format!("{failure}\nshrunk: {}", crash::minimize(&failure, SHRINK_TRIES)))?;
        runs += 1;
        if runs % 10 == 0 {
            println!(
                "{points} crash points, seeds {} to {seed}, {} s",
                arguments.seed,
                began.elapsed().as_secs()
            );
        }
    }
    println!("{points} crash points, seeds {} to {}, no failure", arguments.seed, arguments.seed + runs - 1);
    Ok(())
}

fn models(arguments: &Arguments) -> Result<(), String> {
    for number in 0..arguments.runs.min(arguments.points) {
        let seed = arguments.seed + number;
        model::run(seed, MODEL_EVENTS, profile(seed))
            .map_err(|failure| model::minimize(&failure, SHRINK_TRIES).to_string())?;
        println!("seed {seed}: {MODEL_EVENTS} events agree");
    }
    Ok(())
}

fn full_devices(arguments: &Arguments) -> Result<(), String> {
    let (mut points, mut runs) = (0, 0);
    while points < arguments.points && runs < arguments.runs {
        let seed = arguments.seed + runs;
        let tally =
            full_device::run(seed, FULL_BOUNDARIES).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
        points += tally.points;
        runs += 1;
        println!("seed {seed}: {} calls refused, {} crash points", tally.refused, tally.points);
    }
    println!("{points} crash points of full devices, no failure");
    Ok(())
}

fn failing_media(arguments: &Arguments) -> Result<(), String> {
    let mut sum = media_faults::Tally::default();
    for seed in (arguments.seed..).take(usize::try_from(arguments.runs.min(arguments.points)).unwrap_or(1)) {
        let tally = media_faults::run_io_errors(seed).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
        media_faults::run_bit_flips(seed).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
        sum.struck += tally.struck;
        sum.refused += tally.refused;
        sum.judged += tally.judged;
    }
    let media_faults::Tally { struck, refused, judged } = sum;
    println!(
        "{struck} faults took effect, {refused} changes refused after them, {judged} open volumes judged"
    );
    Ok(())
}

/// A point is a crash while an index is replaced.
fn damaged_indexes(arguments: &Arguments) -> Result<(), String> {
    let (mut sum, mut runs) = (damage::Tally::default(), 0);
    while sum.points < arguments.points && runs < arguments.runs {
        let seed = arguments.seed + runs;
        let tally = damage::run(seed, DAMAGED_COPIES).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
        sum.opened += tally.opened;
        sum.refused += tally.refused;
        sum.lost += tally.lost;
        sum.points += tally.points;
        runs += 1;
    }
    let damage::Tally { opened, refused, lost, points } = sum;
    println!(
        "{opened} damaged volumes opened, {refused} refused, {lost} objects lost, {points} crash points, no failure"
    );
    Ok(())
}

/// A point is a crash of the server here.
fn nfs4_clients(arguments: &Arguments) -> Result<(), String> {
    let (mut sum, mut runs) = (nfs4::Tally::default(), 0);
    while sum.crashes < arguments.points && runs < arguments.runs {
        let seed = arguments.seed + runs;
        let tally = nfs4::run(seed, &nfs4::Plan::default())
            .map_err(|failure| format!("{failure}\nsmaller: {}", nfs4::minimize(&failure, NFS4_TRIES)))?;
        sum.add(&tally);
        runs += 1;
        if runs % 20 == 0 {
            println!("{runs} runs, {sum:?}");
        }
    }
    println!("{runs} runs from seed {}, {sum:?}, no failure", arguments.seed);
    Ok(())
}

/// A point is a schedule; a tenth as many more follow in which the store hangs and nothing may move.
fn takeovers(arguments: &Arguments) -> Result<(), String> {
    let (ways, tally) = failover::every_boundary(failover::Planted::Nothing)?;
    println!("{ways} ways of a takeover, {tally:?}, no failure");
    let schedules = |count: u64, plan: &failover::Plan| {
        let (began, mut sum) = (Instant::now(), failover::Tally::default());
        for number in 0..count {
            sum.add(&failover::run(arguments.seed + number, plan)?);
            if (number + 1) % 10_000 == 0 {
                println!("{} schedules, {} s, {sum:?}", number + 1, began.elapsed().as_secs());
            }
        }
        println!("{count} schedules from seed {}, {sum:?}, no failure", arguments.seed);
        Ok::<(), String>(())
    };
    schedules(arguments.points, &failover::Plan::default())?;
    let hangs = failover::Plan { only_hangs: true, ..failover::Plan::default() };
    schedules(arguments.points / 10, &hangs)
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| {
        println!("seed {}", arguments.seed);
        match arguments.what.as_str() {
            "crash" => crashes(&arguments),
            "model" => models(&arguments),
            "full" => full_devices(&arguments),
            "faults" => failing_media(&arguments),
            "damage" => damaged_indexes(&arguments),
            "nfs4" => nfs4_clients(&arguments),
            "failover" => takeovers(&arguments),
            other => Err(format!(
                "unknown proof `{other}`; try `crash`, `model`, `full`, `faults`, `damage`, `nfs4` or `failover`"
            )),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
