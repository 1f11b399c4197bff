//! The flushes under way: which files they wait for.

use std::collections::{BTreeSet, VecDeque};

use super::turns::{File, Turns};
use crate::api::ids::ObjectId;

/// The flushes that are not done.
#[derive(Default)]
pub(crate) struct UnderWay {
    /// In the order of their generations.
    pub(crate) flushes: VecDeque<Outstanding>,
    /// The generation of the last flush of what is due.
    pub(crate) latest: u64,
    /// Files that were not looked at yet: those that somebody waits for, and others.
    pub(crate) requested: VecDeque<File>,
    pub(crate) due: VecDeque<File>,
    pub(crate) turns: Turns,
}

/// A flush that is not done.
pub(crate) struct Outstanding {
    pub(crate) generation: u64,
    pub(crate) after: u64,
    /// The files that callers wait for, and those of them that could not be saved.
    pub(crate) requested: BTreeSet<ObjectId>,
    pub(crate) unsaved: BTreeSet<ObjectId>,
    /// Number of files that are not complete.
    pub(crate) left: usize,
}

impl UnderWay {
    /// Whether anything is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// Whether the last flush of what is due still has files to save. Until then, only what is requested is added.
    pub(crate) fn is_writing_due(&self) -> bool {
        self.flushes.iter().any(|flush| flush.generation == self.latest && flush.left > 0)
    }

    /// Has a file looked at in a later round.
    pub(crate) fn look_at(&mut self, file: File) {
        if file.is_requested { self.requested.push_back(file) } else { self.due.push_back(file) }
    }
}
