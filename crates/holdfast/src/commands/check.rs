//! `holdfast check`: looks for faults in pools.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use server::config::size::Size;
use server::data::Data;
use server::error::Error;
use volume::check::{CheckOptions, Fault, Report, check};

use crate::escape;
use crate::report::{Outcome, count, print, table};

mod repair;

/// Exit code if there are faults.
const FAULTS: u8 = 1;

const EXAMPLES: &str = "Reads everything, and changes nothing without --repair.

Examples:
  holdfast check /srv/holdfast
  holdfast check /srv/holdfast --pool fast --no-data

Exit codes: 0 no faults; 1 faults, or the check failed; 2 the command line is wrong; 3 a server uses the data directory.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// The data directory
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Check only this pool with its volumes [default: all]
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Do not read file data, which takes most of the time
    #[arg(long)]
    no_data: bool,
    /// List at most this many faults of each pool, and count the others
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    max_faults: usize,
    /// Repair the pool: show what is wrong, ask, repair what can be repaired, and check again. Copy what can be read
    /// first, with `holdfast dump --files`. The old index is kept
    #[arg(long, requires = "pool")]
    repair: bool,
    /// Repair without asking
    #[arg(long, requires = "repair")]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Check) -> Outcome {
    let options = CheckOptions { read_data: !arguments.no_data, faults_max: arguments.max_faults };
    if let Some(name) = arguments.pool.as_ref().filter(|_| arguments.repair) {
        return repair::run(arguments, name, &options);
    }
    let data = Data::open_to_read(&arguments.data)?;
    let names = match &arguments.pool {
        Some(name) => vec![name.clone()],
        None => {
            for name in data.strays()? {
                eprintln!("holdfast: {name:?} is ignored: it is not a pool");
            }
            data.pools()?
        }
    };
    let mut clean = true;
    let mut reports = Vec::new();
    for name in names {
        // A pool that cannot be checked is not clean. The others are still checked.
        let result = check_pool(&data, &name, &options);
        clean &= result.as_ref().is_ok_and(Report::is_clean);
        if arguments.json {
            reports.push(to_json(&name, &result));
        } else {
            print(&to_text(&arguments.data, &name, &result));
        }
    }
    if arguments.json {
        print(&format!("{}\n", json!({ "clean": clean, "pools": reports })));
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(FAULTS) })
}

fn check_pool(data: &Data, name: &str, options: &CheckOptions) -> Result<Report, Error> {
    let media = data.open_pool(name, None)?.media;
    check(&media, options).map_err(|error| Error::failed(format!("cannot check the pool {name:?}: {error}")))
}

fn to_text(data: &Path, name: &str, result: &Result<Report, Error>) -> String {
    let report = match result {
        Ok(report) => report,
        Err(error) => return format!("{name}: {error}\n"),
    };
    let mut text = String::new();
    let mut line = |line: String| {
        escape::line(&line, &mut text);
        text.push('\n');
    };
    let mut faults: Vec<&Fault> = report.faults.iter().collect();
    faults.sort_by_key(|fault| fault.kind);
    for fault in faults {
        line(format!("{name}: {fault}"));
    }
    if report.more_faults > 0 {
        line(format!("{name}: {}", unlisted(report.more_faults, "fault")));
    }
    for note in &report.notes {
        line(format!("{name}: note: {note}"));
    }
    let summary = &report.summary;
    let total = report.more_faults.saturating_add(u64::try_from(report.faults.len()).unwrap_or(u64::MAX));
    let verdict = if report.is_clean() { "no faults".to_owned() } else { count(total, "fault") };
    line(format!("{name}: {verdict}"));
    if !report.is_clean() {
        line(format!("{name}: {}", report.intact()));
        let data = data.display();
        line(format!(
            "{name}: run `holdfast dump --files DIR {data} --pool {name}` to copy what can be read"
        ));
        if let Some(obstacle) = report.obstacle {
            line(format!(
                "{name}: the pool can be neither served nor repaired, as {obstacle} (docs/damage.md)"
            ));
        }
        if report.repairable_faults > 0 {
            line(format!("{name}: then `holdfast check {data} --pool {name} --repair` repairs the pool"));
        }
    }
    text += &table(&[
        ("  objects", summary.inodes.to_string()),
        ("  directories", summary.directories.to_string()),
        ("  files", summary.files.to_string()),
        ("  names", summary.names.to_string()),
        ("  file data", Size(summary.used_bytes).to_string()),
        ("  verified", Size(summary.verified_bytes).to_string()),
        ("  extents", summary.extents.to_string()),
        ("  segments", format!("{}, live {}", summary.segments, Size(summary.live_bytes))),
        (
            "  journal",
            format!("{}, {}", count(summary.journal_entries, "entry"), Size(summary.journal_bytes)),
        ),
        (
            "  lost",
            format!(
                "{}, {}, {} of data",
                count(summary.lost_objects, "object record"),
                count(summary.lost_names, "name"),
                Size(summary.lost_bytes)
            ),
        ),
    ]);
    text
}

/// Says how many faults or changes are not listed.
fn unlisted(more: u64, thing: &str) -> String {
    let are = if more == 1 { "is" } else { "are" };
    format!("{} {are} not listed", count(more, &format!("more {thing}")))
}

fn to_json(name: &str, result: &Result<Report, Error>) -> Value {
    let report = match result {
        Ok(report) => report,
        Err(error) => return json!({ "name": name, "clean": false, "error": error.to_string() }),
    };
    let faults: Vec<Value> = report
        .faults
        .iter()
        .map(|fault| json!({ "kind": fault.kind.word(), "path": fault.path, "what": fault.what }))
        .collect();
    let summary = &report.summary;
    json!({
        "name": name,
        "clean": report.is_clean(),
        "intact": report.intact(),
        "faults": faults,
        "more_faults": report.more_faults,
        "repairable_faults": report.repairable_faults,
        "obstacle": report.obstacle.map(|obstacle| obstacle.to_string()),
        "notes": report.notes,
        "summary": {
            "inodes": summary.inodes,
            "directories": summary.directories,
            "files": summary.files,
            "names": summary.names,
            "used_bytes": summary.used_bytes,
            "extents": summary.extents,
            "segments": summary.segments,
            "live_bytes": summary.live_bytes,
            "journal_entries": summary.journal_entries,
            "journal_bytes": summary.journal_bytes,
            "journal_cut_bytes": summary.journal_cut_bytes,
            "verified_bytes": summary.verified_bytes,
            "lost_objects": summary.lost_objects,
            "lost_names": summary.lost_names,
            "lost_bytes": summary.lost_bytes,
        },
    })
}

#[cfg(test)]
mod tests {
    use volume::check::Summary;

    use super::*;

    #[test]
    fn one_of_anything_is_singular() {
        let summary = Summary { journal_entries: 1, lost_objects: 1, lost_names: 1, ..Summary::default() };
        let report = Report { more_faults: 1, summary, ..Report::default() };
        let text = to_text(Path::new("/srv/holdfast"), "default", &Ok(report));
        for line in [
            "default: 1 more fault is not listed\n",
            "default: 1 fault\n",
            " 1 entry, ",
            "1 object record, 1 name, ",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    }
}
