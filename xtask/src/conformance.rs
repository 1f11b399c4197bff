//! Runs pynfs, the protocol test suites of the Linux NFS developers, against the release binary. The caller provides a
//! clone of pynfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::Value;

use crate::process::{self, root, target_directory};
use crate::report::usage;
use crate::server::Server;

/// What `cargo xtask help conformance` prints.
pub(crate) const HELP: &str = "\
cargo xtask conformance --pynfs DIR [OPTION...] [CODE|FLAG...]: run the suites of pynfs against the release binary.

DIR is a clone of pynfs built with `python3 setup.py build` (Debian: python3-ply python3-gssapi python3-dev
libkrb5-dev swig). All tests run by default; CODEs and FLAGs are those of its testserver.py.

  --suite 4.0|4.1    run one suite only; 4.1 includes the tests of 4.2
  --python PROGRAM   the Python with these modules, /usr/bin/python3 by default
  --lease SECONDS    the server's lease, 15 by default; some tests wait for it to expire
  --server ADDRESS:PORT/PATH   test this running server instead

Prints each failure and a table for docs/conformance.md. Ends with `N passed, N failed`; failures listed in
e2e/pynfs.expected do not count.
";

/// Time limit of a suite.
const SUITE: Duration = Duration::from_secs(1800);

/// The suites: their names, and their folders in pynfs.
const SUITES: [(&str, &str); 2] = [("4.0", "nfs4.0"), ("4.1", "nfs4.1")];

struct Options {
    pynfs: PathBuf,
    suite: Option<String>,
    python: String,
    lease: u32,
    server: Option<String>,
    tests: Vec<String>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Option<Options> {
        let (mut pynfs, mut suite, mut server, mut tests) = (None, None, None, Vec::new());
        let (mut python, mut lease) = ("/usr/bin/python3".to_owned(), 15);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match *word {
                "--pynfs" => pynfs = Some(PathBuf::from(words.next()?)),
                "--suite" => suite = Some((*words.next()?).to_owned()),
                "--python" => (*words.next()?).clone_into(&mut python),
                "--lease" => lease = words.next()?.parse().ok()?,
                "--server" => server = Some((*words.next()?).to_owned()),
                option if option.starts_with('-') => return None,
                test => tests.push(test.to_owned()),
            }
        }
        let known = |suite: &String| SUITES.iter().any(|(name, _)| name == suite);
        if suite.as_ref().is_some_and(|suite| !known(suite)) {
            return None;
        }
        if tests.is_empty() {
            tests.push("all".to_owned());
        }
        Some(Options { pynfs: pynfs?, suite, python, lease, server, tests })
    }
}

/// The results of a suite's tests, by code.
#[derive(Debug, Default)]
struct Outcome {
    passed: Vec<String>,
    failed: BTreeMap<String, String>,
    skipped: Vec<String>,
}

/// `cargo xtask conformance`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    let Some(options) = Options::parse(arguments) else { return usage(HELP) };
    let mut totals = (0, 0);
    let mut table =
        vec!["| suite | tests | passed | failed | skipped |".to_owned(), "|---|---|---|---|---|".to_owned()];
    for (suite, folder) in SUITES {
        if options.suite.as_ref().is_some_and(|wanted| wanted != suite) {
            continue;
        }
        match measure(&options, suite, folder) {
            Ok(outcome) => {
                let (passed, failed, skipped) =
                    (outcome.passed.len(), outcome.failed.len(), outcome.skipped.len());
                let all = passed + failed + skipped;
                table.push(format!("| {suite} | {all} | {passed} | {failed} | {skipped} |"));
                totals.0 += passed;
                totals.1 += unexpected(suite, &outcome, options.tests == ["all"]);
            }
            Err(why) => {
                println!("FAIL {suite}: {why}");
                totals.1 += 1;
            }
        }
    }
    println!("\n{}", table.join("\n"));
    println!("{} passed, {} failed", totals.0, totals.1);
    if totals.1 == 0 && totals.0 > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(options: &Options, suite: &str, folder: &str) -> Result<Outcome, String> {
    let mut served = None;
    let place = match &options.server {
        Some(place) => place.clone(),
        None => {
            let server = serve(suite, options.lease)?;
            let place = format!("{}/main", server.target.address);
            served = Some(server);
            place
        }
    };
    let report = scratch().join(format!("pynfs-{suite}.json"));
    let _ = fs::remove_file(&report);
    let mut command = Command::new(&options.python);
    command.current_dir(options.pynfs.join(folder)).arg("testserver.py").arg(format!("{place}/pynfs"));
    command.args(["--maketree", "--rundeps", "--hidepass"]).arg(format!("--json={}", report.display()));
    command.args(&options.tests);
    // Its exit status reports failures, as the report does.
    let mut child = process::start(&mut command)?;
    process::wait(&mut child, SUITE).ok_or("exceeded its time limit")?;
    drop(served);
    let text = fs::read_to_string(&report).map_err(|error| format!("no report: {error}"))?;
    read(&text)
}

/// Parses pynfs's report.
fn read(text: &str) -> Result<Outcome, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| format!("malformed report: {error}"))?;
    let mut outcome = Outcome::default();
    for case in report["testcase"].as_array().ok_or("the report has no tests")? {
        let code = case["code"].as_str().ok_or("a test of the report has no code")?.to_owned();
        if let Some(failure) = case.get("failure") {
            outcome.failed.insert(code, failure["message"].as_str().unwrap_or_default().to_owned());
        } else if case.get("skipped").is_some() {
            outcome.skipped.push(code);
        } else {
            outcome.passed.push(code);
        }
    }
    Ok(outcome)
}

/// Prints and counts unexpected results.
fn unexpected(suite: &str, outcome: &Outcome, complete: bool) -> usize {
    let text = fs::read_to_string(root().join("e2e/pynfs.expected")).unwrap_or_default();
    let expected = expected(suite, &text);
    let mut count = 0;
    for (code, message) in &outcome.failed {
        if let Some(reason) = expected.get(code.as_str()) {
            println!("expected {suite} {code}: {reason}");
        } else {
            println!("FAIL {suite} {code}: {message}");
            count += 1;
        }
    }
    for code in outcome.passed.iter().filter(|code| complete && expected.contains_key(code.as_str())) {
        println!("FAIL {suite} {code}: passes now; remove it from e2e/pynfs.expected");
        count += 1;
    }
    count
}

/// The expected failures of a suite with their reasons, by code.
fn expected<'a>(suite: &str, text: &'a str) -> BTreeMap<&'a str, &'a str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.strip_prefix(suite)?.trim_start().split_once(' '))
        .map(|(code, reason)| (code, reason.trim()))
        .collect()
}

fn scratch() -> PathBuf {
    target_directory().join("conformance")
}

/// Serves a new volume with this lease.
fn serve(suite: &str, lease: u32) -> Result<Server, String> {
    let binary = process::build_holdfast()?;
    fs::create_dir_all(scratch()).map_err(process::at(&scratch()))?;
    let config = scratch().join("holdfast.toml");
    write_config(&config, lease)?;
    let folder = scratch().join(format!("data-{suite}"));
    let _ = fs::remove_dir_all(&folder);
    Server::holdfast(&binary, folder, &["--config", &config.to_string_lossy()])
}

/// Writes a configuration without root squashing, as most tests need.
fn write_config(path: &Path, lease: u32) -> Result<(), String> {
    let text = format!(
        "lease = {lease}\n\n[log]\nlevel = \"warn\"\n\n\
         [[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\n"
    );
    fs::write(path, text).map_err(process::at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_parsed() {
        let report = r#"{"testcase": [
            {"code": "A1", "name": "a"},
            {"code": "B1", "failure": {"message": "no", "err": ""}},
            {"code": "C1", "skipped": 1}
        ]}"#;
        let outcome = read(report).unwrap();
        assert_eq!((outcome.passed.len(), outcome.skipped.len()), (1, 1));
        assert_eq!(outcome.failed["B1"], "no");
        assert!(read("{}").is_err());
    }

    #[test]
    fn expected_failures_are_read_by_suite() {
        let expected = expected("4.1", "# why\n4.0 A1 older\n4.1 B1 not offered\n");
        assert_eq!(expected.into_iter().collect::<Vec<_>>(), [("B1", "not offered")]);
    }
}
