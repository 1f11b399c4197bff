//! Registers with the system's rpcbind, so that clients find our port, and asks the rpcbind of a client where its programs
//! listen.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nfs::link_local::socket_address;
use wire::portmap::{self, Mapping, Procedure, Rpcb, RpcbString, netid, universal_address};
use wire::record::{RecordReader, write_record};
use wire::rpc::{CallHeader, Credential, OpaqueAuth, ReplyHeader};
use wire::xdr::{Decode as _, Decoder, Encode, Encoder};

use crate::error::Error;

/// How long rpcbind may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest reply that is accepted, bytes.
const ANSWER_BYTES_MAX: usize = 1024;

/// A program of this host, or of a client.
#[derive(Clone, Copy)]
struct Registration {
    program: u32,
    version: u32,
    /// [`portmap::PROTOCOL_TCP`] or [`portmap::PROTOCOL_UDP`].
    protocol: u32,
}

/// The programs that are served over TCP.
const PROGRAMS: [(u32, u32); 7] = [
    (wire::nfs3::PROGRAM, wire::nfs3::VERSION),
    (wire::nfs4::PROGRAM, wire::nfs4::VERSION),
    (wire::mount3::PROGRAM, wire::mount3::VERSION),
    (wire::nlm4::PROGRAM, wire::nlm4::VERSION),
    (wire::nsm::PROGRAM, wire::nsm::VERSION),
    DATAGRAM_PROGRAMS[0],
    DATAGRAM_PROGRAMS[1],
];

/// Those that are served over UDP too.
const DATAGRAM_PROGRAMS: [(u32, u32); 2] = [
    (wire::rquota::PROGRAM, wire::rquota::VERSION_USERS),
    (wire::rquota::PROGRAM, wire::rquota::VERSION_KINDS),
];

/// Registers the programs at these addresses, those for datagrams too if they are served; rpcbind keeps one address for each of IPv4
/// and IPv6.
pub(crate) fn register(addresses: &[SocketAddr], has_datagrams: bool) -> Result<(), Error> {
    // Registrations of a server that was killed would be in the way. Version 2 removes those of all transports at once.
    unregister(addresses, has_datagrams)?;
    for address in families(addresses) {
        for registration in registrations(has_datagrams) {
            if !ask(Procedure::Set, registration, address)? {
                // rpcbind keeps those of the other server.
                unregister(addresses, has_datagrams)?;
                return Err(Error::failed(format!(
                    "rpcbind refuses to register program {} at {address}: another NFS or quota server is registered; stop \
                     it, or start without --rpcbind",
                    registration.program
                )));
            }
        }
    }
    tracing::info!("registered with rpcbind");
    Ok(())
}

/// Removes the registrations.
pub(crate) fn unregister(addresses: &[SocketAddr], has_datagrams: bool) -> Result<(), Error> {
    for address in families(addresses) {
        for registration in registrations(has_datagrams) {
            ask(Procedure::Unset, registration, address)?;
        }
    }
    Ok(())
}

fn registrations(has_datagrams: bool) -> impl Iterator<Item = Registration> {
    let of = |protocol| move |&(program, version): &(u32, u32)| Registration { program, version, protocol };
    let datagrams: &[(u32, u32)] = if has_datagrams { &DATAGRAM_PROGRAMS } else { &[] };
    PROGRAMS.iter().map(of(portmap::PROTOCOL_TCP)).chain(datagrams.iter().map(of(portmap::PROTOCOL_UDP)))
}

/// Returns the first address of each family.
fn families(addresses: &[SocketAddr]) -> impl Iterator<Item = SocketAddr> {
    let first = |v4: bool| addresses.iter().copied().find(|address| address.is_ipv4() == v4);
    [first(true), first(false)].into_iter().flatten()
}

fn ask(procedure: Procedure, registration: Registration, address: SocketAddr) -> Result<bool, Error> {
    exchange(procedure, registration, address).map_err(|trouble| {
        Error::failed(format!(
            "cannot register with rpcbind: {trouble}; start rpcbind (port {}), or start without --rpcbind",
            portmap::PORT
        ))
    })
}

/// An error of rpcbind.
pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// IPv4 is registered with version 2, which every rpcbind and portmapper supports; IPv6 needs version 3.
fn exchange(procedure: Procedure, registration: Registration, address: SocketAddr) -> Result<bool, Trouble> {
    let answer = call(&query(procedure, registration, address))?;
    Ok(result_in(&answer)?.bool()?)
}

/// Returns the call, with its record mark, that asks the rpcbind of `host` for the TCP port of a program.
pub(crate) fn port_query(host: IpAddr, program: u32, version: u32) -> Vec<u8> {
    let wanted = Registration { program, version, protocol: portmap::PROTOCOL_TCP };
    query(Procedure::Get, wanted, socket_address(SocketAddr::new(host, 0)))
}

/// Returns the port in the answer to [`port_query`], if the program is offered.
pub(crate) fn port_in(host: IpAddr, answer: &[u8]) -> Result<Option<u16>, Trouble> {
    let mut result = result_in(answer)?;
    let port = if host.is_ipv4() {
        u16::try_from(result.u32()?)?
    } else {
        let text = RpcbString::decode(&mut result)?;
        portmap::parse_universal_address(text.0).map_or(0, |address| address.port())
    };
    Ok((port != 0).then_some(port))
}

/// Makes a call about a program at `address`, with its record mark.
fn query(procedure: Procedure, registration: Registration, address: SocketAddr) -> Vec<u8> {
    let Registration { program, version, protocol } = registration;
    let mut bytes = Vec::new();
    if address.is_ipv4() {
        let port = u32::from(address.port());
        let mapping = Mapping { program, version, protocol, port };
        write_call(&mut bytes, portmap::VERSION_PORTMAP, procedure, &mapping);
    } else {
        let text = universal_address(&address);
        let mapping = Rpcb {
            program,
            version,
            netid: RpcbString(netid(protocol, &address).as_bytes()),
            address: RpcbString(text.as_bytes()),
            owner: RpcbString(b"superuser"),
        };
        write_call(&mut bytes, portmap::VERSIONS_RPCBIND[0], procedure, &mapping);
    }
    bytes
}

/// Sends a call to the rpcbind of this host, and returns the record that answers it.
fn call(query: &[u8]) -> Result<Vec<u8>, Trouble> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), portmap::PORT);
    let deadline = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(query)?;
    let mut reader = RecordReader::new(ANSWER_BYTES_MAX);
    let mut buffer = [0; ANSWER_BYTES_MAX];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("it takes too long to answer".into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err("it closed the connection".into());
        }
        if let Some(record) = reader.next(&mut &buffer[..count])? {
            return Ok(record.to_vec());
        }
    }
}

/// Returns the result in an answer.
fn result_in(answer: &[u8]) -> Result<Decoder<'_>, Trouble> {
    let mut decoder = Decoder::new(answer);
    let header = ReplyHeader::decode(&mut decoder)?;
    if header.is_success() { Ok(decoder) } else { Err("it denied the call".into()) }
}

fn write_call(out: &mut Vec<u8>, version: u32, procedure: Procedure, arguments: &impl Encode) {
    let header = CallHeader {
        xid: std::process::id(),
        program: portmap::PROGRAM,
        version,
        procedure: procedure as u32,
        credential: Credential::None,
        verifier: OpaqueAuth::NONE,
    };
    write_record(out, |encoder: &mut Encoder<'_>| {
        header.encode(encoder);
        arguments.encode(encoder);
    });
}
