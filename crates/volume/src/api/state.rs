//! Records that protocols keep with a volume; the engine does not interpret them.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::limits::{STATE_BYTES_PER_ENTRY_MAX, STATE_KEY_BYTES_MAX, STATE_VALUE_BYTES_MAX};

/// Key of a protocol state record: at most [`STATE_KEY_BYTES_MAX`] bytes. It is stored in place, as each open of a file makes some.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateKey {
    /// The key, then zeros.
    bytes: [u8; STATE_KEY_BYTES_MAX],
    length: u8,
}

const _: () = assert!(STATE_KEY_BYTES_MAX <= u8::MAX as usize);

impl StateKey {
    /// Returns a key of these bytes; `None` if they are too many.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<StateKey> {
        let mut key = StateKey { bytes: [0; STATE_KEY_BYTES_MAX], length: u8::try_from(bytes.len()).ok()? };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }
}

/// A key of so few bytes that the compiler knows that it is not too long.
impl<const N: usize> From<[u8; N]> for StateKey {
    #[inline]
    fn from(bytes: [u8; N]) -> StateKey {
        const { assert!(N <= STATE_KEY_BYTES_MAX, "the key is too long") };
        StateKey::new(&bytes).expect("its length was checked")
    }
}

impl Deref for StateKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Hash for StateKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self);
    }
}

impl Debug for StateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StateKey").field(&&**self).finish()
    }
}

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

    /// Checks the limit of the value.
    pub(crate) fn fits(&self) -> bool {
        self.value.as_ref().is_none_or(|value| value.len() <= STATE_VALUE_BYTES_MAX)
    }
}

/// The value of a record that is deferred. Most of these are deleted before they are journaled, so it is made only then, by what it
/// is about.
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
