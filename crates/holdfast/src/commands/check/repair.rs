//! `holdfast check --repair`: shows what is wrong with a pool, asks, repairs it, and shows the result.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use server::data::Data;
use server::error::Error;
use server::pools::repair;
use volume::check::{CheckOptions, FaultKind, Obstacle, Report};
use volume::repair::Repaired;

use super::{Check, FAULTS, check_pool, to_json, to_text, unlisted};
use crate::escape;
use crate::report::{Outcome, print};

/// What a repair does about faults of some kinds.
const REMEDIES: [(&[FaultKind], &str); 7] = [
    (&[FaultKind::Index], "replace the index by a copy of what can be read"),
    (
        &[FaultKind::Lost, FaultKind::Tree],
        "move objects without a name to /lost+found, and create records, owned by root, for objects that have none",
    ),
    (&[FaultKind::Name], "restore names from the record that is left, and remove those that lead nowhere"),
    (
        &[FaultKind::Lost, FaultKind::Map, FaultKind::Extent, FaultKind::Segment],
        "mark data whose location is lost as unreadable until it is written again",
    ),
    (
        &[
            FaultKind::Lost,
            FaultKind::Links,
            FaultKind::Directory,
            FaultKind::Inode,
            FaultKind::Symlink,
            FaultKind::Used,
            FaultKind::Usage,
            FaultKind::Extent,
            FaultKind::Segment,
        ],
        "recount links, names, bytes, references and usage",
    ),
    (&[FaultKind::Record], "drop invalid records"),
    (&[FaultKind::Number], "advance counters past all numbers in use"),
];

pub(super) fn run(arguments: &Check, name: &str, options: &CheckOptions) -> Outcome {
    if arguments.json && !arguments.yes {
        return Err(Error::usage(
            "a repair that prints JSON cannot show what it would do before it asks; add --yes to repair without asking",
        ));
    }
    if !arguments.yes && !io::stdin().is_terminal() {
        return Err(Error::usage(format!(
            "cannot ask whether to repair the pool {name:?}, as standard input is not a terminal; add --yes to repair it \
             without asking"
        )));
    }
    let data = Data::open(&arguments.data)?;
    let before = check_pool(&data, name, options)?;
    let text = |text: &str| {
        if !arguments.json {
            print(text);
        }
    };
    text(&to_text(&arguments.data, name, &Ok(before.clone())));
    if let Some(obstacle) = before.obstacle {
        return Err(refused(arguments, name, &before, impossible(&arguments.data, name, obstacle)));
    }
    if before.repairable_faults == 0 {
        text(&format!("{name}: there is nothing to repair, and nothing is changed\n"));
        return Ok(finish(arguments, name, (before.clone(), None, before)));
    }
    text(&plan(name, &before));
    if !arguments.yes && !is_confirmed(name) {
        text(&format!("{name}: nothing is changed\n"));
        return Ok(finish(arguments, name, (before.clone(), None, before)));
    }
    let done = match repair(&data, name, arguments.max_faults) {
        Ok(done) => done,
        Err(error) => return Err(refused(arguments, name, &before, error)),
    };
    text(&told(name, &done));
    let after = check_pool(&data, name, options)?;
    text(&to_text(&arguments.data, name, &Ok(after.clone())));
    Ok(finish(arguments, name, (before, Some(done), after)))
}

/// Returns why a pool cannot be repaired, and what to do instead.
fn impossible(data: &Path, name: &str, obstacle: Obstacle) -> Error {
    let data = data.display();
    Error::failed(format!(
        "the pool {name:?} cannot be repaired, as {obstacle}; copy its files with `holdfast dump --files DIR {data} \
         --pool {name}` into a new pool, or restore a backup (docs/damage.md)"
    ))
}

/// Prints JSON about a pool that was not repaired, if that is wanted. Returns why it was not.
fn refused(arguments: &Check, name: &str, before: &Report, error: Error) -> Error {
    if arguments.json {
        let volume = json!({
            "name": name,
            "clean": false,
            "before": to_json(name, &Ok(before.clone())),
            "repaired": Value::Null,
            "error": error.to_string(),
        });
        print(&format!("{volume}\n"));
    }
    error
}

/// Returns what a repair would do.
fn plan(name: &str, report: &Report) -> String {
    let kinds: BTreeSet<FaultKind> = report.faults.iter().map(|fault| fault.kind).collect();
    let mut text = format!("{name}: a repair would\n");
    let all = report.more_faults > 0;
    for (_, what) in REMEDIES.iter().filter(|(of, _)| all || of.iter().any(|kind| kinds.contains(kind))) {
        text += &format!("  - {what}\n");
    }
    text + "  - keep the old index as index.damaged, with a number appended if that exists\n"
}

/// Asks at the terminal.
fn is_confirmed(name: &str) -> bool {
    eprint!("Repair the pool {name}? [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).is_ok() && is_yes(&answer)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Returns what a repair did.
fn told(name: &str, done: &Repaired) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        escape::line(&line, &mut text);
        text.push('\n');
    };
    for change in &done.changes {
        line(format!("{name}: repair: {change}"));
    }
    if done.more_changes > 0 {
        line(format!("{name}: repair: {}", unlisted(done.more_changes, "change")));
    }
    line(format!("{name}: repaired: {}", done.tally));
    for path in &done.kept {
        line(format!("{name}: an old index is kept as {}; it may be deleted", path.display()));
    }
    text
}

/// Prints JSON, if that is wanted. Returns the exit code, which is that of a check afterwards.
fn finish(
    arguments: &Check,
    name: &str,
    (before, done, after): (Report, Option<Repaired>, Report),
) -> ExitCode {
    let is_clean = after.is_clean();
    if arguments.json {
        let repaired = done.map(|done| repair_to_json(&done));
        let volume = json!({
            "name": name,
            "clean": is_clean,
            "before": to_json(name, &Ok(before)),
            "repaired": repaired,
            "after": to_json(name, &Ok(after)),
        });
        print(&format!("{volume}\n"));
    }
    if is_clean { ExitCode::SUCCESS } else { ExitCode::from(FAULTS) }
}

fn repair_to_json(done: &Repaired) -> Value {
    let changes: Vec<Value> = done
        .changes
        .iter()
        .map(|change| json!({ "kind": change.kind.word(), "path": change.path, "what": change.what }))
        .collect();
    let kept: Vec<String> = done.kept.iter().map(|path| path.display().to_string()).collect();
    let tally = &done.tally;
    json!({
        "changes": changes,
        "more_changes": done.more_changes,
        "kept": kept,
        "summary": {
            "names_restored": tally.names_restored,
            "names_removed": tally.names_removed,
            "objects_recreated": tally.objects_recreated,
            "objects_found": tally.objects_found,
            "objects_corrected": tally.objects_corrected,
            "objects_freed": tally.objects_freed,
            "lost_bytes": tally.lost_bytes,
            "extents_freed": tally.extents_freed,
            "counts_corrected": tally.counts_corrected,
            "records_dropped": tally.records_dropped,
            "state_lost": tally.is_state_lost,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_confirms() {
        for answer in ["y\n", "Y", " yes \n", "Yes\n"] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "no", "yellow\n", "y y"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }

    #[test]
    fn every_fault_that_can_be_repaired_has_a_remedy() {
        for kind in FaultKind::ALL.into_iter().filter(|kind| kind.is_repairable()) {
            assert!(REMEDIES.iter().any(|(of, _)| of.contains(&kind)), "{kind:?}");
        }
    }
}
