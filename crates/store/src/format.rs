//! The `format` file of a volume: which version wrote it, who it is and what shape it has.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// Version of the layout of a volume's directory that this crate reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// Longest name of a volume, bytes: it is a directory's name and a part of an export's path.
pub const NAME_BYTES_MAX: usize = 64;

/// Most files of a journal: 1 TiB in all, far beyond what could be replayed in bounded time.
const JOURNAL_FILES_MAX: u64 = 65_536;

/// What the file's first line begins with.
const TITLE: &str = "holdfast volume format ";

/// What is said once and for all when a volume is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// The volume's identity, which its journal repeats.
    pub(crate) id: u64,
    /// Files in the ring of the journal.
    pub(crate) journal_files: u64,
}

impl Format {
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        write!(text, "{TITLE}{FORMAT_VERSION}\nid {:016x}\njournal_files {}\n", self.id, self.journal_files)
            .expect("a String takes any text");
        text
    }

    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Format, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
        let damaged = || {
            Error::new(
                ErrorKind::Damaged,
                format!("{} is damaged: it is no description of a volume; restore it", path.display()),
            )
        };
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(TITLE)).ok_or_else(damaged)?;
        let version: u32 = version.parse().map_err(|_| damaged())?;
        if version != FORMAT_VERSION {
            return Err(Error::new(
                ErrorKind::WrongFormat,
                format!(
                    "the volume in {} has format version {version}, and this holdfast reads version \
                     {FORMAT_VERSION} only; use the holdfast that wrote it",
                    path.parent().unwrap_or(path).display()
                ),
            ));
        }
        let mut field = |name: &str| {
            let line = lines.next()?;
            line.strip_prefix(name)?.strip_prefix(' ')
        };
        let id = field("id").and_then(|id| u64::from_str_radix(id, 16).ok()).ok_or_else(damaged)?;
        let files = field("journal_files").and_then(|files| files.parse().ok()).ok_or_else(damaged)?;
        if !(1..=JOURNAL_FILES_MAX).contains(&files) {
            return Err(damaged());
        }
        Ok(Format { id, journal_files: files })
    }

    /// What the journal's own file says, so that no other volume's journal is taken for it.
    pub(crate) fn journal_owner(&self) -> String {
        format!("journal of volume {:016x}\n", self.id)
    }
}

/// Refuses names that a directory or an export's path cannot have, or that a shell would take for an option.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fine = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.chars().all(allowed)
        && !name.starts_with(['.', '-']);
    if fine {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "a volume cannot be named {name:?}: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-', and \
             begin with a letter or digit"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_is_written_is_read() {
        let scratch = Scratch::new();
        let path = scratch.path().join("format");
        let format = Format { id: 0x12_3456_789a_bcde, journal_files: 7 };
        std::fs::write(&path, format.encode()).unwrap();
        assert_eq!(Format::read(&path).unwrap(), format);
    }

    #[test]
    fn other_versions_and_damage_are_told_apart() {
        let scratch = Scratch::new();
        let path = scratch.path().join("format");
        let fails = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Format::read(&path).unwrap_err()
        };
        let error = fails("holdfast volume format 2\nwhatever\n");
        assert_eq!(error.kind(), ErrorKind::WrongFormat);
        assert!(error.to_string().contains("format version 2"), "{error}");
        for text in ["", "holdfast volume format x\n", "holdfast volume format 1\nid 1\n", "nonsense"] {
            assert_eq!(fails(text).kind(), ErrorKind::Damaged, "{text:?}");
        }
        let none = "holdfast volume format 1\nid 01\njournal_files 0\n";
        assert_eq!(fails(none).kind(), ErrorKind::Damaged);
    }

    #[test]
    fn names() {
        for good in ["main", "a", "Vol-1_x.y", &"n".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".new-x", "-x", "a/b", "a b", "é", &"n".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
