//! Encodes COMPOUNDs, decodes their results, and answers callbacks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use nfs::service::{Connection, ConnectionId};
use wire::nfs4::callback::{CbArgOp4, CbCompoundEncoder, CbCompoundReader, CbResOp4, CbSequenceOk};
use wire::nfs4::{self, ArgOp4, NfsStat4, ResOp4, Stateid4};
use wire::rpc::{AcceptStat, AuthSys, Groups, ReplyHeader, decode_call};
use wire::xdr::{Encode, Encoder};

use crate::compound::{CALLBACK_PROGRAM, decode, encode};
use crate::rpc::{call_header, results, unmarked};

/// Returns the record of a COMPOUND, without its mark.
pub(super) fn compound(xid: u32, minor: u32, operations: &[ArgOp4<'_>]) -> Vec<u8> {
    let groups = Groups::default();
    let caller = AuthSys { stamp: 7, machine_name: b"virtual", uid: 0, gid: 0, groups };
    let mut record = call_header(xid, nfs4::PROGRAM, nfs4::VERSION, nfs4::Procedure::Compound.code(), caller);
    encode(&mut Encoder::new(&mut record), minor, operations);
    record
}

/// Returns a record on behalf of another user.
pub(super) fn on_behalf_of(uid: u32, record: &[u8]) -> Result<Vec<u8>, String> {
    let (header, rest) = decode_call(record).map_err(|error| format!("a request: {error:?}"))?;
    let caller = AuthSys { stamp: 7, machine_name: b"virtual", uid, gid: uid, groups: Groups::default() };
    let mut other = call_header(header.xid, header.program, header.version, header.procedure, caller);
    other.extend_from_slice(rest.rest());
    Ok(other)
}

/// Returns a connection of a host; each has an address of its own.
pub(super) fn connection(host: usize, id: u64) -> Connection {
    let [low, high, ..] = host.to_le_bytes();
    connection_from(IpAddr::V4(Ipv4Addr::new(10, 1, high, low)), id)
}

/// Returns a connection of one of the adversary's hosts.
pub(super) fn foreign_connection(host: u8, id: u64) -> Connection {
    connection_from(IpAddr::V4(Ipv4Addr::new(10, 2, 0, host)), id)
}

fn connection_from(host: IpAddr, id: u64) -> Connection {
    let port = 1024 + u16::try_from(id % 60_000).expect("below 60000");
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 2049);
    Connection { peer: SocketAddr::new(host, port), local, id: ConnectionId(id) }
}

/// The decoded results of a COMPOUND.
#[derive(Debug)]
pub(super) struct Results<'a> {
    pub(super) status: NfsStat4,
    pub(super) all: Vec<ResOp4<'a>>,
}

impl<'a> Results<'a> {
    /// Decodes a marked reply.
    pub(super) fn parse(out: &'a [u8], xid: u32) -> Result<Results<'a>, String> {
        let (status, all) = decode(results(out, xid)?)?;
        Ok(Results { status, all })
    }

    /// Whether SEQUENCE failed, so that nothing was executed.
    pub(super) fn is_slot_refused(&self) -> bool {
        matches!(self.all.as_slice(), [ResOp4::Sequence(Err(_))])
    }

    /// Returns the stateid in the results.
    pub(super) fn stateid(&self) -> Option<Stateid4> {
        self.all.iter().find_map(|result| match result {
            ResOp4::Open(Ok(ok)) => Some(ok.stateid),
            ResOp4::OpenConfirm(Ok(ok)) => Some(ok.open_stateid),
            ResOp4::OpenDowngrade(Ok(ok)) => Some(ok.open_stateid),
            ResOp4::Lock(Ok(ok)) => Some(ok.lock_stateid),
            ResOp4::Locku(Ok(ok)) => Some(ok.lock_stateid),
            _ => None,
        })
    }

    /// Returns the handle in the result of GETFH.
    pub(super) fn handle(&self) -> Option<&'a [u8]> {
        self.all.iter().find_map(|result| match result {
            ResOp4::Getfh(Ok(ok)) => Some(ok.object.as_bytes()),
            _ => None,
        })
    }
}

/// A decoded callback.
#[derive(Debug, Default)]
pub(super) struct Callback {
    /// The recalled delegation.
    pub(super) recalled: Option<Stateid4>,
    /// The client's answer, without its mark.
    pub(super) answer: Vec<u8>,
}

/// Decodes a marked callback, and answers it.
pub(super) fn decode_callback(out: &[u8]) -> Result<Callback, String> {
    let (header, input) = decode_call(unmarked(out)?).map_err(|error| format!("the callback: {error:?}"))?;
    if header.program != CALLBACK_PROGRAM {
        return Err(format!("a callback to program {}", header.program));
    }
    let mut callback = Callback::default();
    let mut answer = Encoder::new(&mut callback.answer);
    ReplyHeader::accepted(header.xid, AcceptStat::Success).encode(&mut answer);
    if header.procedure == 0 {
        return Ok(callback);
    }
    let reader = CbCompoundReader::new(input).map_err(|error| format!("the callback: {error}"))?;
    let mut results = CbCompoundEncoder::begin(&mut answer, reader.tag());
    for operation in reader {
        match operation.map_err(|error| format!("the callback: {error:?}"))? {
            CbArgOp4::Sequence(args) => results.push(&CbResOp4::Sequence(Ok(CbSequenceOk {
                sessionid: args.sessionid,
                sequenceid: args.sequenceid,
                slotid: args.slotid,
                highest_slotid: args.highest_slotid,
                target_highest_slotid: args.highest_slotid,
            }))),
            CbArgOp4::Recall(args) => {
                callback.recalled = Some(args.stateid);
                results.push(&CbResOp4::Recall(Ok(())));
            }
            CbArgOp4::NotifyLock(_) => results.push(&CbResOp4::NotifyLock(Ok(()))),
            other => return Err(format!("an unexpected callback: {other:?}")),
        }
    }
    results.finish();
    Ok(callback)
}
