//! Checks that what documents say about the tree is true.

use std::collections::BTreeSet;

use serde_json::Value;

use super::layers::{array, members};
use super::{File, Violation};

/// Prefixes that mark a quoted word as a path of the repository.
const BEGINNINGS: &[&str] = &["crates/", "docs/", "e2e/", "xtask/", "fuzz/", ".ci/", ".cargo/"];

/// Whether the paths in this document must exist. Decisions are exempt: they describe the tree at their date.
fn is_document(path: &str) -> bool {
    let depth = path.matches('/').count();
    path.ends_with(".md") && (depth == 0 && path != "CHANGELOG.md" || depth == 1 && path.starts_with("docs/"))
}

/// Paths in backticks that do not exist.
pub(super) fn paths(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| is_document(&file.path)) {
        for (number, line) in file.text.lines().enumerate() {
            for path in line.split('`').skip(1).step_by(2).filter_map(|quoted| path(quoted)) {
                let found =
                    exists(path) || exists(&format!("crates/{path}")) || exists(&format!("docs/{path}"));
                if !found {
                    violations.push(format!("{}:{}: `{path}` does not exist", file.path, number + 1));
                }
            }
        }
    }
    violations
}

/// Returns the quoted word if it is a path of the repository, rather than code or a path on a user's machine.
fn path(quoted: &str) -> Option<&str> {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    if !quoted.chars().all(letters) || quoted.starts_with("./") || quoted.starts_with('/') {
        return None;
    }
    let begins = BEGINNINGS.iter().any(|beginning| quoted.starts_with(beginning));
    let source = quoted.contains('/') && (quoted.ends_with(".rs") || quoted.ends_with(".md"));
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
        let files = [file("README.md", text), file("docs/decisions/2020-01-01-a.md", "`crates/old.rs`")];
        let there = ["crates/nfs/src/v3/write.rs", "docs/format.md"];
        let violations = paths(&files, &|path| there.contains(&path));
        assert_eq!(violations, ["README.md:1: `crates/gone.rs` does not exist"]);
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
