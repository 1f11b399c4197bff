//! RPC records, and the NFS service that executes them.

use std::sync::Arc;

use nfs::exports::{Export, Squash};
use nfs::service::Service;
use volume::Volume;
use wire::limits::RECORD_BYTES_MAX;
use wire::record::{Peek, peek};
use wire::rpc::{AcceptStat, AuthSys, CallHeader, Credential, OpaqueAuth, ReplyBody, ReplyHeader};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

/// The path that the volume is exported under.
pub const PATH: &str = "/main";

/// Returns a service that exports the volume under [`PATH`] and squashes nobody.
///
/// # Errors
/// The service's sentence.
pub fn service(volume: &Arc<Volume>) -> Result<Service, String> {
    let export = Export { squash: Squash::None, ..Export::new(PATH, volume.id()) };
    Service::new(vec![export], vec![Arc::clone(volume)]).map_err(|error| error.to_string())
}

/// Returns the encoded bytes of a value.
pub fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// Returns the header of a call with AUTH_SYS; the arguments follow it.
#[must_use]
pub fn call_header(xid: u32, program: u32, version: u32, procedure: u32, caller: AuthSys<'_>) -> Vec<u8> {
    let (credential, verifier) = (Credential::Sys(caller), OpaqueAuth::NONE);
    encoded(&CallHeader { xid, program, version, procedure, credential, verifier })
}

/// Returns the record in `marked`, which must be one whole record with its mark.
///
/// # Errors
/// It is not.
pub fn unmarked(marked: &[u8]) -> Result<&[u8], String> {
    match peek(marked, RECORD_BYTES_MAX) {
        Ok(Peek::Complete { record, used }) if used == marked.len() => Ok(record),
        _ => Err(format!("{} bytes are not one whole record", marked.len())),
    }
}

/// Returns the results in a marked reply to call `xid`.
///
/// # Errors
/// It is not an accepted and successful reply to that call.
pub fn results(reply: &[u8], xid: u32) -> Result<&[u8], String> {
    let mut input = Decoder::new(unmarked(reply)?);
    let header = ReplyHeader::decode(&mut input).map_err(|error| format!("the reply's header: {error}"))?;
    match header.body {
        ReplyBody::Accepted { stat: AcceptStat::Success, .. } if header.xid == xid => Ok(input.rest()),
        _ => Err(format!("the reply to {xid} begins with {header:?}")),
    }
}
