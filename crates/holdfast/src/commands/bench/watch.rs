//! The user during a measurement: a line of progress on a terminal, and Ctrl-C.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use load::result::Measurement;
use load::run::{Observer, Progress};
use server::error::Error;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::report::print;

/// The exit code after a second signal, as shells report an interrupted program.
const INTERRUPTED: i32 = 130;

/// Signals that follow the first one within this time count as the same: terminals and supervisors may both pass one
/// on, and people press keys twice. Files are removed meanwhile.
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
    /// Whether to print each measurement when it is over.
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
            print(&format!("{}: {}\n", self.title, brief(measurement)));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if !self.is_terminal {
            return;
        }
        self.has_line = true;
        let mut line = format!("{}: ", self.title);
        if progress.is_measured {
            line += &format!(
                "{} {:.1} s  {}/s",
                progress.stage,
                progress.elapsed_s,
                count(progress.operations_per_s)
            );
            if progress.bytes_per_s > 0.0 {
                line += &format!("  {}/s", bytes(progress.bytes_per_s));
            }
            line += &format!("  p50 {}  p99 {}", time(progress.p50_ns), time(progress.p99_ns));
        } else {
            line +=
                &format!("{} {:.1} s  {}/s", progress.stage, progress.elapsed_s, bytes(progress.bytes_per_s));
        }
        if progress.errors > 0 {
            line += &format!("  {} failed", progress.errors);
        }
        // Best effort: the measurement goes on without the line.
        let _ = write!(stderr(), "\r\x1b[K{line}");
    }

    fn is_interrupted(&mut self) -> bool {
        self.was_interrupted()
    }

    fn note(&mut self, words: &str) {
        self.clear();
        eprintln!("holdfast: {words}");
    }
}

/// Formats a measurement in one line.
fn brief(measurement: &Measurement) -> String {
    let mut line = format!("{}/s", count(measurement.operations_per_s));
    if measurement.bytes > 0 {
        line += &format!("  {}/s", bytes(measurement.bytes_per_s));
    }
    line += &format!("  p50 {}  p99 {}", time(measurement.latency.p50_ns), time(measurement.latency.p99_ns));
    if let Some(limit) = &measurement.limit {
        line += &format!("  {:.1} % of its limit", limit.fraction * 100.0);
    }
    let failed: u64 = measurement.errors.iter().map(|error| error.count).sum();
    if failed > 0 {
        line += &format!("  FAILED {failed}");
    }
    line
}

/// Formats a number of operations.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e4 => format!("{:.1} k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// Formats a number of bytes.
pub(crate) fn bytes(value: f64) -> String {
    for (unit, name) in [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        let unit = unit as f64;
        if value >= unit {
            return format!("{:.1} {name}", value / unit);
        }
    }
    format!("{value:.0} B")
}

/// Formats a time.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.1} µs", ns / 1e3),
    }
}
