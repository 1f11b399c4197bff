//! Acknowledged outcomes, one on a line of a file that no server can lose.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::process;

/// One outcome. Names have no spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// The file has this content, synced.
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
    Moved {
        from: String,
        to: String,
    },
    Linked {
        from: String,
        to: String,
    },
    Gone {
        name: String,
    },
}

impl Fact {
    pub(super) fn file(name: &str, content: &[u8]) -> Fact {
        Fact::File { name: name.to_owned(), length: content.len(), checksum: checksum(content) }
    }

    fn line(&self) -> String {
        match self {
            Fact::File { name, length, checksum } => format!("file {name} {length} {checksum}\n"),
            Fact::Directory { name } => format!("directory {name}\n"),
            Fact::Symlink { name, target } => format!("symlink {name} {target}\n"),
            Fact::Moved { from, to } => format!("moved {from} {to}\n"),
            Fact::Linked { from, to } => format!("linked {from} {to}\n"),
            Fact::Gone { name } => format!("gone {name}\n"),
        }
    }

    fn parse(line: &str) -> Option<Fact> {
        let words: Vec<&str> = line.split(' ').collect();
        let own = |word: &str| word.to_owned();
        Some(match words.as_slice() {
            ["file", name, length, checksum] => {
                Fact::File { name: own(name), length: length.parse().ok()?, checksum: checksum.parse().ok()? }
            }
            ["directory", name] => Fact::Directory { name: own(name) },
            ["symlink", name, target] => Fact::Symlink { name: own(name), target: own(target) },
            ["moved", from, to] => Fact::Moved { from: own(from), to: own(to) },
            ["linked", from, to] => Fact::Linked { from: own(from), to: own(to) },
            ["gone", name] => Fact::Gone { name: own(name) },
            _ => return None,
        })
    }

    /// Whether what is at `path` is what the fact says.
    pub(super) fn check(&self, path: &Path) -> Result<(), String> {
        let kind = fs::symlink_metadata(path).map_err(|error| error.to_string())?.file_type();
        match self {
            Fact::File { length, checksum: expected, .. } => {
                let content = fs::read(path).map_err(|error| error.to_string())?;
                if (content.len(), checksum(&content)) != (*length, *expected) {
                    return Err(format!("{} bytes, not the {length} that were synced", content.len()));
                }
            }
            Fact::Directory { .. } if kind.is_dir() => {}
            Fact::Symlink { target, .. } => {
                let found = fs::read_link(path).map_err(|error| error.to_string())?;
                if found != Path::new(target) {
                    return Err(format!("points to {}", found.display()));
                }
            }
            _ => return Err("is of another kind".to_owned()),
        }
        Ok(())
    }
}

/// The file of facts while it is being written.
pub(super) struct Facts(File);

impl Facts {
    pub(super) fn create(path: &Path) -> Result<Facts, String> {
        File::create(path).map(Facts).map_err(process::at(path))
    }

    /// Adds a fact, with one write, so that a line is whole or absent.
    pub(super) fn note(&mut self, fact: &Fact) -> Result<(), String> {
        self.0.write_all(fact.line().as_bytes()).map_err(|error| format!("the log of facts: {error}"))
    }
}

/// What each name must hold after all that is noted in a file.
pub(super) fn replay(path: &Path) -> Result<BTreeMap<String, Fact>, String> {
    let text = fs::read_to_string(path).map_err(process::at(path))?;
    fold(&text).ok_or_else(|| format!("{}: not a log of facts", path.display()))
}

fn fold(text: &str) -> Option<BTreeMap<String, Fact>> {
    let mut names: BTreeMap<String, Fact> = BTreeMap::new();
    for line in text.lines() {
        match Fact::parse(line)? {
            Fact::Gone { name } => {
                names.remove(&name)?;
            }
            Fact::Moved { from, to } => {
                let fact = names.remove(&from)?;
                names.insert(to, fact);
            }
            Fact::Linked { from, to } => {
                let fact = names.get(&from)?.clone();
                names.insert(to, fact);
            }
            made => {
                let (Fact::File { name, .. } | Fact::Directory { name } | Fact::Symlink { name, .. }) = &made
                else {
                    return None;
                };
                names.insert(name.clone(), made);
            }
        }
    }
    Some(names)
}

/// FNV-1a of 64 bits: the content is random, so any mixing shows a difference.
fn checksum(content: &[u8]) -> u64 {
    content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_a_name_counts() {
        let facts = [
            Fact::file("a", b"one"),
            Fact::file("b", b"two"),
            Fact::Moved { from: "a".to_owned(), to: "b".to_owned() },
            Fact::Linked { from: "b".to_owned(), to: "c".to_owned() },
            Fact::Gone { name: "b".to_owned() },
            Fact::Symlink { name: "d".to_owned(), target: "x".to_owned() },
        ];
        let text: String = facts.iter().map(Fact::line).collect();
        let names = fold(&text).expect("a log");
        assert_eq!(names.keys().collect::<Vec<_>>(), ["c", "d"]);
        assert_eq!(names["c"], Fact::file("a", b"one"));
    }

    #[test]
    fn a_lost_file_and_a_changed_byte_are_found() {
        let folder = std::env::temp_dir().join(format!("facts-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a");
        fs::write(&path, b"synced").expect("written");
        assert!(Fact::file("a", b"synced").check(&path).is_ok());
        assert!(Fact::file("a", b"Synced").check(&path).is_err());
        assert!(Fact::Directory { name: "a".to_owned() }.check(&path).is_err());
        fs::remove_dir_all(&folder).expect("removed");
        assert!(Fact::file("a", b"synced").check(&path).is_err());
    }
}
