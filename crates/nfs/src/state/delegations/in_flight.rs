//! Modifications in flight, so that no file is delegated between the check for delegations and the modification itself.
//!
//! A modification announces itself, then looks for delegations. A grant announces itself, then looks for modifications.
//! One of the two sees the other: a modification that sees a delegation recalls it, and a grant that sees a
//! modification does not happen. Both counters are in one total order (`SeqCst`).
//!
//! A name is looked up only if there are any delegations. Otherwise it is only known that some name is being modified,
//! and no first delegation is granted meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::ids::FileId;

/// Counters of each kind. Files that share one are rarely modified at the same time.
const PARTS: usize = 256;

/// A counter in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Part(AtomicU64);

/// Modifications in flight, and the number of delegations.
#[derive(Debug)]
pub(crate) struct InFlightModifications {
    files: [Part; PARTS],
    names: [Part; PARTS],
    /// Delegations that are granted or about to be.
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

/// A modification in flight, until this is dropped.
#[derive(Debug)]
#[must_use = "the file is delegated again once this is dropped"]
pub(crate) struct InFlightModification<'s>(Option<&'s AtomicU64>);

impl InFlightModification<'_> {
    /// No modification.
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
    /// Begins a modification: the file is not delegated until it is dropped.
    pub(crate) fn of(&self, file: FileId) -> InFlightModification<'_> {
        let part = part(&self.files, file);
        part.fetch_add(1, Ordering::SeqCst);
        InFlightModification(Some(part))
    }

    /// Begins a modification of a name in `directory`: no file is delegated unless some already are, in which case the
    /// caller must look up the file.
    pub(crate) fn of_name(&self, directory: FileId) -> InFlightModification<'_> {
        let part = part(&self.names, directory);
        part.fetch_add(1, Ordering::SeqCst);
        InFlightModification(Some(part))
    }

    /// Returns whether anything is delegated, or about to be.
    pub(crate) fn has_delegations(&self) -> bool {
        self.announced.load(Ordering::SeqCst) > 0
    }

    /// Announces a delegation, under the lock of its file. Returns false if it must not be granted, because the file is
    /// being modified.
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

    /// Withdraws an announcement.
    pub(crate) fn withdraw(&self) {
        self.announced.fetch_sub(1, Ordering::SeqCst);
    }

    /// Grants what was announced.
    pub(crate) fn grant(&self) {
        self.granted.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a delegation.
    pub(crate) fn end(&self) {
        self.granted.fetch_sub(1, Ordering::SeqCst);
        self.withdraw();
    }

    /// Restores a delegation after a restart, before any request.
    pub(crate) fn restore(&self) {
        self.announced.fetch_add(1, Ordering::SeqCst);
        self.grant();
    }

    /// Returns the number of delegations.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }
}
