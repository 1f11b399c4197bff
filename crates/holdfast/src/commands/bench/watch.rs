//! The user during a measurement: a line of progress on a terminal, and Ctrl-C.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use load::report::units;
use load::result::Measurement;
use load::run::{Observer, Progress};
use server::error::Error;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The exit code after a second signal, as shells report an interrupted program.
const INTERRUPTED: i32 = 130;

/// Signals that follow the first one within this time count as the same: terminals and supervisors may both pass one
/// on, and people press keys twice. Files are being removed during this time.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Returns a flag that the first signal sets. A later signal ends the program.
pub(crate) fn signals() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Error::failed(format!("cannot catch signals: {error}")))?;
    let told = Arc::clone(&interrupted);
    let started = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut first = None;
        for _ in signals.forever() {
            told.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() >= SAME_SIGNAL {
                eprintln!("holdfast: ended at once; `holdfast bench clean` removes files that are left");
                std::process::exit(INTERRUPTED);
            }
        }
    });
    started.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    Ok(interrupted)
}

/// Shows measurements to the user.
pub(crate) struct Watch {
    /// The title in front of the line.
    pub(crate) title: String,
    /// Whether to print the result of each measurement when it ends.
    pub(crate) prints_results: bool,
    is_terminal: bool,
    has_line: bool,
    interrupted: Arc<AtomicBool>,
}

impl Watch {
    /// Catches signals: the first one ends a measurement with the result so far, a later one ends the program.
    pub(crate) fn new() -> Result<Watch, Error> {
        let interrupted = signals()?;
        Ok(Watch {
            title: String::new(),
            prints_results: false,
            is_terminal: stderr().is_terminal(),
            has_line: false,
            interrupted,
        })
    }

    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Clears the line of progress.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Observer for Watch {
    fn begin(&mut self, title: &str) {
        title.clone_into(&mut self.title);
    }

    fn measured(&mut self, measurement: &Measurement) {
        self.clear();
        if self.prints_results {
            eprintln!("{}: {}", self.title, brief(measurement));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if !self.is_terminal {
            return;
        }
        self.has_line = true;
        // Best effort: the measurement goes on without the line.
        let _ = write!(stderr(), "\r\x1b[K{}: {}", self.title, now(progress));
    }

    fn is_interrupted(&mut self) -> bool {
        self.was_interrupted()
    }

    fn note(&mut self, words: &str) {
        self.clear();
        eprintln!("holdfast: {words}");
    }
}

/// Formats the progress of a stage, such as `fill 3 s, 42 %  512 MB/s`.
fn now(progress: &Progress) -> String {
    let mut line = progress.stage.to_owned();
    if progress.elapsed_s > 0.0 {
        line += &format!(" {:.0} s,", progress.elapsed_s);
    }
    // Rounded down: 100 % is the end.
    let done = progress.fraction.map(|fraction| format!(" {:.0} %", (fraction * 100.0).floor()));
    line = done.map_or_else(|| line.trim_end_matches(',').to_owned(), |done| format!("{line}{done}"));
    if progress.is_measured {
        line += &format!("  {}", units::operations(progress.operations_per_s));
    }
    if progress.bytes_per_s > 0.0 {
        line += &format!("  {}", units::bytes_per_second(progress.bytes_per_s));
    }
    if progress.is_measured {
        let [p50, p99] = [progress.p50_ns, progress.p99_ns].map(|ns| units::nanoseconds(ns as f64));
        line += &format!("  p50 {p50}  p99 {p99}");
    }
    if progress.errors > 0 {
        line += &format!("  {} failed", progress.errors);
    }
    line
}

/// Formats a measurement in one line.
fn brief(measurement: &Measurement) -> String {
    let mut line = units::operations(measurement.operations_per_s);
    if measurement.bytes > 0 {
        line += &format!("  {}", units::bytes_per_second(measurement.bytes_per_s));
    }
    let latency = &measurement.latency;
    let [p50, p99] = [latency.p50_ns, latency.p99_ns].map(|ns| units::nanoseconds(ns as f64));
    line += &format!("  p50 {p50}  p99 {p99}");
    if let Some(limit) = &measurement.limit {
        line += &format!("  {} of its limit", units::percent(limit.fraction));
    }
    let failed = measurement.failed_operations();
    if failed > 0 {
        line += &format!("  FAILED {failed}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preparation_shows_a_percentage() {
        let filling = Progress {
            stage: "fill",
            is_measured: false,
            fraction: Some(0.999),
            elapsed_s: 3.0,
            operations_per_s: 0.0,
            bytes_per_s: 512e6,
            p50_ns: 0,
            p99_ns: 0,
            errors: 0,
        };
        assert_eq!(now(&filling), "fill 3 s, 99 %  512 MB/s");
        let unknown = Progress { fraction: None, ..filling.clone() };
        assert_eq!(now(&unknown), "fill 3 s  512 MB/s");
        let naming = Progress { elapsed_s: 0.0, bytes_per_s: 0.0, fraction: Some(0.5), ..filling };
        assert_eq!(now(&naming), "fill 50 %");
    }
}
