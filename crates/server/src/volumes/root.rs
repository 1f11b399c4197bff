//! The root directory of a volume: what administrators choose of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Attributes of the root directory of a volume. Of a change, those that are missing stay; a new volume belongs to the user
/// that runs the server, with mode 0755.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Root {
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The permission bits, the low 12, in octal.
    #[serde(with = "super::octal")]
    #[schemars(with = "Option<String>")]
    pub mode: Option<u16>,
}

impl Root {
    /// Whether nothing is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Root::default()
    }

    /// Whether what is given is so in `other` already.
    pub(super) fn is_in(&self, other: Root) -> bool {
        let Root { uid, gid, mode } = other;
        let new = Root { uid: self.uid.or(uid), gid: self.gid.or(gid), mode: self.mode.or(mode) };
        new == other
    }
}
