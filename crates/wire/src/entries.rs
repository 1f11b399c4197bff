//! The list of a READDIR, written in place as far as the client's bounds allow.

use crate::xdr::Encoder;

/// A successful result that begins with a header and ends with a list of entries and eof, as those of READDIR and
/// READDIRPLUS do in all versions.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub(crate) struct EntriesEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
    /// Where the last entry must end so that the end of the list and eof still fit; before the first one, if
    /// not even an empty list fits.
    entries_end: usize,
    entries: usize,
    /// What is left of `dircount`, in bytes.
    dir_bytes_left: usize,
}

impl<'b> EntriesEncoder<'b> {
    /// The status, which the client's bound does not count.
    pub(crate) const STATUS_BYTES: usize = 4;
    /// The end of the list, and eof.
    pub(crate) const TRAILER_BYTES: usize = 4 + 4;

    /// Begins with a header, status included. What is behind the status has at most `maxcount` bytes in the end, of which
    /// what `push` counts is at most `dircount`; the latter is only a hint, so one entry is let in whatever it is.
    pub(crate) fn begin(
        out: &'b mut Encoder<'_>,
        header: impl FnOnce(&mut Encoder<'_>),
        dircount: usize,
        maxcount: usize,
    ) -> Self {
        let mut out = out.reborrow();
        let start = out.position();
        header(&mut out);
        let entries_end = start + Self::STATUS_BYTES + maxcount.saturating_sub(Self::TRAILER_BYTES);
        Self { out, start, entries_end, entries: 0, dir_bytes_left: dircount }
    }

    /// Appends an entry that takes `dir_bytes` of `dircount`, or says `false` and changes nothing if it does not fit.
    pub(crate) fn push(&mut self, dir_bytes: usize, encode: impl FnOnce(&mut Encoder<'_>)) -> bool {
        let left = self.dir_bytes_left.checked_sub(dir_bytes);
        if left.is_none() && self.entries > 0 {
            return false;
        }
        let before = self.out.position();
        self.out.bool(true);
        encode(&mut self.out);
        if self.out.position() > self.entries_end {
            self.out.rewind(before);
            return false;
        }
        self.entries += 1;
        self.dir_bytes_left = left.unwrap_or(0);
        true
    }

    /// How many entries were appended.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Writes over a part of the header, from its byte `at` on.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.out.patch(self.start + at, bytes);
    }

    /// Ends the list.
    pub(crate) fn finish(mut self, eof: bool) {
        self.out.bool(false);
        self.out.bool(eof);
    }

    /// Takes everything back; the caller writes a failure instead.
    pub(crate) fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}
