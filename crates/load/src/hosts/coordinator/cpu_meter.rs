//! The processor time of a server on the coordinator's host, while all agents measure.

use std::time::{Duration, Instant};

use crate::error::LoadError;
use crate::result::ServerCost;
use crate::run::{Length, Options};
use crate::server_cost::Processes;
use crate::workload::Workload;

/// Measures from the moment at which operations begin to count, in every stage, until they no longer do.
pub(super) struct CpuMeter {
    processes: Processes,
    /// How long a stage runs before its operations count, and how long they count if that is known in advance.
    warmup: Duration,
    length: Option<Duration>,
    /// When the current stage began.
    began: Option<Instant>,
    /// The processor time when its operations began to count.
    from: Option<f64>,
    /// Of the current stage, and of earlier stages.
    stage_seconds: f64,
    seconds: f64,
}

impl CpuMeter {
    /// Returns a meter for the processes of the options, if there are any.
    ///
    /// # Errors
    /// If a process does not exist.
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

    /// Begins a stage: all agents were told to begin.
    ///
    /// # Errors
    /// If a process has ended, here and below.
    pub(super) fn begin(&mut self) -> Result<(), LoadError> {
        self.end();
        self.began = Some(Instant::now());
        self.poll()
    }

    /// Checks whether operations begin to count, or no longer do.
    pub(super) fn poll(&mut self) -> Result<(), LoadError> {
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

    /// Counts the processor time of the stage until now. A later call replaces this one.
    pub(super) fn mark(&mut self) -> Result<(), LoadError> {
        if let Some(from) = self.from {
            self.stage_seconds = self.processes.cpu_seconds()? - from;
        }
        Ok(())
    }

    /// Ends the stage.
    pub(super) fn end(&mut self) {
        self.seconds += std::mem::take(&mut self.stage_seconds);
        (self.began, self.from) = (None, None);
    }

    /// Returns the cost of this work.
    pub(super) fn cost(&mut self, operations: u64, bytes: u64) -> Option<ServerCost> {
        self.end();
        self.processes.cost(self.seconds, operations, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses enough processor time to be counted.
    fn work(meter: &mut CpuMeter) {
        let from = meter.processes.cpu_seconds().unwrap();
        while meter.processes.cpu_seconds().unwrap() < from + 0.03 {
            meter.poll().unwrap();
        }
    }

    fn meter(workload: Workload, length: Length, warmup: Duration) -> CpuMeter {
        let server_pids = vec![std::process::id()];
        let options = Options { server_pids, length, warmup, ..Options::default() };
        CpuMeter::new(&workload, &options).unwrap().unwrap()
    }

    #[test]
    fn only_counted_time_is_charged() {
        // A stage of known length ends by itself.
        let mut timed = meter(Workload::Null, Length::Time(Duration::from_millis(1)), Duration::ZERO);
        timed.begin().unwrap();
        work(&mut timed);
        assert!(timed.began.is_none());
        // A warm-up is not counted.
        let mut early =
            meter(Workload::Null, Length::Time(Duration::from_secs(9)), Duration::from_secs(3600));
        early.begin().unwrap();
        work(&mut early);
        early.mark().unwrap();
        assert_eq!(early.cost(1, 0).unwrap().cpu_seconds, 0.0);
        // Stages are added up; time after the last mark is not counted.
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
    fn a_missing_process_is_an_error() {
        let gone = Options { server_pids: vec![u32::MAX], ..Options::default() };
        assert!(CpuMeter::new(&Workload::Null, &gone).is_err());
        assert!(CpuMeter::new(&Workload::Null, &Options::default()).unwrap().is_none());
    }
}
