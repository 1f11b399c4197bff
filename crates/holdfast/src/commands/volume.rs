//! `holdfast volume`: creates, lists, shows, changes and deletes volumes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use server::config::size::Size;
use server::config::{Config, JOURNAL_BYTES_DEFAULT, values};
use server::error::Error;
use server::volumes::creation_notice;
use store::{Description, Directory, describe, list};

use crate::logging::{self, Level, Log};
use crate::report::{Outcome, print_either, table};

use root::RootArgs;

mod root;

const CREATE_EXAMPLES: &str = "The root directory of a new volume belongs to the user who runs this, with mode 0755, unless --owner and --mode say \
otherwise.

Examples:
  holdfast volume create /srv/holdfast home --owner root:root --mode 0755
  holdfast volume create /srv/holdfast scratch --mode 1777 --journal-size \"64 MiB\"";

const SET_EXAMPLES: &str = "Examples:
  holdfast volume set /srv/holdfast main --mode 1777
  holdfast volume set /srv/holdfast main --owner 1000:1000 --mode 0770";

#[derive(Debug, Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a volume; no server may be running on the data directory
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// The data directory; created if it does not exist
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Name of the volume
        name: String,
        /// Directory for its journal, best on a device of its own [default: in the data directory]
        #[arg(long, value_name = "DIR")]
        journal: Option<PathBuf>,
        /// Size of its journal, such as "64 MiB", rounded up to a multiple of 16 MiB; the volume takes up to about
        /// three times as much [default: 512 MiB]
        #[arg(long, value_name = "SIZE", value_parser = values::journal_size)]
        journal_size: Option<Size>,
        #[command(flatten)]
        root: RootArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the volumes
    List {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a volume
    Show {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Name of the volume
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the owner and the mode of a volume's root directory; no server may be running on the data directory
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Name of the volume
        name: String,
        #[command(flatten)]
        root: RootArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a volume with all its data; no server may be running on the data directory
    Delete {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        /// Name of the volume
        name: String,
        /// Confirm that its data is to be destroyed; without this, only says what would be deleted
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(volume: &Volume) -> Outcome {
    let log = logging::start(Log { log_format: None, log_level: Some(Level::Warn) }, &Config::default());
    let outcome = act(&volume.action);
    log.report();
    outcome
}

fn act(action: &Action) -> Outcome {
    match action {
        Action::Create { data, name, journal, journal_size, root, json } => {
            let root = root.root()?;
            let directory = Directory::open_or_create(data)?;
            let bytes = journal_size.map_or(JOURNAL_BYTES_DEFAULT, |size| size.0);
            eprintln!("holdfast: {}", creation_notice(&directory, name, journal.as_deref(), bytes));
            server::volumes::create(&directory, name, journal.as_deref(), bytes, root)?;
            show(data, name, *json)
        }
        Action::List { data, json } => show_list(data, *json),
        Action::Show { data, name, json } => show(data, name, *json),
        Action::Set { data, name, root, json } => set(data, name, root, *json),
        Action::Delete { data, name, yes, json } => delete(data, name, *yes, *json),
    }
}

fn set(data: &Path, name: &str, root: &RootArgs, json: bool) -> Outcome {
    if root.is_empty() {
        return Err(Error::usage("nothing to change: give --owner or --mode"));
    }
    let now = server::volumes::set_root(&Directory::open(data)?, name, root.root()?)?;
    let mode = format!("{:04o}", now.mode);
    print_either(json, &json!({ "name": name, "uid": now.uid, "gid": now.gid, "mode": mode }), || {
        format!("the root directory of {name:?} belongs to {}:{} and has mode {mode}\n", now.uid, now.gid)
    });
    Ok(ExitCode::SUCCESS)
}

fn delete(data: &Path, name: &str, yes: bool, json: bool) -> Outcome {
    let description = describe(data, name)?;
    if !yes {
        return Err(Error::usage(format!(
            "deleting the volume {name:?} destroys all its data ({} of data and journal); confirm with --yes",
            Size(description.segment_bytes + description.journal_bytes)
        )));
    }
    Directory::open(data)?.delete(name)?;
    print_either(json, &json!({ "deleted": name }), || format!("deleted the volume {name:?}\n"));
    Ok(ExitCode::SUCCESS)
}

fn show_list(data: &Path, json: bool) -> Outcome {
    let mut volumes = Vec::new();
    for name in list(data)? {
        volumes.push(describe(data, &name)?);
    }
    let value = Value::Array(volumes.iter().map(to_json).collect());
    print_either(json, &value, || {
        volumes
            .iter()
            .map(|volume| format!("{}  {:016x}  {}\n", volume.name, volume.id, state(volume)))
            .collect()
    });
    Ok(ExitCode::SUCCESS)
}

fn show(data: &Path, name: &str, json: bool) -> Outcome {
    let volume = describe(data, name)?;
    print_either(json, &to_json(&volume), || {
        table(&[
            ("name", volume.name.clone()),
            ("id", format!("{:016x}", volume.id)),
            ("path", volume.path.display().to_string()),
            ("journal", format!("{} ({})", volume.journal.display(), Size(volume.journal_bytes))),
            ("index", Size(volume.index_bytes).to_string()),
            ("segments", format!("{} ({})", volume.segments, Size(volume.segment_bytes))),
            ("state", state(&volume)),
        ])
    });
    Ok(ExitCode::SUCCESS)
}

fn state(volume: &Description) -> String {
    match volume.in_use_by {
        Some(0) => "in use".to_owned(),
        Some(pid) => format!("in use by process {pid}"),
        None => "not in use".to_owned(),
    }
}

fn to_json(volume: &Description) -> Value {
    json!({
        "name": volume.name,
        "id": format!("{:016x}", volume.id),
        "path": volume.path,
        "journal": volume.journal,
        "journal_bytes": volume.journal_bytes,
        "index_bytes": volume.index_bytes,
        "segments": volume.segments,
        "segment_bytes": volume.segment_bytes,
        "in_use_by": volume.in_use_by,
    })
}
