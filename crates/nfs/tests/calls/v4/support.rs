//! COMPOUNDs of NFSv4.0 without state, and the results of their operations.

use volume::request::{Access, Durable};
use wire::nfs4::compound::{CompoundArgsEncoder, CompoundResReader};
use wire::nfs4::*;
use wire::rpc::{AcceptStat, ReplyHeader};
use wire::xdr::{Decoder, Encode, Encoder};

use crate::support::{Call, Client, Server, parse, root};

/// The result of a COMPOUND.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) status: NfsStat4,
    pub(crate) tag: Vec<u8>,
    pub(crate) all: Vec<ResOp4<'static>>,
}

impl Results {
    /// Returns the result of the last operation.
    pub(crate) fn last(&self) -> &ResOp4<'static> {
        self.all.last().unwrap()
    }
}

/// Encodes a COMPOUND as a record.
pub(crate) fn record(server: &Server, who: Client, minor: u32, operations: &[ArgOp4<'_>]) -> (u32, Vec<u8>) {
    let mut args = Vec::new();
    let mut out = Encoder::new(&mut args);
    let mut compound = CompoundArgsEncoder::begin(&mut out, Utf8Str4(b"a tag"), minor);
    operations.iter().for_each(|operation| compound.push(operation));
    compound.finish();
    let xid = server.next_xid();
    let call = Call { xid, program: PROGRAM, version: VERSION, procedure: 1, args: &args };
    (xid, call.record(who))
}

/// Decodes a reply.
pub(crate) fn results(out: &[u8], xid: u32) -> Results {
    let (body, bytes) = parse(out, xid);
    assert_eq!(body, ReplyHeader::accepted(0, AcceptStat::Success).body);
    let reader = CompoundResReader::new(Decoder::new(bytes.leak())).unwrap();
    let (status, tag) = (reader.status(), reader.tag().0.to_vec());
    let all: Vec<_> = reader.map(|result| result.unwrap()).collect();
    Results { status, tag, all }
}

/// Executes operations in a minor version, on behalf of a caller.
pub(crate) fn compound_as(server: &Server, who: Client, minor: u32, operations: &[ArgOp4<'_>]) -> Results {
    let (xid, record) = record(server, who, minor, operations);
    let results = results(&server.serve(who, &record), xid);
    assert_eq!(results.tag, b"a tag");
    results
}

/// Executes operations as the superuser.
pub(crate) fn compound(server: &Server, operations: &[ArgOp4<'_>]) -> Results {
    compound_as(server, root(), 0, operations)
}

/// Returns the status of operations, all of which but the last must succeed.
pub(crate) fn status_of(server: &Server, operations: &[ArgOp4<'_>]) -> NfsStat4 {
    let results = compound(server, operations);
    assert_eq!(results.all.len(), operations.len(), "{results:?}");
    results.status
}

pub(crate) fn lookup(name: &str) -> ArgOp4<'_> {
    ArgOp4::Lookup(LookupArgs { objname: Component4(name.as_bytes()) })
}

pub(crate) fn putfh<'a>(handle: &'a [u8]) -> ArgOp4<'a> {
    ArgOp4::Putfh(PutfhArgs { object: FileHandle4::new(handle).unwrap() })
}

pub(crate) fn getattr(attributes: &[Attr4]) -> ArgOp4<'static> {
    ArgOp4::Getattr(GetattrArgs { attr_request: AttrMask::of(attributes) })
}

pub(crate) fn create<'a>(name: &'a str, objtype: CreateType4<'a>) -> ArgOp4<'a> {
    let (objname, createattrs) = (Component4(name.as_bytes()), Fattr4::EMPTY);
    ArgOp4::Create(CreateArgs { objtype, objname, createattrs })
}

/// Encodes a value for as long as the tests run.
pub(crate) fn leaked(value: &impl Encode) -> &'static [u8] {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes.leak()
}

/// Encodes attributes to set.
pub(crate) fn fattr(attributes: &Attributes4<'_>) -> Fattr4<'static> {
    wire::xdr::decode_all(leaked(attributes)).unwrap()
}

/// Returns the operations that lead to the root of the usual export.
pub(crate) fn to_root() -> [ArgOp4<'static>; 2] {
    [ArgOp4::Putrootfh, lookup("main")]
}

/// Executes operations on the root of the usual export.
pub(crate) fn at_root(server: &Server, operations: &[ArgOp4<'_>]) -> Results {
    compound(server, &[&to_root()[..], operations].concat())
}

/// Returns the filehandle that operations on the root of the usual export lead to.
pub(crate) fn handle_at(server: &Server, operations: &[ArgOp4<'_>]) -> &'static [u8] {
    let results = at_root(server, &[operations, &[ArgOp4::Getfh]].concat());
    match results.last() {
        ResOp4::Getfh(Ok(found)) => found.object.as_bytes(),
        other => panic!("{other:?}"),
    }
}

/// Returns the attributes of an object.
pub(crate) fn attributes_of(server: &Server, handle: &[u8], request: &[Attr4]) -> Attributes4<'static> {
    let results = compound(server, &[putfh(handle), getattr(request)]);
    match results.last() {
        ResOp4::Getattr(Ok(found)) => found.obj_attributes.decode_values().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Creates a file through NFSv3, as NFSv4 opens a file before it can write.
pub(crate) fn file(server: &Server, name: &str) -> &'static [u8] {
    server.create(root(), server.root(), name, 0o644).as_bytes()
}

/// Returns how often a COMPOUND of NFSv4.0 stops, because it may not read media or gives its turn up, and its final reply.
pub(crate) fn stops_and_goes_on(server: &Server, operations: &[ArgOp4<'_>]) -> (usize, Results) {
    stops_of(server, 0, operations)
}

/// The same for a minor version.
pub(crate) fn stops_of(server: &Server, minor: u32, operations: &[ArgOp4<'_>]) -> (usize, Results) {
    let (xid, record) = record(server, root(), minor, operations);
    let (mut access, mut progress, mut stops) = (Access::Cached, None, 0);
    loop {
        let (outcome, out) = server.offer_again(root(), &record, access, &mut progress);
        match outcome {
            nfs::service::Outcome::Reply { after, .. } => {
                if let Some(wait) = after {
                    server.wait_for(&wait);
                    assert_eq!(wait.pool.durability(wait.durability), Durable::Yes);
                }
                return (stops, results(&out, xid));
            }
            nfs::service::Outcome::WouldBlock => access = Access::Blocking,
            other => panic!("{other:?}"),
        }
        stops += 1;
    }
}
