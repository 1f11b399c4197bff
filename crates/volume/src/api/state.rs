//! Records that protocols keep with a volume; the engine does not interpret them.

use std::sync::Arc;

use crate::limits::{STATE_BYTES_PER_ENTRY_MAX, STATE_KEY_BYTES_MAX, STATE_VALUE_BYTES_MAX};

/// Names a record of protocol state: at most [`STATE_KEY_BYTES_MAX`].
pub type StateKey = Box<[u8]>;

/// A record of protocol state that is put or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Which record.
    pub key: StateKey,
    /// What it holds from now on, at most [`STATE_VALUE_BYTES_MAX`]; `None` deletes it.
    pub value: Option<Arc<[u8]>>,
}

impl StateChange {
    /// Bytes of key and value.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    /// Whether key and value are no longer than they may be.
    pub(crate) fn fits(&self) -> bool {
        self.key.len() <= STATE_KEY_BYTES_MAX
            && self.value.as_ref().is_none_or(|value| value.len() <= STATE_VALUE_BYTES_MAX)
    }
}

/// Whether these changes may be added to an operation's entry.
pub(crate) fn fit_an_entry(changes: &[StateChange]) -> bool {
    changes.iter().all(StateChange::fits)
        && changes.iter().map(StateChange::bytes).sum::<usize>() <= STATE_BYTES_PER_ENTRY_MAX
}
