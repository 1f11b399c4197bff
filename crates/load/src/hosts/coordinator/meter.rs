//! The processor time of a server on the coordinator's host, while all agents measure.

use std::time::{Duration, Instant};

use crate::error::LoadError;
use crate::result::ServerCost;
use crate::run::{Length, Options};
use crate::server_cost::Processes;
use crate::workload::Workload;

/// Takes it from the moment at which operations count, at every stage, to the moment at which they no longer do.
pub(super) struct CpuMeter {
    processes: Processes,
    /// How long a stage runs before its operations count, and how long they do, if that is known before.
    warmup: Duration,
    length: Option<Duration>,
    /// When a stage began.
    began: Option<Instant>,
    /// The processor time when its operations began to count.
    from: Option<f64>,
    /// Of this stage, and of those before.
    stage_seconds: f64,
    seconds: f64,
}

impl CpuMeter {
    /// For these processes; none if there are none.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub(super) fn new(workload: &Workload, options: &Options) -> Result<Option<Self>, LoadError> {
        if options.server_pids.is_empty() {
            return Ok(None);
        }
        let processes = Processes::new(&options.server_pids)?;
        let (warmup, length) = match options.length {
            _ if !workload.is_timed() => (Duration::ZERO, None),
            Length::Time(time) => (options.warmup, Some(time)),
            Length::Operations(_) => (Duration::ZERO, None),
            Length::Steady(_) | Length::Joint(_) => (options.warmup, None),
        };
        let (began, from, stage_seconds, seconds) = (None, None, 0.0, 0.0);
        Ok(Some(Self { processes, warmup, length, began, from, stage_seconds, seconds }))
    }

    /// All agents were told to begin a stage.
    ///
    /// # Errors
    /// If a process is gone; so it is with the others.
    pub(super) fn begin(&mut self) -> Result<(), LoadError> {
        self.end();
        self.began = Some(Instant::now());
        self.look()
    }

    /// Sees whether operations begin to count, or no longer do.
    pub(super) fn look(&mut self) -> Result<(), LoadError> {
        let Some(elapsed) = self.began.map(|began| began.elapsed()) else { return Ok(()) };
        if self.from.is_none() && elapsed >= self.warmup {
            self.from = Some(self.processes.cpu_seconds()?);
        }
        if self.length.is_some_and(|length| elapsed >= self.warmup + length) {
            self.mark()?;
            self.end();
        }
        Ok(())
    }

    /// What counts of the stage ended now, or a moment ago, as far as is known.
    pub(super) fn mark(&mut self) -> Result<(), LoadError> {
        if let Some(from) = self.from {
            self.stage_seconds = self.processes.cpu_seconds()? - from;
        }
        Ok(())
    }

    /// Nothing more counts in this stage.
    pub(super) fn end(&mut self) {
        self.seconds += std::mem::take(&mut self.stage_seconds);
        (self.began, self.from) = (None, None);
    }

    /// What so much work cost.
    pub(super) fn cost(&mut self, operations: u64, bytes: u64) -> Option<ServerCost> {
        self.end();
        self.processes.cost(self.seconds, operations, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses processor time, so much that it is counted.
    fn work(meter: &mut CpuMeter) {
        let from = meter.processes.cpu_seconds().unwrap();
        while meter.processes.cpu_seconds().unwrap() < from + 0.03 {
            meter.look().unwrap();
        }
    }

    fn meter(workload: Workload, length: Length, warmup: Duration) -> CpuMeter {
        let server_pids = vec![std::process::id()];
        let options = Options { server_pids, length, warmup, ..Options::default() };
        CpuMeter::new(&workload, &options).unwrap().unwrap()
    }

    #[test]
    fn only_the_time_that_counts_is_taken() {
        // Of a known length, what comes after it does not count, and what comes before the beginning never does.
        let mut timed = meter(Workload::Null, Length::Time(Duration::from_millis(1)), Duration::ZERO);
        timed.begin().unwrap();
        work(&mut timed);
        assert!(timed.began.is_none());
        // During a warm-up, nothing does.
        let mut early =
            meter(Workload::Null, Length::Time(Duration::from_secs(9)), Duration::from_secs(3600));
        early.begin().unwrap();
        work(&mut early);
        early.mark().unwrap();
        assert_eq!(early.cost(1, 0).unwrap().cpu_seconds, 0.0);
        // Stages add up; what comes after the last mark does not count.
        let tree = Workload::Metadata { files_per_directory: 1, directories_per_thread: 1, file_bytes: 0 };
        let mut phases = meter(tree, Length::Time(Duration::ZERO), Duration::from_secs(3600));
        for _ in 0..2 {
            phases.begin().unwrap();
            work(&mut phases);
            phases.mark().unwrap();
        }
        let seconds = phases.cost(1, 0).unwrap().cpu_seconds;
        work(&mut phases);
        assert!(seconds > 0.05 && phases.cost(1, 0).unwrap().cpu_seconds == seconds);
    }

    #[test]
    fn a_process_that_is_not_there_is_said_to_be() {
        let gone = Options { server_pids: vec![u32::MAX], ..Options::default() };
        assert!(CpuMeter::new(&Workload::Null, &gone).is_err());
        assert!(CpuMeter::new(&Workload::Null, &Options::default()).unwrap().is_none());
    }
}
