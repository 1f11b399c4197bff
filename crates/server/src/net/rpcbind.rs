//! Registers with the system's rpcbind, so that clients find our port, and asks the rpcbind of a client where its programs
//! listen.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use wire::portmap::{self, Mapping, Procedure, Rpcb, RpcbString, netid_tcp, universal_address};
use wire::record::{RecordReader, write_record};
use wire::rpc::{CallHeader, Credential, OpaqueAuth, ReplyHeader};
use wire::xdr::{Decode as _, Decoder, Encode, Encoder};

use crate::error::Error;

/// Timeout for rpcbind.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest reply that is accepted, bytes.
const ANSWER_BYTES_MAX: usize = 1024;

/// The programs that are served.
const PROGRAMS: [(u32, u32); 5] = [
    (wire::nfs3::PROGRAM, wire::nfs3::VERSION),
    (wire::nfs4::PROGRAM, wire::nfs4::VERSION),
    (wire::mount3::PROGRAM, wire::mount3::VERSION),
    (wire::nlm4::PROGRAM, wire::nlm4::VERSION),
    (wire::nsm::PROGRAM, wire::nsm::VERSION),
];

/// Registers the programs at these addresses; rpcbind keeps one for each of IPv4 and IPv6.
pub(crate) fn register(addresses: &[SocketAddr]) -> Result<(), Error> {
    for address in families(addresses) {
        for (program, version) in PROGRAMS {
            // Registrations of a server that was killed would be in the way.
            ask(Procedure::Unset, program, version, address)?;
            if !ask(Procedure::Set, program, version, address)? {
                return Err(Error::failed(format!(
                    "rpcbind refuses to register program {program} at {address}: another NFS server is registered; stop \
                     it, or start without --rpcbind"
                )));
            }
        }
    }
    tracing::info!("registered with rpcbind");
    Ok(())
}

/// Removes the registrations.
pub(crate) fn unregister(addresses: &[SocketAddr]) -> Result<(), Error> {
    for address in families(addresses) {
        for (program, version) in PROGRAMS {
            ask(Procedure::Unset, program, version, address)?;
        }
    }
    Ok(())
}

/// Returns the first address of each family.
fn families(addresses: &[SocketAddr]) -> impl Iterator<Item = SocketAddr> {
    let first = |v4: bool| addresses.iter().copied().find(|address| address.is_ipv4() == v4);
    [first(true), first(false)].into_iter().flatten()
}

fn ask(procedure: Procedure, program: u32, version: u32, address: SocketAddr) -> Result<bool, Error> {
    exchange(procedure, program, version, address).map_err(|trouble| {
        Error::failed(format!(
            "cannot register with rpcbind: {trouble}; start rpcbind (port {}), or start without --rpcbind",
            portmap::PORT
        ))
    })
}

/// An error of rpcbind.
type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// IPv4 is registered with version 2, which every rpcbind and portmapper supports; IPv6 needs version 3.
fn exchange(procedure: Procedure, program: u32, version: u32, address: SocketAddr) -> Result<bool, Trouble> {
    let result = call(IpAddr::V4(Ipv4Addr::LOCALHOST), procedure, program, version, address)?;
    Ok(Decoder::new(&result).bool()?)
}

/// Returns the port at which `host` offers a program over TCP, if it does.
pub(crate) fn port_of(host: IpAddr, program: u32, version: u32) -> Result<Option<u16>, Trouble> {
    let nowhere = SocketAddr::new(host, 0);
    let result = call(host, Procedure::Get, program, version, nowhere)?;
    let mut result = Decoder::new(&result);
    let port = if host.is_ipv4() {
        u16::try_from(result.u32()?)?
    } else {
        let text = RpcbString::decode(&mut result)?;
        portmap::parse_universal_address(text.0).map_or(0, |address| address.port())
    };
    Ok((port != 0).then_some(port))
}

/// Calls the rpcbind of `host` about a program at `address`. Returns the bytes of the result.
fn call(
    host: IpAddr,
    procedure: Procedure,
    program: u32,
    version: u32,
    address: SocketAddr,
) -> Result<Vec<u8>, Trouble> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(host, portmap::PORT), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    if address.is_ipv4() {
        let port = u32::from(address.port());
        let mapping = Mapping { program, version, protocol: portmap::PROTOCOL_TCP, port };
        write_call(&mut bytes, portmap::VERSION_PORTMAP, procedure, &mapping);
    } else {
        let text = universal_address(&address);
        let mapping = Rpcb {
            program,
            version,
            netid: RpcbString(netid_tcp(&address).as_bytes()),
            address: RpcbString(text.as_bytes()),
            owner: RpcbString(b"superuser"),
        };
        write_call(&mut bytes, portmap::VERSIONS_RPCBIND[0], procedure, &mapping);
    }
    stream.write_all(&bytes)?;
    let mut reader = RecordReader::new(ANSWER_BYTES_MAX);
    let mut buffer = [0; ANSWER_BYTES_MAX];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err("it closed the connection".into());
        }
        if let Some(record) = reader.next(&mut &buffer[..count])? {
            let mut decoder = Decoder::new(record);
            let header = ReplyHeader::decode(&mut decoder)?;
            return if header.is_success() {
                Ok(decoder.rest().to_vec())
            } else {
                Err("it denied the call".into())
            };
        }
    }
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
