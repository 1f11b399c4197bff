//! Points at which a test can act between two steps of the engine.

use std::sync::Arc;

use parking_lot::Mutex;

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A rename is about to move a directory.
    MoveBegins,
    /// A rename is about to look at a directory above the new place.
    AncestorSeen,
    /// The rename has checked all directories above the new place.
    AncestorsKnown,
    /// An operation that locks the objects of names released all locks, to take more in order.
    NamesUnlocked,
    /// The object of such a name was gone, and the names were looked up again.
    NamesCompared,
    /// The cache of names follows a change that is not applied yet.
    NamesFollowed,
    /// A step of counting the mappings of a locked file was taken.
    MappingsCounted,
    /// The journal has what a round of write-back saved, and no caller was answered yet.
    RoundSaved,
    /// An attempt released its locks to go on with long work.
    LocksReleased,
    /// A checkpoint changed the index, and is about to commit.
    IndexChanged,
    /// It committed, and nobody knows yet.
    IndexCommitted,
}

/// The action at a point.
type Hook = Arc<dyn Fn(Point) + Send + Sync>;

/// The hook of one volume.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Option<Hook>>);

impl Hooks {
    /// Replaces the action.
    pub(crate) fn set(&self, hook: impl Fn(Point) + Send + Sync + 'static) {
        *self.0.lock() = Some(Arc::new(hook));
    }

    /// Runs the action for a point that was reached.
    pub(crate) fn reach(&self, point: Point) {
        let hook = self.0.lock().clone();
        if let Some(hook) = hook {
            hook(point);
        }
    }
}
