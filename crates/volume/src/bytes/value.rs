//! Values of records.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::{Buffer, Bytes, Repr};

/// The value of a record; a clone shares it.
///
/// File data that travels through the journal is most of the entry that carries it. Such a value is a part of the
/// entry's bytes: it is not copied and needs no memory of its own.
#[derive(Clone)]
pub struct Value(Of);

#[derive(Clone)]
enum Of {
    Own(Arc<[u8]>),
    Part { whole: Arc<Buffer>, start: u32, end: u32 },
}

impl Value {
    /// Returns the part of `whole` within `range`. It keeps all of `whole` in memory, unless that is more than twice
    /// as long as the part: then it is a copy. So no two parts keep one buffer alive, and the memory of each is
    /// known.
    ///
    /// # Panics
    /// If `range` exceeds `whole`.
    pub fn part(whole: &Bytes, range: Range<usize>) -> Value {
        let part = &whole[range.clone()];
        match (&whole.0, u32::try_from(range.start), u32::try_from(range.end)) {
            (Repr::Owned(buffer), Ok(start), Ok(end)) if 2 * part.len() > buffer.capacity() => {
                Value(Of::Part { whole: Arc::clone(buffer), start, end })
            }
            _ => part.into(),
        }
    }

    /// Returns the length without touching the shared bytes, which may have left the processor's cache.
    pub fn length(&self) -> usize {
        match &self.0 {
            Of::Own(bytes) => bytes.len(),
            Of::Part { start, end, .. } => (end - start) as usize,
        }
    }

    /// Returns the bytes of memory that it keeps.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Of::Own(bytes) => bytes.len(),
            Of::Part { whole, .. } => whole.capacity(),
        }
    }

    /// Returns the shared bytes, and where in them it begins.
    pub fn shared(&self) -> (Bytes, usize) {
        match &self.0 {
            Of::Own(bytes) => (Bytes(Repr::Shared(Arc::clone(bytes))), 0),
            Of::Part { whole, start, .. } => (Bytes(Repr::Owned(Arc::clone(whole))), *start as usize),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Of::Own(bytes) => bytes,
            Of::Part { whole, start, end } => &whole.bytes()[*start as usize..*end as usize],
        }
    }
}

impl From<Arc<[u8]>> for Value {
    fn from(bytes: Arc<[u8]>) -> Value {
        Value(Of::Own(bytes))
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value(Of::Own(bytes.into()))
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value(Of::Own(bytes.into()))
    }
}

impl From<Value> for Arc<[u8]> {
    fn from(value: Value) -> Arc<[u8]> {
        match value.0 {
            Of::Own(bytes) => bytes,
            Of::Part { .. } => (*value).into(),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_shares_a_buffer_that_it_mostly_fills_and_copies_less() {
        let mut whole: Vec<u8> = (0..100).collect();
        whole.shrink_to_fit();
        let whole = Bytes::from(whole);
        let max = Value::part(&whole, 10..70);
        assert_eq!(*max, whole[10..70]);
        assert_eq!((max.as_ptr(), max.memory_bytes()), (whole[10..].as_ptr(), 100));
        let (shared, from) = max.clone().shared();
        assert_eq!((shared.as_ptr(), from), (whole.as_ptr(), 10));
        assert_eq!(Arc::<[u8]>::from(max.clone())[..], whole[10..70]);
        let half = Value::part(&whole, 10..60);
        assert_eq!(*half, whole[10..60]);
        assert!(half.as_ptr() != whole[10..].as_ptr() && half.memory_bytes() == 50);
        let (shared, from) = half.shared();
        assert_eq!((shared.as_ptr(), from), (half.as_ptr(), 0));
        assert!(half != max && half == Value::from(&whole[10..60]));
    }

    #[test]
    fn an_optional_value_takes_three_words() {
        assert_eq!(size_of::<Option<Value>>(), 24);
    }
}
