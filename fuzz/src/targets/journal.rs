//! Journal batches and entries: what recovery reads from a device that may hold anything.

use volume::entry::{Entry, UsageDelta};
use volume::ids::{Generation, Ino, Seq};
use volume::journal::format::{BatchHeader, HEADER_BYTES, RingHeader, decode_batch, encode_batch};
use volume::key;
use volume::key::FIRST;
use volume::quota::QuotaKind;
use volume::time::Time;

use super::{Kind, survives_storage};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let records = vec![
        (key::inode(FIRST.object(Ino(2))), Some(b"a value"[..].into())),
        (key::name(FIRST.object(Ino(1)), b"a name"), None),
    ];
    let usage =
        QuotaKind::from_byte(0).into_iter().map(|kind| UsageDelta { kind, id: 7, bytes: -5, inodes: 1 });
    let entry = Entry { records, usage: usage.collect(), ..Entry::default() }.encode();
    vec![
        vec![0],
        [&[1], entry.as_slice()].concat(),
        [&[2], entry.as_slice(), &[255; 300]].concat(),
        vec![3; 600],
    ]
}

/// The first byte selects how the rest is decoded. Checksums would reject almost every mutation, so one form wraps the
/// bytes in a batch with correct checksums.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((form, body)) = bytes.split_first() else { return Kind::of(0) };
    let seen = match form % 4 {
        0 => decode_batch(body).map(|batch| batch.entries().count()).is_ok(),
        1 => survives_storage(body, Entry::decode, Entry::encode),
        2 => wrapped(body),
        _ => survives_storage(body, RingHeader::decode, RingHeader::encode),
    };
    let refusal = Entry::decode(body).err().map(|error| error.0);
    Kind::of((form % 4, seen, refusal, body.len().min(128)))
}

/// Treats the body as the entries of a batch: the first byte gives their number, the second the bit that is flipped.
fn wrapped(body: &[u8]) -> bool {
    let Some(([count, flipped], body)) = body.split_first_chunk() else { return false };
    if body.is_empty() {
        return false;
    }
    let size = (body.len() / (usize::from(count % 8) + 1)).max(1);
    let entries: Vec<&[u8]> = body.chunks(size).collect();
    let mut batch = Vec::new();
    encode_batch(header(), &entries, &mut batch);
    let decoded = decode_batch(&batch).expect("a batch that was just made");
    let again: Vec<&[u8]> = decoded.entries().map(|(_, entry)| entry).collect();
    assert_eq!(again, entries, "the entries of a batch");
    let sound = again.iter().all(|entry| Entry::decode(entry).is_ok());
    // Padding after the payload is ignored; a checksum covers everything before it.
    let covered = HEADER_BYTES + body.len() + 4 * entries.len();
    let bit = usize::from(*flipped) * 8191 % (covered * 8);
    if let Some(byte) = batch.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
    assert!(decode_batch(&batch).is_err(), "bit {bit} of a batch is flipped, and it decodes");
    sound
}

/// Returns a header whose lengths and checksums encoding fills in.
fn header() -> BatchHeader {
    BatchHeader {
        journal: [7; 16],
        position: 4096,
        generation: Generation(1),
        count: 0,
        first_seq: Seq(10),
        durable: Seq(3),
        time_ceiling: Time::from_nanos(5),
        payload_bytes: 0,
        payload_checksum: 0,
        covered: Seq(3),
        predecessor: 9,
        checksum: 0,
    }
}
