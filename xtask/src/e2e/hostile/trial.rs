//! One attack beside the well-behaved clients, and the verdict.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::lab::Lab;
use super::attacks::Attack;
use super::newcomers::{Newcomers, SERVED};
use super::nfs3;
use super::rpc::{Caller, Link};
use super::watch::Times;
use super::witnesses::Witness;
use super::{ATTACK, MEMORY_BYTES, Scene, places};
use crate::process;

/// What `memory` is kept within, as `docs/configuration.md` says.
const RESIDENT_BYTES_MAX: u64 = MEMORY_BYTES + MEMORY_BYTES / 10;
/// The time that 99 of 100 calls of a well-behaved client may take.
const P99_MAX: Duration = Duration::from_millis(250);
/// The same as a multiple of the time without an attack.
const SLOWER_MAX: u32 = 10;
/// A time below which calls are not slow, whatever they took without an attack: other programs use the machine too.
const NOT_SLOW: Duration = Duration::from_millis(50);
/// How long the time without an attack is measured.
const BASELINE: Duration = Duration::from_secs(3);
/// Pause between newcomers.
const BETWEEN_NEWCOMERS: Duration = Duration::from_millis(500);
/// Bytes by which an attack may make the log grow: some hundred lines.
const LOG_BYTES_MAX: usize = 128 << 10;
/// Attackers yield to the server and its clients, as if they had processors of their own.
const NICE: i32 = 15;

/// The well-behaved clients of a server, and how fast it serves them without an attack.
pub(super) struct Bed {
    witnesses: Vec<Witness>,
    baseline: Vec<Duration>,
    folder: Vec<u8>,
}

impl Bed {
    /// Starts a server and the clients, and measures.
    pub(super) fn new(lab: &mut Lab, seed: u64) -> Result<Bed, String> {
        lab.start()?;
        let mut link = Link::open(Caller::host(places::client(3)))?;
        let folder = nfs3::mount(&mut link, b"/main")?;
        let mut bed = Bed { witnesses: Vec::new(), baseline: Vec::new(), folder };
        bed.start(seed)?;
        bed.baseline = bed.measure();
        if bed.witnesses.iter().any(Witness::has_failed) {
            bed.stop()?;
        }
        Ok(bed)
    }

    /// Measures how fast the clients are served without an attack.
    fn measure(&self) -> Vec<Duration> {
        self.witnesses.iter().for_each(|witness| drop(witness.watch.take()));
        thread::sleep(BASELINE);
        let times: Vec<Times> = self.witnesses.iter().map(|witness| witness.watch.take()).collect();
        println!("     without an attack: {}", self.describe(&times));
        times.iter().map(Times::p99).collect()
    }

    /// Starts the clients.
    fn start(&mut self, seed: u64) -> Result<(), String> {
        self.witnesses = vec![Witness::nfs3(seed)?, Witness::nfs4(seed)?];
        Ok(())
    }

    /// Stops the clients. Returns what failed.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let results: Vec<Result<(), String>> = self.witnesses.drain(..).map(Witness::stop).collect();
        results.into_iter().collect()
    }

    fn describe(&self, times: &[Times]) -> String {
        let describe = |(witness, times): (&Witness, &Times)| {
            let (longest, call) = times.longest();
            let (count, p99) = (times.count(), times.p99());
            format!("{} p99 {} of {count} calls, at most {} ({call})", witness.name, ms(p99), ms(longest))
        };
        let both: Vec<String> = self.witnesses.iter().zip(times).map(describe).collect();
        both.join("; ")
    }

    /// Lets an attack run. Returns a note on what happened, or why the server did not withstand it.
    pub(super) fn suffer(&mut self, lab: &mut Lab, attack: &Attack, seed: u64) -> Result<String, String> {
        let before = Before::new(lab)?;
        let scene = Scene {
            folder: self.folder.clone(),
            end: Instant::now() + ATTACK,
            data: lab.data(),
            binary: lab.binary(),
            log: lab.log(),
        };
        for witness in &self.witnesses {
            witness.watch.take();
        }
        let (achieved, during) = attack_beside_newcomers(attack, &scene);
        let newcomers = achieved.as_ref().map_err(String::clone).and(during);
        if attack.restarts && newcomers.is_ok() {
            self.stop()?;
            lab.kill();
            lab.start()?;
            self.start(seed)?;
        }
        let recovered = self.recover().and_then(|()| (attack.afterwards)());
        let times: Vec<Times> = self.witnesses.iter().map(|witness| witness.watch.take()).collect();
        let described = self.describe(&times);
        let verdict = newcomers.and_then(|newcomers| {
            recovered?;
            self.judge(&times)?;
            Ok(newcomers)
        });
        // The clients' own errors come first: they explain the others.
        let failed = if self.witnesses.iter().any(Witness::has_failed) { self.stop() } else { Ok(()) };
        if let Some(status) = lab.ended()? {
            return Err(format!("the server ended: {status}"));
        }
        let used = before.judge(lab);
        let newcomers = failed.and(verdict).and_then(|newcomers| used.clone().map(|_| newcomers));
        let note = achieved.unwrap_or_default();
        let newcomers = newcomers.map_err(|why| format!("{why} [{note}; {described}]"))?;
        Ok(format!(
            "{note}; {described}; {} newcomers, each within {}; {}",
            newcomers.count,
            ms(newcomers.longest),
            used.unwrap_or_default()
        ))
    }

    /// Checks that everybody is served at once when the attack is over.
    fn recover(&self) -> Result<(), String> {
        let ended = Instant::now();
        for witness in &self.witnesses {
            if !witness.is_served_within(SERVED.saturating_sub(ended.elapsed())) {
                return Err(format!("{} is not served again {} after the attack", witness.name, ms(SERVED)));
            }
        }
        Newcomers::default().come().map_err(|why| format!("after the attack, {why}"))?;
        match ended.elapsed() {
            long if long > SERVED => {
                Err(format!("the attack is over for {} before all are served", ms(long)))
            }
            _ => Ok(()),
        }
    }

    /// Compares the times of calls with their bounds. If they are slow, the time without an attack is measured once more: other
    /// programs may have begun since.
    fn judge(&mut self, times: &[Times]) -> Result<(), String> {
        self.compare(times).or_else(|_| {
            let again = self.measure();
            self.baseline
                .iter_mut()
                .zip(again)
                .for_each(|(baseline, again)| *baseline = again.max(*baseline));
            self.compare(times)
        })
    }

    fn compare(&self, times: &[Times]) -> Result<(), String> {
        for ((witness, times), baseline) in self.witnesses.iter().zip(times).zip(&self.baseline) {
            let bound = P99_MAX.min((*baseline * SLOWER_MAX).max(NOT_SLOW));
            if times.p99() > bound {
                return Err(format!("{} is slow: more than {}", witness.name, ms(bound)));
            }
        }
        Ok(())
    }
}

/// Runs the attack while newcomers come. Returns what it achieved, and how the newcomers were served.
fn attack_beside_newcomers(
    attack: &Attack,
    scene: &Scene,
) -> (Result<String, String>, Result<Newcomers, String>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let newcomers = scope.spawn(|| {
            let mut newcomers = Newcomers::default();
            while !is_over.load(Ordering::SeqCst) {
                newcomers.come()?;
                thread::sleep(BETWEEN_NEWCOMERS);
            }
            Ok(newcomers)
        });
        let attacker = scope.spawn(|| {
            rustix::process::setpriority_process(None, NICE)
                .map_err(|error| format!("cannot lower the attacker's priority: {error}"))?;
            (attack.run)(scene)
        });
        let achieved = attacker.join().unwrap_or_else(|_| Err("the attacker panicked".to_owned()));
        is_over.store(true, Ordering::SeqCst);
        let newcomers = newcomers.join().unwrap_or_else(|_| Err("a newcomer panicked".to_owned()));
        (achieved, newcomers)
    })
}

/// What the server had used before the attack.
struct Before {
    log_bytes: usize,
}

impl Before {
    /// Notes the length of the log, and lets the system count the most memory in use from now on.
    fn new(lab: &Lab) -> Result<Before, String> {
        let peak = format!("/proc/{}/clear_refs", lab.process_id()?);
        fs::write(&peak, "5").map_err(|error| format!("{peak}: {error}"))?;
        let log = fs::read(lab.log()).map_err(process::at(&lab.log()))?;
        Ok(Before { log_bytes: log.len() })
    }

    /// Compares the memory and the log with their bounds.
    fn judge(&self, lab: &Lab) -> Result<String, String> {
        let path = format!("/proc/{}/status", lab.process_id()?);
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let bytes = kibibytes.ok_or_else(|| format!("{path} has no VmHWM"))? << 10;
        let memory = format!("memory {} MiB", bytes >> 20);
        if bytes > RESIDENT_BYTES_MAX {
            return Err(format!("{memory}, more than {} MiB", RESIDENT_BYTES_MAX >> 20));
        }
        let log = fs::read(lab.log()).map_err(process::at(&lab.log()))?;
        let grown = log.get(self.log_bytes..).unwrap_or_default();
        if grown.len() > LOG_BYTES_MAX {
            return Err(format!("the log grew by {} KiB", grown.len() >> 10));
        }
        if let Some(byte) = grown.iter().find(|byte| byte.is_ascii_control() && **byte != b'\n') {
            return Err(format!("the log contains the control character {byte:#04x}"));
        }
        Ok(format!("{memory}, log +{} B", grown.len()))
    }
}

/// A time in milliseconds.
fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
