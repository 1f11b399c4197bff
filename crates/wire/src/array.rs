//! Variable-length arrays of XDR (RFC 4506 section 4.13): a count, then the elements.

use std::marker::PhantomData;

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, length_u32};

/// An array of at most `MAX` elements: a slice to be sent, or the bytes of a received one.
///
/// Decoding checks a received array completely and allocates nothing, so iteration cannot fail.
#[derive(Clone, Copy)]
pub struct Array<'a, T, const MAX: usize> {
    source: Source<'a, T>,
}

#[derive(Clone, Copy)]
enum Source<'a, T> {
    Elements(&'a [T]),
    /// The bytes of the elements, without the count; checked.
    Received {
        count: usize,
        bytes: &'a [u8],
        of: PhantomData<T>,
    },
}

impl<'a, T, const MAX: usize> Array<'a, T, MAX> {
    /// The empty array.
    pub const EMPTY: Self = Self { source: Source::Elements(&[]) };

    /// Returns an array of these elements, or `None` if there are more than `MAX`.
    #[must_use]
    pub const fn new(elements: &'a [T]) -> Option<Self> {
        if elements.len() <= MAX { Some(Self { source: Source::Elements(elements) }) } else { None }
    }

    /// Returns the number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.source {
            Source::Elements(elements) => elements.len(),
            Source::Received { count, .. } => count,
        }
    }

    /// Whether the array is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Copy + Decode<'a>, const MAX: usize> Array<'a, T, MAX> {
    /// Iterates over the elements.
    #[must_use]
    pub fn iter(&self) -> Iter<'a, T> {
        let source = match self.source {
            Source::Elements(elements) => Remaining::Elements(elements.iter()),
            Source::Received { count, bytes, .. } => {
                Remaining::Received { left: count, input: Decoder::new(bytes) }
            }
        };
        Iter { source }
    }
}

impl<'a, T: Copy + Decode<'a>, const MAX: usize> IntoIterator for Array<'a, T, MAX> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The elements of an [`Array`].
#[derive(Clone)]
pub struct Iter<'a, T> {
    source: Remaining<'a, T>,
}

#[derive(Clone)]
enum Remaining<'a, T> {
    Elements(std::slice::Iter<'a, T>),
    Received { left: usize, input: Decoder<'a> },
}

impl<'a, T: Copy + Decode<'a>> Iterator for Iter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.source {
            Remaining::Elements(elements) => elements.next().copied(),
            Remaining::Received { left, input } => {
                *left = left.checked_sub(1)?;
                T::decode(input).ok()
            }
        }
    }
}

impl<'a, T: Copy + Decode<'a> + PartialEq, const MAX: usize> PartialEq for Array<'a, T, MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(*other)
    }
}

impl<'a, T: Copy + Decode<'a> + Eq, const MAX: usize> Eq for Array<'a, T, MAX> {}

impl<'a, T: Copy + Decode<'a> + std::fmt::Debug, const MAX: usize> std::fmt::Debug for Array<'a, T, MAX> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl<'a, T: Copy + Encode + Decode<'a>, const MAX: usize> Encode for Array<'a, T, MAX> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.u32(length_u32(self.len()));
        for element in self.iter() {
            element.encode(out);
        }
    }
}

impl<'a, T: Decode<'a>, const MAX: usize> Decode<'a> for Array<'a, T, MAX> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let count = input.length(MAX)?;
        let bytes = input.rest();
        for _ in 0..count {
            T::decode(input)?;
        }
        let length = bytes.len() - input.rest().len();
        let bytes = bytes.get(..length).ok_or(DecodeError::Truncated)?;
        Ok(Self { source: Source::Received { count, bytes, of: PhantomData } })
    }
}

#[cfg(test)]
impl<T: crate::sample::Sample, const MAX: usize> crate::sample::Sample for Array<'_, T, MAX> {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        let elements: Vec<T> = (0..rng.below(4.min(MAX + 1))).map(|_| T::sample(rng)).collect();
        Self::new(elements.leak()).expect("at most three")
    }
}
