//! Rules about single files.

use super::{File, Violation};

/// The longest that a source file may be.
const LINES_MAX: usize = 800;

/// Names under which things gather that have nothing in common.
const ODDS_AND_ENDS: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc"];

/// Crates that touch the world only through what they are given.
const SANS_IO: &[&str] = &["crates/wire/src/", "crates/nfs/src/", "crates/volume/src/"];

/// What touches the world.
const IO: &[&str] = &[
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "thread::spawn",
    "thread::Builder",
    "thread::sleep",
    "SystemTime::now",
    "Instant::now",
];

/// Where people keep their work; taken apart so that this file does not name one.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// A source file that is too long.
pub(super) fn length(file: &File) -> Option<Violation> {
    let lines = file.text.lines().count();
    (file.path.ends_with(".rs") && lines > LINES_MAX)
        .then(|| format!("{}: {lines} lines, more than {LINES_MAX}", file.path))
}

/// A source file with a name that says nothing.
pub(super) fn names(file: &File) -> Option<Violation> {
    let mut parts: Vec<&str> = file.path.strip_suffix(".rs")?.split('/').collect();
    if parts.last() == Some(&"mod") {
        return Some(format!("{}: put foo.rs beside foo/ instead", file.path));
    }
    // A folder of modules counts, the place of the crate does not.
    parts.drain(..parts.iter().position(|part| *part == "src").unwrap_or(0));
    let vague = parts.iter().find(|part| ODDS_AND_ENDS.contains(part))?;
    Some(format!("{}: \"{vague}\" says nothing of what is in it", file.path))
}

/// Lines of the crates without I/O that do some, tests aside.
pub(super) fn no_io(file: &File) -> Vec<Violation> {
    let ours = SANS_IO.iter().any(|place| file.path.starts_with(place)) && file.path.ends_with(".rs");
    let tests = ["/tests/", "/scenarios/"].iter().any(|folder| file.path.contains(folder));
    if !ours || tests || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let shipped = file.text.lines().enumerate().take_while(|(_, line)| line.trim() != "mod tests {");
    let code = shipped.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let touching =
        code.filter_map(|(number, line)| Some((number, IO.iter().find(|word| line.contains(**word))?)));
    touching.map(|(number, word)| format!("{}:{}: {word} touches the world", file.path, number + 1)).collect()
}

/// Lines that name a place which only one machine has.
pub(super) fn portable(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate();
    let found = lines.filter_map(|(number, line)| {
        Some((number, MACHINE_PATHS.iter().find(|path| names_path(line, path))?))
    });
    found
        .map(|(number, path)| format!("{}:{}: {path} is a place on one machine", file.path, number + 1))
        .collect()
}

/// Whether the line holds the absolute path, and not a longer one that only ends like it.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|letter| letter.is_alphanumeric() || "/.-_*>}$".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_long_file_is_found() {
        assert!(length(&file("a.rs", &"\n".repeat(801))).is_some());
        assert!(length(&file("a.rs", &"\n".repeat(800))).is_none());
    }

    #[test]
    fn empty_names_are_found() {
        for path in ["crates/nfs/src/v3/mod.rs", "crates/nfs/src/util.rs", "crates/nfs/src/helpers/a.rs"] {
            assert!(names(&file(path, "")).is_some(), "{path}");
        }
        assert!(names(&file("crates/nfs/src/v3/write.rs", "")).is_none());
    }

    #[test]
    fn a_clock_in_the_engine_is_found() {
        let text =
            "//! Instant::now is told to us.\nlet now = Instant::now();\nmod tests {\nstd::fs::read(x);\n";
        assert_eq!(no_io(&file("crates/volume/src/a.rs", text)).len(), 1);
        assert!(no_io(&file("crates/store/src/a.rs", text)).is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let place = MACHINE_PATHS[0];
        assert_eq!(portable(&file("a.md", &format!("see\n`{place}x`\n"))).len(), 1);
        assert!(portable(&file("a.md", &format!("see ../net{place}x, /run{place}x"))).is_empty());
    }
}
