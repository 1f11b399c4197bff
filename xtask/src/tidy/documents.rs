//! Checks that what documents say about the tree is true.

use std::collections::BTreeSet;

use serde_json::Value;

use super::layers::{array, members};
use super::{File, Violation};

/// Prefixes that mark a quoted word as a path of the repository.
const BEGINNINGS: &[&str] = &["crates/", "docs/", "e2e/", "xtask/", "fuzz/", "package/", ".ci/", ".cargo/"];

/// Documents that name tests by their functions.
const NAMING_TESTS: &[&str] = &["docs/proofs.md", "docs/results.md"];

/// Whether the paths in this document must exist. The changelog is exempt: it describes earlier releases.
fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (!path.contains('/') && path != "CHANGELOG.md" || path.starts_with("docs/"))
}

/// The words in backticks of a document, with the numbers of their lines.
fn quoted(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().zip(1..);
    lines.flat_map(|(line, number)| line.split('`').skip(1).step_by(2).map(move |word| (number, word)))
}

/// Paths in backticks that do not exist.
pub(super) fn paths(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| is_document(&file.path)) {
        for (number, path) in quoted(file).filter_map(|(number, word)| Some((number, path(word)?))) {
            let found = exists(path) || exists(&format!("crates/{path}")) || exists(&format!("docs/{path}"));
            if !found {
                violations.push(format!("{}:{number}: `{path}` does not exist", file.path));
            }
        }
    }
    violations
}

/// Names of tests in backticks that no function has.
pub(super) fn tests(files: &[File]) -> Vec<Violation> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let functions: BTreeSet<&str> = sources
        .flat_map(|file| file.text.lines())
        .filter_map(|line| line.split_once("fn ")?.1.split_once(['(', '<']))
        .map(|(name, _)| name)
        .collect();
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| NAMING_TESTS.contains(&file.path.as_str())) {
        for (number, name) in quoted(file) {
            if is_function_name(name) && !functions.contains(name) {
                violations.push(format!("{}:{number}: no test is named `{name}`", file.path));
            }
        }
    }
    violations
}

/// Whether a word is the name of a function, of two words at least: one word is a scenario, a chore or a fuzz target.
fn is_function_name(word: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    word.contains('_') && word.chars().all(letters)
}

/// Returns the quoted word if it is a path of the repository, rather than code or a path on a user's machine.
fn path(quoted: &str) -> Option<&str> {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    if !quoted.chars().all(letters) || quoted.starts_with("./") || quoted.starts_with('/') {
        return None;
    }
    let begins = BEGINNINGS.iter().any(|beginning| quoted.starts_with(beginning));
    let source = quoted.contains('/') && [".rs", ".md", ".toml"].iter().any(|end| quoted.ends_with(end));
    let document = quoted.ends_with(".md") && quoted.starts_with(|first: char| first.is_ascii_uppercase());
    (begins || source || document).then_some(quoted)
}

/// Direct dependencies on foreign crates that `docs/dependencies.md` does not explain.
pub(super) fn dependencies(metadata: &Value, files: &[File]) -> Vec<Violation> {
    let document = files.iter().find(|file| file.path == "docs/dependencies.md");
    let Some(document) = document else { return vec!["docs/dependencies.md does not exist".to_owned()] };
    let members = members(metadata);
    let direct: BTreeSet<&str> = members
        .values()
        .flat_map(|package| array(package, "dependencies"))
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| !members.contains_key(name))
        .collect();
    let unexplained = direct.into_iter().filter(|name| !document.text.contains(&format!("`{name}`")));
    unexplained.map(|name| format!("docs/dependencies.md has no line for `{name}`")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let text =
            "`crates/gone.rs` `nfs/src/v3/write.rs` `docs/format.md` `write(x)` `./data` `volumes/main`";
        let files = [file("README.md", text), file("docs/decisions/2020-01-01-a.md", "a\n`crates/old.rs`")];
        let there = ["crates/nfs/src/v3/write.rs", "docs/format.md"];
        let violations = paths(&files, &|path| there.contains(&path));
        let expected = [
            "README.md:1: `crates/gone.rs` does not exist",
            "docs/decisions/2020-01-01-a.md:2: `crates/old.rs` does not exist",
        ];
        assert_eq!(violations, expected);
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let source = "    #[test]\n    fn replies_wait_for_syncs() {\n    }\n    fn made_of<T>(of: T) {}";
        let files = [
            file("crates/nfs/tests/calls/a.rs", source),
            file(
                "docs/proofs.md",
                "| a | `replies_wait_for_syncs` in `a.rs`, `made_of` |\n`replies_never_wait` `sim`",
            ),
            file("docs/design.md", "`not_the_name_of_a_test`"),
        ];
        assert_eq!(tests(&files), ["docs/proofs.md:2: no test is named `replies_never_wait`"]);
    }

    #[test]
    fn dependencies_without_a_reason_are_found() {
        let metadata = json!({
            "workspace_members": ["w", "x"],
            "packages": [
                {"id": "w", "name": "wire", "dependencies": [{"name": "mio"}, {"name": "toml"}]},
                {"id": "x", "name": "nfs", "dependencies": [{"name": "wire"}]},
            ],
        });
        let files = [file("docs/dependencies.md", "| `toml` | configuration |")];
        assert_eq!(dependencies(&metadata, &files), ["docs/dependencies.md has no line for `mio`"]);
        assert_eq!(dependencies(&metadata, &[]), ["docs/dependencies.md does not exist"]);
    }
}
