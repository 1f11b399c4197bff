//! Record marking and RPC headers: the first bytes of an unknown peer.

use wire::record::{RecordReader, write_record};
use wire::rpc::{ReplyHeader, decode_call};

use super::{Kind, golden};

/// The maximum length of a record here; small, so that inputs reach it.
const RECORD_BYTES_MAX: usize = 2048;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for message in golden("-call.bin").into_iter().chain(golden("-reply.bin")) {
        let mut record = vec![5];
        write_record(&mut record, |out| out.raw(&message));
        seeds.push(record);
    }
    seeds
}

/// The first byte selects how the stream is cut into pieces; the records must not depend on it.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((first, stream)) = bytes.split_first() else { return Kind::of(0) };
    let whole = records(stream, stream.len().max(1));
    let pieces = records(stream, usize::from(*first).max(1));
    assert_eq!(whole, pieces, "records do not depend on how the stream is cut");
    let mut kinds = Vec::new();
    for record in whole.0.iter().take(4) {
        let call = decode_call(record).map(|(header, input)| {
            let out = super::encoded(&header);
            let (again, rest) = decode_call(&out).expect("an encoded header decodes");
            assert_eq!(super::encoded(&again), out, "encoding is stable");
            assert!(rest.rest().is_empty(), "a header has no arguments");
            (header.program, header.version, header.procedure.min(32), input.rest().len().min(64))
        });
        kinds.push(format!("{call:?}"));
        kinds.push(format!("{:?}", round_trip!(ReplyHeader<'_>, record)));
    }
    Kind::of((kinds, whole.0.len().min(4), whole.1))
}

/// Returns the records of a stream that arrives in pieces of `size`, and whether it ended in an error.
fn records(stream: &[u8], size: usize) -> (Vec<Vec<u8>>, bool) {
    let mut reader = RecordReader::new(RECORD_BYTES_MAX);
    let mut records = Vec::new();
    for mut piece in stream.chunks(size) {
        loop {
            match reader.next(&mut piece) {
                Ok(Some(record)) => {
                    assert!(record.len() <= RECORD_BYTES_MAX, "a record beyond the limit");
                    records.push(record.to_vec());
                }
                Ok(None) => break,
                Err(_) => return (records, true),
            }
        }
    }
    assert!(reader.capacity() <= 4 * RECORD_BYTES_MAX, "the reader keeps no more than it may");
    (records, false)
}
