//! The coordinator of event loops: starts each stage on all of them, adds up their counts, and ends the stage.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::event_loop::{StageCommand, WorkerMessage};
use super::tally::{Tally, rate};
use super::window::Window;
use super::worker_pool::WorkerPool;
use super::{Length, Observer, Options, Progress, RoundCount};
use crate::error::LoadError;
use crate::result::{Sample, ServerCost, Steady};
use crate::server_cost::Processes;
use crate::workload::{Stage, StageKind};

/// How long the coordinator waits for a message before it checks the time.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The bounds of an interval's length.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The interval of stages that end when their work is done.
const INTERVAL_COUNTED: Duration = Duration::from_millis(250);

/// The result of all stages.
pub(super) struct StagesResult {
    pub(super) tally: Tally,
    pub(super) seconds: f64,
    pub(super) warmup_seconds: f64,
    pub(super) timeline: Vec<Sample>,
    pub(super) steady: Option<Steady>,
    pub(super) interrupted: bool,
    pub(super) server: Option<ServerCost>,
    /// The measured time of each stage.
    pub(super) stage_seconds: Vec<(&'static str, f64)>,
}

/// Runs the stages of a measurement.
pub(super) struct Stages<'r> {
    pool: WorkerPool,
    options: &'r Options,
    processes: &'r Processes,
    observer: &'r mut dyn Observer,
    result: StagesResult,
    cpu_seconds: f64,
    /// All measured work, including rounds outside of a steady-state window.
    all_operations: u64,
    all_bytes: u64,
    failed: u64,
    /// Bytes that preparation writes.
    fill_bytes: u64,
    /// Operations of each counted stage.
    phase_operations: u64,
}

/// A stage in progress.
struct RunningStage {
    stage: Stage,
    from_ns: u64,
    interval_ns: u64,
    /// Intervals that some event loops have not completed: how many have, and the sum so far.
    pending: BTreeMap<u64, (usize, Tally)>,
    done: usize,
    last_ns: u64,
    cpu_from: Option<f64>,
    cpu_until: Option<f64>,
    stopping: bool,
    /// For a steady state.
    window: Option<Window>,
    answered: u64,
    answered_at: Instant,
    /// Bytes while preparing, operations otherwise.
    completed: u64,
}

impl<'r> Stages<'r> {
    pub(super) fn new(
        pool: WorkerPool,
        options: &'r Options,
        processes: &'r Processes,
        observer: &'r mut dyn Observer,
    ) -> Self {
        let result = StagesResult {
            tally: Tally::new(),
            seconds: 0.0,
            warmup_seconds: 0.0,
            timeline: Vec::new(),
            steady: None,
            interrupted: false,
            server: None,
            stage_seconds: Vec::new(),
        };
        let (cpu_seconds, all_operations, all_bytes, failed) = (0.0, 0, 0, 0);
        let (fill_bytes, phase_operations) = (0, 0);
        Self {
            pool,
            options,
            processes,
            observer,
            result,
            cpu_seconds,
            all_operations,
            all_bytes,
            failed,
            fill_bytes,
            phase_operations,
        }
    }

    /// Sets how much work there is in stages that end when their work is done, to show how much is done. 0 if unknown.
    pub(super) fn expect(&mut self, fill_bytes: u64, phase_operations: u64) {
        (self.fill_bytes, self.phase_operations) = (fill_bytes, phase_operations);
    }

    /// Runs all stages.
    pub(super) fn run_all(&mut self, stages: &[Stage]) -> Result<(), LoadError> {
        let of_kind =
            |kind: StageKind| stages.iter().enumerate().filter(move |(_, stage)| stage.kind == kind);
        for (index, stage) in of_kind(StageKind::Prepare) {
            self.run_stage(index, *stage)?;
        }
        for (index, stage) in of_kind(StageKind::Timed) {
            self.run_stage(index, *stage)?;
        }
        let has_counted = of_kind(StageKind::Counted).next().is_some();
        let counted_began = Instant::now();
        while has_counted && !self.result.interrupted {
            for (index, stage) in of_kind(StageKind::Counted) {
                self.run_stage(index, *stage)?;
            }
            match self.options.length {
                Length::Time(time) if counted_began.elapsed() < time => {}
                _ => break,
            }
        }
        for (index, stage) in of_kind(StageKind::Finish) {
            self.run_stage(index, *stage)?;
        }
        Ok(())
    }

    /// Returns the result.
    pub(super) fn finish(mut self) -> Result<StagesResult, LoadError> {
        let Self { processes, cpu_seconds, all_operations, all_bytes, .. } = self;
        self.result.server = processes.cost(cpu_seconds, all_operations, all_bytes);
        Ok(self.result)
    }

    fn run_stage(&mut self, index: usize, stage: Stage) -> Result<(), LoadError> {
        if self.result.interrupted {
            return Ok(());
        }
        let is_measured = matches!(stage.kind, StageKind::Timed | StageKind::Counted);
        if is_measured {
            self.observer.before_stage(stage.name)?;
        }
        let is_timed = stage.kind == StageKind::Timed;
        let (quota, warmup) = match (is_timed, self.options.length) {
            (true, Length::Operations(operations)) => (Some(operations), Duration::ZERO),
            (true, _) => (None, self.options.warmup),
            (false, _) => (None, Duration::ZERO),
        };
        let shared = &self.pool.shared;
        shared.stop.store(false, Ordering::Relaxed);
        let now_ns = shared.now_ns();
        let from_ns = now_ns + nanoseconds(warmup);
        let until_ns = match self.options.length {
            Length::Time(time) if is_timed => from_ns + nanoseconds(time),
            _ => u64::MAX,
        };
        shared.until_ns.store(until_ns, Ordering::Relaxed);
        let interval_ns = nanoseconds(self.interval(is_timed));
        let strict = stage.kind == StageKind::Prepare;
        let command = StageCommand { stage: index, from_ns, interval_ns, quota: u64::MAX, strict };
        let mut running = RunningStage {
            stage,
            from_ns,
            interval_ns,
            pending: BTreeMap::new(),
            done: 0,
            last_ns: 0,
            cpu_from: None,
            cpu_until: None,
            stopping: false,
            window: if is_timed { self.window() } else { None },
            answered: 0,
            answered_at: Instant::now(),
            completed: 0,
        };
        if is_measured && warmup.is_zero() {
            running.cpu_from = Some(self.processes.cpu_seconds()?);
        }
        self.pool.begin(command, quota)?;
        while running.done < self.pool.size() {
            self.poll(&mut running)?;
        }
        if is_measured {
            self.observer.after_stage();
        }
        if is_timed {
            self.result.warmup_seconds += warmup.as_secs_f64();
        }
        self.end(running)
    }

    /// Returns the steady-state window, if the measurement has one.
    fn window(&self) -> Option<Window> {
        match self.options.length {
            Length::Steady(rule) => Some(Window::new(rule, 0)),
            Length::Joint(rule) => Some(Window::new(rule, rule.late_rounds())),
            Length::Time(_) | Length::Operations(_) => None,
        }
    }

    /// Returns the length of intervals.
    fn interval(&self, is_timed: bool) -> Duration {
        match self.options.length {
            _ if !is_timed => INTERVAL_COUNTED,
            Length::Time(time) => (time / 20).clamp(INTERVAL_MIN, INTERVAL_MAX),
            Length::Operations(_) => INTERVAL_COUNTED,
            Length::Steady(rule) | Length::Joint(rule) => rule.round / rule.intervals(),
        }
    }

    /// Waits briefly for a message, then checks whether the stage should end.
    fn poll(&mut self, running: &mut RunningStage) -> Result<(), LoadError> {
        match self.pool.messages.recv_timeout(POLL_INTERVAL) {
            Ok(WorkerMessage::Interval { interval, is_last, tally }) => {
                self.add(running, interval, is_last, *tally)
            }
            Ok(WorkerMessage::Done { last_ns }) => {
                running.done += 1;
                running.last_ns = running.last_ns.max(last_ns);
            }
            Ok(WorkerMessage::Fatal(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(LoadError::new("the event loops have ended")),
        }
        let now_ns = self.pool.shared.now_ns();
        let is_measured = !matches!(running.stage.kind, StageKind::Prepare | StageKind::Finish);
        if is_measured && running.cpu_from.is_none() && now_ns >= running.from_ns {
            running.cpu_from = Some(self.processes.cpu_seconds()?);
        }
        if !self.result.interrupted && self.observer.is_interrupted() {
            self.result.interrupted = true;
            self.stop(running, now_ns)?;
        }
        if let Some(window) = &mut running.window
            && let Some(last) = self.observer.last_round()
        {
            window.close_at(last)?;
            self.pool.shared.until_ns.fetch_min(now_ns, Ordering::Relaxed);
        }
        if now_ns >= self.pool.shared.until_ns.load(Ordering::Relaxed) {
            self.stop(running, now_ns)?;
        }
        let answered = self.pool.shared.answered.load(Ordering::Relaxed);
        if answered != running.answered {
            running.answered = answered;
            running.answered_at = Instant::now();
        } else if running.answered_at.elapsed() > self.options.reply_timeout {
            let seconds = self.options.reply_timeout.as_secs();
            return Err(LoadError::new(format!("the server has answered nothing for {seconds} s")));
        }
        Ok(())
    }

    /// Ends a stage: begins no more operations. Those in flight are waited for, but do not count.
    fn stop(&mut self, running: &mut RunningStage, now_ns: u64) -> Result<(), LoadError> {
        if !running.stopping {
            running.stopping = true;
            if running.cpu_from.is_some() {
                running.cpu_until = Some(self.processes.cpu_seconds()?);
            }
            self.pool.shared.until_ns.fetch_min(now_ns, Ordering::Relaxed);
            self.pool.shared.stop.store(true, Ordering::Relaxed);
            self.pool.wake();
        }
        Ok(())
    }

    fn add(&mut self, running: &mut RunningStage, interval: u64, is_last: bool, tally: Tally) {
        self.failed += tally.failed();
        let (count, sum) = running.pending.entry(interval).or_insert_with(|| (0, Tally::new()));
        // An interval that an event loop did not complete is counted at the end of the stage.
        *count += usize::from(!is_last);
        sum.add(tally);
        // Each event loop sends its intervals in order, so they become complete in order.
        while let Some(first) = running.pending.first_entry()
            && first.get().0 == self.pool.size()
        {
            let (interval, (_, tally)) = first.remove_entry();
            let end_ns = (interval + 1) * running.interval_ns;
            self.interval_is_over(running, end_ns, running.interval_ns, tally);
        }
    }

    /// Counts an interval of this length, which ends `end_ns` after the stage began.
    fn interval_is_over(&mut self, running: &mut RunningStage, end_ns: u64, length_ns: u64, tally: Tally) {
        let is_prepared = running.stage.kind == StageKind::Prepare;
        running.completed += if is_prepared { tally.bytes } else { tally.operations };
        if matches!(running.stage.kind, StageKind::Prepare | StageKind::Finish) {
            self.report(running, end_ns, length_ns, &tally);
            return self.result.tally.add(Tally::failures_of(tally));
        }
        self.all_operations += tally.operations;
        self.all_bytes += tally.bytes;
        self.report(running, end_ns, length_ns, &tally);
        if length_ns * 5 >= running.interval_ns {
            let before = if running.stage.kind == StageKind::Counted { self.result.seconds } else { 0.0 };
            self.result.timeline.push(Sample {
                at_s: before + seconds(end_ns),
                operations_per_s: rate(tally.operations, seconds(length_ns)),
                bytes_per_s: rate(tally.bytes, seconds(length_ns)),
                p50_ns: tally.latency.value_at_quantile(0.5),
                p99_ns: tally.latency.value_at_quantile(0.99),
            });
        }
        match &mut running.window {
            None => self.result.tally.add(tally),
            Some(window) => {
                if running.stopping {
                    window.close();
                }
                let counted = window.add(tally);
                self.judge(running, counted);
            }
        }
    }

    /// Judges whether the rate is steady, or passes the round to the observer that does.
    fn judge(&mut self, running: &mut RunningStage, counted: Option<RoundCount>) {
        let (Some(counted), Some(window)) = (counted, &mut running.window) else { return };
        let Length::Steady(rule) = self.options.length else {
            return self.observer.round(counted);
        };
        let steady = rule.judge(&window.rates());
        if steady.reached || rule.gives_up_after(counted.number) {
            // Event loops go on counting until they notice.
            window.close();
            self.pool.shared.until_ns.fetch_min(self.pool.shared.now_ns(), Ordering::Relaxed);
        }
        self.result.steady = Some(steady);
    }

    /// Returns how much of a stage is done `end_ns` after it began.
    fn fraction(&self, running: &RunningStage, end_ns: u64) -> Option<f64> {
        let (done, all) = match (running.stage.kind, self.options.length) {
            (StageKind::Prepare, _) => (running.completed as f64, self.fill_bytes as f64),
            (StageKind::Counted, _) => (running.completed as f64, self.phase_operations as f64),
            (StageKind::Timed, Length::Time(time)) => (seconds(end_ns), time.as_secs_f64()),
            (StageKind::Timed, Length::Operations(all)) => (running.completed as f64, all as f64),
            (StageKind::Timed | StageKind::Finish, _) => return None,
        };
        (all > 0.0).then(|| (done / all).min(1.0))
    }

    fn report(&mut self, running: &RunningStage, end_ns: u64, length_ns: u64, tally: &Tally) {
        let length = seconds(length_ns);
        self.observer.progress(&Progress {
            stage: running.stage.name,
            is_measured: matches!(running.stage.kind, StageKind::Timed | StageKind::Counted),
            fraction: self.fraction(running, end_ns),
            elapsed_s: seconds(end_ns),
            operations_per_s: rate(tally.operations, length),
            bytes_per_s: rate(tally.bytes, length),
            p50_ns: tally.latency.value_at_quantile(0.5),
            p99_ns: tally.latency.value_at_quantile(0.99),
            errors: self.failed,
        });
    }

    /// Counts the incomplete intervals of a stage that is over.
    fn end(&mut self, mut running: RunningStage) -> Result<(), LoadError> {
        // Messages arrive in order, so all counts of the stage have arrived.
        let until_ns = self.pool.shared.until_ns.load(Ordering::Relaxed);
        let end_ns = if until_ns == u64::MAX { running.last_ns } else { until_ns };
        let total_ns = end_ns.saturating_sub(running.from_ns);
        for (interval, (_, tally)) in std::mem::take(&mut running.pending) {
            let start_ns = interval * running.interval_ns;
            let end_ns = total_ns.min(start_ns + running.interval_ns);
            self.interval_is_over(&mut running, end_ns, end_ns.saturating_sub(start_ns), tally);
        }
        if let Some(from) = running.cpu_from {
            let until = match running.cpu_until {
                Some(until) => until,
                None => self.processes.cpu_seconds()?,
            };
            self.cpu_seconds += until - from;
        }
        if matches!(running.stage.kind, StageKind::Prepare | StageKind::Finish) {
            return Ok(());
        }
        let mut measured = seconds(total_ns);
        if let Some(window) = running.window.take() {
            if let Some(end_s) = window.end_s() {
                self.result.timeline.retain(|sample| sample.at_s <= end_s + 1e-6);
            }
            if let Length::Steady(rule) = self.options.length {
                self.result.steady.get_or_insert_with(|| rule.judge(&window.rates()));
            }
            let (length_s, tally) = window.finish();
            measured = length_s;
            if let Some(steady) = &mut self.result.steady {
                steady.window_s = measured;
            }
            self.result.tally.add(tally);
        }
        self.result.seconds += measured;
        let name = running.stage.name;
        match self.result.stage_seconds.iter_mut().find(|(stage, _)| *stage == name) {
            Some((_, sum)) => *sum += measured,
            None => self.result.stage_seconds.push((name, measured)),
        }
        Ok(())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
