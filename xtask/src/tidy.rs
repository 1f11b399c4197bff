//! Rules about the tree that no compiler checks. Each rule is a function from text to violations, so its tests can plant a
//! violation and expect it to be found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::process;

mod commits;
mod documents;
mod layers;
mod rooms;
mod sources;

/// What `cargo xtask help tidy` prints.
pub(crate) const HELP: &str = "\
cargo xtask tidy: check the rules that no compiler checks, over all files that git tracks or does not ignore.

  layers      crates depend only on the crates that the table of ARCHITECTURE.md allows; no async runtime; no
              socket crates below the server; permissive licences; one registry
  rooms       a file imports only its own room of its crate and rooms below (the tables of ARCHITECTURE.md)
  sources     no file over 800 lines, no mod.rs, no module named util or the like; no sockets, files, threads
              or clocks in wire, nfs and volume; no paths of a particular machine
  documents   every path in backticks exists, and every test that docs/proofs.md and docs/results.md name;
              docs/dependencies.md has a reason for every dependency
  commits     subjects have at most 72 characters and begin with an area, as in `tidy: check subjects`

Prints each violation with its place. Ends with `N passed, N failed`, counting rules.
";

/// A text file, with its path from the root.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Where and how a rule is broken.
pub(crate) type Violation = String;

/// The input of the rules.
struct Tree {
    root: PathBuf,
    files: Vec<File>,
    metadata: serde_json::Value,
}

type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: &[(&str, Rule)] = &[
    ("layers: crates", |tree| layers::crates(&tree.metadata)),
    ("layers: foundations", |tree| layers::foundations(&tree.metadata)),
    ("layers: origins", |tree| layers::origins(&tree.metadata)),
    ("rooms", |tree| rooms::rooms(&tree.files)),
    ("sources: length", |tree| tree.files.iter().flat_map(sources::length).collect()),
    ("sources: names", |tree| tree.files.iter().flat_map(sources::names).collect()),
    ("sources: no I/O", |tree| tree.files.iter().flat_map(sources::no_io).collect()),
    ("sources: portable", |tree| tree.files.iter().flat_map(sources::portable).collect()),
    ("documents: paths", |tree| documents::paths(&tree.files, &|path| tree.root.join(path).exists())),
    ("documents: tests", |tree| documents::tests(&tree.files)),
    ("documents: dependencies", |tree| documents::dependencies(&tree.metadata, &tree.files)),
    ("commits", |tree| commits::commits(&tree.root)),
];

/// `cargo xtask tidy`.
pub(crate) fn command() -> ExitCode {
    match check() {
        Ok((passed, failed)) => {
            println!("{passed} passed, {failed} failed");
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("tidy: {why}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(usize, usize), String> {
    let tree = read()?;
    let mut failed = 0;
    for (name, rule) in RULES {
        let violations = rule(&tree);
        let verdict = if violations.is_empty() { "PASS" } else { "FAIL" };
        println!("{verdict} {name}");
        for violation in &violations {
            println!("     {violation}");
        }
        failed += usize::from(!violations.is_empty());
    }
    Ok((RULES.len() - failed, failed))
}

fn read() -> Result<Tree, String> {
    let root = process::root();
    let metadata = process::output(&mut process::cargo(&["metadata", "--format-version", "1", "--locked"]))?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let names = process::output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(&root),
    )?;
    let files =
        names.split('\0').filter(|name| !name.is_empty()).filter_map(|name| text(&root, name)).collect();
    Ok(Tree { root, files, metadata })
}

/// Reads a file. Returns `None` if it is not text, or deleted but still tracked.
fn text(root: &Path, name: &str) -> Option<File> {
    let text = fs::read_to_string(root.join(name)).ok()?;
    Some(File { path: name.to_owned(), text })
}
