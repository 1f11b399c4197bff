//! The root directory of a volume: what administrators choose of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

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

    /// Refuses an owner or a group that no file can have.
    ///
    /// # Errors
    /// The sentence names it.
    pub fn check(&self) -> Result<(), Error> {
        self.uid.map_or(Ok(()), |uid| check_id("user", uid.into()))?;
        self.gid.map_or(Ok(()), |gid| check_id("group", gid.into()))
    }

    /// Whether what is given is so in `other` already.
    pub(super) fn is_in(&self, other: Root) -> bool {
        let Root { uid, gid, mode } = other;
        let new = Root { uid: self.uid.or(uid), gid: self.gid.or(gid), mode: self.mode.or(mode) };
        new == other
    }
}

/// Refuses a number that no user or group, which `kind` says, has: chown(2) takes the largest one for "no change".
pub(super) fn check_id(kind: &str, id: u64) -> Result<(), Error> {
    if id < u32::MAX.into() {
        return Ok(());
    }
    Err(Error::usage(format!("no {kind} has the id {id}: the largest is {}", u32::MAX - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_that_means_no_change_owns_nothing() {
        let root = |uid, gid| Root { uid, gid, mode: None };
        for fine in [Root::default(), root(Some(0), None), root(Some(u32::MAX - 1), Some(u32::MAX - 1))] {
            fine.check().unwrap();
        }
        let said = |root: Root| root.check().unwrap_err().sentence;
        assert_eq!(
            said(root(Some(u32::MAX), None)),
            "no user has the id 4294967295: the largest is 4294967294"
        );
        assert!(said(root(Some(1), Some(u32::MAX))).starts_with("no group has the id 4294967295"));
    }
}
