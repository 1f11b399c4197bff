//! Events go to standard error; what was asked for goes to standard output.

use std::io::IsTerminal as _;

use server::config::{Config, LogFormat, LogLevel};
use tracing::Level;

use crate::cli::Log;

/// Shows events as the command line says, or else the configuration.
pub(crate) fn start(log: Log, config: &Config) {
    let format = log.log_format.map(Into::into).or(config.log.format).unwrap_or_default();
    let level = log.log_level.map(Into::into).or(config.log.level).unwrap_or_default();
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let builder =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    match format {
        LogFormat::Human => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
