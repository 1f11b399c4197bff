//! Reading and writing the big-endian encodings of keys, records and journal entries.

use std::fmt;

/// Stored bytes that do not decode: damage, or a newer format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Decodes bytes from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; `what` names them in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { rest: bytes, what }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Whether no bytes remain.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// An array of fixed length.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("took N bytes"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Bytes preceded by a two-byte length.
    pub fn short_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// Bytes preceded by a four-byte length.
    pub fn long_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.take(usize::try_from(length).map_err(|_| Malformed(self.what))?)
    }

    /// Returns an error in these bytes.
    pub fn malformed(&self) -> Malformed {
        Malformed(self.what)
    }

    /// Succeeds if no bytes remain.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed(self.what)) }
    }
}

/// Appends big-endian fields to a buffer.
pub trait Write {
    /// Raw bytes.
    fn bytes(&mut self, bytes: &[u8]);

    /// One byte.
    fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Two bytes.
    fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    /// Four bytes.
    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Eight bytes.
    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Eight bytes, signed.
    fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Bytes preceded by a two-byte length; at most 65,535.
    fn short_bytes(&mut self, bytes: &[u8]) {
        self.u16(u16::try_from(bytes.len()).expect("limits keep short fields below 64 KiB"));
        self.bytes(bytes);
    }

    /// Bytes preceded by a four-byte length; less than 4 GiB.
    fn long_bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("limits keep fields below 4 GiB"));
        self.bytes(bytes);
    }
}

impl Write for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
