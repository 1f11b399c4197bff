//! Replies out of a stream of bytes. What is complete in the receive buffer is used in place; of what is not, only
//! as much is copied as somebody wants to see: of the reply to a READ whose data nobody checks, the first bytes.

use wire::limits::RECORD_BYTES_MAX;
use wire::record::{MARK_BYTES, RecordError, RecordReader};

/// What is always kept of a reply: its header, and the results of every procedure but the data of READ and the
/// entries of READDIR.
pub(crate) const HEAD_BYTES: usize = 512;

const PREFIX_BYTES: usize = MARK_BYTES + 4;

/// Replies that arrived in part.
#[derive(Debug, Default)]
pub(crate) struct ReplyReader {
    /// Of a reply that began: the bytes that are kept. Else what is there of a record mark and a transaction number.
    kept: Vec<u8>,
    /// How many bytes will be kept of it.
    keep: usize,
    /// How long it is.
    length: usize,
    /// How many of its bytes have not arrived. 0: none began.
    missing: usize,
    /// Set as soon as the peer sends a record in several fragments, which few do.
    fragments: Option<Box<RecordReader>>,
}

impl ReplyReader {
    /// Takes what was received and gives each reply, and how many of its bytes were dropped, to `reply`. `wanted`
    /// says of a transaction number whether all of the reply is to be kept.
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

    /// More of a reply that began.
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

    /// The front of a reply, or all of it.
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
            // Either is so rare that the general reader may have it, and all that follows.
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

/// Length and last-fragment bit of a record mark.
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
    use crate::random::Random;

    /// Whatever the pieces and fragments, the same replies come out.
    #[test]
    fn pieces_do_not_matter() {
        let mut random = Random::new(7, 0);
        for round in 0..300u32 {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for xid in 0..8u32 {
                let length = usize::try_from(random.below(3_000)).unwrap();
                let mut record = xid.to_be_bytes().to_vec();
                record.extend(random.bytes(length));
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
                let piece = usize::try_from(1 + random.below(2_000)).unwrap().min(rest.len());
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
