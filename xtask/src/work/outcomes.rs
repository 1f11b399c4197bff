//! The log of acknowledged outcomes, one per line, in a file that does not depend on the server.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::process;

/// An acknowledged outcome. Names contain no spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A synced file with this content.
    File {
        name: String,
        length: usize,
        checksum: u64,
    },
    Directory {
        name: String,
    },
    Symlink {
        name: String,
        target: String,
    },
    Renamed {
        from: String,
        to: String,
    },
    Linked {
        from: String,
        to: String,
    },
    Removed {
        name: String,
    },
}

impl Outcome {
    pub(super) fn file(name: &str, content: &[u8]) -> Outcome {
        Outcome::File { name: name.to_owned(), length: content.len(), checksum: checksum(content) }
    }

    fn line(&self) -> String {
        match self {
            Outcome::File { name, length, checksum } => format!("file {name} {length} {checksum}\n"),
            Outcome::Directory { name } => format!("directory {name}\n"),
            Outcome::Symlink { name, target } => format!("symlink {name} {target}\n"),
            Outcome::Renamed { from, to } => format!("renamed {from} {to}\n"),
            Outcome::Linked { from, to } => format!("linked {from} {to}\n"),
            Outcome::Removed { name } => format!("removed {name}\n"),
        }
    }

    fn parse(line: &str) -> Option<Outcome> {
        let words: Vec<&str> = line.split(' ').collect();
        let own = |word: &str| word.to_owned();
        Some(match words.as_slice() {
            ["file", name, length, checksum] => Outcome::File {
                name: own(name),
                length: length.parse().ok()?,
                checksum: checksum.parse().ok()?,
            },
            ["directory", name] => Outcome::Directory { name: own(name) },
            ["symlink", name, target] => Outcome::Symlink { name: own(name), target: own(target) },
            ["renamed", from, to] => Outcome::Renamed { from: own(from), to: own(to) },
            ["linked", from, to] => Outcome::Linked { from: own(from), to: own(to) },
            ["removed", name] => Outcome::Removed { name: own(name) },
            _ => return None,
        })
    }

    /// Checks that the object at `path` matches the outcome.
    pub(super) fn check(&self, path: &Path) -> Result<(), String> {
        let kind = fs::symlink_metadata(path).map_err(|error| error.to_string())?.file_type();
        match self {
            Outcome::File { length, checksum: expected, .. } => {
                let content = fs::read(path).map_err(|error| error.to_string())?;
                if (content.len(), checksum(&content)) != (*length, *expected) {
                    return Err(format!("{} bytes that differ from the {length} synced", content.len()));
                }
            }
            Outcome::Directory { .. } if kind.is_dir() => {}
            Outcome::Symlink { target, .. } => {
                let found = fs::read_link(path).map_err(|error| error.to_string())?;
                if found != Path::new(target) {
                    return Err(format!("points to {}", found.display()));
                }
            }
            _ => return Err("is of another type".to_owned()),
        }
        Ok(())
    }
}

/// The log, open for appending.
pub(super) struct OutcomeLog(File);

impl OutcomeLog {
    pub(super) fn create(path: &Path) -> Result<OutcomeLog, String> {
        File::create(path).map(OutcomeLog).map_err(process::at(path))
    }

    /// Appends an outcome with one write, so that a line is complete or absent.
    pub(super) fn append(&mut self, outcome: &Outcome) -> Result<(), String> {
        self.0.write_all(outcome.line().as_bytes()).map_err(|error| format!("the log of outcomes: {error}"))
    }
}

/// Returns the expected object of each name after all outcomes of a log.
pub(super) fn replay(path: &Path) -> Result<BTreeMap<String, Outcome>, String> {
    let text = fs::read_to_string(path).map_err(process::at(path))?;
    fold(&text).ok_or_else(|| format!("{}: not a log of outcomes", path.display()))
}

fn fold(text: &str) -> Option<BTreeMap<String, Outcome>> {
    let mut names: BTreeMap<String, Outcome> = BTreeMap::new();
    for line in text.lines() {
        match Outcome::parse(line)? {
            Outcome::Removed { name } => {
                names.remove(&name)?;
            }
            Outcome::Renamed { from, to } => {
                let outcome = names.remove(&from)?;
                names.insert(to, outcome);
            }
            Outcome::Linked { from, to } => {
                let outcome = names.get(&from)?.clone();
                names.insert(to, outcome);
            }
            created => {
                let (Outcome::File { name, .. }
                | Outcome::Directory { name }
                | Outcome::Symlink { name, .. }) = &created
                else {
                    return None;
                };
                names.insert(name.clone(), created);
            }
        }
    }
    Some(names)
}

/// FNV-1a with 64 bits, which suffices for random content.
fn checksum(content: &[u8]) -> u64 {
    content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_outcome_of_a_name_counts() {
        let outcomes = [
            Outcome::file("a", b"one"),
            Outcome::file("b", b"two"),
            Outcome::Renamed { from: "a".to_owned(), to: "b".to_owned() },
            Outcome::Linked { from: "b".to_owned(), to: "c".to_owned() },
            Outcome::Removed { name: "b".to_owned() },
            Outcome::Symlink { name: "d".to_owned(), target: "x".to_owned() },
        ];
        let text: String = outcomes.iter().map(Outcome::line).collect();
        let names = fold(&text).expect("a log");
        assert_eq!(names.keys().collect::<Vec<_>>(), ["c", "d"]);
        assert_eq!(names["c"], Outcome::file("a", b"one"));
    }

    #[test]
    fn lost_files_and_changed_bytes_are_found() {
        let folder = std::env::temp_dir().join(format!("outcomes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a");
        fs::write(&path, b"synced").expect("written");
        assert!(Outcome::file("a", b"synced").check(&path).is_ok());
        assert!(Outcome::file("a", b"Synced").check(&path).is_err());
        assert!(Outcome::Directory { name: "a".to_owned() }.check(&path).is_err());
        fs::remove_dir_all(&folder).expect("removed");
        assert!(Outcome::file("a", b"synced").check(&path).is_err());
    }
}
