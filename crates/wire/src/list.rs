//! Linked lists of XDR (RFC 4506 section 4.19): the integer 1 before each element, 0 after the last.

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// A list: a slice of elements to be sent, or the bytes of a received one.
///
/// Decoding checks a received list completely and allocates nothing, so iteration cannot fail. Only the size of the record
/// limits the number of elements.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    source: Source<'a, T>,
}

#[derive(Clone, Copy)]
enum Source<'a, T> {
    Elements(&'a [T]),
    /// The bytes of the list with the final 0; checked.
    Received(&'a [u8]),
}

impl<'a, T> List<'a, T> {
    /// Returns a list of these elements.
    #[must_use]
    pub const fn new(elements: &'a [T]) -> Self {
        Self { source: Source::Elements(elements) }
    }
}

impl<'a, T: Copy + Decode<'a>> List<'a, T> {
    /// Iterates over the elements.
    #[must_use]
    pub fn iter(&self) -> Iter<'a, T> {
        let source = match self.source {
            Source::Elements(elements) => Remaining::Elements(elements.iter()),
            Source::Received(bytes) => Remaining::Received(Decoder::new(bytes)),
        };
        Iter { source }
    }
}

impl<'a, T: Copy + Decode<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The elements of a [`List`].
#[derive(Clone)]
pub struct Iter<'a, T> {
    source: Remaining<'a, T>,
}

#[derive(Clone)]
enum Remaining<'a, T> {
    Elements(std::slice::Iter<'a, T>),
    Received(Decoder<'a>),
}

impl<'a, T: Copy + Decode<'a>> Iterator for Iter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.source {
            Remaining::Elements(elements) => elements.next().copied(),
            Remaining::Received(input) => {
                // Past the end no bytes remain, which also ends the iteration.
                Option::<T>::decode(input).ok().flatten()
            }
        }
    }
}

impl<'a, T: Copy + Decode<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(*other)
    }
}

impl<'a, T: Copy + Decode<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: Copy + Decode<'a> + std::fmt::Debug> std::fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl<T: Encode> Encode for List<'_, T> {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self.source {
            Source::Elements(elements) => {
                for element in elements {
                    out.bool(true);
                    element.encode(out);
                }
                out.bool(false);
            }
            Source::Received(bytes) => out.raw(bytes),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<'a, T> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let bytes = input.rest();
        while Option::<T>::decode(input)?.is_some() {}
        let length = bytes.len() - input.rest().len();
        Ok(Self { source: Source::Received(bytes.get(..length).ok_or(DecodeError::Truncated)?) })
    }
}

#[cfg(test)]
impl<'a, T: crate::sample::Sample> crate::sample::Sample for List<'a, T> {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        let elements: Vec<T> = (0..rng.below(4)).map(|_| T::sample(rng)).collect();
        Self::new(elements.leak())
    }
}
