//! Reads XDR from a reply.

use super::rpc::Failure;

/// Longest opaque of a reply.
const OPAQUE_BYTES_MAX: usize = 2 << 20;

/// The bytes of a reply, and how many of them were read.
#[derive(Debug)]
pub(in crate::e2e) struct Cursor {
    bytes: Vec<u8>,
    at: usize,
}

impl Cursor {
    pub(in crate::e2e) fn new(bytes: Vec<u8>) -> Cursor {
        Cursor { bytes, at: 0 }
    }

    /// Reads bytes that have no length before them.
    pub(in crate::e2e) fn fixed(&mut self, count: usize) -> Result<&[u8], Failure> {
        let bytes = self.bytes.get(self.at..self.at + count).ok_or(Failure::Malformed)?;
        self.at += count;
        Ok(bytes)
    }

    /// Reads bytes that have no length before them, into an array.
    pub(in crate::e2e) fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        self.fixed(N)?.try_into().map_err(|_| Failure::Malformed)
    }

    pub(in crate::e2e) fn word(&mut self) -> Result<u32, Failure> {
        self.array().map(u32::from_be_bytes)
    }

    pub(in crate::e2e) fn long(&mut self) -> Result<u64, Failure> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a handle, a name or data.
    pub(in crate::e2e) fn opaque(&mut self) -> Result<Vec<u8>, Failure> {
        let length = usize::try_from(self.word()?).unwrap_or(usize::MAX);
        if length > OPAQUE_BYTES_MAX {
            return Err(Failure::Malformed);
        }
        let padding = length.next_multiple_of(4) - length;
        let bytes = self.fixed(length)?.to_vec();
        self.fixed(padding)?;
        Ok(bytes)
    }

    /// Skips words.
    pub(in crate::e2e) fn skip(&mut self, words: usize) -> Result<(), Failure> {
        self.fixed(4 * words).map(|_| ())
    }

    /// Skips what is there if the flag before it is set.
    pub(in crate::e2e) fn skip_optional(&mut self, words: usize) -> Result<(), Failure> {
        if self.word()? == 0 { Ok(()) } else { self.skip(words) }
    }
}
