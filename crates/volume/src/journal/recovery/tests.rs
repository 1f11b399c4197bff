use super::*;
use crate::journal::ring::BATCH_BYTES_MAX;

const JOURNAL: [u8; 16] = *b"the-journal-here";
const LAST: Seq = Seq(100);

/// A log that holds, at every block, the header of a batch with sequence `seq`.
struct Planted {
    length: u64,
    seq: Seq,
}

impl RandomFile for Planted {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut encoded = Vec::new();
        for (index, block) in buffer.chunks_mut(block_usize()).enumerate() {
            let position = offset + index as u64 * BLOCK;
            format::encode_batch(header(position, self.seq), &[b"entry"], &mut encoded);
            block.copy_from_slice(&encoded);
        }
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        unreachable!("a search reads")
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("a search reads")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("a search reads")
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        unreachable!("a search reads")
    }
}

fn header(position: u64, seq: Seq) -> BatchHeader {
    BatchHeader {
        journal: JOURNAL,
        position,
        generation: Generation(1),
        count: 0,
        first_seq: seq,
        durable: Seq(seq.0 - 1),
        time_ceiling: Time::EPOCH,
        covered: Seq(0),
        payload_bytes: 0,
        payload_checksum: 0,
        predecessor: 0,
        checksum: 0,
    }
}

/// Returns the positions at which a search finds batches with sequence `seq` in a ring whose chain is one batch.
fn found(length: u64, chain: (u64, u64), seq: Seq) -> Vec<u64> {
    let (start, end) = chain;
    let links = VecDeque::from([Link { last_seq: LAST, start, end, checksum: 0 }]);
    let found = search(&Planted { length, seq }, length, &links, JOURNAL, LAST).unwrap();
    found.iter().map(|header| header.position).collect()
}

/// Returns where the successor of the missing batch may begin, for every size of that batch: at its end, or, if
/// either of the two does not fit before the end of the ring, at the start of the ring or one batch after it.
fn successors(length: u64, end: u64) -> impl Iterator<Item = u64> {
    let sizes = (BLOCK..=BATCH_BYTES_MAX).step_by(block_usize());
    sizes.flat_map(move |bytes| {
        let begins = if end + bytes <= length { end } else { BLOCK };
        [BLOCK, begins + bytes]
    })
}

#[test]
fn a_witness_is_found_wherever_the_missing_batch_ended() {
    let length = 256 << 20;
    for end in [2 * BLOCK, 100 << 20, length - (32 << 20), length - (8 << 20), length - BLOCK, length] {
        let found = found(length, (end - BLOCK, end), Seq(LAST.0 + 2));
        for position in successors(length, end).filter(|position| *position < length) {
            let is_chain = position == end - BLOCK;
            assert!(is_chain || found.binary_search(&position).is_ok(), "{position} behind {end}");
        }
    }
}

#[test]
fn a_search_reads_nothing_far_from_the_break_and_the_start() {
    let length = 256 << 20;
    let chain = (100 << 20, 101 << 20);
    let found = found(length, chain, Seq(LAST.0 + 2));
    let near_start = BLOCK..BLOCK + SEARCH_BYTES;
    let near_break = chain.1..chain.1 + SEARCH_BYTES;
    let expected: Vec<u64> = near_start.chain(near_break).step_by(block_usize()).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_batch_of_an_earlier_lap_is_no_witness() {
    assert!(found(256 << 20, (100 << 20, 101 << 20), LAST).is_empty());
}
