//! The `format` file of a pool: the version of its layout, its identity and the size of its journal.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The version of the layout of a pool's directory that this crate reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// The longest name of a pool in bytes. It is the name of a directory.
pub const NAME_BYTES_MAX: usize = 64;

/// How many files a journal may have. The most are 1 TiB, far more than can be replayed in bounded time.
pub(crate) const JOURNAL_FILES: std::ops::RangeInclusive<u64> = 1..=65_536;

/// The size of the largest journal in bytes.
pub const JOURNAL_BYTES_MAX: u64 = *JOURNAL_FILES.end() * crate::log::LOG_FILE_BYTES;

/// The beginning of the file's first line.
const TITLE: &str = "holdfast pool format ";

/// The properties that a pool keeps from its creation on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number that identifies the pool.
    pub(crate) id: u64,
    /// The number that tells its files from those of a copy of the pool: its id, unless it is a copy. Its journal's owner file
    /// repeats it.
    pub(crate) instance: u64,
    /// The number of files in the journal's ring.
    pub(crate) journal_files: u64,
}

impl Format {
    pub(crate) fn encode(&self) -> String {
        let Format { id, instance, journal_files } = self;
        let mut text = format!("{TITLE}{FORMAT_VERSION}\nid {id:016x}\njournal_files {journal_files}\n");
        if instance != id {
            writeln!(text, "instance {instance:016x}").expect("a String takes any text");
        }
        text
    }

    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Format, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
        let damaged = || {
            Error::new(
                ErrorKind::Damaged,
                format!("{} is damaged: it does not describe a pool; restore it", path.display()),
            )
        };
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(TITLE)).ok_or_else(damaged)?;
        let version: u32 = version.parse().map_err(|_| damaged())?;
        if version != FORMAT_VERSION {
            return Err(Error::new(
                ErrorKind::WrongFormat,
                format!(
                    "the pool in {} has format version {version}, and this version of holdfast reads only \
                     {FORMAT_VERSION}; use the version that created it",
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
        if !JOURNAL_FILES.contains(&files) {
            return Err(damaged());
        }
        let instance = match lines.next() {
            None => id,
            Some(line) => line
                .strip_prefix("instance ")
                .and_then(|instance| u64::from_str_radix(instance, 16).ok())
                .ok_or_else(damaged)?,
        };
        Ok(Format { id, instance, journal_files: files })
    }

    /// Returns the contents of the journal's owner file, which tells the journals of pools apart.
    pub(crate) fn journal_owner(&self) -> String {
        format!("journal of pool {:016x}\n", self.instance)
    }
}

/// Refuses names that cannot be part of a path, or that a shell would take for an option.
pub fn check_name(name: &str) -> Result<(), Error> {
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
            "a pool or a volume cannot be named {name:?}: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-', and \
             begin with a letter, a digit or '_'"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn encoded_formats_are_read_back() {
        let scratch = Scratch::new();
        let path = scratch.path().join("format");
        let id = 0x12_3456_789a_bcde;
        for instance in [id, 0, 77] {
            let format = Format { id, instance, journal_files: 7 };
            std::fs::write(&path, format.encode()).unwrap();
            assert_eq!(Format::read(&path).unwrap(), format);
        }
    }

    #[test]
    fn other_versions_and_damage_are_different_errors() {
        let scratch = Scratch::new();
        let path = scratch.path().join("format");
        let fails = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Format::read(&path).unwrap_err()
        };
        let error = fails("holdfast pool format 2\nwhatever\n");
        assert_eq!(error.kind(), ErrorKind::WrongFormat);
        assert!(error.to_string().contains("format version 2"), "{error}");
        for text in ["", "holdfast pool format x\n", "holdfast pool format 1\nid 1\n", "nonsense"] {
            assert_eq!(fails(text).kind(), ErrorKind::Damaged, "{text:?}");
        }
        let instance = "holdfast pool format 1\nid 01\njournal_files 1\ninstance x\n";
        assert_eq!(fails(instance).kind(), ErrorKind::Damaged);
        let none = "holdfast pool format 1\nid 01\njournal_files 0\n";
        assert_eq!(fails(none).kind(), ErrorKind::Damaged);
    }

    #[test]
    fn names_are_safe_in_paths_and_on_command_lines() {
        for good in ["main", "a", "Vol-1_x.y", &"n".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".new-x", "-x", "a/b", "a b", "é", &"n".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
