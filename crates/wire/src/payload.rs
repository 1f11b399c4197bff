//! Data of files. That of a WRITE may lie outside its message ([`Payload`]). Results of READ are written in place: the data is
//! appended to the reply before the header is known.

use crate::limits::DATA_BYTES_MAX;
use crate::xdr::{Decode, DecodeError, Decoder, Encoder, Payload, padding};

impl<'a> Decode<'a> for Payload<'a> {
    /// Decodes the data of a WRITE, at most [`DATA_BYTES_MAX`] bytes.
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        input.payload(DATA_BYTES_MAX)
    }
}

/// Builds a successful result in place: a header of `HEADER_BYTES`, filled in at the end, and data with padding.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct PayloadEncoder<'b, const HEADER_BYTES: usize> {
    out: Encoder<'b>,
    start: usize,
}

impl<'b, const HEADER_BYTES: usize> PayloadEncoder<'b, HEADER_BYTES> {
    /// The bytes before the data.
    pub const HEADER_BYTES: usize = HEADER_BYTES;

    /// Begins a result. `count`, the expected number of data bytes, is a hint.
    pub fn begin(out: &'b mut Encoder<'_>, count: usize) -> Self {
        let mut out = out.reborrow();
        let start = out.position();
        out.reserve(HEADER_BYTES + count + 3);
        out.raw(&[0; HEADER_BYTES]);
        Self { out, start }
    }

    /// Appends data.
    pub fn push(&mut self, data: &[u8]) {
        self.out.raw(data);
    }

    /// Appends zeros for a hole.
    pub fn push_zeros(&mut self, count: usize) {
        let length = self.out.position() + count;
        self.out.buffer().resize(length, 0);
    }

    /// Returns the reply, to append data in place. Its contents must not change.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.buffer()
    }

    /// Returns the number of data bytes appended.
    #[must_use]
    pub fn count(&self) -> usize {
        self.out.position() - self.start - HEADER_BYTES
    }

    /// Pads the data and writes the header for `count` data bytes that `header` returns.
    pub(crate) fn complete(mut self, header: impl FnOnce(usize) -> [u8; HEADER_BYTES]) {
        let count = self.count();
        self.out.pad(count);
        self.out.patch(self.start, &header(count));
    }

    /// Writes the header of a result whose data, `count` bytes, is not in the buffer but is sent right after it.
    ///
    /// # Panics
    /// If data was appended, or if it needs padding.
    pub(crate) fn complete_without_data(mut self, count: usize, header: [u8; HEADER_BYTES]) {
        assert!(self.count() == 0 && padding(count) == 0, "data that is sent separately needs no padding");
        self.out.patch(self.start, &header);
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}
