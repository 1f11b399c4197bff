//! Checks that imports inside a crate go one way. `ARCHITECTURE.md` lists the rooms of each crate from top to bottom; a
//! file imports only its own room and rooms below.
//!
//! A room is a top-level module, or several that share a row. Tests may import anything.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Violation};

mod imports;

/// The document that lists the rooms, and its headings.
const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Rooms";
const EXCEPTIONS: &str = "### Exceptions";

/// Exceptions allowed in the whole workspace.
const EXCEPTIONS_MAX: usize = 4;

/// Top-level modules that hold tests only, by convention.
const TEST_FOLDERS: &[&str] = &["tests", "scenarios"];

/// The contents of the section.
#[derive(Debug, Default)]
struct Plan {
    /// For each crate its rooms from top to bottom; a room is the modules of a row.
    crates: BTreeMap<String, Vec<Vec<String>>>,
    /// Allowed imports: the importing file, and the top-level module it imports.
    exceptions: Vec<(String, String)>,
    unexplained: Vec<String>,
}

/// A file of a crate, its module path, and its imports.
struct Source<'f> {
    file: &'f str,
    module: Vec<String>,
    imports: BTreeSet<imports::Import>,
}

/// Finds upward imports, modules without a room, rooms without a module, and exceptions without need or reason.
pub(super) fn rooms(files: &[File]) -> Vec<Violation> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![format!("{DOCUMENT} does not exist")];
    };
    let plan = plan(&document.text);
    let crates = match sources(files) {
        Ok(crates) => crates,
        Err(violation) => return vec![violation],
    };
    let mut violations = Vec::new();
    let mut needed = BTreeSet::new();
    for (name, sources) in &crates {
        match plan.crates.get(*name) {
            Some(rooms) => {
                violations.extend(check_places(name, rooms, sources));
                for (import, violation) in upward_imports(rooms, sources) {
                    if plan.exceptions.contains(&import) {
                        needed.insert(import);
                    } else {
                        violations.push(violation);
                    }
                }
            }
            None => violations.push(format!("{DOCUMENT} does not list the rooms of `{name}`")),
        }
    }
    let gone = plan.crates.keys().filter(|name| !crates.contains_key(name.as_str()));
    violations.extend(gone.map(|name| format!("{DOCUMENT} lists rooms of `{name}`, which is not a crate")));
    let unexplained = plan.unexplained.iter();
    violations.extend(unexplained.map(|from| format!("the exception for {from} has no reason")));
    let unused = plan.exceptions.iter().filter(|exception| !needed.contains(exception));
    violations.extend(unused.map(|(from, to)| format!("the exception {from} -> {to} is not needed")));
    if plan.exceptions.len() > EXCEPTIONS_MAX {
        violations.push(format!("{} exceptions, more than {EXCEPTIONS_MAX}", plan.exceptions.len()));
    }
    violations
}

/// Reads the section of the document.
fn plan(document: &str) -> Plan {
    let mut plan = Plan::default();
    let section = document.split_once(&format!("\n{HEADING}\n")).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut heading = "";
    for line in section.lines() {
        if line.starts_with("### ") {
            heading = line;
        } else if let Some(row) = line.strip_prefix('|') {
            let mut cells = row.split('|').map(quoted);
            let first = cells.next().unwrap_or_default();
            match first.as_slice() {
                [] => {}
                [from] if heading == EXCEPTIONS => {
                    let to = cells.next().unwrap_or_default();
                    plan.exceptions.extend(to.into_iter().map(|to| (from.clone(), to)));
                    if row.split('|').nth(2).is_none_or(|reason| reason.trim().is_empty()) {
                        plan.unexplained.push(from.clone());
                    }
                }
                _ => {
                    let name = quoted(heading).into_iter().next().unwrap_or_default();
                    plan.crates.entry(name).or_default().push(first);
                }
            }
        }
    }
    plan
}

/// The words in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The sources of each crate, except tests and the programs in `src/bin`.
fn sources(files: &[File]) -> Result<BTreeMap<&str, Vec<Source<'_>>>, Violation> {
    let mut crates: BTreeMap<&str, Vec<Source>> = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for file in files {
        let Some((name, place)) = file.path.strip_suffix(".rs").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let name = name.strip_prefix("crates/").unwrap_or(name);
        let mut module: Vec<String> = place.split('/').map(str::to_owned).collect();
        let first = module.first().map(String::as_str);
        if name.contains('/') || name == "fuzz" || first == Some("bin") {
            continue;
        }
        if matches!(place, "lib" | "main") {
            module.clear();
        }
        let scan = imports::scan(&file.text, &module).map_err(|error| format!("{}: {error}", file.path))?;
        tests.extend(scan.test_modules.into_iter().map(|module| (name, module)));
        crates.entry(name).or_default().push(Source { file: &file.path, module, imports: scan.imports });
    }
    for (name, sources) in &mut crates {
        let is_test = |source: &Source| {
            let named = source.module.iter().any(|part| TEST_FOLDERS.contains(&part.as_str()));
            named
                || (1..=source.module.len())
                    .any(|depth| tests.contains(&(*name, source.module[..depth].to_vec())))
        };
        sources.retain(|source| !is_test(source));
    }
    Ok(crates)
}

/// The top-level module of a path; `root` for items of the root, including re-exports.
fn top_level<'p>(path: &'p [String], modules: &BTreeSet<&str>, root: &'p str) -> &'p str {
    path.first().map(String::as_str).filter(|first| modules.contains(first)).unwrap_or(root)
}

/// The name of a crate's root module, and the names of all its top-level modules.
fn modules<'s>(sources: &'s [Source]) -> (&'static str, BTreeSet<&'s str>) {
    let is_library = sources.iter().any(|source| source.file.ends_with("/src/lib.rs"));
    let root = if is_library { "lib" } else { "main" };
    let names = sources.iter().map(|source| source.module.first().map_or(root, String::as_str));
    (root, names.collect())
}

/// Finds modules without a room, rooms without a module, modules in two rooms, and a root that is not at the top.
fn check_places(name: &str, rooms: &[Vec<String>], sources: &[Source]) -> Vec<Violation> {
    let (root, modules) = modules(sources);
    let mut violations = Vec::new();
    let mut listed = BTreeSet::new();
    for module in rooms.iter().flatten() {
        if !modules.contains(module.as_str()) {
            violations.push(format!("{DOCUMENT} lists {module} of `{name}`, which does not exist"));
        }
        if !listed.insert(module.as_str()) {
            violations.push(format!("{DOCUMENT} lists {module} of `{name}` twice"));
        }
    }
    for module in modules.difference(&listed) {
        violations.push(format!("{DOCUMENT} does not list {module} of `{name}`"));
    }
    if !rooms.first().is_some_and(|top| top.iter().any(|module| module == root)) {
        violations.push(format!("{root} of `{name}` must be in the top room"));
    }
    violations
}

/// Finds imports of higher rooms: the file and the imported module, with the violation.
fn upward_imports(rooms: &[Vec<String>], sources: &[Source]) -> Vec<((String, String), Violation)> {
    let (root, modules) = modules(sources);
    let floor = |module: &str| rooms.iter().position(|room| room.iter().any(|listed| listed == module));
    let mut upward = Vec::new();
    for source in sources {
        let from = top_level(&source.module, &modules, root);
        for import in &source.imports {
            let to = top_level(&import.path, &modules, root);
            if floor(to) < floor(from) && floor(to).is_some() {
                let path = import.path.join("::");
                let place = format!("{}:{}", source.file, import.line);
                let violation = format!("{place}: crate::{path} is in room {to}, which is above {from}");
                upward.push(((source.file.to_owned(), to.to_owned()), violation));
            }
        }
    }
    upward
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "mod api;\nmod journal;\nmod ops;\n#[cfg(test)]\nmod model;\npub use api::Name;\n";
    const ROOMS: &str = "# Map\n\n## Rooms\n\n### `volume`\n\n| room | holds |\n|---|---|\n| `lib` | the crate |\n\
        | `ops`, `open` | what protocols call |\n| `journal` | the ring |\n| `api` | names |\n";

    /// The violations of a crate `volume` in the rooms above, changed by `section` and with `sources` besides its root.
    fn violations(section: &str, sources: &[(&str, &str)]) -> Vec<Violation> {
        let whole = [("ops", ""), ("open", ""), ("journal", ""), ("api", "")];
        let missing = whole.iter().filter(|(name, _)| !sources.iter().any(|(other, _)| other == name));
        let mut files = vec![
            File { path: DOCUMENT.to_owned(), text: format!("{ROOMS}{section}\n## More\n| `a` | b |\n") },
            File { path: "crates/volume/src/lib.rs".to_owned(), text: LIB.to_owned() },
        ];
        files.extend(sources.iter().chain(missing).map(|(name, text)| File {
            path: format!("crates/volume/src/{name}.rs"),
            text: (*text).to_owned(),
        }));
        rooms(&files)
    }

    #[test]
    fn imports_of_the_own_room_and_of_lower_ones_pass() {
        let ops = "use crate::{api, journal::Ring, open::Open};\n";
        assert!(violations("", &[("ops", ops), ("ops/write", "use super::super::journal;")]).is_empty());
        assert!(violations("", &[("api/tests", "use crate::ops;"), ("model", "use crate::ops;")]).is_empty());
        assert!(violations("", &[("bin/soak", "use crate::ops;")]).is_empty());
    }

    #[test]
    fn upward_imports_are_found() {
        let place = "crates/volume/src/journal/ring.rs:2:";
        for (text, path) in [
            ("\nuse crate::ops::write;", "ops::write"),
            ("\nfn f() { super::super::ops::write() }", "ops::write"),
            ("//! crate::ops\nfn f() { println!(\"{}\", crate::ops::A) }", "ops::A"),
        ] {
            let expected = format!("{place} crate::{path} is in room ops, which is above journal");
            assert_eq!(violations("", &[("journal/ring", text)]), [expected], "{text}");
        }
    }

    #[test]
    fn a_re_export_of_the_root_belongs_to_the_root() {
        let expected = "crates/volume/src/ops.rs:1: crate::Name is in room lib, which is above ops";
        assert_eq!(violations("", &[("ops", "use crate::Name;")]), [expected]);
    }

    #[test]
    fn modules_and_rooms_must_match() {
        let missing = "ARCHITECTURE.md does not list extra of `volume`";
        assert_eq!(violations("", &[("extra", "")]), [missing]);
        let gone = "ARCHITECTURE.md lists extra of `volume`, which does not exist";
        assert_eq!(violations("| `extra` | nothing |\n", &[]), [gone]);
        let twice = "ARCHITECTURE.md lists ops of `volume` twice";
        assert_eq!(violations("| `ops` | again |\n", &[]), [twice]);
    }

    #[test]
    fn the_root_must_be_in_the_top_room() {
        let files =
            ["lib", "ops"].map(|name| File { path: format!("crates/x/src/{name}.rs"), text: String::new() });
        let text = "\n## Rooms\n### `x`\n| `ops` | a |\n| `lib` | b |\n".to_owned();
        let document = File { path: DOCUMENT.to_owned(), text };
        let files: Vec<File> = files.into_iter().chain([document]).collect();
        assert_eq!(rooms(&files), ["lib of `x` must be in the top room"]);
    }

    #[test]
    fn every_crate_must_be_listed_once() {
        let mut files = vec![
            File { path: DOCUMENT.to_owned(), text: "\n## Rooms\n".to_owned() },
            File { path: "crates/x/src/lib.rs".to_owned(), text: String::new() },
        ];
        assert_eq!(rooms(&files), ["ARCHITECTURE.md does not list the rooms of `x`"]);
        files[0].text = "\n## Rooms\n### `x`\n| `lib` | a |\n### `y`\n| `lib` | b |\n".to_owned();
        assert_eq!(rooms(&files), ["ARCHITECTURE.md lists rooms of `y`, which is not a crate"]);
    }

    #[test]
    fn exceptions_allow_an_import_and_need_a_reason() {
        let exception = "\n### Exceptions\n\n| from | to | why |\n|---|---|---|\n\
            | `crates/volume/src/journal.rs` | `ops` | a reason |\n";
        let upward = [("journal", "use crate::ops;\nuse crate::ops::write;")];
        assert!(violations(exception, &upward).is_empty());
        let unused = "the exception crates/volume/src/journal.rs -> ops is not needed";
        assert_eq!(violations(exception, &[]), [unused]);
        let unexplained = "the exception for crates/volume/src/journal.rs has no reason";
        assert_eq!(violations(&exception.replace("a reason", ""), &upward), [unexplained]);
    }

    #[test]
    fn five_exceptions_are_too_many() {
        let names = ["a", "b", "c", "d", "e"];
        let rows: String = names
            .iter()
            .map(|name| format!("| `crates/volume/src/api/{name}.rs` | `ops` | a reason |\n"))
            .collect();
        let places = names.map(|name| format!("api/{name}"));
        let sources: Vec<_> = places.iter().map(|place| (place.as_str(), "use crate::ops;")).collect();
        let section = format!("\n### Exceptions\n{rows}");
        assert_eq!(violations(&section, &sources), ["5 exceptions, more than 4"]);
    }
}
