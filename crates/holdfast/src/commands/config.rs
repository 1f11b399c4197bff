//! `holdfast config`: prints an example of the configuration file, or checks one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use server::config::EXAMPLE;
use server::error::Error;

use crate::report::{Outcome, print};

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a configuration file with all defaults and comments
    Example,
    /// Check a configuration file
    Check {
        /// The configuration file
        file: PathBuf,
    },
}

pub(crate) fn run(config: &Config) -> Outcome {
    match &config.action {
        Action::Example => print(EXAMPLE),
        Action::Check { file } => {
            server::config::Config::read(file).map_err(|error| Error::usage(error.to_string()))?;
            print(&format!("{} is valid\n", file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
