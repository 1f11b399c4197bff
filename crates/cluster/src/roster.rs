//! The object that all nodes of a cluster read: its nodes, its groups and what administrators want of them, as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{GROUPS_MAX, NODES_MAX};
use crate::membership::Membership;

/// The version of the format.
const FORMAT: u32 = 1;

/// The object's length is a multiple of this, bytes: a store that is full takes a change that does not make it longer.
const UNIT: usize = 16 << 10;

/// The nodes and groups of a cluster, as all nodes know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// One more with each change.
    pub revision: u64,
    /// The nodes and groups.
    pub membership: Membership,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    holdfast_cluster: u32,
    revision: u64,
    #[serde(flatten)]
    membership: Membership,
}

/// The version alone, which is read first.
#[derive(Deserialize)]
struct Version {
    holdfast_cluster: u32,
}

/// Why bytes are no roster: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoster(String);

impl fmt::Display for NoRoster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRoster {}

impl Roster {
    /// Returns the bytes of the object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (revision, membership) = (self.revision, self.membership.clone());
        let stored = Stored { holdfast_cluster: FORMAT, revision, membership };
        let mut bytes = serde_json::to_vec_pretty(&stored).expect("names are keys");
        bytes.resize(bytes.len().next_multiple_of(UNIT), b'\n');
        bytes
    }

    /// Reads the bytes of the object.
    ///
    /// # Errors
    /// They are not what [`Roster::encode`] returns, or a later version of Holdfast wrote them.
    pub fn decode(bytes: &[u8]) -> Result<Roster, NoRoster> {
        let wrong = |error: serde_json::Error| NoRoster(format!("the configuration is damaged: {error}"));
        let Version { holdfast_cluster: found } = serde_json::from_slice(bytes).map_err(wrong)?;
        if found != FORMAT {
            let text = format!(
                "the configuration has version {found} of its format, and this program knows {FORMAT}"
            );
            return Err(NoRoster(text));
        }
        let Stored { revision, membership, .. } = serde_json::from_slice(bytes).map_err(wrong)?;
        if membership.nodes().count() > NODES_MAX || membership.groups().count() > GROUPS_MAX {
            return Err(NoRoster("the configuration has too many nodes or groups".to_owned()));
        }
        Ok(Roster { revision, membership })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClusterConfig;
    use crate::membership::{Command, Duty};
    use crate::name::Name;
    use crate::observed::Observed;

    fn roster() -> Roster {
        let (mut roster, observed) = (Roster { revision: 7, ..Roster::default() }, Observed::default());
        let name = |text| Name::new(text).unwrap();
        let text = "[[group]]\nname = \"home\"\naddresses = [\"10.0.0.5/24\"]\nnodes = [\"a\"]\nconfig = \"/etc/h.toml\"";
        for command in [
            Command::Add(name("a")),
            Command::Add(name("b")),
            Command::Apply(ClusterConfig::parse(text).unwrap()),
            Command::Move(name("home"), name("b")),
            Command::Drain(name("a")),
        ] {
            roster.membership.execute(command, &observed).unwrap();
        }
        roster
    }

    #[test]
    fn what_was_stored_is_read_back() {
        let roster = roster();
        assert_eq!(Roster::default().encode().len(), roster.encode().len(), "it grows seldom");
        let read = Roster::decode(&roster.encode()).unwrap();
        assert_eq!(read, roster);
        assert_eq!(read.membership.duty(&Name::new("a").unwrap()), Some(Duty::Draining));
    }

    #[test]
    fn damage_and_later_versions_are_refused() {
        let text = String::from_utf8(roster().encode()).unwrap();
        let refused = |text: &str| Roster::decode(text.as_bytes()).unwrap_err().to_string();
        assert!(refused(&text.replace("cluster\": 1", "cluster\": 2")).contains("version 2"));
        for (part, other) in [
            ("\"b\"", "\"-b\""),
            ("draining", "asleep"),
            ("10.0.0.5/24", "10.0.0.5"),
            ("revision", "revisions"),
        ] {
            assert!(refused(&text.replace(part, other)).contains("damaged"), "{part}");
        }
        for length in 0..text.trim_end().len() {
            assert!(refused(&text[..length]).contains("damaged"));
        }
    }
}
