//! Instructions per operation, counted by callgrind on a fixed stream of calls (`crates/sim/src/bin/instructions/`) and
//! compared with `docs/instructions.json`. Unlike times they do not depend on the machine's load, so continuous integration
//! finds a change that makes an operation more expensive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::{Value, json};

use super::Scratch;
use crate::process::{self, root, target_directory};
use crate::report::usage;

/// Path of the record.
const RECORD: &str = "docs/instructions.json";

/// Allowed growth over the record.
const GROWTH_MAX: f64 = 0.05;
/// Variation due to the hash tables' random seeds, with a margin. Smaller differences do not change the record.
const NOISE: f64 = 0.01;

/// Callgrind counts inside the first function and writes a file after the second.
const COUNTED: &str = "--toggle-collect=*instructions::counted*";
const DUMP: &str = "--dump-after=*instructions::print_count*";

const BUILD: Duration = Duration::from_secs(1800);

/// An operation of the record.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    operation: String,
    instructions: u64,
    /// Why it was last recorded.
    reason: String,
}

/// `cargo xtask perf instructions`.
pub(super) fn command(arguments: &[&str]) -> ExitCode {
    let reason = match arguments {
        [] => None,
        ["--record", reason] if !reason.trim().is_empty() => Some(*reason),
        _ => return usage(super::HELP),
    };
    match run(reason) {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("perf: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Counts and compares. With a reason, records the changes instead.
pub(super) fn run(reason: Option<&str>) -> Result<String, String> {
    let counts = count()?;
    let path = root().join(RECORD);
    let recorded = match fs::read_to_string(&path) {
        Ok(text) => read(&text).map_err(|why| format!("{RECORD}: {why}"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(format!("{RECORD}: {error}")),
    };
    let shown = table(&counts, &recorded);
    if let Some(reason) = reason {
        let entries = changed(&counts, &recorded, reason);
        fs::write(&path, written(&entries)).map_err(|error| format!("{RECORD}: {error}"))?;
        return Ok(shown);
    }
    match regressions(&counts, &recorded) {
        regressions if regressions.is_empty() => Ok(shown),
        regressions => Err(format!(
            "{shown}\n{}\nTo accept: cargo xtask perf instructions --record REASON. Recorded with {}; counted with {}.",
            regressions.join("\n"),
            made_with(&path),
            tools()
        )),
    }
}

/// Counts the instructions of each operation, in the order of the stream.
fn count() -> Result<Vec<(String, u64)>, String> {
    let build = ["build", "--release", "--locked", "--package", "sim", "--bin", "instructions"];
    process::run(process::cargo(&build), BUILD)?;
    let scratch = Scratch::at(&target_directory())?;
    let out = scratch.folder.join("callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--tool=callgrind", "--collect-atstart=no", COUNTED, DUMP]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.arg(target_directory().join("release/instructions"));
    let output =
        process::output(&mut valgrind).map_err(|why| format!("{why} (is Debian's valgrind installed?)"))?;
    let operations = output.lines().enumerate().map(|(number, line)| {
        let (name, count) = line.split_once('\t').ok_or_else(|| format!("{line:?} is not an operation"))?;
        let count: f64 = count.parse().map_err(|_| format!("{line:?} has no count"))?;
        let total = total(&out.with_extension((number + 1).to_string()))?;
        Ok((name.to_owned(), rounded(total / count)))
    });
    operations.collect()
}

/// Rounds a count.
fn rounded(count: f64) -> u64 {
    format!("{count:.0}").parse().unwrap_or(u64::MAX)
}

/// Reads the total of a callgrind file.
fn total(path: &Path) -> Result<f64, String> {
    let text = fs::read_to_string(path).map_err(process::at(path))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    total.filter(|total| *total > 0.0).ok_or_else(|| format!("{} has no total", path.display()))
}

fn read(text: &str) -> Result<Vec<Entry>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let entries = value["operations"].as_array().ok_or("no operations")?;
    let entry = |entry: &Value| {
        Some(Entry {
            operation: entry["operation"].as_str()?.to_owned(),
            instructions: entry["instructions"].as_u64()?,
            reason: entry["reason"].as_str().filter(|reason| !reason.is_empty())?.to_owned(),
        })
    };
    let read = entries.iter().map(|it| entry(it).ok_or_else(|| format!("{it} is malformed")));
    read.collect()
}

fn written(entries: &[Entry]) -> String {
    let operations: Vec<Value> = entries
        .iter()
        .map(|it| json!({ "operation": it.operation, "instructions": it.instructions, "reason": it.reason }))
        .collect();
    format!("{:#}\n", json!({ "made_with": tools(), "operations": operations }))
}

/// Versions of the tools, which affect the counts.
fn tools() -> String {
    let version = |program: &str| process::output(Command::new(program).arg("--version")).unwrap_or_default();
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    format!("{}, {}", version(&compiler).trim(), version("valgrind").trim())
}

fn made_with(path: &PathBuf) -> String {
    let value: Option<Value> =
        fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok());
    value.and_then(|value| Some(value["made_with"].as_str()?.to_owned())).unwrap_or_default()
}

/// The growth of an operation as a fraction; `None` if it is not in the record.
fn growth(count: &(String, u64), recorded: &[Entry]) -> Option<f64> {
    let entry = recorded.iter().find(|entry| entry.operation == count.0)?;
    Some(count.1 as f64 / entry.instructions.max(1) as f64 - 1.0)
}

/// Returns the new record. Entries within [`NOISE`] stay as they were.
fn changed(counts: &[(String, u64)], recorded: &[Entry], reason: &str) -> Vec<Entry> {
    let entry = |count: &(String, u64)| {
        let old = recorded.iter().find(|entry| entry.operation == count.0);
        match (old, growth(count, recorded)) {
            (Some(old), Some(growth)) if growth.abs() <= NOISE => old.clone(),
            _ => {
                Entry { operation: count.0.clone(), instructions: count.1, reason: reason.trim().to_owned() }
            }
        }
    };
    counts.iter().map(entry).collect()
}

/// Lists operations that grew too much, and differences between the record and the stream.
fn regressions(counts: &[(String, u64)], recorded: &[Entry]) -> Vec<String> {
    let mut words = Vec::new();
    for count in counts {
        match growth(count, recorded) {
            None => words.push(format!("{} is not in {RECORD}", count.0)),
            Some(growth) if growth > GROWTH_MAX => {
                words.push(format!(
                    "{} takes {:.1} % more instructions than recorded",
                    count.0,
                    growth * 100.0
                ));
            }
            Some(_) => {}
        }
    }
    let gone = recorded.iter().filter(|entry| !counts.iter().any(|count| count.0 == entry.operation));
    words.extend(gone.map(|entry| format!("{} is in {RECORD}, but was not counted", entry.operation)));
    words
}

fn table(counts: &[(String, u64)], recorded: &[Entry]) -> String {
    let mut out = "| operation | instructions | recorded | change |\n| --- | --- | --- | --- |\n".to_owned();
    for count in counts {
        let entry = recorded.iter().find(|entry| entry.operation == count.0);
        let old = entry.map_or("–".to_owned(), |entry| entry.instructions.to_string());
        let change =
            growth(count, recorded).map_or("–".to_owned(), |growth| format!("{:+.1} %", growth * 100.0));
        out += &format!("| {} | {} | {old} | {change} |\n", count.0, count.1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(operation: &str, instructions: u64) -> Entry {
        Entry { operation: operation.to_owned(), instructions, reason: "as measured".to_owned() }
    }

    fn counted(operation: &str, instructions: u64) -> (String, u64) {
        (operation.to_owned(), instructions)
    }

    #[test]
    fn only_growth_above_five_percent_is_an_error() {
        let recorded = [entry("NULL", 1000), entry("READ", 2000)];
        assert!(regressions(&[counted("NULL", 1049), counted("READ", 100)], &recorded).is_empty());
        let wrong = regressions(&[counted("NULL", 1051), counted("READ", 2000)], &recorded);
        assert_eq!(wrong, ["NULL takes 5.1 % more instructions than recorded"]);
    }

    #[test]
    fn new_and_missing_operations_are_errors() {
        let wrong = regressions(&[counted("NEW", 1)], &[entry("OLD", 1)]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn the_record_round_trips_and_changes_only_beyond_noise() {
        let recorded = [entry("NULL", 1000), entry("READ", 2000)];
        let now = changed(&[counted("NULL", 1009), counted("READ", 1500)], &recorded, "a faster READ");
        assert_eq!(now[0], recorded[0]);
        assert_eq!((now[1].instructions, now[1].reason.as_str()), (1500, "a faster READ"));
        assert_eq!(read(&written(&now)).unwrap(), now);
    }

    #[test]
    fn entries_without_a_reason_are_refused() {
        assert!(read(&written(&[Entry { reason: String::new(), ..entry("NULL", 1) }])).is_err());
    }
}
