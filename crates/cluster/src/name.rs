//! Names of nodes and groups.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::NAME_BYTES_MAX;

/// The name of a node or a group: letters, digits, `.`, `_` and `-` of ASCII, beginning with a letter or a digit, so that it
/// cannot be taken for something else in a command, a file or the name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that is no [`Name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError(String);

impl Name {
    /// Returns `text` as a name.
    ///
    /// # Errors
    /// It has characters that names do not have, is empty, or is longer than [`NAME_BYTES_MAX`].
    pub fn new(text: &str) -> Result<Name, NameError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_good = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.chars().all(is_plain)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_good { Ok(Name(text.to_owned())) } else { Err(NameError(text.to_owned())) }
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Name, NameError> {
        Name::new(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} cannot be a name: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-', and begin with a \
             letter or a digit",
            self.0
        )
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_bounded() {
        for good in ["a", "node-1.rack_2", "0", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".a", "a/b", "a b", "ä", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(Name::new(bad).unwrap_err().to_string().contains("begin with a letter"));
        }
    }
}
