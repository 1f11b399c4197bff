//! A measurement from beginning to end: preparation, common start, stages, clean-up, result.
//!
//! A measurement is a *closed loop*: each virtual thread begins its next operation when one is answered, like the
//! threads of a benchmark program. Operations have no scheduled start, so there is no coordinated omission.

use std::time::{Duration, Instant};

use crate::client::nfs4::{Session, slots_for};
use crate::client::{BlockingClient, Handle, Server, SweepOutcome};
use crate::error::LoadError;
use crate::leftovers;
use crate::random::fresh_seed;
use crate::result::{Latency, Measurement, Slots};
use crate::server_cost::Processes;
use crate::steady::SteadyRule;
use crate::text::{rounded_size, size};
use crate::workload::{Plan, Setup, Workload};

mod event_loop;
mod layout;
mod stages;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod window;
mod worker_pool;

use layout::LoopShare;
use stages::Stages;
pub(crate) use tally::rate;
use worker_pool::WorkerPool;

/// Virtual threads.
pub const THREADS_MAX: u32 = 16_384;
/// Operations in flight per virtual thread.
pub const DEPTH_MAX: u32 = 1024;
/// TCP connections.
pub const CONNECTIONS_MAX: u32 = 16_384;

/// How virtual threads share TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Each thread has this many connections and uses them in turn.
    PerThread(u32),
    /// All threads share this many connections.
    Total(u32),
}

/// When a measurement ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// After this time. Workloads in phases repeat until then, and run at least once.
    Time(Duration),
    /// After this many operations of all threads together. Workloads in phases run once.
    Operations(u64),
    /// When the rate is steady.
    Steady(SteadyRule),
    /// When the observer, which receives the count of each round, names the last round of the window. For one of
    /// several hosts.
    Joint(SteadyRule),
}

/// The count of one round of a steady-state measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCount {
    /// The round's number, from 1.
    pub number: u64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of file data that these operations moved.
    pub bytes: u64,
}

/// How to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Virtual threads.
    pub threads: u32,
    /// Operations in flight per virtual thread.
    pub depth: u32,
    /// TCP connections.
    pub connections: Connections,
    /// Event loops, each in a thread of the operating system. 0 means one per processor.
    pub event_loops: u32,
    /// Bytes of files that all threads together read and write.
    pub working_set_bytes: u64,
    /// The seed of random numbers. Chosen afresh if absent.
    pub seed: Option<u64>,
    /// The time that operations run before results include them.
    pub warmup: Duration,
    /// When the measurement ends.
    pub length: Length,
    /// Whether reads verify the data.
    pub verify: bool,
    /// Process ids of local servers whose processor time is measured.
    pub server_pids: Vec<u32>,
    /// Whether the files stay after the measurement.
    pub keep: bool,
    /// The time limit for clean-up.
    pub cleanup: Duration,
    /// The time after which a server that answers nothing fails the measurement.
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
    /// Checks that a workload can end this way.
    pub(crate) fn check(&self, workload: &Workload) -> Result<(), LoadError> {
        match self {
            Self::Steady(_) | Self::Joint(_) if !workload.is_timed() => {
                Err(LoadError::new("a workload in phases has no steady state; give it a time"))
            }
            Self::Time(Duration::ZERO) if workload.is_timed() => {
                Err(LoadError::new("nothing was measured: the measurement has no length (--seconds 0)"))
            }
            _ => Ok(()),
        }
    }
}

impl Options {
    fn check(&self, workload: &Workload) -> Result<(), LoadError> {
        let within = |what: &str, value: u32, max: u32| match value {
            0 => Err(LoadError::new(format!("{what}: at least 1"))),
            value if value > max => Err(LoadError::new(format!("{what}: at most {max}"))),
            _ => Ok(()),
        };
        within("threads", self.threads, THREADS_MAX)?;
        within("depth", self.depth, DEPTH_MAX)?;
        within("connections", self.connections(), CONNECTIONS_MAX)?;
        within("calls in flight", self.threads.saturating_mul(self.depth), 1 << 20)?;
        self.length.check(workload)?;
        workload.check(self.verify)
    }

    /// Returns the number of TCP connections.
    fn connections(&self) -> u32 {
        match self.connections {
            Connections::PerThread(each) => each.saturating_mul(self.threads),
            Connections::Total(total) => total,
        }
    }
}

/// The current rates of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The name of the workload's stage.
    pub stage: &'static str,
    /// Whether the stage is measured.
    pub is_measured: bool,
    /// How much of the stage is done, from 0 to 1, if that is known.
    pub fraction: Option<f64>,
    /// Seconds since operations began to count.
    pub elapsed_s: f64,
    /// Operations per second in the last interval.
    pub operations_per_s: f64,
    /// Bytes per second in the last interval.
    pub bytes_per_s: f64,
    /// The median latency in the last interval.
    pub p50_ns: u64,
    /// The 99th percentile of latency in the last interval.
    pub p99_ns: u64,
    /// Failed operations since the measurement began.
    pub errors: u64,
}

impl Progress {
    /// Returns the progress of a stage in which nothing has happened.
    pub(crate) const fn idle(stage: &'static str, is_measured: bool) -> Self {
        Self {
            stage,
            is_measured,
            fraction: None,
            elapsed_s: 0.0,
            operations_per_s: 0.0,
            bytes_per_s: 0.0,
            p50_ns: 0,
            p99_ns: 0,
            errors: 0,
        }
    }
}

/// Watches a measurement, and may end it.
pub trait Observer {
    /// Called before each of several measurements.
    fn begin(&mut self, _title: &str) {}

    /// Called after each of several measurements.
    fn measured(&mut self, _measurement: &Measurement) {}

    /// Called when a measured stage is prepared. The stage begins when this returns, so several hosts can begin
    /// together.
    ///
    /// # Errors
    /// An error ends the measurement.
    fn before_stage(&mut self, _stage: &'static str) -> Result<(), LoadError> {
        Ok(())
    }

    /// Called when a measured stage is over and none of its operations is in flight.
    fn after_stage(&mut self) {}

    /// Called after each interval of a stage.
    fn progress(&mut self, _progress: &Progress) {}

    /// Called after each round of [`Length::Joint`].
    fn round(&mut self, _round: RoundCount) {}

    /// Returns the last round of [`Length::Joint`] that counts, once it is decided. Called many times per second.
    fn last_round(&mut self) -> Option<u64> {
        None
    }

    /// Whether to stop with the result so far. Called many times per second.
    fn is_interrupted(&mut self) -> bool {
        false
    }

    /// Called with a sentence for the user, such as one about files that were left behind.
    fn note(&mut self, _words: &str) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Runs a measurement.
///
/// # Errors
/// If the server cannot be reached, refuses the preparation, breaks a connection, sends malformed replies or none, or
/// fails every operation.
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
    let shares = layout::divide(options);
    let job = Job { server, workload, options, seed, shares: &shares, processes: &processes };
    if !workload.needs_export() {
        return job.run(Plan::without_export(options.threads), Vec::new(), None, observer);
    }
    let (mut client, root) = BlockingClient::open(server)?;
    if workload.stored_bytes(options.working_set_bytes, options.threads) > 0 {
        check_space(workload, options, client.free_bytes(&root)?)?;
    }
    let (sessions, slots) = job.sessions(&mut client)?;
    let depth = slots.map_or(options.depth, |slots| slots.depth(layout::threads_per_session(&shares)));
    let options = &Options { depth, ..options.clone() };
    let job = Job { options, ..job };
    let sizes = client.sizes(&root)?;
    let name = leftovers::new_name();
    let directory = client.make_directory(&root, &name)?;
    let mut tell = |fraction: f64| {
        if observer.is_interrupted() {
            return Err(LoadError::new(INTERRUPTED_EARLY));
        }
        observer.progress(&Progress { fraction: Some(fraction), ..Progress::idle("prepare", false) });
        Ok(())
    };
    let mut setup = Setup {
        client: &mut client,
        directory,
        sizes,
        threads: options.threads,
        depth: options.depth,
        working_set_bytes: options.working_set_bytes,
        seed,
        verify: options.verify,
        tell: &mut tell,
    };
    let plan = workload.plan(&mut setup);
    let result = plan.and_then(|plan| client.keep_lease(|| job.run(plan, sessions, slots, observer)));
    clean_up(client, &root, &name, options, observer);
    result
}

/// Refuses a workload whose files the server has no space for, and says what fits.
pub(crate) fn check_space(workload: &Workload, options: &Options, free_bytes: u64) -> Result<(), LoadError> {
    let stored_bytes = workload.stored_bytes(options.working_set_bytes, options.threads);
    // Servers without such a figure, and full or read-only ones, answer the first write with their status.
    if stored_bytes <= free_bytes || free_bytes == 0 {
        return Ok(());
    }
    // A tenth is left for the server's own needs.
    let fitting = free_bytes / 10 * 9;
    let unit = if fitting >> 33 > 0 { 1 << 30 } else { 1 << 20 };
    let fitting = fitting / unit * unit;
    let working_set_bytes = workload.working_set_bytes(options.working_set_bytes);
    let needed = match working_set_bytes {
        0 => format!("the files need about {}, more than", rounded_size(stored_bytes)),
        bytes => format!("the working set of {} is larger than", size(bytes)),
    };
    let advice = match (fitting, working_set_bytes) {
        (0, _) => "the file system is almost full".to_owned(),
        (_, 0) => format!("make fewer or smaller ones, at most {}", size(fitting)),
        _ => format!("--working-set {} fits", size(fitting).replace([' ', ','], "")),
    };
    Err(LoadError::new(format!("{needed} the server's free space: {advice}")))
}

/// Removes the files of a measurement. A failure becomes a note; the result counts.
fn clean_up(
    client: BlockingClient,
    root: &Handle,
    name: &str,
    options: &Options,
    observer: &mut dyn Observer,
) {
    let left = |why: String| format!("{name} is left in the export: {why}");
    let later = "; `holdfast bench clean` removes it";
    // The old connection may be broken, or replies may be in flight on it, and files may be open.
    let restarted = client.restart();
    if options.keep {
        return observer.note(&left("--keep".to_owned()));
    }
    let swept = restarted.and_then(|mut client| client.sweep(root, name, Instant::now() + options.cleanup));
    match swept {
        Ok(SweepOutcome::All) => {}
        Ok(SweepOutcome::OutOfTime) => {
            observer.note(&left(format!(
                "not all could be removed within {} s{later}",
                options.cleanup.as_secs()
            )));
        }
        Err(error) => observer.note(&left(format!("{error}{later}"))),
    }
}

const INTERRUPTED_EARLY: &str = "nothing was measured: interrupted before operations counted";

/// A measurement that is about to begin.
#[derive(Clone, Copy)]
struct Job<'m> {
    server: &'m Server,
    workload: &'m Workload,
    options: &'m Options,
    seed: u64,
    shares: &'m [LoopShare],
    processes: &'m Processes,
}

impl Job<'_> {
    /// Makes the sessions of the load, and returns them with their slots, if the protocol has any.
    fn sessions(&self, client: &mut BlockingClient) -> Result<(Vec<Session>, Option<Slots>), LoadError> {
        let count = self.shares.iter().map(|share| share.sessions).sum();
        let calls = u64::from(layout::threads_per_session(self.shares))
            * u64::from(self.options.depth)
            * self.workload.calls_per_operation();
        let sessions = client.sessions(count, slots_for(calls))?;
        let granted = sessions.iter().map(Session::slots).min();
        let (wanted, depth_wanted) = (u32::try_from(calls).unwrap_or(u32::MAX), self.options.depth);
        Ok((sessions, granted.map(|granted| Slots { granted, wanted, depth_wanted })))
    }

    /// Runs a planned measurement.
    fn run(
        &self,
        plan: Plan,
        sessions: Vec<Session>,
        slots: Option<Slots>,
        observer: &mut dyn Observer,
    ) -> Result<Measurement, LoadError> {
        let Self { server, workload, options, seed, shares, processes } = *self;
        let Plan { stages, phases, actors, parts_max, fill_bytes, phase_operations } = plan;
        let pool = WorkerPool::spawn(server, options, shares, sessions, actors, parts_max)?;
        let mut runner = Stages::new(pool, options, processes, observer);
        runner.expect(fill_bytes, phase_operations);
        runner.run_all(&stages)?;
        let result = runner.finish()?;
        let seconds = result.seconds;
        let tally = &result.tally;
        if tally.operations == 0 && tally.failed() > 0 {
            let worst = tally.errors().into_iter().next().map(|error| error.cause).unwrap_or_default();
            let sentence =
                format!("no operation succeeded; {} failed, most often with: {worst}", tally.failed());
            return Err(LoadError::new(sentence));
        }
        if tally.operations == 0 && result.interrupted {
            return Err(LoadError::new(INTERRUPTED_EARLY));
        }
        let phase_seconds = |phase: usize| {
            let name = phases.get(phase).copied().unwrap_or_default();
            result
                .stage_seconds
                .iter()
                .find(|(stage, _)| *stage == name)
                .map_or(seconds, |(_, seconds)| *seconds)
        };
        Ok(Measurement {
            name: workload.name(),
            protocol: server.protocol,
            workload: *workload,
            threads: options.threads,
            depth: options.depth,
            slots,
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
            delayed_calls: tally.delayed_calls,
            server: result.server,
            limit: None,
            published: Vec::new(),
            failed_hosts: Vec::new(),
        })
    }
}
