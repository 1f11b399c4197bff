//! Splits a byte stream into replies. A reply that is complete in the receive buffer is used in place. Of one that is
//! not, only what is needed is copied: the first bytes of a READ reply whose data nobody checks.

use wire::limits::RECORD_BYTES_MAX;
use wire::record::{MARK_BYTES, RecordError, RecordReader};

/// The prefix of a reply that is always kept: its header, and the results of every procedure except the data of READ
/// and the entries of READDIR.
pub(crate) const HEAD_BYTES: usize = 512;

const PREFIX_BYTES: usize = MARK_BYTES + 4;

/// A partly received reply.
#[derive(Debug, Default)]
pub(crate) struct ReplyReader {
    /// The kept bytes of the current reply. Before its length and transaction ID are complete: the bytes of these.
    kept: Vec<u8>,
    /// How many bytes of the reply to keep.
    keep: usize,
    /// The length of the reply.
    length: usize,
    /// How many bytes have not arrived. Zero between replies.
    missing: usize,
    /// Set once the peer sends a record in several fragments, which is rare.
    fragments: Option<Box<RecordReader>>,
}

impl ReplyReader {
    /// Consumes received bytes and passes each reply, with the number of dropped bytes, to `reply`. `wanted` returns
    /// whether the reply with this transaction ID is kept whole.
    pub(crate) fn take(
        &mut self,
        mut input: &[u8],
        wanted: &mut dyn FnMut(u32) -> bool,
        reply: &mut dyn FnMut(&[u8], usize) -> bool,
    ) -> Result<(), RecordError> {
        while !input.is_empty() {
            if let Some(reader) = &mut self.fragments {
                while let Some(record) = reader.next(&mut input)? {
                    if !reply(record, 0) {
                        return Ok(());
                    }
                }
                return Ok(());
            }
            let going_on = if self.missing > 0 {
                self.go_on(&mut input, reply)
            } else {
                self.begin(&mut input, wanted, reply)?
            };
            if !going_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Consumes more of the current reply.
    fn go_on(&mut self, input: &mut &[u8], reply: &mut dyn FnMut(&[u8], usize) -> bool) -> bool {
        let (here, rest) = input.split_at(self.missing.min(input.len()));
        *input = rest;
        let room = self.keep - self.kept.len();
        self.kept.extend_from_slice(&here[..room.min(here.len())]);
        self.missing -= here.len();
        if self.missing > 0 {
            return true;
        }
        let going_on = reply(&self.kept, self.length - self.kept.len());
        self.kept.clear();
        going_on
    }

    /// Consumes the front of a reply, or a whole one.
    fn begin(
        &mut self,
        input: &mut &[u8],
        wanted: &mut dyn FnMut(u32) -> bool,
        reply: &mut dyn FnMut(&[u8], usize) -> bool,
    ) -> Result<bool, RecordError> {
        if self.kept.is_empty()
            && let Some((mark, rest)) = input.split_first_chunk::<MARK_BYTES>()
        {
            let (length, last) = parse(*mark)?;
            if last && let Some((record, rest)) = rest.split_at_checked(length) {
                *input = rest;
                return Ok(reply(record, 0));
            }
        }
        let (here, rest) = input.split_at((PREFIX_BYTES - self.kept.len()).min(input.len()));
        self.kept.extend_from_slice(here);
        *input = rest;
        let Some((mark, xid)) = self.kept.split_first_chunk::<MARK_BYTES>() else { return Ok(true) };
        let (length, last) = parse(*mark)?;
        if !last || length < 4 {
            // Both cases are rare; the general reader handles this reply and all that follow.
            let mut reader = Box::new(RecordReader::new(RECORD_BYTES_MAX));
            let mut replayed = &*std::mem::take(&mut self.kept);
            let at_once = reader.next(&mut replayed)?;
            let going_on = at_once.is_none_or(|record| reply(record, 0));
            self.fragments = Some(reader);
            return Ok(going_on);
        }
        let Ok(xid) = <[u8; 4]>::try_from(xid) else { return Ok(true) };
        self.length = length;
        self.keep = if wanted(u32::from_be_bytes(xid)) { length } else { length.min(HEAD_BYTES) };
        self.missing = length - 4;
        self.kept.clear();
        self.kept.extend_from_slice(&xid);
        if self.missing > 0 {
            return Ok(true);
        }
        let going_on = reply(&self.kept, 0);
        self.kept.clear();
        Ok(going_on)
    }
}

/// Returns the length and the last-fragment bit of a record mark.
fn parse(mark: [u8; MARK_BYTES]) -> Result<(usize, bool), RecordError> {
    let word = u32::from_be_bytes(mark);
    let announced = word & 0x7fff_ffff;
    let too_long = RecordError::TooLong { length: u64::from(announced), limit: RECORD_BYTES_MAX };
    let length = usize::try_from(announced).map_err(|_| too_long)?;
    if length > RECORD_BYTES_MAX { Err(too_long) } else { Ok((length, word >> 31 == 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{filler, generator};

    /// The replies do not depend on how reads and fragments split the stream.
    #[test]
    fn replies_do_not_depend_on_how_the_stream_is_split() {
        let mut random = generator(7, 0);
        for round in 0..300u32 {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for xid in 0..8u32 {
                let length = random.usize(..3_000);
                let mut record = xid.to_be_bytes().to_vec();
                record.extend(filler(length));
                let parts = if round % 3 == 0 && xid == 5 { 3 } else { 1 };
                let size = record.len().div_ceil(parts);
                let count = record.chunks(size).count();
                for (index, fragment) in record.chunks(size).enumerate() {
                    let last = if index + 1 == count { 1 << 31 } else { 0 };
                    let mark = u32::try_from(fragment.len()).unwrap() | last;
                    stream.extend_from_slice(&mark.to_be_bytes());
                    stream.extend_from_slice(fragment);
                }
                expected.push(record);
            }
            let mut incoming = ReplyReader::default();
            let mut got = Vec::new();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let piece = random.usize(1..=2_000).min(rest.len());
                let mut reply = |record: &[u8], cut: usize| {
                    got.push((record.to_vec(), cut));
                    true
                };
                incoming.take(&rest[..piece], &mut |xid| xid % 2 == 0, &mut reply).unwrap();
                rest = &rest[piece..];
            }
            assert_eq!(got.len(), expected.len());
            for ((record, cut), expected) in got.iter().zip(&expected) {
                assert_eq!(record.len() + cut, expected.len());
                assert!(expected.starts_with(record) && (*cut == 0 || record.len() == HEAD_BYTES));
            }
        }
    }
}
