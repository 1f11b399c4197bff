//! What commands on volumes and pools have in common: arguments, the log, the confirmation of a deletion.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use server::config::Config;
use server::error::Error;

use crate::logging::{self, Level, Log};
use crate::report::print_either;

/// Entries of a page of a list.
pub(super) const PAGE: usize = 1000;

/// Asks for one page of a list after the other. Each has entries, and where the next one begins.
pub(super) fn all_pages<T>(
    mut ask: impl FnMut(Option<u64>) -> Result<(Vec<T>, Option<u64>), Error>,
) -> Result<Vec<T>, Error> {
    let (mut listed, mut next) = ask(None)?;
    while next.is_some() {
        let (more, after) = ask(next)?;
        listed.extend(more);
        next = after;
    }
    Ok(listed)
}

/// A resource with a name, and the format of the output.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// The data directory
    #[arg(value_name = "DATA")]
    pub(super) data: PathBuf,
    /// Its name
    pub(super) name: String,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A volume in which something is done, and the format of the output.
#[derive(Debug, Args)]
pub(super) struct InVolume {
    /// The data directory
    #[arg(value_name = "DATA")]
    pub(super) data: PathBuf,
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub(super) name: String,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// All resources of a data directory, and the format of the output.
#[derive(Debug, Args)]
pub(super) struct All {
    /// The data directory
    #[arg(value_name = "DATA")]
    pub(super) data: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A resource to delete.
#[derive(Debug, Args)]
pub(super) struct Deleted {
    #[command(flatten)]
    pub(super) named: Named,
    /// Confirm that its data is to be destroyed; without this, the command only says what would be deleted
    #[arg(long)]
    yes: bool,
}

impl Deleted {
    /// Calls `delete` if that was confirmed; otherwise refuses, and says what the resource, which is of this kind, holds.
    pub(super) fn run(
        &self,
        kind: &str,
        holds: impl FnOnce() -> Result<String, Error>,
        delete: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let name = &self.named.name;
        if !self.yes {
            let holds = holds()?;
            return Err(Error::usage(format!(
                "deleting the {kind} {name:?} destroys {holds}; confirm with --yes"
            )));
        }
        delete()?;
        print_either(self.named.json, &json!({ "deleted": name }), || {
            format!("deleted the {kind} {name:?}\n")
        });
        Ok(())
    }
}

/// Runs a command that logs nothing but warnings.
pub(super) fn with_warnings<T>(run: impl FnOnce() -> T) -> T {
    let log = logging::start(Log { log_format: None, log_level: Some(Level::Warn) }, &Config::default());
    let done = run();
    log.report();
    done
}
