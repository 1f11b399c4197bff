use wire::nfs3::StableHow;
use wire::nfs4::compound::{CompoundEncoder, CompoundReader};
use wire::nfs4::{
    ArgOp4, AttrMask, Attributes4, NfsStat4, OpNum4, Res4, SequenceArgs, SequenceOk, SessionId4, Stateid4,
    Utf8Str4, WriteOk,
};
use wire::xdr::{Decoder, Encoder};

use super::*;
use crate::client::Handle;
use crate::client::cause::Cause;
use crate::client::request::{File, IfExists, Place, Position, Request, WriteRequest};

const SEQUENCE: SequenceArgs = SequenceArgs {
    sessionid: SessionId4([0x5e; 16]),
    sequenceid: 9,
    slotid: 2,
    highest_slotid: 15,
    cachethis: false,
};

fn caller() -> Caller<'static> {
    Caller { minor: 2, sequence: SEQUENCE, owner: &[0, 0, 0, 1, 0, 0, 0, 7] }
}

fn file() -> File {
    let stateid = Stateid4 { seqid: 1, other: [0xcd; 12] };
    File { handle: Handle::of(&[0xfa, 0xce, 0xb0]), stateid }
}

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&caller(), request, &mut Encoder::new(&mut out));
    out
}

/// Returns the bytes that hexadecimal digits and spaces stand for.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Tag, minor version, count; SEQUENCE; PUTFH.
fn front(count: u32, cached: u32) -> String {
    format!(
        "00000000 00000002 {count:08x} \
         00000035 5e5e5e5e 5e5e5e5e 5e5e5e5e 5e5e5e5e 00000009 00000002 0000000f {cached:08x} \
         00000016 00000003 faceb000 "
    )
}

/// GETATTR of type, change, size, fsid, fileid; and of mode to mounted_on_fileid.
const GETATTR: &str = "00000009 00000002 0010011a 00b0a23a ";
/// GETATTR of change and size; and of the times of changes.
const CONSISTENCY: &str = "00000009 00000002 00000018 00300000 ";
/// The stateid of the file.
const STATEID: &str = "00000001 cdcdcdcd cdcdcdcd cdcdcdcd ";

#[test]
fn compounds_have_golden_bytes() {
    let file = file();
    let place = Place { directory: &file.handle, name: b"file" };
    // READ, WRITE and no delegation; no denial; the owner.
    let open = "00000012 00000000 00000403 00000000 00000000 00000000 00000008 00000001 00000007 ";
    let after_open = format!("0000000a 00000003 0000002d {GETATTR}");
    for (request, golden) in [
        (Request::Getattr(&file.handle), front(3, 0) + GETATTR),
        (Request::Access(&file.handle), front(4, 0) + "00000003 0000003f " + CONSISTENCY),
        (Request::Lookup(place), front(5, 0) + "0000000f 00000004 66696c65 0000000a " + GETATTR),
        (
            Request::Create(place, IfExists::Fail),
            // CREATE, GUARDED, with the mode; by name.
            front(6, 1)
                + open
                + "00000001 00000001 00000002 00000000 00000002 00000004 000001a4 00000000 00000004 66696c65 "
                + &after_open,
        ),
        (
            Request::Open(place),
            // NOCREATE; by name.
            front(6, 1) + &open.replace("403", "401") + "00000000 00000000 00000004 66696c65 " + &after_open,
        ),
        (Request::Close(&file), front(4, 1) + CONSISTENCY + "00000004 00000000 " + STATEID),
        (
            Request::Read { file: &file, offset: 1 << 33, count: 4096 },
            front(3, 0) + "00000019 " + STATEID + "00000002 00000000 00001000",
        ),
        (
            Request::Commit { file: &file, offset: 4096, count: 8192 },
            front(3, 1) + "00000005 00000000 00001000 00002000",
        ),
        (Request::Remove(place), front(3, 1) + "0000001c 00000004 66696c65"),
        (
            Request::Readdir {
                directory: &file.handle,
                position: Position { cookie: 77, verifier: [1; 8] },
                bytes: 32768,
                plus: false,
            },
            front(3, 0)
                + "0000001a 00000000 0000004d 01010101 01010101 00008000 00008000 00000002 00000800 00800000",
        ),
    ] {
        assert_eq!(encoded(&request), bytes(&golden), "{request:?}");
    }
}

#[test]
fn a_write_has_golden_bytes_around_its_data() {
    let file = file();
    let request = WriteRequest { file: &file, offset: 512, length: 5, stable: StableHow::FileSync };
    let mut out = Vec::new();
    encode_write_head(&caller(), &request, &mut Encoder::new(&mut out));
    out.extend_from_slice(b"hello\0\0\0");
    encode_write_tail(&mut Encoder::new(&mut out));
    let golden = front(4, 0)
        + "00000026 "
        + STATEID
        + "00000000 00000200 00000002 00000005 68656c6c 6f000000"
        + CONSISTENCY;
    assert_eq!(out, bytes(&golden));
}

#[test]
fn every_compound_has_the_operations_of_the_linux_client() {
    let file = file();
    let place = Place { directory: &file.handle, name: b"file" };
    let readdir =
        |plus| Request::Readdir { directory: &file.handle, position: Position::default(), bytes: 4096, plus };
    for (request, operations) in [
        (Request::Getattr(&file.handle), "GETATTR"),
        (Request::Access(&file.handle), "ACCESS GETATTR"),
        (Request::Lookup(place), "LOOKUP GETFH GETATTR"),
        (Request::Mkdir(place), "CREATE GETFH GETATTR"),
        (Request::Create(place, IfExists::Open), "OPEN GETFH ACCESS GETATTR"),
        (Request::Open(place), "OPEN GETFH ACCESS GETATTR"),
        (Request::Close(&file), "GETATTR CLOSE"),
        (Request::Read { file: &file, offset: 0, count: 1 }, "READ"),
        (Request::Commit { file: &file, offset: 0, count: 1 }, "COMMIT"),
        (Request::SetModeAndTime(&file), "SETATTR GETATTR"),
        (Request::Remove(place), "REMOVE"),
        (Request::Rmdir(place), "REMOVE"),
        (readdir(false), "READDIR"),
        (readdir(true), "READDIR"),
        (Request::Sizes(&file.handle), "GETATTR"),
        (Request::Space(&file.handle), "GETATTR"),
    ] {
        let sent = encoded(&request);
        let mut reader = CompoundReader::new(Decoder::new(&sent)).unwrap();
        let ops: Vec<ArgOp4<'_>> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!((reader.rest().len(), reader.minorversion()), (0, 2), "{request:?}");
        let names: Vec<&str> = ops.iter().map(|op| op.num().name()).collect();
        assert_eq!(names.join(" "), format!("SEQUENCE PUTFH {operations}"), "{request:?}");
    }
}

/// The results of a WRITE in slot 2.
fn written(flags: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let mut results = CompoundEncoder::begin(&mut encoder, Utf8Str4(b""));
    results.push(
        OpNum4::Sequence,
        &Res4::<SequenceOk>::Ok(SequenceOk {
            sessionid: SEQUENCE.sessionid,
            sequenceid: 1,
            slotid: 0,
            highest_slotid: 3,
            target_highest_slotid: 3,
            status_flags: flags,
        }),
    );
    results.push(OpNum4::Putfh, &Res4::<()>::Ok(()));
    let committed = wire::nfs4::StableHow4::FileSync;
    results.push(OpNum4::Write, &Res4::<WriteOk>::Ok(WriteOk { count: 5, committed, writeverf: [3; 8] }));
    results.push_with(OpNum4::Getattr, |out| {
        out.u32(0);
        Attributes4::default().encode_requested(AttrMask::EMPTY, out);
        NfsStat4::Ok
    });
    results.finish();
    out
}

#[test]
fn every_prefix_of_a_reply_is_refused_without_a_panic() {
    let whole = written(0);
    for length in 0..=whole.len() {
        let mut session = Session::new(SEQUENCE.sessionid, 4);
        assert_eq!(session.take(), Some(0));
        let answer = session.replied(0, &whole[..length], 0);
        let decoded = answer.map(|answer| match answer {
            Answer::Results(results) => results.written().map(|written| written.count),
            Answer::Delayed(_) => panic!("nobody asked to wait"),
        });
        assert_eq!(matches!(decoded, Ok(Ok(5))), length == whole.len(), "{length}: {decoded:?}");
    }
    let mut longer = whole;
    longer.extend_from_slice(&[0; 4]);
    let results = Results::after_sequence(&longer).unwrap();
    assert!(matches!(results.written(), Err(Cause::Malformed("COMPOUND", _))));
}

#[test]
fn flags_about_callbacks_are_expected_and_lost_state_is_an_error() {
    for (flags, is_usable) in
        [(0, true), (0x201, true), (0x40, true), (0x8, false), (0x20, false), (0x100, false)]
    {
        let mut session = Session::new(SEQUENCE.sessionid, 4);
        session.take();
        assert_eq!(session.replied(0, &written(flags), 0).is_ok(), is_usable, "{flags:#x}");
    }
}
