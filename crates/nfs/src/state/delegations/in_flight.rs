//! Changes of files that are under way, so that no file is delegated between the look for delegations and the change itself.
//!
//! Who changes a file says so first, and then looks for delegations; who grants one announces it first, and then looks for
//! changes. One of the two sees the other: a change that sees a delegation recalls it, a grant that sees a change does not
//! happen. Both counts are in one order for everybody (`SeqCst`).
//!
//! What a name stands for is looked up only if there are delegations at all. Otherwise all that is known is that some name is
//! being changed, so that none is granted, as the first of all, at that moment.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::ids::FileId;

/// How many counts there are of each kind. Files that share one are seldom changed at the same moment.
const PARTS: usize = 256;

/// A count with a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Part(AtomicU64);

/// Changes that are under way, and delegations as far as they matter to them.
#[derive(Debug)]
pub(crate) struct InFlightModifications {
    files: [Part; PARTS],
    names: [Part; PARTS],
    /// Delegations that are granted, or about to be.
    announced: AtomicU64,
    granted: AtomicU64,
}

impl Default for InFlightModifications {
    fn default() -> Self {
        let parts = || std::array::from_fn(|_| Part::default());
        InFlightModifications {
            files: parts(),
            names: parts(),
            announced: AtomicU64::default(),
            granted: AtomicU64::default(),
        }
    }
}

/// A change that is under way, until this is dropped.
#[derive(Debug)]
#[must_use = "the file is delegated again once this is dropped"]
pub(crate) struct InFlightModification<'s>(Option<&'s AtomicU64>);

impl InFlightModification<'_> {
    /// Nothing is changed.
    pub(crate) const NONE: InFlightModification<'static> = InFlightModification(None);
}

impl Drop for InFlightModification<'_> {
    fn drop(&mut self) {
        if let Some(part) = self.0 {
            part.fetch_sub(1, Ordering::Release);
        }
    }
}

fn part(parts: &[Part; PARTS], file: FileId) -> &AtomicU64 {
    let index = usize::try_from(file.ino.0 % PARTS as u64).unwrap_or(0);
    &parts.get(index).expect("a remainder of their number").0
}

impl InFlightModifications {
    /// From now on a file is not delegated.
    pub(crate) fn of(&self, file: FileId) -> InFlightModification<'_> {
        let part = part(&self.files, file);
        part.fetch_add(1, Ordering::SeqCst);
        InFlightModification(Some(part))
    }

    /// From now on no file is delegated, unless some are: then one has to look which file it is that a name in `directory`
    /// stands for.
    pub(crate) fn of_name(&self, directory: FileId) -> InFlightModification<'_> {
        let part = part(&self.names, directory);
        part.fetch_add(1, Ordering::SeqCst);
        InFlightModification(Some(part))
    }

    /// Whether anything is delegated, or about to be.
    pub(crate) fn sees_delegations(&self) -> bool {
        self.announced.load(Ordering::SeqCst) > 0
    }

    /// A file is about to be delegated, under its lock. False if that must not be, as it is being changed.
    pub(crate) fn announce(&self, file: FileId) -> bool {
        self.announced.fetch_add(1, Ordering::SeqCst);
        let first = self.granted.load(Ordering::SeqCst) == 0;
        let named = first && self.names.iter().any(|part| part.0.load(Ordering::SeqCst) > 0);
        let changed = part(&self.files, file).load(Ordering::SeqCst) > 0;
        if named || changed {
            self.withdraw();
        }
        !(named || changed)
    }

    /// What was announced will not be.
    pub(crate) fn withdraw(&self) {
        self.announced.fetch_sub(1, Ordering::SeqCst);
    }

    /// What was announced is granted.
    pub(crate) fn grant(&self) {
        self.granted.fetch_add(1, Ordering::SeqCst);
    }

    /// A delegation is no more.
    pub(crate) fn end(&self) {
        self.granted.fetch_sub(1, Ordering::SeqCst);
        self.withdraw();
    }

    /// A delegation is back after a restart, when nothing is asked yet.
    pub(crate) fn restore(&self) {
        self.announced.fetch_add(1, Ordering::SeqCst);
        self.grant();
    }

    /// How many files are delegated.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }
}
