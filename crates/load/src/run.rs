//! A measurement from its beginning to its end: preparation, common start, stages, clean-up, result.
//!
//! A measurement is a *closed loop*: each virtual thread begins its next operation when one is answered, as the
//! threads of a benchmark program do. No operation is planned for a moment, so none can be late for it; what is
//! known as coordinated omission does not arise.

use std::time::{Duration, Instant};

use crate::client::{BlockingClient, Handle, Server, SweepOutcome};
use crate::error::LoadError;
use crate::random::fresh_seed;
use crate::result::{Latency, Measurement};
use crate::server_cost::Processes;
use crate::steady::SteadyRule;
use crate::workload::{Plan, Setup, Workload};

mod event_loop;
mod stages;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod window;
mod worker_pool;

use stages::Stages;
pub(crate) use tally::rate;

/// VirtualThread threads, at most.
pub const THREADS_MAX: u32 = 16_384;
/// Operations that a virtual thread has in flight, at most.
pub const DEPTH_MAX: u32 = 1024;
/// TCP connections, at most.
pub const CONNECTIONS_MAX: u32 = 16_384;

/// How TCP connections are given to virtual threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// So many to each thread, which uses them in turn.
    PerThread(u32),
    /// So many in all, shared by the threads.
    Total(u32),
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// So long. Workloads in phases are repeated until then, and at least done once.
    Time(Duration),
    /// So many operations, of all threads together; workloads in phases are done once.
    Operations(u64),
    /// Until the rate is steady.
    Steady(SteadyRule),
    /// As one of several hosts: until the observer, who is messages each round, says which round is the last of the window.
    Joint(SteadyRule),
}

/// A round of a measurement that lasts until its rate is steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCount {
    /// Which one, from 1.
    pub number: u64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of file data that they moved.
    pub bytes: u64,
}

/// How to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// VirtualThread threads.
    pub threads: u32,
    /// Operations that each of them has in flight.
    pub depth: u32,
    /// TCP connections.
    pub connections: Connections,
    /// Threads of the operating system; one for each processor if it is 0.
    pub event_loops: u32,
    /// Bytes that are read and written, of all threads together.
    pub working_set_bytes: u64,
    /// Where random numbers begin; fresh if there is none.
    pub seed: Option<u64>,
    /// How long operations are run before they are counted.
    pub warmup: Duration,
    /// How long is measured.
    pub length: Length,
    /// Check what is read.
    pub verify: bool,
    /// Local processes of the server, for the cost.
    pub server_pids: Vec<u32>,
    /// Leave the files that were made.
    pub keep: bool,
    /// How long cleaning up may take.
    pub cleanup: Duration,
    /// How long the server may answer nothing at all.
    pub reply_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            depth: 1,
            connections: Connections::PerThread(1),
            event_loops: 0,
            working_set_bytes: 256 << 20,
            seed: None,
            warmup: Duration::from_secs(1),
            length: Length::Time(Duration::from_secs(10)),
            verify: false,
            server_pids: Vec::new(),
            keep: false,
            cleanup: Duration::from_secs(120),
            reply_timeout: Duration::from_secs(60),
        }
    }
}

impl Length {
    /// Whether a workload can be measured so.
    pub(crate) fn check(&self, workload: &Workload) -> Result<(), LoadError> {
        match self {
            Self::Steady(_) | Self::Joint(_) if !workload.is_timed() => {
                Err(LoadError::new("a workload in phases has no steady state; give it a time"))
            }
            _ => Ok(()),
        }
    }
}

impl Options {
    fn check(&self, workload: &Workload) -> Result<(), LoadError> {
        let within = |what: &str, value: u32, most: u32| match value {
            0 => Err(LoadError::new(format!("{what}: at least 1"))),
            value if value > most => Err(LoadError::new(format!("{what}: at most {most}"))),
            _ => Ok(()),
        };
        within("threads", self.threads, THREADS_MAX)?;
        within("depth", self.depth, DEPTH_MAX)?;
        within("connections", self.connections(), CONNECTIONS_MAX)?;
        within("calls in flight", self.threads.saturating_mul(self.depth), 1 << 20)?;
        self.length.check(workload)?;
        workload.check(self.verify)
    }

    /// TCP connections in all.
    fn connections(&self) -> u32 {
        match self.connections {
            Connections::PerThread(each) => each.saturating_mul(self.threads),
            Connections::Total(total) => total,
        }
    }
}

/// How a measurement is going.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The workload's stage.
    pub stage: &'static str,
    /// Whether it is measured.
    pub is_measured: bool,
    /// Seconds since the stage began to be counted.
    pub elapsed_s: f64,
    /// Operations per second, just now.
    pub operations_per_s: f64,
    /// Bytes per second, just now.
    pub bytes_per_s: f64,
    /// Median latency, just now.
    pub p50_ns: u64,
    /// 99 of 100 operations were as fast as this, just now.
    pub p99_ns: u64,
    /// Operations that failed, since the measurement began.
    pub errors: u64,
}

/// Who watches a measurement, and may end it.
pub trait Observer {
    /// A measurement is about to begin, of several.
    fn begin(&mut self, _title: &str) {}

    /// One of several measurements is over.
    fn measured(&mut self, _measurement: &Measurement) {}

    /// A measured stage is about to begin: everything is prepared. Returns when it may; several hosts begin together
    /// that way.
    ///
    /// # Errors
    /// If it must not begin: the measurement ends with this error.
    fn before_stage(&mut self, _stage: &'static str) -> Result<(), LoadError> {
        Ok(())
    }

    /// A measured stage is over: no operation of it is in flight any more.
    fn after_stage(&mut self) {}

    /// An interval of a stage is over.
    fn progress(&mut self, _progress: &Progress) {}

    /// A round of [`Length::Joint`] is over.
    fn round(&mut self, _round: RoundCount) {}

    /// Which round of [`Length::Joint`] is the last that counts, once that is known. Asked many times a second.
    fn last_round(&mut self) -> Option<u64> {
        None
    }

    /// Whether to stop, with the result so far. Asked many times a second.
    fn is_interrupted(&mut self) -> bool {
        false
    }

    /// Something that people should know, such as files that were left behind.
    fn note(&mut self, _words: &str) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Measures.
///
/// # Errors
/// If nothing could be measured: the server cannot be reached, refuses what is prepared, breaks a connection, answers
/// nonsense or not at all, or if failures are all there is to measure.
pub fn measure(
    server: &Server,
    workload: &Workload,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Measurement, LoadError> {
    options.check(workload)?;
    let processes = Processes::new(&options.server_pids)?;
    let seed = options.seed.unwrap_or_else(fresh_seed);
    worker_pool::allow_files(options.connections());
    if !workload.needs_export() {
        let plan = Plan::without_export(options.threads);
        return run(server, workload, options, seed, plan, &processes, observer);
    }
    let root = BlockingClient::mount(server)?;
    let mut client = BlockingClient::connect(server)?;
    let sizes = client.sizes(&root)?;
    let name = format!("holdfast-bench-{:016x}", fresh_seed());
    let directory = client.make_directory(&root, &name)?;
    let mut setup = Setup {
        client: &mut client,
        directory,
        sizes,
        threads: options.threads,
        depth: options.depth,
        working_set_bytes: options.working_set_bytes,
        seed,
        verify: options.verify,
    };
    let result = workload
        .plan(&mut setup)
        .and_then(|plan| run(server, workload, options, seed, plan, &processes, observer));
    clean_up(server, &root, &name, options, observer);
    result
}

/// Removes what was made. A failure is messages, but the result counts.
fn clean_up(server: &Server, root: &Handle, name: &str, options: &Options, observer: &mut dyn Observer) {
    let left = |why: String| format!("{name} is left in {}: {why}", server.export);
    if options.keep {
        return observer.note(&left("--keep".to_owned()));
    }
    // The old connection may have broken, or have replies in it that nobody waits for.
    let swept = BlockingClient::connect(server)
        .and_then(|mut client| client.sweep(root, name, Instant::now() + options.cleanup));
    match swept {
        Ok(SweepOutcome::All) => {}
        Ok(SweepOutcome::OutOfTime) => {
            observer.note(&left(format!("not all could be removed within {} s", options.cleanup.as_secs())));
        }
        Err(error) => observer.note(&left(error.to_string())),
    }
}

/// Runs what was planned.
fn run(
    server: &Server,
    workload: &Workload,
    options: &Options,
    seed: u64,
    plan: Plan,
    processes: &Processes,
    observer: &mut dyn Observer,
) -> Result<Measurement, LoadError> {
    let Plan { stages, phases, actors, parts_max } = plan;
    let pool = worker_pool::WorkerPool::spawn(server, options, actors, parts_max)?;
    let mut run = Stages::new(pool, options, processes, observer);
    run.all(&stages)?;
    let result = run.finish()?;
    let seconds = result.seconds;
    let tally = &result.tally;
    if tally.operations == 0 && tally.failed() > 0 {
        let worst = tally.errors().into_iter().next().map(|error| error.cause).unwrap_or_default();
        let words = format!("no operation succeeded; {} failed, most of them so: {worst}", tally.failed());
        return Err(LoadError::new(words));
    }
    let phase_seconds = |phase: usize| {
        let name = phases.get(phase).copied().unwrap_or_default();
        result.stage_seconds.iter().find(|(stage, _)| *stage == name).map_or(seconds, |(_, seconds)| *seconds)
    };
    Ok(Measurement {
        name: workload.name(),
        workload: *workload,
        threads: options.threads,
        depth: options.depth,
        connections: options.connections(),
        seed,
        working_set_bytes: workload.working_set_bytes(options.working_set_bytes),
        seconds,
        warmup_seconds: result.warmup_seconds,
        operations: tally.operations,
        bytes: tally.bytes,
        errors: tally.errors(),
        operations_per_s: rate(tally.operations, seconds),
        bytes_per_s: rate(tally.bytes, seconds),
        latency: Latency::of(&tally.latency),
        phases: tally.phases(phases, phase_seconds),
        timeline: result.timeline,
        steady: result.steady,
        interrupted: result.interrupted,
        verified_blocks: options.verify.then_some(tally.verified_blocks),
        server: result.server,
        limit: None,
        published: Vec::new(),
    })
}
