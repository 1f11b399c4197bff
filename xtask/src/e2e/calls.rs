//! The calls that a Linux client makes for its work with files, beside the calls that it makes to other servers. What a
//! server answers decides that: delegations, attributes, flags. Calls are counted and judged, times only printed.

use std::collections::BTreeMap;
use std::fs;

use super::Options;
use super::lab::{Lab, Peer, Version};
use crate::process;

/// Files of 4 KiB, appends with fsync(2), MiB of a large file.
const SIZES: [&str; 3] = ["200", "50", "32"];
/// The same with `--long`.
const LONG_SIZES: [&str; 3] = ["2000", "500", "512"];
/// The phase for which servers choose between few calls for files that are used once, and for files that are used often.
const OFTEN: &str = "read-often";
/// Calls of a phase about its directories.
const DIRECTORIES: u64 = 8;
/// One in this many files may cost a call more. Whether a file is opened again is a guess.
const FILES_PER_GUESS: u64 = 20;

/// What a phase of `e2e/scenarios/calls.sh` reports.
#[derive(Debug, Default, PartialEq)]
struct Phase {
    name: String,
    /// How often it did its work.
    times: u64,
    milliseconds: u64,
    /// Calls by operation.
    calls: BTreeMap<String, u64>,
}

impl Phase {
    fn total(&self) -> u64 {
        self.calls.values().sum()
    }

    /// The calls that may be made beyond those for the best server.
    fn slack(&self) -> u64 {
        DIRECTORIES + self.times / FILES_PER_GUESS
    }
}

/// The phases of one server.
#[derive(Debug)]
struct Run {
    server: &'static str,
    version: Version,
    phases: Vec<Phase>,
}

impl Run {
    fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    fn total(&self) -> u64 {
        self.phases.iter().map(Phase::total).sum()
    }

    fn title(&self) -> String {
        format!("{}, NFSv{}", self.server, self.version.name())
    }
}

/// Runs the scenario. Holdfast comes last, so that its volume is checked.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let sizes = if options.long { LONG_SIZES } else { SIZES };
    let mut runs = Vec::new();
    lab.peer = Peer::Ganesha;
    lab.start()?;
    if options.long {
        runs.push(measure(lab, "nfs-ganesha", Version::V3, sizes)?);
    }
    runs.push(measure(lab, "nfs-ganesha", Version::V42, sizes)?);
    lab.kill();
    runs.push(measure(lab, "kernel", Version::V42, sizes)?);
    lab.peer = Peer::Holdfast;
    lab.start()?;
    for version in [Version::V3, Version::V42] {
        runs.push(measure(lab, "Holdfast", version, sizes)?);
    }
    print(&runs);
    let (others, ours) = runs.split_at(runs.len() - 1);
    let ours = ours.first().ok_or("nothing was measured")?;
    let others: Vec<&Run> = others.iter().filter(|run| run.version == ours.version).collect();
    judge(ours, &others)?;
    Ok(format!("{} calls over NFSv{}", ours.total(), ours.version.name()))
}

/// Lets a guest work on the running server, or on its own kernel's.
fn measure(
    lab: &Lab,
    server: &'static str,
    version: Version,
    [count, appends, mebibytes]: [&str; 3],
) -> Result<Run, String> {
    let name = format!("{server}-{}", version.name());
    let mut arguments = vec![&*name, version.name(), count, appends, mebibytes];
    // The kernel's server keeps the files in the guest's memory.
    let memory = if server == "kernel" { "2048M" } else { "768M" };
    if server == "kernel" {
        arguments.push(server);
    }
    lab.guest("calls.sh", memory, &arguments)?;
    let path = lab.out().join(&name);
    let text = fs::read_to_string(&path).map_err(process::at(&path))?;
    let phases = parse(&text).ok_or_else(|| format!("{}: not a report", path.display()))?;
    Ok(Run { server, version, phases })
}

fn parse(report: &str) -> Option<Vec<Phase>> {
    let mut phases: Vec<Phase> = Vec::new();
    for line in report.lines() {
        let mut words = line.split(' ');
        let (name, key, number) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        if phases.last().is_none_or(|last| last.name != name) {
            phases.push(Phase { name: name.to_owned(), ..Phase::default() });
        }
        let phase = phases.last_mut()?;
        match key {
            "times" => phase.times = number,
            "milliseconds" => phase.milliseconds = number,
            // An OPEN that asks for no attributes of the file.
            "OPEN_NOATTR" => *phase.calls.entry("OPEN".to_owned()).or_default() += number,
            operation => *phase.calls.entry(operation.to_owned()).or_default() += number,
        }
    }
    Some(phases)
}

/// Prints the tables of `docs/performance.md`.
fn print(runs: &[Run]) {
    let Some(ours) = runs.last() else { return };
    let table = |cell: &dyn Fn(&Phase) -> String, last: &dyn Fn(&Phase) -> String| {
        for phase in &ours.phases {
            let cells = runs.iter().map(|run| run.phase(&phase.name).map_or_else(String::new, cell));
            let cells: Vec<String> = cells.collect();
            println!("| {}, {} × | {} |{}", phase.name, phase.times, cells.join(" | "), last(phase));
        }
    };
    let titles: Vec<String> = runs.iter().map(Run::title).collect();
    println!("| calls | {} | of the last |", titles.join(" | "));
    println!("|---{}|---|", "|---".repeat(runs.len()));
    table(&|phase| phase.total().to_string(), &|phase| {
        let calls: Vec<String> =
            phase.calls.iter().map(|(operation, count)| format!("{count} {operation}")).collect();
        format!(" {} |", calls.join(", "))
    });
    println!("| ms | {} |", titles.join(" | "));
    println!("|---{}|", "|---".repeat(runs.len()));
    table(&|phase| phase.milliseconds.to_string(), &|_| String::new());
}

/// In each phase, and in all together, there must be no more calls than with the best of the others. In [`OFTEN`], that is
/// the best of those that do not delegate a file at its first open: the others save calls here, and waste them on the
/// removal of files that were read once.
fn judge(ours: &Run, others: &[&Run]) -> Result<(), String> {
    let wastes =
        |run: &&&Run| run.phase("remove").is_some_and(|phase| phase.calls.contains_key("DELEGRETURN"));
    let mut worse = Vec::new();
    for phase in &ours.phases {
        let compared = others.iter().filter(|run| phase.name != OFTEN || !wastes(run));
        let totals = compared.filter_map(|run| run.phase(&phase.name)).map(Phase::total);
        let best = totals.min().ok_or_else(|| format!("nothing to compare {} with", phase.name))?;
        if phase.total() > best + phase.slack() {
            worse.push(format!("{}: {} calls instead of {best}", phase.name, phase.total()));
        }
    }
    let best = others.iter().map(|run| run.total()).min().unwrap_or(0);
    let slack: u64 = ours.phases.iter().map(Phase::slack).sum();
    if ours.total() > best + slack {
        worse.push(format!("in all: {} calls instead of {best}", ours.total()));
    }
    if worse.is_empty() { Ok(()) } else { Err(worse.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "read times 200\nread milliseconds 5\nread OPEN 100\nread OPEN_NOATTR 100\nread READ 200\n\
                          remove times 200\nremove milliseconds 4\nremove REMOVE 200\n";

    fn run(report: &str) -> Run {
        Run { server: "any", version: Version::V42, phases: parse(report).unwrap() }
    }

    #[test]
    fn reports_are_parsed() {
        let run = run(REPORT);
        let [read, remove] = &run.phases[..] else { panic!("{run:?}") };
        assert_eq!((read.times, read.milliseconds, read.total()), (200, 5, 400));
        assert_eq!(read.calls.get("OPEN"), Some(&200));
        assert_eq!((remove.total(), run.total()), (200, 600));
        assert_eq!(parse("read OPEN many\n"), None);
    }

    #[test]
    fn more_calls_than_with_the_best_server_are_found() {
        let (ours, chatty) = (run(REPORT), run(&format!("{REPORT}remove ACCESS 200\n")));
        let delegating =
            run(&format!("{REPORT}remove DELEGRETURN 200\nread-often times 200\nread-often REMOVE 200\n"));
        assert!(judge(&ours, &[&chatty, &delegating]).is_ok());
        assert!(judge(&chatty, &[&ours, &delegating]).is_err());
        let often = |opens| run(&format!("{REPORT}read-often times 200\nread-often OPEN {opens}\n"));
        assert!(
            judge(&often(400), &[&often(800), &delegating]).is_ok(),
            "few calls elsewhere make up for these"
        );
        assert!(judge(&often(900), &[&often(800), &delegating]).is_err());
        assert!(judge(&often(400), &[]).is_err());
    }
}
