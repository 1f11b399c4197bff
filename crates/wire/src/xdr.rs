//! External Data Representation (RFC 4506): big-endian units of four bytes.
//!
//! [`Decoder`] reads borrowed bytes, returns borrowed payloads and never allocates. [`Encoder`] appends to the caller's
//! buffer.
//!
//! Padding is encoded as zeros. Decoding requires it but accepts any value: RFC 4506 demands zeros, yet some old clients
//! send uninitialized bytes.

use std::fmt;

mod payload;
#[cfg(test)]
mod tests;

use payload::Hole;
pub use payload::Payload;

/// Why bytes do not decode as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end within the message.
    Truncated,
    /// A length is over its limit. The peer is faulty or hostile: the connection is closed.
    TooLong {
        /// The announced length in bytes or elements.
        length: u32,
        /// The limit.
        limit: usize,
    },
    /// A bool is neither 0 nor 1.
    BadBool(u32),
    /// A number is not a value of its enumeration or union.
    BadEnum {
        /// The enumeration or union.
        name: &'static str,
        /// The number.
        value: u32,
    },
    /// Bytes follow the message.
    Trailing(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the message is truncated"),
            Self::TooLong { length, limit } => write!(f, "a length of {length} is over the limit of {limit}"),
            Self::BadBool(value) => write!(f, "{value} is not a boolean"),
            Self::BadEnum { name, value } => write!(f, "{value} is not a value of {name}"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes follow the message"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A type with an XDR encoding.
pub trait Encode {
    /// Appends this value.
    fn encode(&self, out: &mut Encoder<'_>);
}

/// A type that can be decoded from XDR, possibly borrowing from the bytes.
pub trait Decode<'a>: Sized {
    /// Decodes a value at the start of `input`.
    ///
    /// # Errors
    /// If the bytes do not decode. The position of `input` is then unspecified.
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError>;
}

/// Decodes a value that must fill `bytes` exactly.
///
/// # Errors
/// Those of the value, or [`DecodeError::Trailing`].
pub fn decode_all<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut input = Decoder::new(bytes);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// A cursor over the bytes of a message.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// What lacks in `rest`, see [`Payload`].
    hole: Hole,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, hole: Hole::NONE }
    }

    /// Returns the remaining bytes.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that the message ends here.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes remain.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }

    /// Reads `N` bytes without padding.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads an unsigned hyper.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a bool.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], or [`DecodeError::BadBool`] for anything but 0 and 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::BadBool(other)),
        }
    }

    /// Reads an opaque of `length` bytes and its padding (RFC 4506 section 4.9).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], also when only the padding is missing.
    #[inline]
    pub fn opaque_fixed(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest.get(padding(length)..).ok_or(DecodeError::Truncated)?;
        Ok(bytes)
    }

    /// Reads a length of at most `limit` bytes or elements.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] or [`DecodeError::TooLong`].
    #[inline]
    pub fn length(&mut self, limit: usize) -> Result<usize, DecodeError> {
        let announced = self.u32()?;
        match usize::try_from(announced) {
            Ok(length) if length <= limit => Ok(length),
            _ => Err(DecodeError::TooLong { length: announced, limit }),
        }
    }

    /// Reads an opaque of variable length, at most `limit` bytes (RFC 4506 section 4.10).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] or [`DecodeError::TooLong`].
    #[inline]
    pub fn opaque(&mut self, limit: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.length(limit)?;
        self.opaque_fixed(length)
    }
}

/// Appends XDR to a buffer.
#[derive(Debug)]
pub struct Encoder<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Encoder<'b> {
    /// Returns an encoder that appends to `out`.
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Returns an encoder for the same buffer with a shorter lifetime.
    pub fn reborrow(&mut self) -> Encoder<'_> {
        Encoder { out: self.out }
    }

    /// Returns the buffer, to append a payload in place.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Returns the length of the buffer, the position of the next byte.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Truncates the buffer to `position`. A position past the end changes nothing.
    pub fn rewind(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Reserves capacity for `bytes` more.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Overwrites bytes of the buffer.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[inline]
    pub fn patch(&mut self, position: usize, bytes: &[u8]) {
        self.out
            .get_mut(position..)
            .and_then(|tail| tail.get_mut(..bytes.len()))
            .expect("only what was written is patched")
            .copy_from_slice(bytes);
    }

    /// Appends bytes without length or padding.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends at most `MAX` bytes, which `fill` writes. Room is made once, so many small fields take few instructions.
    ///
    /// # Panics
    /// If `fill` writes more.
    #[inline]
    pub fn fields<const MAX: usize>(&mut self, fill: impl FnOnce(&mut Block<'_>)) {
        let start = self.position();
        self.raw(&[0; MAX]);
        // As the compiler knows how much room there is, no test of it is left for fields of fixed size.
        let room = self.out.get_mut(start..).and_then(|room| room.first_chunk_mut::<MAX>());
        let mut block = Block { rest: room.expect("room was made") };
        fill(&mut block);
        let left = block.rest.len();
        self.rewind(start + MAX - left);
    }

    /// Appends an unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    /// Appends an unsigned hyper.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_be_bytes());
    }

    /// Appends a bool.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Appends bytes and their padding, without a length (RFC 4506 section 4.9).
    #[inline]
    pub fn opaque_fixed(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        self.pad(bytes.len());
    }

    /// Appends a length, the bytes and their padding (RFC 4506 section 4.10).
    ///
    /// # Panics
    /// If there are 4 GiB or more; all callers have limits far below.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(length_u32(bytes.len()));
        self.opaque_fixed(bytes);
    }

    /// Appends the padding that an opaque of `length` bytes needs.
    #[inline]
    pub fn pad(&mut self, length: usize) {
        let zeros: &[u8] = match padding(length) {
            0 => &[],
            1 => &[0],
            2 => &[0; 2],
            _ => &[0; 3],
        };
        self.raw(zeros);
    }
}

/// Returns the bytes of padding after `length` bytes.
#[must_use]
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Converts a length for encoding.
#[inline]
pub(crate) fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("every length that is written has a limit below 4 GiB")
}

/// Encodes fixed-size fields as an array of `N` bytes, which is appended in one step.
///
/// # Panics
/// If `fill` does not write exactly `N` bytes.
#[inline]
pub(crate) fn block<const N: usize>(fill: impl FnOnce(&mut Block<'_>)) -> [u8; N] {
    let mut bytes = [0; N];
    let mut block = Block { rest: &mut bytes };
    fill(&mut block);
    assert!(block.rest.is_empty(), "the fields fill their block");
    bytes
}

/// Room for fields, see [`Encoder::fields`]; what is not written yet.
#[derive(Debug)]
pub struct Block<'b> {
    rest: &'b mut [u8],
}

impl Block<'_> {
    /// Writes an unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    /// Writes an unsigned hyper.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.put(value.to_be_bytes());
    }

    /// Writes bytes.
    #[inline]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        let rest = std::mem::take(&mut self.rest);
        let (field, rest) = rest.split_first_chunk_mut().expect("a block has room for its fields");
        *field = bytes;
        self.rest = rest;
    }

    /// Writes the number of bytes that `fill` writes, and these after it.
    #[inline]
    pub fn counted(&mut self, fill: impl FnOnce(&mut Block<'_>)) {
        let rest = std::mem::take(&mut self.rest);
        let (count, rest) = rest.split_first_chunk_mut().expect("a block has room for its fields");
        let room = rest.len();
        let mut inner = Block { rest };
        fill(&mut inner);
        *count = length_u32(room - inner.rest.len()).to_be_bytes();
        self.rest = inner.rest;
    }

    /// Writes the first `length` of these bytes. There must be room for all of them.
    #[inline]
    pub fn put_start<const N: usize>(&mut self, bytes: [u8; N], length: usize) {
        let rest = std::mem::take(&mut self.rest);
        *rest.first_chunk_mut::<N>().expect("a block has room for its fields") = bytes;
        self.rest = rest.get_mut(length..).expect("no more is written than there is");
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder<'_>) {}
}

impl Decode<'_> for () {
    fn decode(_: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Encode for $integer {
            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.raw(&self.to_be_bytes());
            }
        }

        impl Decode<'_> for $integer {
            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                input.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

integers!(u32, u64, i32, i64);

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bool(*self);
    }
}

impl Decode<'_> for bool {
    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        input.bool()
    }
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.opaque_fixed(self);
    }
}

impl<const N: usize> Decode<'_> for [u8; N] {
    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bytes = input.array()?;
        input.rest = input.rest.get(padding(N)..).ok_or(DecodeError::Truncated)?;
        Ok(bytes)
    }
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bool(self.is_some());
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        if input.bool()? { T::decode(input).map(Some) } else { Ok(None) }
    }
}
