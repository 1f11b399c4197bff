//! The head of an index: where each of its blocks is. An object of records, one for each sync.
//!
//! ```text
//! record   0..4    bytes of what follows the checksum
//!          4..8    CRC32C of that
//!          8..16   epoch of the writer
//!          16..24  length of the index in bytes
//!          24..32  number of the next object of blocks
//!          32..40  objects below this number may exist
//!          40..44, 44..48, 48..56   how many objects were written, how many removed, how many blocks were moved
//!          then    each object written: number (8), epoch (8), blocks (4)
//!                  each object removed: number (8)
//!                  each block moved: number (8), place (8)
//! ```
//!
//! All numbers are big-endian. The first record describes the whole index, later ones what changed. Each is written by one
//! operation, so there are no torn ones. Zeros follow the last one: the object has a length ahead of need, since a full pool lets
//! none grow.

use std::io;

use super::map::{Change, Place};

const FRAME_BYTES: usize = 8;

/// Bytes that a moved block takes in a record.
pub(super) const MOVED_BYTES: u64 = 16;

/// Appends a record.
pub(super) fn encode(change: &Change, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; FRAME_BYTES]);
    for number in [change.epoch, change.length, change.next, change.reserved] {
        out.extend(number.to_be_bytes());
    }
    let count = |count: usize| u32::try_from(count).expect("an index has far fewer objects");
    out.extend(count(change.written.len()).to_be_bytes());
    out.extend(count(change.removed.len()).to_be_bytes());
    out.extend((change.moved.len() as u64).to_be_bytes());
    for (number, epoch, blocks) in &change.written {
        out.extend(number.to_be_bytes());
        out.extend(epoch.to_be_bytes());
        out.extend(blocks.to_be_bytes());
    }
    for number in &change.removed {
        out.extend(number.to_be_bytes());
    }
    for (block, place) in &change.moved {
        out.extend(block.to_be_bytes());
        out.extend(place.encode().to_be_bytes());
    }
    let body = &out[start + FRAME_BYTES..];
    let length = u32::try_from(body.len()).expect("a record is far smaller than 4 GiB");
    let checksum = crc32c::crc32c(body);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out[start + 4..start + FRAME_BYTES].copy_from_slice(&checksum.to_be_bytes());
}

/// Reads all records, and passes them on in order, each with where it ends.
pub(super) fn decode(bytes: &[u8], mut visit: impl FnMut(&Change, usize)) -> io::Result<()> {
    let mut rest = Fields(bytes);
    loop {
        let (length, checksum) = (rest.u32()?, rest.u32()?);
        let body = rest.take(usize::try_from(length).map_err(|_| damaged())?)?;
        if crc32c::crc32c(body) != checksum {
            return Err(damaged());
        }
        visit(&decode_record(body)?, bytes.len() - rest.0.len());
        if rest.0.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
    }
}

fn decode_record(body: &[u8]) -> io::Result<Change> {
    let mut body = Fields(body);
    let (epoch, length, next, reserved) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let (written, removed, moved) = (body.u32()?, body.u32()?, body.u64()?);
    let mut change = Change { epoch, length, next, reserved, ..Change::default() };
    for _ in 0..written {
        change.written.push((body.u64()?, body.u64()?, body.u32()?));
    }
    for _ in 0..removed {
        change.removed.push(body.u64()?);
    }
    for _ in 0..moved {
        let (block, place) = (body.u64()?, body.u64()?);
        change.moved.push((block, Place::decode(place)));
    }
    if body.0.is_empty() { Ok(change) } else { Err(damaged()) }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the head of the index is damaged")
}

/// The bytes that are not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(first)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change {
        Change {
            epoch: 3,
            length: 8192,
            next: 9,
            reserved: 64,
            written: vec![(8, 3, 2)],
            removed: vec![1, 2],
            moved: vec![(0, Place::HOLE), (1, Place::new(8, 1))],
        }
    }

    #[test]
    fn encoded_records_are_read_back_in_order() {
        let mut bytes = Vec::new();
        encode(&change(), &mut bytes);
        encode(&Change { epoch: 4, ..Change::default() }, &mut bytes);
        let mut found = Vec::new();
        decode(&bytes, |change, _| found.push(change.clone())).unwrap();
        assert_eq!(found, [change(), Change { epoch: 4, ..Change::default() }]);
    }

    #[test]
    fn no_damaged_byte_and_no_missing_end_goes_unnoticed() {
        let mut bytes = Vec::new();
        encode(&change(), &mut bytes);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, |_, _| ()).is_err(), "byte {at}");
            assert!(at == 0 || decode(&bytes[..at], |_, _| ()).is_err(), "the first {at} bytes");
            let padded = [&damaged[..], &[0; 100]].concat();
            assert!(decode(&padded, |_, _| ()).is_err(), "byte {at}, with zeros behind");
        }
    }
}
