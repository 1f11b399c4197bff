//! Steps that a process recorded survive killing it while many callers work.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::concurrent::run;
use crate::history::{History, Step};
use crate::random::{Random, duration, seed};
use crate::verifier::verify;
use crate::world::{Scratch, World, check};

/// Makes this program the process to be killed: seed, round and directory.
const CHILD: &str = "HOLDFAST_STRESS_CHILD";

/// Prefix of recorded steps; the test harness prints other lines, too.
const MARK: &str = "@ ";

/// Longest life of a process in milliseconds.
const LIFE: u64 = 1500;

#[test]
fn recorded_steps_survive_the_kill_of_the_process() {
    if std::env::var(CHILD).is_ok() {
        return;
    }
    let seed = seed();
    let mut random = Random::new(seed);
    let scratch = Scratch::new("killed");
    let end = Instant::now() + duration();
    let mut all: Vec<History> = Vec::new();
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        let life = Duration::from_millis(50 + random.below(LIFE));
        let told = live_and_die(scratch.path(), seed ^ round, round, life);
        check(scratch.path());
        all.extend(told);
        let world = World::open(scratch.path());
        for history in &mut all {
            verify(&world.caller(99), history);
        }
        // In half of the rounds the volume is not closed either.
        if random.one_in(2) {
            world.close();
            check(scratch.path());
        } else {
            world.abandon();
        }
        round += 1;
    }
    println!("{round} rounds");
}

/// Runs this program as a separate process, kills it, and returns what it recorded.
fn live_and_die(path: &Path, seed: u64, round: u64, life: Duration) -> Vec<History> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{seed} {round} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut all: Vec<History> = Vec::new();
        let mut input = BufReader::new(output);
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).unwrap() > 0 {
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            // The last line may be truncated; its step was not acknowledged.
            let Some(text) = text.strip_suffix('\n') else { break };
            let Some((_, text)) = text.split_once(MARK) else { continue };
            let (number, step) = text.split_once(' ').unwrap();
            let number: usize = number.parse().unwrap();
            if all.len() <= number {
                all.resize(number + 1, History::default());
            }
            all[number].record(Step::parse(step).unwrap());
        }
        all
    });
    thread::sleep(life);
    let ended = child.try_wait().unwrap();
    assert!(ended.is_none(), "the process ended early: {ended:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// Not a test: the process that is killed.
#[test]
fn child() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let mut words = text.splitn(3, ' ');
    let seed: u64 = words.next().unwrap().parse().unwrap();
    let round = words.next().unwrap();
    let world = World::open(Path::new(words.next().unwrap()));
    let record = |number: u64, step: String| {
        let line = format!("{MARK}{number} {step}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    };
    run(&world, seed, &format!("life-{round}"), &record, &|| true);
}
