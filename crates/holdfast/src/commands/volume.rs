//! `holdfast volume`.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use server::config::size::Size;
use server::config::{Config, JOURNAL_BYTES_DEFAULT};
use server::error::Error;
use store::{Description, Directory, describe, list};

use crate::cli::{Level, Log, Volume, VolumeAction};
use crate::logging;
use crate::report::{Outcome, print_either, table};

pub(crate) fn run(volume: &Volume) -> Outcome {
    logging::start(Log { log_format: None, log_level: Some(Level::Warn) }, &Config::default());
    match &volume.action {
        VolumeAction::Create { data, name, journal, journal_size, json } => {
            let directory = Directory::open_or_create(data)?;
            let bytes = journal_size.map_or(JOURNAL_BYTES_DEFAULT, |size| size.0);
            server::volumes::create(&directory, name, journal.as_deref(), bytes)?;
            show(data, name, *json)
        }
        VolumeAction::List { data, json } => show_list(data, *json),
        VolumeAction::Show { data, name, json } => show(data, name, *json),
        VolumeAction::Delete { data, name, yes, json } => delete(data, name, *yes, *json),
    }
}

fn delete(data: &Path, name: &str, yes: bool, json: bool) -> Outcome {
    let description = describe(data, name)?;
    if !yes {
        return Err(Error::usage(format!(
            "deleting the volume {name:?} destroys all that is in it ({} of data and journal); say --yes to do so",
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
