//! What a repair does, collected while it goes on. Paths are looked up at the end, when all names are known.

use super::Tally;
use crate::api::ids::Ino;
use crate::offline::check::FaultKind;

/// What a change is about.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Object(Ino),
    Name(Ino, Box<[u8]>),
}

/// The changes so far.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub listed: Vec<(FaultKind, Subject, String)>,
    max: usize,
    pub more: u64,
    pub tally: Tally,
}

impl Changes {
    pub(super) fn new(max: usize) -> Changes {
        Changes { max, ..Changes::default() }
    }

    /// Lists what is done to an object.
    pub(super) fn list(&mut self, kind: FaultKind, ino: Ino, what: impl Into<String>) {
        self.push(kind, Subject::Object(ino), what.into());
    }

    /// Lists what is done to a name.
    pub(super) fn list_name(&mut self, directory: Ino, name: &[u8], what: impl Into<String>) {
        self.push(FaultKind::Name, Subject::Name(directory, name.into()), what.into());
    }

    fn push(&mut self, kind: FaultKind, subject: Subject, what: String) {
        if self.listed.len() < self.max {
            self.listed.push((kind, subject, what));
        } else {
            self.more += 1;
        }
    }
}
