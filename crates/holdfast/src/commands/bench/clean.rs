//! `holdfast bench clean`: removes the files of measurements that were killed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use load::leftovers;
use server::error::Error;

use super::{CallerOptions, failed};
use crate::report::{Outcome, count, print};

/// The time limit for one directory. A run can be repeated.
const TIME_MAX: Duration = Duration::from_secs(3600);

const EXAMPLES: &str = "Examples:
  holdfast bench clean filer:/export --dry-run
  holdfast bench clean filer:/export

Removes the directories `holdfast-bench-` with 16 hexadecimal digits under the export, also those of measurements that are \
still running: run it when no measurement is.

Exit codes: 0 nothing is left; 1 something could not be removed; 2 the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Clean {
    /// Server and export, such as 127.0.0.1:/main or filer:2049:/export/data
    #[arg(value_name = "HOST[:PORT]:/EXPORT")]
    target: String,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Port of the server's MOUNT service [default: the NFS port, else the port that rpcbind names]
    #[arg(long, value_name = "PORT")]
    mount_port: Option<u16>,
    #[command(flatten)]
    caller: CallerOptions,
}

pub(super) fn run(clean: &Clean) -> Outcome {
    let server = clean.caller.server(&clean.target, clean.mount_port)?;
    let names = leftovers::find(&server).map_err(failed)?;
    if names.is_empty() {
        print(&format!("No files of measurements are in {}\n", server.export));
    }
    let mut left = 0;
    for name in names {
        if clean.dry_run {
            print(&format!("would remove {name}\n"));
            continue;
        }
        match leftovers::remove(&server, &name, Instant::now() + TIME_MAX) {
            Ok(true) => print(&format!("removed {name}\n")),
            Ok(false) => {
                left += 1;
                eprintln!("holdfast: {name}: not all was removed within {} s", TIME_MAX.as_secs());
            }
            Err(error) => {
                left += 1;
                eprintln!("holdfast: {name}: {error}");
            }
        }
    }
    match left {
        0 => Ok(ExitCode::SUCCESS),
        left => Err(Error::failed(format!("{} could not be removed", count(left, "directory")))),
    }
}
