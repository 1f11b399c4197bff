//! Bitmaps (RFC 8881 section 3.2, bitmap4).

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

use crate::limits::BITMAP_WORDS_MAX;
use crate::xdr::{Block, Decode, DecodeError, Decoder, Encode, Encoder, block};

/// A set of small numbers, encoded as an array of words without trailing zeros. A received array may have them.
///
/// No version of NFSv4 uses numbers above 126. [`Self::BEYOND`] stands for all of them, so that checks for unsupported
/// numbers find them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap4(u128);

impl Bitmap4 {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// Stands for this number and all higher ones.
    pub const BEYOND: u32 = 127;

    /// Returns the set of the numbers whose bits are set.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the numbers as bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Returns this set with `number` added.
    #[must_use]
    pub const fn with(self, number: u32) -> Self {
        Self(self.0 | 1 << if number < Self::BEYOND { number } else { Self::BEYOND })
    }

    /// Whether `number` is in the set.
    #[must_use]
    #[inline]
    pub const fn contains(self, number: u32) -> bool {
        self.0 >> (if number < Self::BEYOND { number } else { Self::BEYOND }) & 1 == 1
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the numbers in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let number = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(number)
        })
    }

    /// Visits the numbers in ascending order, faster than [`Self::iter`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the bits")]
    pub fn for_each(self, mut visit: impl FnMut(u32)) {
        for (first, half) in [(0, self.0 as u64), (u64::BITS, (self.0 >> u64::BITS) as u64)] {
            let mut left = half;
            while left != 0 {
                visit(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// Most bytes of an encoded set.
    pub const ENCODED_BYTES_MAX: usize = 20;

    /// Encodes the set as one of several fields.
    #[inline]
    pub fn put(self, fields: &mut Block<'_>) {
        let words = self.words();
        fields.u32(words);
        let all = block::<16>(|all| (0..4).for_each(|index| all.u32(self.word(index))));
        fields.put_start(all, words as usize * 4);
    }

    /// Returns the number of encoded words.
    #[inline]
    fn words(self) -> u32 {
        (u128::BITS - self.0.leading_zeros()).div_ceil(u32::BITS)
    }

    /// Returns the word at `index`.
    #[expect(clippy::cast_possible_truncation, reason = "extracts one word")]
    const fn word(self, index: u32) -> u32 {
        (self.0 >> (index * u32::BITS)) as u32
    }
}

impl BitAnd for Bitmap4 {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Bitmap4 {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Bitmap4 {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Sub for Bitmap4 {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Bitmap4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Encode for Bitmap4 {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.fields::<{ Self::ENCODED_BYTES_MAX }>(|fields| self.put(fields));
    }
}

impl Decode<'_> for Bitmap4 {
    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut bits = 0;
        for index in 0..input.length(BITMAP_WORDS_MAX)? {
            match (u128::from(input.u32()?), index) {
                (word, 0..4) => bits |= word << (index * 32),
                (0, _) => {}
                _ => bits |= 1 << Self::BEYOND,
            }
        }
        Ok(Self(bits))
    }
}

#[cfg(test)]
impl crate::sample::Sample for Bitmap4 {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        let bits = u128::from(rng.next()) << 64 | u128::from(rng.next());
        Self(bits >> rng.below(128))
    }
}
