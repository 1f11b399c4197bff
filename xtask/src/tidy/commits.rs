//! Subjects of commits: at most 72 characters, the area first.

use std::path::Path;
use std::process::Command;

use super::Violation;
use crate::process;

/// The last commit before this rule. Its ancestors are exempt.
const BASE: &str = "cc31782cb9b5b32959e816cccd3831cd6628c2d5";

const SUBJECT_CHARS_MAX: usize = 72;

/// Violations among the commits since [`BASE`], merges aside. In a shallow clone that lacks the base, all commits it
/// holds are newer.
pub(super) fn commits(root: &Path) -> Vec<Violation> {
    let has_base = git(root, &["merge-base", "--is-ancestor", BASE, "HEAD"]).is_ok();
    let range = if has_base { format!("{BASE}..HEAD") } else { "HEAD".to_owned() };
    match git(root, &["log", "--no-merges", "--format=%h %s", &range]) {
        Ok(log) => log.lines().filter_map(subject).collect(),
        Err(why) => vec![why],
    }
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    process::output(Command::new("git").args(arguments).current_dir(root))
}

/// Checks a line of an abbreviated hash and a subject.
fn subject(line: &str) -> Option<Violation> {
    let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
    let length = subject.chars().count();
    if length > SUBJECT_CHARS_MAX {
        return Some(format!("{hash}: {length} characters, more than {SUBJECT_CHARS_MAX}: {subject}"));
    }
    let is_area = |area: &str| {
        let is_allowed =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || " ,-".contains(letter);
        area.starts_with(|first: char| first.is_ascii_lowercase()) && area.chars().all(is_allowed)
    };
    let is_form =
        subject.split_once(": ").is_some_and(|(area, rest)| is_area(area) && !rest.trim().is_empty());
    (!is_form).then(|| format!("{hash}: not of the form \"area: verb ...\": {subject}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_with_an_area_pass() {
        for line in
            ["1a2b3c tidy: check subjects", "1a2b3c nfs, volume: rename Cut", "1a2b3c nfs3: CREATE truncates"]
        {
            assert_eq!(subject(line), None);
        }
        assert_eq!(subject(&format!("1a2b3c docs: {}", "é".repeat(66))), None);
    }

    #[test]
    fn long_subjects_are_found() {
        let violation = subject(&format!("1a2b3c docs: {}", "x".repeat(67))).unwrap();
        assert!(violation.starts_with("1a2b3c: 73 characters"), "{violation}");
    }

    #[test]
    fn subjects_without_an_area_are_found() {
        for line in [
            "1a2b3c Check subjects",
            "1a2b3c Tidy: check",
            "1a2b3c tidy:check",
            "1a2b3c : check",
            "1a2b3c tidy: ",
            "1a2b3c",
        ] {
            assert!(subject(line).is_some(), "{line}");
        }
    }
}
