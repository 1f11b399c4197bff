//! The list of entries in results of READDIR, written in place within the client's limits.

use crate::xdr::Encoder;

/// A successful result of READDIR or READDIRPLUS in any version: a header, a list of entries and eof.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub(crate) struct EntriesEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
    /// The position at which the last entry must end so that the trailer still fits. It precedes the first entry if not
    /// even an empty list fits.
    entries_end: usize,
    entries: usize,
    /// The remaining bytes of `dircount`.
    dir_bytes_left: usize,
}

impl<'b> EntriesEncoder<'b> {
    /// The status, which the client's limit does not include.
    pub(crate) const STATUS_BYTES: usize = 4;
    /// The end of the list and eof.
    pub(crate) const TRAILER_BYTES: usize = 4 + 4;

    /// Writes a header that begins with the status. The result after the status is limited to `maxcount` bytes, and what
    /// `push` counts to `dircount`. The latter is only a hint: the first entry is accepted regardless.
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

    /// Appends an entry that counts `dir_bytes` of `dircount`. Returns `false` and changes nothing if it does not fit.
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

    /// Returns the number of entries appended.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Overwrites the header at its byte `at`.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.out.patch(self.start + at, bytes);
    }

    /// Ends the list.
    pub(crate) fn finish(mut self, eof: bool) {
        self.out.bool(false);
        self.out.bool(eof);
    }

    /// Removes the result again. The caller writes a failure instead.
    pub(crate) fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}
