//! The data of a WRITE, which need not lie in its message.
//!
//! A receiver that has seen the header of a large WRITE may receive the data into memory of its own. What remains of the
//! message is decoded like any other: its decoder knows where the data was ([`Decoder::around`]). To find the place, the
//! start of the message is decoded before the rest has arrived ([`Decoder::of_start`]).

use std::fmt;

use super::{DecodeError, Decoder, Encode, Encoder, length_u32, padding};

/// The data of a WRITE: an opaque of which all bytes, the first or none lie in the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Payload<'a> {
    here: &'a [u8],
    elsewhere: usize,
}

impl<'a> Payload<'a> {
    /// Returns the length in bytes, wherever they lie.
    #[must_use]
    pub fn len(&self) -> usize {
        self.here.len() + self.elsewhere
    }

    /// Whether there is no data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first bytes, those that lie in the message.
    #[must_use]
    pub fn here(&self) -> &'a [u8] {
        self.here
    }

    /// Returns the data; none if a part of it lies elsewhere.
    #[must_use]
    pub fn bytes(&self) -> Option<&'a [u8]> {
        (self.elsewhere == 0).then_some(self.here)
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elsewhere {
            0 => self.here.fmt(f),
            elsewhere => write!(f, "{:?} and {elsewhere} bytes elsewhere", self.here),
        }
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Payload<'a> {
    fn from(bytes: &'a T) -> Payload<'a> {
        Payload { here: bytes.as_ref(), elsewhere: 0 }
    }
}

impl Encode for Payload<'_> {
    /// # Panics
    /// If a part lies elsewhere: only received messages have such payloads.
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.opaque(self.bytes().expect("what is sent is complete"));
    }
}

/// Bytes of a message that a decoder does not have: `length` of them, followed by the last `after` bytes that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    length: u32,
    after: u32,
}

impl Hole {
    pub(super) const NONE: Hole = Hole { length: 0, after: 0 };
}

impl<'a> Decoder<'a> {
    /// Returns a decoder for a message of `length` bytes that has arrived as far as `start`. A payload that begins there and
    /// ends within the message is decoded; nothing after it is.
    #[must_use]
    pub fn of_start(start: &'a [u8], length: usize) -> Self {
        let hole = Hole { length: length_u32(length.saturating_sub(start.len())), after: 0 };
        Self { rest: start, hole }
    }

    /// Returns a decoder for a message without its payload, `length` bytes that belong behind the first `at` of `bytes`.
    #[must_use]
    pub fn around(bytes: &'a [u8], at: usize, length: usize) -> Self {
        let hole = Hole { length: length_u32(length), after: length_u32(bytes.len().saturating_sub(at)) };
        Self { rest: bytes, hole }
    }

    /// Reads a payload of at most `limit` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] or [`DecodeError::TooLong`].
    #[inline]
    pub fn payload(&mut self, limit: usize) -> Result<Payload<'a>, DecodeError> {
        let length = self.length(limit)?;
        match self.hole {
            Hole::NONE => Ok(Payload { here: self.opaque_fixed(length)?, elsewhere: 0 }),
            hole => self.payload_at(hole, length),
        }
    }

    /// Returns the remaining bytes, as far as a payload that lies elsewhere; and if that is still to come, what follows it.
    #[must_use]
    pub fn rest_around_payload(&self) -> (&'a [u8], Option<&'a [u8]>) {
        if self.hole == Hole::NONE {
            return (self.rest, None);
        }
        let before = self.rest.len().saturating_sub(self.hole.after as usize);
        let (before, after) = self.rest.split_at_checked(before).unwrap_or((self.rest, &[]));
        (before, Some(after))
    }

    /// Decodes a payload of a message with a hole: it lies before the hole, or ends within it or at its end.
    #[cold]
    fn payload_at(&mut self, hole: Hole, length: usize) -> Result<Payload<'a>, DecodeError> {
        let [lacking, after] = [hole.length, hole.after].map(|bytes| bytes as usize);
        // Behind the hole, less than `after` remains.
        let Some(before) = self.rest.len().checked_sub(after) else {
            return Ok(Payload { here: self.opaque_fixed(length)?, elsewhere: 0 });
        };
        if length + padding(length) <= before {
            return Ok(Payload { here: self.opaque_fixed(length)?, elsewhere: 0 });
        }
        let elsewhere =
            length.checked_sub(before).filter(|bytes| *bytes > 0).ok_or(DecodeError::Truncated)?;
        let (here, rest) = self.rest.split_at_checked(before).ok_or(DecodeError::Truncated)?;
        if elsewhere == lacking {
            self.rest = rest.get(padding(length)..).ok_or(DecodeError::Truncated)?;
        } else if after == 0 && elsewhere + padding(length) <= lacking {
            // What follows it has not arrived either.
            self.rest = rest;
        } else {
            return Err(DecodeError::Truncated);
        }
        self.hole = Hole::NONE;
        Ok(Payload { here, elsewhere })
    }
}

#[cfg(test)]
impl crate::sample::Sample for Payload<'_> {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        rng.bytes(200).into()
    }
}
