//! Owned keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Longest key without an allocation of its own, bytes: those of all tables with numeric fields only.
const SHORT_BYTES: usize = 22;

/// A record's key.
///
/// A short key is stored in place. So a search in a tree of keys, which compares a dozen, reads only the nodes of the
/// tree and misses the processor's cache less.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Short { length: u8, bytes: [u8; SHORT_BYTES] },
    Long(Box<[u8]>),
}

impl Key {
    /// Returns the concatenation of these parts.
    pub(super) fn of(parts: &[&[u8]]) -> Key {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if length > SHORT_BYTES {
            return Key(Repr::Long(parts.concat().into()));
        }
        let mut bytes = [0; SHORT_BYTES];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Key(Repr::Short { length: u8::try_from(length).expect("compared with the most above"), bytes })
    }

    /// Returns the least key greater than this one.
    pub fn successor(&self) -> Key {
        Key::of(&[self, &[0]])
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Short { length, bytes } => &bytes[..usize::from(*length)],
            Repr::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        Key::of(&[bytes])
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Orders keys like their bytes.
impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (&self.0, &other.0) {
            // Short keys are padded with zeros, so a key and the same key extended by zeros differ in length only.
            (Repr::Short { length, bytes }, Repr::Short { length: other_length, bytes: other_bytes }) => {
                numbers(bytes).cmp(&numbers(other_bytes)).then(length.cmp(other_length))
            }
            _ => (**self).cmp(&**other),
        }
    }
}

/// Returns numbers that are ordered like the bytes.
fn numbers(bytes: &[u8; SHORT_BYTES]) -> (u128, u64) {
    let first = bytes.first_chunk().expect("22 bytes are more than 16");
    // The two numbers overlap; the second decides only if the first are equal, and then so is the overlap.
    let last = bytes.last_chunk().expect("22 bytes are more than 8");
    (u128::from_be_bytes(*first), u64::from_be_bytes(*last))
}

/// Hashes a key like its bytes, so that tables can look keys up by bytes.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_are_and_order_like_their_bytes() {
        let mut all: Vec<Vec<u8>> =
            (0..40).flat_map(|length| [0, 1, 255].map(|byte| vec![byte; length])).collect();
        // Two that differ in any one byte.
        all.extend((0..30).flat_map(|at| (at + 1..30).map(move |length| vec_with(at, length))));
        for bytes in &all {
            let key = Key::from(&bytes[..]);
            assert_eq!(*key, bytes[..]);
            assert_eq!(key.clone(), key);
            assert_eq!(*key.successor(), [&bytes[..], &[0]].concat());
            for other in &all {
                assert_eq!(key.cmp(&Key::from(&other[..])), bytes.cmp(other));
                assert_eq!(Key::of(&[bytes, other]), Key::from(&[&bytes[..], other].concat()[..]));
            }
        }
    }

    fn vec_with(at: usize, length: usize) -> Vec<u8> {
        (0..length).map(|index| if index == at { 2 } else { 1 }).collect()
    }

    #[test]
    fn a_key_takes_three_words() {
        assert_eq!(size_of::<Key>(), 24);
    }
}
