//! `holdfast config`.

use std::process::ExitCode;

use server::config::{Config, EXAMPLE};
use server::error::Error;

use crate::cli::{self, ConfigAction};
use crate::report::{Outcome, print};

pub(crate) fn run(config: &cli::Config) -> Outcome {
    match &config.action {
        ConfigAction::Example => print(EXAMPLE),
        ConfigAction::Check { file } => {
            Config::read(file).map_err(|error| Error::usage(error.to_string()))?;
            print(&format!("{} is fine\n", file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
