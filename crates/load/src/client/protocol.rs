//! The protocols that the client speaks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version of NFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// NFSv3, with MOUNT.
    #[default]
    #[serde(rename = "3")]
    V3,
    /// NFSv4.1.
    #[serde(rename = "4.1")]
    V4_1,
    /// NFSv4.2.
    #[serde(rename = "4.2")]
    V4_2,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V3, Self::V4_1, Self::V4_2];

    /// Returns the version, such as `4.2`.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        }
    }

    /// Returns the minor version, if it is a version of NFSv4.
    pub(crate) const fn minor(self) -> Option<u32> {
        match self {
            Self::V3 => None,
            Self::V4_1 => Some(1),
            Self::V4_2 => Some(2),
        }
    }

    /// Returns the version of the RPC program.
    pub(crate) const fn program_version(self) -> u32 {
        match self.minor() {
            None => wire::nfs3::VERSION,
            Some(_) => wire::nfs4::VERSION,
        }
    }

    /// Whether files are opened and closed.
    pub(crate) const fn has_opens(self) -> bool {
        self.minor().is_some()
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NFSv{}", self.version())
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|protocol| protocol.version() == text);
        found.ok_or_else(|| format!("{text:?} is not 3, 4.1 or 4.2"))
    }
}
