//! Quota trees: directories whose usage, with that of everything beneath them, is counted and limited.

use std::fmt;

use crate::api::ids::Ino;

/// How far a quota tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeState {
    /// Everything beneath its directory is in it.
    Ready,
    /// What its directory held before is being moved into it.
    Creating,
    /// What is in it is being moved out of it.
    Deleting,
    /// It cannot be: what was moved into it is being moved out of it.
    Refused(Refusal),
}

/// Why a directory with contents cannot become a quota tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A file in it also has a name outside.
    Linked,
    /// Another quota tree is beneath it.
    Nested,
    /// Part of it cannot be read.
    Damaged,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Refusal; 3] = [Refusal::Linked, Refusal::Nested, Refusal::Damaged];

    /// Returns its number, which is part of the format.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Refusal::Linked => 0,
            Refusal::Nested => 1,
            Refusal::Damaged => 2,
        }
    }

    /// Returns the refusal of a number.
    pub(crate) fn from_byte(byte: u8) -> Option<Refusal> {
        Refusal::ALL.get(usize::from(byte)).copied()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Linked => {
                "a file in it has another name outside of it, or several names and changes all the time"
            }
            Refusal::Nested => "another tree is beneath it",
            Refusal::Damaged => "part of it cannot be read",
        })
    }
}

/// A quota tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaTree {
    /// Its directory, whose number is also that of the tree.
    pub root: Ino,
    /// How far it is.
    pub state: TreeState,
}

/// Why there can be no quota tree here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// It is the root of the volume, whose quota is that of the volume.
    Root,
    /// It is a quota tree already, or is being made one or no longer one.
    Exists,
    /// A quota tree is above it, or beneath it.
    Nested,
    /// There is no such quota tree.
    Missing,
    /// There are as many as there may be.
    TooMany,
    /// The change failed.
    Failed(crate::api::request::Error),
}
