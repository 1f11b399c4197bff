//! Portmapper version 2 and rpcbind versions 3 and 4 (RFC 1833): tell clients that all programs are at this port, some of them
//! for datagrams too. Nothing can be registered.

use std::net::SocketAddr;

use wire::portmap::{
    Mapping, MappingList, PROTOCOL_TCP, PROTOCOL_UDP, Rpcb, RpcbList, RpcbString, netid, universal_address,
};
use wire::xdr::{Encode, Encoder};

use crate::call::Operation;
use crate::call::{After, Call, Handled};
use crate::connection::Transport;
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

/// Whether any version of a program is served over a transport. As in other portmappers, the requested version does not matter:
/// callers learn the versions from PROG_MISMATCH.
fn serves(call: &Call<'_>, transport: Transport, program: u32) -> bool {
    served(call).any(|(over, (served, _))| over == transport && served == program)
}

/// Returns all programs with their versions, over each transport.
fn served(call: &Call<'_>) -> impl Iterator<Item = (Transport, (u32, u32))> {
    let datagrams = call.service.shared.has_datagrams.then_some(Transport::Udp);
    let transports = [Transport::Tcp].into_iter().chain(datagrams);
    transports.flat_map(|over| dispatch::served(over).map(move |served| (over, served)))
}

/// Returns the number of a transport.
fn protocol(transport: Transport) -> u32 {
    match transport {
        Transport::Tcp => PROTOCOL_TCP,
        Transport::Udp => PROTOCOL_UDP,
    }
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
    let transport = match wanted.protocol {
        PROTOCOL_TCP => Some(Transport::Tcp),
        PROTOCOL_UDP => Some(Transport::Udp),
        _ => None,
    };
    let here = transport.is_some_and(|transport| serves(call, transport, wanted.program));
    out.u32(if here { u32::from(call.connection.local.port()) } else { 0 });
    Ok(After::NOW)
}

/// PMAPPROC_DUMP.
#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
fn dump_mappings<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let port = u32::from(call.connection.local.port());
    let mappings: Vec<Mapping> = served(call)
        .map(|(over, (program, version))| Mapping { program, version, protocol: protocol(over), port })
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
    let transport = match wanted.netid.0 {
        b"" => Some(call.connection.transport()),
        b"tcp" | b"tcp6" => Some(Transport::Tcp),
        b"udp" | b"udp6" => Some(Transport::Udp),
        _ => None,
    };
    let here = transport.is_some_and(|transport| serves(call, transport, wanted.program));
    let address = if here { universal_address(&local) } else { String::new() };
    RpcbString(address.as_bytes()).encode(out);
    Ok(After::NOW)
}

/// RPCBPROC_DUMP.
#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
fn dump_rpcbs<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let local = local(call);
    let address = universal_address(&local);
    let netid = |over| RpcbString(netid(protocol(over), &local).as_bytes());
    let (address, owner) = (RpcbString(address.as_bytes()), RpcbString(b"holdfast"));
    let rpcbs: Vec<Rpcb<'_>> = served(call)
        .map(|(over, (program, version))| Rpcb { program, version, netid: netid(over), address, owner })
        .collect();
    RpcbList::new(&rpcbs).encode(out);
    Ok(After::NOW)
}

/// Returns the local address of the connection. IPv4 mapped into IPv6 becomes IPv4.
fn local(call: &Call<'_>) -> SocketAddr {
    let local = call.connection.local;
    SocketAddr::new(local.ip().to_canonical(), local.port())
}
