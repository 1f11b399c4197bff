//! Logging to standard error. Standard output is for results.
//!
//! Events become lines only here, so this module alone keeps the log truthful and bounded: it escapes all text
//! (`crate::escape`), and limits warnings, errors, and events about clients, which are those with a field `client` (`limiter.rs`).

use std::hash::RandomState;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::thread;

use clap::{Args, ValueEnum};
use server::config::{Config, LogFormat, LogLevel};
use server::error::Error;
use server::events::Events;
use tracing::Level as TracingLevel;

use limiter::{PERIOD, Source};
use lines::{Counts, FieldFormat, LEFT_OUT, Lines};

mod event;
mod limiter;
mod lines;

/// Options of logging.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Log {
    /// Format of the log, which goes to standard error [default: human]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<Format>,
    /// Least severe level that is logged [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<Level>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> LogFormat {
        match format {
            Format::Human => LogFormat::Human,
            Format::Json => LogFormat::Json,
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> LogLevel {
        match level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
            Level::Trace => LogLevel::Trace,
        }
    }
}

/// A log that was started.
#[derive(Debug)]
pub(crate) struct Started {
    counts: Arc<Counts>,
    events: Arc<Events>,
}

impl Started {
    /// Logs once in each period what was left out, as long as the process runs.
    pub(crate) fn report_periodically(&self) -> Result<(), Error> {
        let counts = Arc::clone(&self.counts);
        let run = move || {
            loop {
                thread::sleep(PERIOD);
                report(&counts);
            }
        };
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(run)
            .map(drop)
            .map_err(|error| Error::failed(format!("cannot start a thread: {error}; allow more processes")))
    }

    /// Logs what was left out since the last report.
    pub(crate) fn report(&self) {
        report(&self.counts);
    }

    /// Returns where events are kept.
    pub(crate) fn events(&self) -> Arc<Events> {
        Arc::clone(&self.events)
    }
}

fn report(counts: &Counts) {
    for left_out in counts.begin_period() {
        let client = match left_out.source {
            Source::Server => None,
            Source::Client(address) => Some(address.to_string()),
            Source::OtherClients => Some("others".to_owned()),
        };
        let (of, count) = (left_out.message, left_out.count);
        tracing::warn!(target: LEFT_OUT, client, of, count, "similar events were not logged");
    }
}

/// Starts logging. Options of the command line take precedence over the configuration.
pub(crate) fn start(log: Log, config: &Config) -> Started {
    let format = log.log_format.map(Into::into).or(config.log.format).unwrap_or_default();
    let level = log.log_level.map(Into::into).or(config.log.level).unwrap_or_default();
    let level = match level {
        LogLevel::Error => TracingLevel::ERROR,
        LogLevel::Warn => TracingLevel::WARN,
        LogLevel::Info => TracingLevel::INFO,
        LogLevel::Debug => TracingLevel::DEBUG,
        LogLevel::Trace => TracingLevel::TRACE,
    };
    let (counts, events) = (Arc::default(), Arc::<Events>::default());
    let (fields, hasher) = (FieldFormat(format), RandomState::new());
    let lines = Lines {
        fields,
        is_coloured: std::io::stderr().is_terminal(),
        level,
        counts: Arc::clone(&counts),
        events: Arc::clone(&events),
        hasher,
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // Events and the audit log do not depend on the level.
        .with_max_level(level.max(TracingLevel::INFO))
        .fmt_fields(fields)
        .event_format(lines)
        .init();
    Started { counts, events }
}
