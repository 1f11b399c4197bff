//! What a node knows at the moment: which nodes are up, and what each serves.

use std::collections::BTreeMap;

use crate::name::Name;

/// Whether a node is up, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has been there for a while.
    Steady,
    /// It came a short time ago.
    Returning,
    /// It is silent.
    Absent,
}

/// What is known of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The nodes that were heard of. Others are absent.
    pub nodes: BTreeMap<Name, Presence>,
    /// The node that serves each group, if one does.
    pub owners: BTreeMap<Name, Name>,
}
