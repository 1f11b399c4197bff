//! `holdfast config`: prints an example of the configuration file, or checks one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use server::config::{EXAMPLE, audience};
use server::error::Error;

use crate::commands::serve::{self, Serve};
use crate::report::{Outcome, print};

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a configuration file with all defaults and comments
    #[command(after_help = "Example:\n  holdfast config example > /etc/holdfast.toml")]
    Example,
    /// Check a configuration file, and with a data directory whether a server could start on it; changes nothing
    #[command(after_help = "Examples:
  holdfast config check /etc/holdfast.toml
  holdfast config check /etc/holdfast.toml /srv/holdfast")]
    Check {
        /// The configuration file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The data directory [default: that of the file, if it names one]
        #[arg(value_name = "DATA")]
        data: Option<PathBuf>,
    },
}

pub(crate) fn run(config: &Config) -> Outcome {
    match &config.action {
        Action::Example => print(EXAMPLE),
        Action::Check { file, data } => print(&check(file, data.clone())?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the file, and the data directory if one is given or named in the file; says what was checked.
fn check(file: &Path, data: Option<PathBuf>) -> Result<String, Error> {
    let (config, shown) = (serve::read(file)?, file.display());
    let listen = config.listen.clone().unwrap_or_else(serve::default_listen);
    for warning in audience::warnings(&config.export, &listen) {
        eprintln!("holdfast: warning: {warning}");
    }
    server::server::check_certificate(&config.api)?;
    let Some(data) = data.or_else(|| config.data.clone()) else {
        return Ok(format!(
            "{shown} is valid; to check it against the volumes too: holdfast config check {shown} DATA\n"
        ));
    };
    let sentence = format!("{shown} is valid for the data directory {}\n", data.display());
    let settings = serve::settings(&Serve::of(data), config)?;
    server::server::check(&settings)?;
    match server::server::volume_names(&settings.data) {
        Ok(names) if names.is_empty() => {}
        Ok(names) => server::server::check_exports(&settings, &names)?,
        Err(error) => {
            eprintln!("holdfast: warning: whether the volumes of exports exist is not checked: {error}")
        }
    }
    Ok(sentence)
}
