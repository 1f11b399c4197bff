//! The streams of connections with large WRITEs, whose payloads are received apart from their records.
//!
//! An input is a stream in which [`DATA`] stands for file data, so that mutated inputs stay short, after two bytes that say how
//! it is cut into reads. The target demands that the calls are answered, and the files end, as if each record arrived
//! whole; and that a receiver holds little more than it has received.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs::charge::CopyTerms;
use nfs::service::{
    Connection, ConnectionId, Incoming, IncomingRecord, Outcome, Receiver, ReplyBuffer, Service,
};
use sim::compound::{self, putfh};
use sim::engine::START;
use sim::rpc::{self, call_header, encoded, results};
use volume::Volume;
use volume::request::Access;
use volume::time::Time;
use wire::limits::RECORD_BYTES_MAX;
use wire::mount3;
use wire::nfs3::{self, *};
use wire::nfs4::{self, ArgOp4, AttrMask, StableHow4, Stateid4};
use wire::record::{RecordReader, write_record};
use wire::rpc::{AuthSys, Groups};
use wire::xdr::{Decode, Decoder, Encode};

use super::{Kind, new_volume, work};

/// Starts a place of file data; its length in three bytes follows.
const DATA: &[u8] = b"\xF7DATA";
/// The maximum length of a stream.
const STREAM_BYTES_MAX: usize = 4 << 20;
/// The lengths of reads after the first.
const READS: [usize; 6] = [97, 1000, 5000, 70_000, 200_000, 1 << 20];
/// The memory that a receiver may hold beside twice what it has received since it held nothing: pieces of a payload that have
/// begun, or are about to.
const SPARE_BYTES: usize = 3 * (128 << 10);
/// Attempts of a call that has to wait.
const ATTEMPTS_MAX: usize = 200;

/// The answer to a record.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Reply(Vec<u8>),
    Nothing,
    Close,
}

/// A server with two files.
struct World {
    volume: Arc<Volume>,
    service: Service,
    now: Time,
    answers: Vec<Answer>,
    /// Payloads that were received apart.
    apart: usize,
}

impl World {
    fn new() -> World {
        let volume = new_volume();
        let service = rpc::service(&volume).expect("the volume can be exported");
        let now = Time::from_nanos(START + 1_000_000_000);
        World { volume, service, now, answers: Vec::new(), apart: 0 }
    }

    /// Creates the files, and returns their handles.
    fn files(&mut self) -> [Vec<u8>; 2] {
        let path = mount3::DirPath(rpc::PATH.as_bytes());
        let mounted = self.call(mount3::PROGRAM, mount3::Procedure::Mnt.code(), &path);
        let mounted = mount3::MntRes::decode(&mut Decoder::new(&mounted)).expect("a result decodes");
        let dir = mounted.expect("it can be mounted").fhandle;
        ["a", "b"].map(|name| {
            let set = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
            let place = DirOpArgs3 { dir, name: Filename3(name.as_bytes()) };
            let args = CreateArgs { place, how: CreateHow3::Guarded(set) };
            let created = self.call(nfs3::PROGRAM, Procedure::Create.code(), &args);
            let created = CreateRes::decode(&mut Decoder::new(&created)).expect("a result decodes");
            created.expect("it can be created").obj.expect("it has a handle").as_bytes().to_vec()
        })
    }

    /// Returns the results of a call.
    fn call(&mut self, program: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
        let record = record_of(program, 3, procedure, args);
        match self.ask(&IncomingRecord::decode(&record)) {
            Answer::Reply(reply) => results(&reply, XID).expect("it succeeds").to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Executes a call until it is answered.
    fn ask(&mut self, record: &IncomingRecord<'_>) -> Answer {
        let [peer, local] = ["10.0.1.1:700", "10.0.0.1:2049"].map(address);
        let connection = Connection { peer, local, id: ConnectionId(1) };
        self.now = self.now.plus(std::time::Duration::from_millis(1));
        let mut progress = None;
        for _ in 0..ATTEMPTS_MAX {
            let mut reply = ReplyBuffer::default();
            let incoming = Incoming {
                record,
                connection,
                now: self.now.into(),
                access: Access::Blocking,
                copy_terms: CopyTerms::Free,
            };
            match self.service.handle(&incoming, &mut progress, &mut reply) {
                Outcome::Reply { .. } => {
                    work(&self.volume, self.now);
                    return Answer::Reply(reply.into_bytes());
                }
                Outcome::WouldBlock | Outcome::Busy(_) | Outcome::Later => work(&self.volume, self.now),
                Outcome::Nothing => return Answer::Nothing,
                Outcome::Close => return Answer::Close,
            }
        }
        panic!("the call is not answered");
    }

    /// Answers a record. Returns whether the connection remains open.
    fn answer(&mut self, record: &IncomingRecord<'_>) -> bool {
        self.apart += usize::from(record.payload().is_some());
        let answer = self.ask(record);
        let is_open = answer != Answer::Close;
        self.answers.push(answer);
        is_open
    }

    /// Answers the records of a stream that arrives at once.
    fn serve_whole(&mut self, mut stream: &[u8]) {
        let mut reader = RecordReader::new(RECORD_BYTES_MAX);
        loop {
            match reader.next(&mut stream) {
                Ok(Some(record)) => {
                    if !self.answer(&IncomingRecord::decode(record)) {
                        return;
                    }
                }
                Ok(None) => return,
                Err(_) => return self.answers.push(Answer::Close),
            }
        }
    }

    /// Answers the records of a stream that arrives in reads of these lengths.
    fn serve_apart(&mut self, mut stream: &[u8], first: usize, others: usize) {
        let mut receiver = Receiver::new(RECORD_BYTES_MAX);
        let (mut read_bytes, mut received_bytes) = (first, 0);
        while !stream.is_empty() {
            let mut read = stream.split_off(..read_bytes.min(stream.len())).expect("it is not longer");
            received_bytes += read.len();
            while !read.is_empty() || receiver.has_completed() {
                let in_place = receive_in_place(&mut receiver, &mut read, others);
                if in_place && !receiver.has_completed() {
                    continue;
                }
                let arriving = |start: &[u8], length| self.service.arriving(start, length);
                let arrived = match receiver.next(&mut read, arriving) {
                    Ok(Some(arrived)) => arrived,
                    Ok(None) => continue,
                    Err(_) => return self.answers.push(Answer::Close),
                };
                let record = IncomingRecord::decode_around(arrived.bytes, arrived.payload.as_ref());
                if !self.answer(&record) {
                    return;
                }
            }
            if receiver.is_between_records() {
                receiver.release();
                received_bytes = 0;
                assert_eq!(receiver.memory_bytes(), 0, "nothing is under way");
            }
            let held = receiver.memory_bytes();
            assert!(held <= 2 * received_bytes + others + SPARE_BYTES, "{held} for {received_bytes} bytes");
            read_bytes = others;
        }
    }

    /// Returns the content of a file.
    fn content(&mut self, handle: &[u8]) -> Vec<u8> {
        let file = FileHandle3::new(handle).expect("a handle from the server");
        let mut content = Vec::new();
        loop {
            let args = ReadArgs { file, offset: content.len() as u64, count: 1 << 20 };
            let read = self.call(nfs3::PROGRAM, Procedure::Read.code(), &args);
            let read = ReadRes::decode(&mut Decoder::new(&read)).expect("a result decodes");
            let read = read.expect("it can be read");
            content.extend_from_slice(read.data);
            if read.eof || content.len() > STREAM_BYTES_MAX {
                return content;
            }
        }
    }
}

/// Receives what it has room for, as a vectored read does. Returns whether there was room.
fn receive_in_place(receiver: &mut Receiver, read: &mut &[u8], most: usize) -> bool {
    let mut received = 0;
    for mut space in receiver.spaces(most) {
        let count = space.len().min(read.len());
        let bytes = read.split_off(..count).expect("it is not longer");
        space[..count].copy_from_slice(bytes);
        received += count;
    }
    if received > 0 {
        receiver.received(received);
    }
    received > 0
}

/// The first two bytes select how the stream is cut into reads.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some(([first, others], stream)) = bytes.split_first_chunk() else { return Kind::of(0) };
    let stream = expand(stream);
    let (mut whole, mut apart) = (World::new(), World::new());
    let files = whole.files();
    assert_eq!(apart.files(), files, "both are the same");
    whole.serve_whole(&stream);
    let others = READS[usize::from(*others) % READS.len()];
    apart.serve_apart(&stream, 1 + usize::from(*first), others);
    assert!(whole.answers == apart.answers, "{} answers and {}", whole.answers.len(), apart.answers.len());
    for file in &files {
        assert!(whole.content(file) == apart.content(file), "the files are the same");
    }
    let kinds: Vec<_> = whole
        .answers
        .iter()
        .take(4)
        .map(|answer| match answer {
            // The mark says how long it is. The status of the call and of its result follow.
            Answer::Reply(reply) => reply.get(..36.min(reply.len())).map(<[u8]>::to_vec),
            Answer::Nothing => None,
            Answer::Close => Some(Vec::new()),
        })
        .collect();
    Kind::of((kinds, apart.apart.min(4)))
}

/// Replaces each [`DATA`] by as much data as it says.
fn expand(mut input: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some(at) = input.windows(DATA.len()).position(|window| window == DATA) {
        stream.extend_from_slice(&input[..at]);
        input = &input[at + DATA.len()..];
        let Some(([high, middle, low], rest)) = input.split_first_chunk() else { break };
        let length = u32::from_be_bytes([0, *high, *middle, *low]);
        let room = STREAM_BYTES_MAX.saturating_sub(stream.len());
        let length = usize::try_from(length).expect("it has 24 bits").min(room);
        stream.extend((0_usize..length).map(|at| (at ^ at >> 8 ^ at >> 16).to_le_bytes()[0]));
        input = rest;
    }
    stream.extend_from_slice(input);
    stream
}

/// The transaction id of all calls.
const XID: u32 = 7;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn record_of(program: u32, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
    let caller = AuthSys { stamp: 0, machine_name: b"", uid: 0, gid: 0, groups: Groups::default() };
    let mut record = call_header(XID, program, version, procedure, caller);
    record.extend_from_slice(&encoded(args));
    record
}

/// The operations of a COMPOUND as one value.
struct Operations<'a>(&'a [ArgOp4<'a>]);

impl Encode for Operations<'_> {
    fn encode(&self, out: &mut wire::xdr::Encoder<'_>) {
        compound::encode(out, 0, self.0);
    }
}

/// A byte that no header is full of, as data.
const FILLER: u8 = 0xD7;

/// Replaces long data by [`DATA`].
fn compact(stream: &[u8]) -> Vec<u8> {
    let mut input = Vec::new();
    for run in stream.chunk_by(|one, other| one == other) {
        if run.len() > 100 && run[0] == FILLER {
            input.extend_from_slice(DATA);
            let length = u32::try_from(run.len()).expect("a stream is short");
            input.extend_from_slice(&length.to_be_bytes()[1..]);
        } else {
            input.extend_from_slice(run);
        }
    }
    input
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let handles = World::new().files();
    let [a, b] = handles.each_ref().map(|handle| FileHandle3::new(handle).expect("a handle from the server"));
    let data = vec![FILLER; 1 << 20];
    let write3 = |file, offset, length: usize, count| {
        let args =
            WriteArgs { file, offset, count, stable: StableHow::Unstable, data: data[..length].into() };
        record_of(nfs3::PROGRAM, 3, Procedure::Write.code(), &args)
    };
    let write4 = |offset, length: usize, stable| {
        ArgOp4::Write(nfs4::WriteArgs {
            stateid: Stateid4::ANONYMOUS,
            offset,
            stable,
            data: data[..length].into(),
        })
    };
    let getattr = ArgOp4::Getattr(nfs4::GetattrArgs { attr_request: AttrMask::of(&[nfs4::Attr4::Size]) });
    let large = write4(5, 200_001, StableHow4::FileSync);
    let compounds = [
        vec![putfh(&handles[0]), large, getattr],
        vec![putfh(&handles[1]), large, write4(70_000, 9, StableHow4::Unstable), getattr, large, getattr],
        vec![large],
        vec![putfh(&handles[0]), putfh(&handles[1]), write4(0, 70_000, StableHow4::FileSync), large],
    ]
    .map(|operations| record_of(nfs4::PROGRAM, 4, 1, &Operations(&operations)));
    let calls = [
        write3(a, 0, 100_001, 100_001),
        write3(b, 131_000, 1 << 20, 1 << 20),
        write3(a, 4096, 65_536, 65_536),
        write3(b, 4096, 65_537, 65_537),
        write3(a, 1, 300_000, 299_999),
        write3(b, u64::MAX - 100_000, 300_000, 300_000),
        record_of(nfs3::PROGRAM, 3, Procedure::Getattr.code(), &b),
    ];
    let mut seeds = Vec::new();
    for (number, record) in compounds.iter().chain(&calls).enumerate() {
        let [mut once, mut split] = [vec![], vec![]];
        write_record(&mut once, |out| out.raw(record));
        // In two fragments.
        let (first, second) = record.split_at(record.len() / 2);
        write_record(&mut split, |out| out.raw(first));
        split[0] &= 0x7f;
        write_record(&mut split, |out| out.raw(second));
        let cut = [u8::try_from(23 * number).unwrap_or(u8::MAX), u8::try_from(number).unwrap_or(0)];
        for stream in [once.clone(), split, once.repeat(2)] {
            seeds.push([&cut[..], &compact(&stream)].concat());
        }
    }
    let all: Vec<u8> = seeds.iter().step_by(3).flat_map(|seed| &seed[2..]).copied().collect();
    seeds.push([&[255, 4][..], &all].concat());
    seeds
}
