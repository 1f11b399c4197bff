//! Large WRITEs, whose payloads are received apart from their records: they do what they do when they arrive whole.

use volume::request::Access;
use wire::nfs3::*;
use wire::nfs4::{self, ArgOp4, NfsStat4, PutfhArgs, ResOp4, StableHow4, Stateid4};
use wire::xdr::padding;

use crate::support::{Call, Server, encoded, marked, root};
use crate::v4::session::Session;
use crate::v4::support::{getattr, lookup, record, results};

/// More than one extent, and not a multiple of four.
const LENGTH: usize = 150_001;

/// Bytes without a period that divides a block.
fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// The record of a WRITE to an offset within a block.
fn write3(server: &Server, file: FileHandle3<'_>, data: &[u8]) -> Vec<u8> {
    let count = u32::try_from(data.len()).unwrap();
    let args = WriteArgs { file, offset: 1000, count, stable: StableHow::Unstable, data: data.into() };
    let (xid, procedure, args) = (server.next_xid(), Procedure::Write.code(), encoded(&args));
    Call { xid, program: PROGRAM, version: VERSION, procedure, args: &args }.record(root())
}

/// Returns a file's handle and content.
fn content(server: &Server, file: FileHandle3<'_>) -> Vec<u8> {
    let read = server.read(file, 0, 1 << 20).unwrap();
    assert!(read.eof);
    read.data.to_vec()
}

#[test]
fn a_payload_is_received_apart_wherever_its_stream_is_split() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let data = data(LENGTH);
    let record = write3(&server, file, &data);
    let stream = marked(&record);
    for first in (1..=200).chain([1000, 2000, 4096, 70_000, 149_000]) {
        for others in [7, 333, 40_000].map(|others| if first % 50 == 1 { others } else { 50_000 }) {
            let received = server.receive_stream(&stream, first, others).unwrap();
            let [received] = received.as_slice() else { panic!("{first} {others}") };
            let received = received.decode();
            assert!(received.payload().is_some(), "at first {first} bytes, then {others}");
            assert_eq!(received.length(), record.len());
            assert_eq!(received.bytes().len(), record.len() - LENGTH, "a header and padding are left");
        }
    }
    let whole = server.receive_stream(&stream, stream.len(), 1).unwrap();
    assert!(whole[0].decode().payload().is_none(), "nothing is gained if it arrives at once");
    server.serve(root(), &record);
    assert!(content(&server, file) == [&[0; 1000][..], &data].concat());
}

#[test]
fn other_records_are_received_whole() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let plain = |stream: &[u8], why: &str| {
        for received in server.receive_stream(stream, 700, 9999).unwrap() {
            assert!(received.decode().payload().is_none(), "{why}");
        }
    };
    plain(&marked(&write3(&server, file, &data(64 << 10))), "small enough for the journal");
    let record = write3(&server, file, &data(LENGTH));
    for cut in [0, 100, 5000] {
        let (first, second) = record.split_at(cut);
        let mut fragments = marked(first);
        fragments[0] &= 0x7f;
        plain(&[fragments, marked(second)].concat(), "two fragments");
    }
    let unknown = FileHandle3::new(b"a handle of no volume").unwrap();
    plain(&marked(&write3(&server, unknown, &data(LENGTH))), "a handle of no volume");
    let mut other = record.clone();
    other[23] += 1;
    plain(&marked(&other), "another procedure");
    let at = record.len() - LENGTH - padding(LENGTH);
    let mut far = record;
    far[at - 20] = 0x80;
    plain(&marked(&far), "beyond the largest file");
}

#[test]
fn lengths_that_lie_are_answered_as_in_a_whole_record() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let record = write3(&server, file, &data(LENGTH));
    let at = record.len() - LENGTH - padding(LENGTH);
    for length in
        [0, 1, LENGTH - 4, LENGTH - 1, LENGTH, LENGTH + 3, LENGTH + 4, 1 << 20, (1 << 20) + 1, 1 << 31]
    {
        for count in [length, 7] {
            let mut record = record.clone();
            record[at - 4..at].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
            record[at - 12..at - 8].copy_from_slice(&u32::try_from(count).unwrap().to_be_bytes());
            let apart = server.offer(root(), &record, Access::Blocking);
            let whole = server.offer_whole(root(), &record, Access::Blocking);
            // The attributes may differ by the times.
            let kind = |(outcome, reply): &(_, Vec<u8>)| {
                (
                    std::mem::discriminant(outcome),
                    reply.len(),
                    reply.get(..32.min(reply.len())).map(<[u8]>::to_vec),
                )
            };
            assert_eq!(kind(&apart), kind(&whole), "{length} bytes, count {count}");
        }
    }
}

#[test]
fn a_write_in_a_compound_is_received_apart() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let data = data(LENGTH);
    let write = |data| {
        let args =
            nfs4::WriteArgs { stateid: Stateid4::ANONYMOUS, offset: 5, stable: StableHow4::FileSync, data };
        ArgOp4::Write(args)
    };
    let putfh = ArgOp4::Putfh(PutfhArgs { object: nfs4::FileHandle4::new(file.as_bytes()).unwrap() });
    let size = getattr(&[nfs4::Attr4::Size]);
    let operations = [putfh, write((&data).into()), size, write((&data[..9]).into()), size, lookup("x")];
    let (xid, record) = record(&server, root(), 0, &operations);
    for first in (1..=300).chain([1000, 2000, 4096, 70_000, 149_000]) {
        let received = server.receive_stream(&marked(&record), first, 100_000).unwrap();
        assert!(received[0].decode().payload().is_some(), "at first {first} bytes");
    }
    let results = results(&server.serve(root(), &record), xid);
    assert_eq!(results.status, NfsStat4::NotDir, "all operations were decoded: {results:?}");
    assert_eq!(results.all.len(), 6);
    let ResOp4::Write(Ok(written)) = results.all[1] else { panic!("{results:?}") };
    assert_eq!(written.count as usize, LENGTH);
    assert!(content(&server, file) == [&[0; 5], &data[..9], &data[9..]].concat());
}

#[test]
fn a_retransmission_is_known_however_it_arrives() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let session = Session::of(&server, b"a client");
    let data = data(LENGTH);
    let record_of = |data: &[u8]| {
        let sequence = session.sequence(true);
        let object = nfs4::FileHandle4::new(file.as_bytes()).unwrap();
        let (stateid, stable, data) = (Stateid4::ANONYMOUS, StableHow4::Unstable, data.into());
        let write = ArgOp4::Write(nfs4::WriteArgs { stateid, offset: 0, stable, data });
        record(&server, root(), 2, &[sequence, ArgOp4::Putfh(PutfhArgs { object }), write]).1
    };
    let call = record_of(&data);
    let (_, apart) = server.offer(root(), &call, Access::Blocking);
    let (_, whole) = server.offer_whole(root(), &call, Access::Blocking);
    assert_eq!(apart, whole);
    assert_eq!(server.offer(root(), &call, Access::Blocking).1, whole);
    // The same sequence with other data at the start is another request, however it arrives.
    let at = call.len() - LENGTH - padding(LENGTH);
    let mut other = call.clone();
    other[at] ^= 1;
    for (_, reply) in
        [server.offer(root(), &other, Access::Blocking), server.offer_whole(root(), &other, Access::Blocking)]
    {
        let xid = u32::from_be_bytes(*other.first_chunk().unwrap());
        assert_eq!(results(&reply, xid).status, NfsStat4::SeqFalseRetry);
    }
    assert_eq!(content(&server, file)[0], 0, "the data of the first");
}
