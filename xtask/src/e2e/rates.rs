//! Rate limits, over the wire: a backlogged load gets what its limit allows, neither more nor much less, and a client beside
//! it does not notice; and who is throttled keeps his leases. The load is `holdfast bench`; each case is measured once more if it misses its bounds, as the machine
//! may be busy.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Options;
use super::lab::{ADDRESS, Lab, PORT};
use crate::process;

mod leases;

/// The limit of the loaded volume, bytes a second. Far below what two processors can serve, so that nothing else limits it.
const LIMIT: u64 = 24 << 20;

/// What ten seconds of a backlogged load get of that, in percent.
const EXPECTED: std::ops::RangeInclusive<f64> = 99.0..=100.5;

/// Blocks, percent of reads, connections, protocols.
const BLOCKS: [&str; 3] = ["4KiB", "64KiB", "1MiB"];
const MIXES: [&str; 3] = ["100", "0", "70"];
const CONNECTIONS: [&str; 3] = ["1", "4", "16"];
const PROTOCOLS: [&str; 2] = ["3", "4.2"];

/// Cases of a sample.
const SAMPLE: usize = 2;

/// How many times longer the slowest percent of the neighbour's calls may take beside the load.
const SLOWER_MAX: f64 = 2.0;

/// What is never too long for it, nanoseconds: clients and server share two processors, which switch threads so rarely.
const SHORT: f64 = 4e6;

/// Clients that share a limit: the block and the connections of each.
const SHARERS: [&[(&str, &str)]; 3] = [
    &[("4KiB", "1"), ("1MiB", "16")],
    &[("1MiB", "1"), ("4KiB", "16")],
    &[("4KiB", "1"), ("64KiB", "4"), ("1MiB", "16"), ("4KiB", "16")],
];

/// Jain's index of what they get: one if all get the same.
const JAIN_MIN: f64 = 0.99;

/// The neighbour's loads.
const NEIGHBOUR: [&[&str]; 2] =
    [&["getattr", "--threads", "2"], &["random", "--block", "4KiB", "--mix", "100", "--threads", "2"]];

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let exports =
        ["main", "busy"].map(|name| format!("[[export]]\npath = \"/{name}\"\nvolume = \"{name}\"\n"));
    lab.configure(&format!("lease = {}\n", leases::LEASE));
    lab.start()?;
    lab.holdfast(&["volume", "create"], &["busy", "--mode", "0777"])?;
    lab.export(exports.concat())?;
    process::output(Command::new("kill").args(["-HUP", &lab.process_id()?.to_string()]))?;
    lab.await_log("exports reloaded")?;
    let limit = LIMIT.to_string();
    lab.holdfast(&["qos", "set"], &["--volume", "busy", "--total-bytes", &limit])?;
    let mut cases = cases();
    let all = cases.len();
    let mut random = fastrand::Rng::with_seed(options.seed);
    random.shuffle(&mut cases);
    cases.truncate(if options.sample { SAMPLE } else { all });
    for case in &cases {
        twice(|| accuracy(lab, *case))?;
    }
    let mut sharing = SHARERS.to_vec();
    random.shuffle(&mut sharing);
    sharing.truncate(if options.sample { 1 } else { SHARERS.len() });
    for sharers in sharing {
        twice(|| fairness(lab, sharers))?;
    }
    for load in NEIGHBOUR {
        twice(|| isolation(lab, load))?;
    }
    let shown = lab.holdfast(&["qos", "show"], &["--volume", "busy", "--json"])?;
    if !shown.contains("\"throttled_milliseconds\":{\"total_bytes\":") {
        return Err(format!("the volume was throttled, but it says {shown}"));
    }
    let kept = leases::run(lab)?;
    Ok(format!(
        "{} of {all} loads got 99 to 100.5 % of their limit, clients fair shares; two neighbours did not notice; {kept}",
        cases.len()
    ))
}

type Case = (&'static str, &'static str, &'static str, &'static str);

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for block in BLOCKS {
        for mix in MIXES {
            for connections in CONNECTIONS {
                cases.extend(PROTOCOLS.map(|protocol| (block, mix, connections, protocol)));
            }
        }
    }
    cases
}

/// Measures, and once more if the result is not within its bounds.
fn twice(measure: impl Fn() -> Result<(), String>) -> Result<(), String> {
    measure().or_else(|why| {
        println!("once more: {why}");
        measure()
    })
}

/// Checks what a backlogged load gets.
fn accuracy(lab: &Lab, (block, mix, connections, protocol): Case) -> Result<(), String> {
    let words = ["random", "--block", block, "--mix", mix, "--threads", "16", "--connections", connections];
    let result = measured(bench(lab, "busy", &words, &["--protocol", protocol, "--seconds", "10"]))?;
    let rate = number(&result, "/bytes_per_s")?;
    #[expect(clippy::cast_precision_loss, reason = "a ratio for the eye")]
    let percent = 100.0 * rate / LIMIT as f64;
    println!(
        "{block}, {mix} % reads, {connections} connections, NFS {protocol}: {percent:.2} % of the limit"
    );
    if EXPECTED.contains(&percent) {
        return Ok(());
    }
    Err(format!("{block}, {mix} % reads, {connections} connections got {percent:.2} % of the limit"))
}

/// Checks that clients at different addresses get equal shares of one limit. Each is measured while all others run.
fn fairness(lab: &Lab, sharers: &[(&str, &str)]) -> Result<(), String> {
    let load = |number: usize, seconds: &str| {
        let (block, connections) = sharers[number];
        let words =
            ["random", "--block", block, "--mix", "50", "--threads", "16", "--connections", connections];
        bench(lab, "busy", &words, &["--from", &format!("127.0.0.{}", 2 + number), "--seconds", seconds])
    };
    let share = |measured_one: usize| {
        let others = (0..sharers.len()).filter(|other| *other != measured_one);
        let mut running = others
            .map(|other| process::start(load(other, "600").stdout(Stdio::null())))
            .collect::<Result<Vec<_>, _>>()?;
        // They make their files first.
        thread::sleep(Duration::from_secs(6));
        let rate = measured(load(measured_one, "6")).and_then(|result| number(&result, "/bytes_per_s"));
        running.iter_mut().for_each(process::stop);
        rate
    };
    let rates = (0..sharers.len()).map(share).collect::<Result<Vec<f64>, String>>()?;
    let jain = jain(&rates);
    let mebibytes: Vec<String> =
        rates.iter().map(|rate| format!("{:.2}", rate / f64::from(1 << 20))).collect();
    println!("{sharers:?}: {} MiB/s, Jain {jain:.4}", mebibytes.join(", "));
    if jain >= JAIN_MIN {
        return Ok(());
    }
    Err(format!("blocks and connections {sharers:?} got {mebibytes:?} MiB/s: Jain's index is {jain:.4}"))
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    #[expect(clippy::cast_precision_loss, reason = "few clients")]
    let count = rates.len() as f64;
    sum * sum / (count * squares)
}

/// Checks that a neighbour in another volume does not notice 64 writers at their limit.
fn isolation(lab: &Lab, load: &[&str]) -> Result<(), String> {
    let neighbour = || measured(bench(lab, "main", load, &["--seconds", "3"]));
    let p99 = |result: &Value| number(result, "/latency/p99_ns");
    let alone = p99(&neighbour()?)?;
    let writers = ["random", "--block", "64KiB", "--mix", "0", "--threads", "64"];
    let mut busy = bench(lab, "busy", &writers, &["--seconds", "8"]);
    let mut writers = process::start(busy.stdout(Stdio::null()))?;
    // Files are made and connections opened first.
    thread::sleep(Duration::from_secs(4));
    let beside = neighbour().and_then(|result| p99(&result));
    process::stop(&mut writers);
    let beside = beside?;
    println!("{}: p99 {:.0} us alone, {:.0} us beside 64 writers", load[0], alone / 1e3, beside / 1e3);
    if beside <= (SLOWER_MAX * alone).max(SHORT) {
        return Ok(());
    }
    Err(format!("{}: p99 is {beside} ns beside 64 writers at their limit, {alone} ns alone", load[0]))
}

fn bench(lab: &Lab, volume: &str, workload: &[&str], options: &[&str]) -> Command {
    let mut command = Command::new(lab.binary());
    command.args(["bench", "run", &format!("{ADDRESS}:{PORT}:/{volume}")]).args(workload);
    command.args(["--warmup", "2", "--working-set", "32MiB", "--json"]).args(options);
    command
}

fn measured(mut command: Command) -> Result<Value, String> {
    let text = process::output(&mut command)?;
    let result: Value = serde_json::from_str(&text).map_err(|error| format!("the benchmark: {error}"))?;
    result.pointer("/results/0").cloned().ok_or_else(|| "the benchmark has no result".to_owned())
}

fn number(result: &Value, pointer: &str) -> Result<f64, String> {
    result.pointer(pointer).and_then(Value::as_f64).ok_or_else(|| format!("the benchmark has no {pointer}"))
}
