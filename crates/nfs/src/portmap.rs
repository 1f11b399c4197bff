//! Portmapper version 2 and rpcbind versions 3 and 4 (RFC 1833): tell clients that all programs are at this port. Nothing
//! can be registered.

use std::net::SocketAddr;

use wire::portmap::{
    Mapping, MappingList, PROTOCOL_TCP, Rpcb, RpcbList, RpcbString, netid_tcp, universal_address,
};
use wire::xdr::{Encode, Encoder};

use crate::call::Operation;
use crate::call::{After, Call, Handled};
use crate::dispatch;
use crate::v3::null;

/// Version 2, in the order of [`wire::portmap::Procedure`].
pub(crate) static PORTMAP_OPERATIONS: [Operation; 5] = [
    null::OPERATION,
    Operation { run: refuse_mapping, failed: None, changes: false },
    Operation { run: refuse_mapping, failed: None, changes: false },
    Operation { run: get_port, failed: None, changes: false },
    Operation { run: dump_mappings, failed: None, changes: false },
];

/// Versions 3 and 4.
pub(crate) static RPCBIND_OPERATIONS: [Operation; 5] = [
    null::OPERATION,
    Operation { run: refuse_rpcb, failed: None, changes: false },
    Operation { run: refuse_rpcb, failed: None, changes: false },
    Operation { run: get_address, failed: None, changes: false },
    Operation { run: dump_rpcbs, failed: None, changes: false },
];

/// Whether any version of a program is served. As in other portmappers, the requested version does not matter: callers
/// learn the versions from PROG_MISMATCH.
fn serves(program: u32) -> bool {
    dispatch::served().any(|(served, _)| served == program)
}

/// PMAPPROC_SET and PMAPPROC_UNSET.
fn refuse_mapping<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    call.arguments::<Mapping>()?;
    out.bool(false);
    Ok(After::NOW)
}

/// PMAPPROC_GETPORT: 0 if the program is not served.
fn get_port<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let wanted: Mapping = call.arguments()?;
    let here = wanted.protocol == PROTOCOL_TCP && serves(wanted.program);
    out.u32(if here { u32::from(call.connection.local.port()) } else { 0 });
    Ok(After::NOW)
}

/// PMAPPROC_DUMP.
#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
fn dump_mappings<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let port = u32::from(call.connection.local.port());
    let mappings: Vec<Mapping> = dispatch::served()
        .map(|(program, version)| Mapping { program, version, protocol: PROTOCOL_TCP, port })
        .collect();
    MappingList::new(&mappings).encode(out);
    Ok(After::NOW)
}

/// RPCBPROC_SET and RPCBPROC_UNSET.
fn refuse_rpcb<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    call.arguments::<Rpcb<'_>>()?;
    out.bool(false);
    Ok(After::NOW)
}

/// RPCBPROC_GETADDR: an empty string if the program is not served.
fn get_address<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let wanted: Rpcb<'_> = call.arguments()?;
    let local = local(call);
    // An empty network id means the network of the connection.
    let here = matches!(wanted.netid.0, b"" | b"tcp" | b"tcp6") && serves(wanted.program);
    let address = if here { universal_address(&local) } else { String::new() };
    RpcbString(address.as_bytes()).encode(out);
    Ok(After::NOW)
}

/// RPCBPROC_DUMP.
#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
fn dump_rpcbs<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let local = local(call);
    let address = universal_address(&local);
    let netid = RpcbString(netid_tcp(&local).as_bytes());
    let (address, owner) = (RpcbString(address.as_bytes()), RpcbString(b"holdfast"));
    let rpcbs: Vec<Rpcb<'_>> = dispatch::served()
        .map(|(program, version)| Rpcb { program, version, netid, address, owner })
        .collect();
    RpcbList::new(&rpcbs).encode(out);
    Ok(After::NOW)
}

/// Returns the local address of the connection. IPv4 mapped into IPv6 becomes IPv4.
fn local(call: &Call<'_>) -> SocketAddr {
    let local = call.connection.local;
    SocketAddr::new(local.ip().to_canonical(), local.port())
}
