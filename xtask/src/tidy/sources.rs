//! Rules about single files: length, names, I/O and machine-specific paths.

use super::{File, Violation};

/// Lines of the longest allowed source file.
const LINES_MAX: usize = 800;

/// Names that attract unrelated code.
const ODDS_AND_ENDS: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc"];

/// Crates without I/O.
const SANS_IO: &[&str] = &["crates/wire/src/", "crates/nfs/src/", "crates/volume/src/", "crates/qos/src/"];

/// Names whose use is I/O.
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

/// Folders of a particular machine. They are split so that this file passes its own rule.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Homes of the users in `docs/homes.md`, and of any user in its map of automounts.
const EXAMPLE_HOMES: &[&str] = &[concat!("/ho", "me/ann"), concat!("/ho", "me/ben"), concat!("/ho", "me/&")];

/// Finds a source file that is too long.
pub(super) fn length(file: &File) -> Option<Violation> {
    let lines = file.text.lines().count();
    (file.path.ends_with(".rs") && lines > LINES_MAX)
        .then(|| format!("{}: {lines} lines, more than {LINES_MAX}", file.path))
}

/// Finds a source file with a vague name.
pub(super) fn names(file: &File) -> Option<Violation> {
    let mut parts: Vec<&str> = file.path.strip_suffix(".rs")?.split('/').collect();
    if parts.last() == Some(&"mod") {
        return Some(format!("{}: use foo.rs beside foo/ instead", file.path));
    }
    // Folders of modules count, the path of the crate does not.
    parts.drain(..parts.iter().position(|part| *part == "src").unwrap_or(0));
    let vague = parts.iter().find(|part| ODDS_AND_ENDS.contains(part))?;
    Some(format!("{}: \"{vague}\" does not say what it holds", file.path))
}

/// Finds lines of the crates without I/O that do some, tests aside.
pub(super) fn no_io(file: &File) -> Vec<Violation> {
    let ours = SANS_IO.iter().any(|place| file.path.starts_with(place)) && file.path.ends_with(".rs");
    let tests = ["/tests/", "/scenarios/"].iter().any(|folder| file.path.contains(folder));
    if !ours || tests || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let shipped = file.text.lines().enumerate().take_while(|(_, line)| line.trim() != "mod tests {");
    let code = shipped.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let uses =
        code.filter_map(|(number, line)| Some((number, IO.iter().find(|word| line.contains(**word))?)));
    uses.map(|(number, word)| format!("{}:{}: {word} is I/O", file.path, number + 1)).collect()
}

/// Finds lines that name a folder of a particular machine.
pub(super) fn portable(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate();
    let found = lines.filter_map(|(number, line)| {
        Some((number, MACHINE_PATHS.iter().find(|path| names_path(line, path))?))
    });
    found
        .map(|(number, path)| {
            format!("{}:{}: {path} exists on particular machines only", file.path, number + 1)
        })
        .collect()
}

/// Whether the line holds this absolute path, rather than a longer path that contains it, or an example.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let is_example = EXAMPLE_HOMES.iter().any(|home| line.split_at(at).1.starts_with(home));
        !is_example && !before.is_some_and(|letter| letter.is_alphanumeric() || "/.-_*>}$".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn long_files_are_found() {
        assert!(length(&file("a.rs", &"\n".repeat(801))).is_some());
        assert!(length(&file("a.rs", &"\n".repeat(800))).is_none());
    }

    #[test]
    fn vague_names_are_found() {
        for path in ["crates/nfs/src/v3/mod.rs", "crates/nfs/src/util.rs", "crates/nfs/src/helpers/a.rs"] {
            assert!(names(&file(path, "")).is_some(), "{path}");
        }
        assert!(names(&file("crates/nfs/src/v3/write.rs", "")).is_none());
    }

    #[test]
    fn clocks_in_the_engine_are_found() {
        let text = "//! Instant::now comes with the request.\nlet now = Instant::now();\nmod tests {\nstd::fs::read(x);\n";
        assert_eq!(no_io(&file("crates/volume/src/a.rs", text)).len(), 1);
        assert!(no_io(&file("crates/store/src/a.rs", text)).is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let place = MACHINE_PATHS[0];
        assert_eq!(portable(&file("a.md", &format!("see\n`{place}x`\n"))).len(), 1);
        assert!(portable(&file("a.md", &format!("see ../net{place}x, /run{place}x"))).is_empty());
        let homes = format!("sudo -u ann cat {}, 192.0.2.10:{}", EXAMPLE_HOMES[0], EXAMPLE_HOMES[2]);
        assert!(portable(&file("a.md", &homes)).is_empty());
    }
}
