//! `holdfast config`: prints an example of the configuration file, or checks one; exports and imports what is set besides.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use server::config::{EXAMPLE, audience};
use server::error::Error;

use crate::commands::serve::{self, Serve};
use crate::report::{Outcome, as_json, print, print_either};

mod import;
mod settings;

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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print as JSON what is set on a running server: volumes, quota trees, quotas and rate limits
    #[command(after_help = "Example:\n  holdfast config export /srv/holdfast > settings.json")]
    Export {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
    },
    /// Make volumes, quota trees, quotas and rate limits of a running server what a file says; what it does not name stays
    #[command(after_help = "Example:\n  holdfast config import /srv/holdfast settings.json")]
    Import {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// The file that `holdfast config export` wrote
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(config: &Config) -> Outcome {
    match &config.action {
        Action::Example => print(EXAMPLE),
        Action::Check { file, data, json } => {
            let checked = check(file, data.clone())?;
            for warning in checked.warnings.iter().filter(|_| !json) {
                eprintln!("holdfast: warning: {warning}");
            }
            print_either(*json, &as_json(&checked), || checked.sentence());
        }
        Action::Export { data } => {
            let settings = settings::of_server(data)?;
            let text = serde_json::to_string_pretty(&settings).expect("its keys are text");
            print(&format!("{text}\n"));
        }
        Action::Import { data, file, json } => return import(data, file, *json),
    }
    Ok(ExitCode::SUCCESS)
}

/// Imports settings. Those that the server refuses do not keep it from the others.
fn import(data: &Path, file: &Path, json: bool) -> Outcome {
    let imported = import::apply(data, &import::read(file)?)?;
    print_either(json, &as_json(&imported), || {
        let nothing = imported.changed.is_empty() && imported.failed.is_empty();
        let lines = imported.changed.iter().map(|sentence| format!("{sentence}\n"));
        if nothing { "everything is so already\n".to_owned() } else { lines.collect() }
    });
    match imported.failed.as_slice() {
        [] => Ok(ExitCode::SUCCESS),
        failed => Err(Error::failed(failed.join("\n"))),
    }
}

/// What a check found of a file without mistakes.
#[derive(Debug, Serialize)]
struct Checked {
    file: PathBuf,
    /// The data directory that it is valid for, if one is known.
    data: Option<PathBuf>,
    warnings: Vec<String>,
}

impl Checked {
    fn sentence(&self) -> String {
        let file = self.file.display();
        match &self.data {
            Some(data) => format!("{file} is valid for the data directory {}\n", data.display()),
            None => format!(
                "{file} is valid; to check it against the volumes too: holdfast config check {file} DATA\n"
            ),
        }
    }
}

/// Checks the file, and the data directory if one is given or named in the file.
fn check(file: &Path, data: Option<PathBuf>) -> Result<Checked, Error> {
    let config = serve::read(file)?;
    let listen = config.listen.clone().unwrap_or_else(serve::default_listen);
    let mut warnings: Vec<String> =
        audience::warnings(&config.export, &listen).iter().map(ToString::to_string).collect();
    server::server::check_certificate(&config.api)?;
    let data = data.or_else(|| config.data.clone());
    if let Some(data) = &data {
        let settings = serve::settings(&Serve::of(data.clone()), config)?;
        server::server::check(&settings)?;
        warnings.extend(server::server::unused_targets(&settings)?);
        match server::server::volume_names(&settings.data) {
            Ok(names) if names.is_empty() => {}
            Ok(names) => server::server::check_exports(&settings, &names)?,
            Err(error) => {
                warnings.push(format!("whether the volumes of exports exist is not checked: {error}"));
            }
        }
    }
    Ok(Checked { file: file.to_owned(), data, warnings })
}
