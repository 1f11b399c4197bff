//! Where a test steps in between two steps of the engine.

use std::sync::Arc;

use parking_lot::Mutex;

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A rename is about to move a directory.
    MoveBegins,
    /// It looked at all directories above the new place.
    AncestorsKnown,
    /// Who locks what names name let go of all locks, to take more in order.
    NamesUnlocked,
    /// An object of one of those names is gone, and the names were looked up again.
    NamesCompared,
    /// The cache of names follows a change that is not applied yet.
    NamesFollowed,
    /// A checkpoint changed the index, and is about to commit.
    IndexChanged,
}

/// What is done there.
type Hook = Arc<dyn Fn(Point) + Send + Sync>;

/// The hook of one volume.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Option<Hook>>);

impl Hooks {
    /// Sets what is done from now on.
    pub(crate) fn set(&self, hook: impl Fn(Point) + Send + Sync + 'static) {
        *self.0.lock() = Some(Arc::new(hook));
    }

    /// Says that the code is there.
    pub(crate) fn reach(&self, point: Point) {
        let hook = self.0.lock().clone();
        if let Some(hook) = hook {
            hook(point);
        }
    }
}
