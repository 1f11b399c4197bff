//! Logging to standard error. Standard output is for results.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use server::config::{Config, LogFormat, LogLevel};
use tracing::Level as TracingLevel;

/// Options of logging.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Log {
    /// Format of log events [default: human]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<Format>,
    /// Minimum level to log [default: info]
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

/// Starts logging. Options of the command line take precedence over the configuration.
pub(crate) fn start(log: Log, config: &Config) {
    let format = log.log_format.map(Into::into).or(config.log.format).unwrap_or_default();
    let level = log.log_level.map(Into::into).or(config.log.level).unwrap_or_default();
    let level = match level {
        LogLevel::Error => TracingLevel::ERROR,
        LogLevel::Warn => TracingLevel::WARN,
        LogLevel::Info => TracingLevel::INFO,
        LogLevel::Debug => TracingLevel::DEBUG,
        LogLevel::Trace => TracingLevel::TRACE,
    };
    let builder =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    match format {
        LogFormat::Human => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).init(),
    }
}
