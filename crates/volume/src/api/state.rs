//! Records that protocols keep with a volume; the engine does not interpret them.

use std::fmt::Debug;
use std::sync::Arc;

use crate::limits::{STATE_BYTES_PER_ENTRY_MAX, STATE_KEY_BYTES_MAX, STATE_VALUE_BYTES_MAX};

/// Key of a protocol state record: at most [`STATE_KEY_BYTES_MAX`].
pub type StateKey = Box<[u8]>;

/// A protocol state record that is put or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The record's key.
    pub key: StateKey,
    /// Its new value, at most [`STATE_VALUE_BYTES_MAX`]; `None` deletes the record.
    pub value: Option<Arc<[u8]>>,
}

impl StateChange {
    /// Returns the bytes of key and value.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    /// Checks the limits of key and value.
    pub(crate) fn fits(&self) -> bool {
        self.key.len() <= STATE_KEY_BYTES_MAX
            && self.value.as_ref().is_none_or(|value| value.len() <= STATE_VALUE_BYTES_MAX)
    }
}

/// The value of a record that is deferred. Most of these are deleted before they are journaled, so it is made only then.
///
/// It is used and dropped with locks of the pool held, and must not call the pool or its volumes.
pub trait DeferredValue: Debug + Send + Sync {
    /// Returns the most bytes that [`DeferredValue::make`] may return, at most [`STATE_VALUE_BYTES_MAX`]. Always the same.
    fn bytes_max(&self) -> usize;

    /// Makes the value.
    fn make(&self) -> Arc<[u8]>;
}

/// Checks that these changes fit one operation's entry.
pub(crate) fn fit_an_entry(changes: &[StateChange]) -> bool {
    changes.iter().all(StateChange::fits)
        && changes.iter().map(StateChange::bytes).sum::<usize>() <= STATE_BYTES_PER_ENTRY_MAX
}
