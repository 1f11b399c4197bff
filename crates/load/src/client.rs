//! A client of NFSv3 with MOUNT, and of NFSv4.1 and 4.2. [`Server`] names the server, [`BlockingClient`] prepares and
//! cleans up, and `Connection` carries the load. What is asked of a server is a `Request`, and what it answers a `Reply`;
//! only `nfs3` and `nfs4` know how their protocol says it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use wire::limits::HANDLE4_BYTES_MAX;
use wire::nfs3::FileHandle3;
use wire::nfs4::FileHandle4;
use wire::rpc::{AuthSys, Credential, Groups, OpaqueAuth};
use wire::xdr::{Encode as _, Encoder};

use crate::error::LoadError;

mod blocking;
pub(crate) mod cause;
mod connection;
mod mount;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
pub(crate) mod outbox;
mod protocol;
pub(crate) mod reply;
mod reply_reader;
pub(crate) mod request;
mod sweep;
mod transport;

pub use blocking::{BlockingClient, TransferSizes};
pub(crate) use connection::{Connection, Received};
pub use protocol::Protocol;
use request::Request;
pub(crate) use sweep::SweepOutcome;
use transport::{ProcedureId, Transport};

/// The time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before a call is made again that the server asked to make later (NFS3ERR_JUKEBOX, NFS4ERR_DELAY,
/// NFS4ERR_GRACE).
pub(crate) const DELAY: Duration = Duration::from_millis(100);
/// How often a call is made again for this reason, so that a grace period is waited for.
pub(crate) const DELAYS_MAX: u32 = 1200;

/// The server to measure. The client connects to this address only: to its NFS service, its rpcbind and its mountd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address of the NFS service.
    pub address: SocketAddr,
    /// The protocol to speak.
    pub protocol: Protocol,
    /// The port of the MOUNT service. If absent, the NFS port is tried first, then rpcbind is asked.
    pub mount_port: Option<u16>,
    /// The path of the export, such as `/main`.
    pub export: String,
    /// Whether to use local ports below 1024, which some servers require and only root may use.
    pub reserved_ports: bool,
    /// The local address of connections. The system chooses one if absent.
    pub from: Option<IpAddr>,
    /// The user and group of calls.
    pub identity: Identity,
}

/// The caller's identity (AUTH_SYS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
}

impl Server {
    /// Parses `HOST[:PORT]:/EXPORT`. The port defaults to 2049. An IPv6 address with a port must be in brackets.
    ///
    /// # Errors
    /// If the text has another form, or the host name cannot be resolved.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let wrong = || LoadError::new(format!("\"{text}\" is not of the form HOST[:PORT]:/EXPORT"));
        let (host, export) = text.split_once(":/").ok_or_else(wrong)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = if let Ok(address) = host.parse::<SocketAddr>() {
            address
        } else if let Ok(ip) = bare.parse() {
            SocketAddr::new(ip, 2049)
        } else {
            let named = if host.contains(':') { host.to_owned() } else { format!("{host}:2049") };
            let mut found =
                named.to_socket_addrs().map_err(|error| LoadError::new(format!("{host}: {error}")))?;
            found.next().ok_or_else(|| LoadError::new(format!("{host} has no address")))?
        };
        Ok(Self {
            address,
            protocol: Protocol::default(),
            mount_port: None,
            export: format!("/{export}"),
            reserved_ports: false,
            from: None,
            identity: Identity::default(),
        })
    }

    /// Connects to a port of the server.
    pub(crate) fn connect(&self, port: u16) -> Result<TcpStream, LoadError> {
        let address = SocketAddr::new(self.address.ip(), port);
        let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let stream = match (self.from, self.reserved_ports) {
            (None, false) => TcpStream::connect_timeout(&address, CONNECT_TIMEOUT),
            (Some(from), false) => connect_from(SocketAddr::new(from, 0), address),
            (from, true) => connect_reserved(from.unwrap_or(any), address),
        };
        let stream =
            stream.map_err(|error| LoadError::new(format!("cannot connect to {address}: {error}")))?;
        configure(&stream).map_err(|error| LoadError::new(format!("{address}: {error}")))?;
        Ok(stream)
    }
}

/// Configures a connection: calls leave at once, and within this machine they are not paced, whatever the system's
/// default. Pacing timers would cost more than the calls that are measured, and loopback cannot be congested.
pub(crate) fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (local, peer) = (stream.local_addr()?.ip(), stream.peer_addr()?.ip());
    if local == peer || local.is_loopback() {
        // Best effort: the system's default also works, but costs more.
        let _ = sockopt::set_tcp_congestion(stream, "reno");
    }
    Ok(())
}

/// Connects from a port below 1024. Skips ports below 600, which rpcbind and its neighbours use.
fn connect_reserved(from: IpAddr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("all ports below 1024 are in use");
    for port in (600..1024).rev() {
        match connect_from(SocketAddr::new(from, port), address) {
            Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {
                last = error
            }
            outcome => return outcome,
        }
    }
    Err(last)
}

/// Connects from a local address, and a port if it is not zero.
fn connect_from(from: SocketAddr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_TIMEOUT))?;
    rustix::net::bind(&socket, &from)?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// An owned file handle.
#[derive(Clone, Copy)]
pub struct Handle {
    length: u8,
    bytes: [u8; HANDLE4_BYTES_MAX],
}

impl Handle {
    /// Copies a handle from a reply.
    pub(crate) fn of(from: &[u8]) -> Self {
        let mut bytes = [0; HANDLE4_BYTES_MAX];
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
        Self { length: u8::try_from(from.len()).expect("a handle has at most 128 bytes"), bytes }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns the handle as NFSv3 encodes it.
    #[inline]
    fn v3(&self) -> FileHandle3<'_> {
        FileHandle3::new(self.as_bytes()).expect("it was a handle of NFSv3")
    }

    /// Returns the handle as NFSv4 encodes it.
    #[inline]
    fn v4(&self) -> FileHandle4<'_> {
        FileHandle4::new(self.as_bytes()).expect("it was a handle")
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.v4().fmt(f)
    }
}

/// Whether the results of NFSv3 ask for the call to be made again later (NFS3ERR_JUKEBOX).
pub(crate) fn is_delayed(results: &[u8]) -> bool {
    results.first_chunk::<4>() == Some(&wire::nfs3::NfsStat3::Jukebox.code().to_be_bytes())
}

/// Connects for the load. With NFSv4, the connection is bound to a session.
pub(crate) fn connect_for_load(
    server: &Server,
    session: Option<wire::nfs4::SessionId4>,
) -> Result<TcpStream, LoadError> {
    let (Some(minor), Some(session)) = (server.protocol.minor(), session) else {
        return server.connect(server.address.port());
    };
    let mut transport = Transport::connect(server, server.address.port())?;
    nfs4::bind(&mut transport, minor, session)?;
    Ok(transport.into_stream())
}

/// Encodes the credential and verifier of a call.
pub(crate) fn encoded_identity(identity: Identity) -> Vec<u8> {
    let credential = Credential::Sys(AuthSys {
        stamp: 0,
        machine_name: b"holdfast-bench",
        uid: identity.uid,
        gid: identity.gid,
        groups: Groups::new(&[identity.gid]).unwrap_or_default(),
    });
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    credential.encode(&mut out);
    OpaqueAuth::NONE.encode(&mut out);
    bytes
}

/// Appends the header of a call, up to its arguments.
#[inline]
pub(crate) fn encode_header(out: &mut Vec<u8>, xid: u32, procedure: ProcedureId, identity: &[u8]) {
    let (program, version, procedure) = procedure;
    let words = [xid, 0, wire::rpc::RPC_VERSION, program, version, procedure];
    let mut bytes = [0; 24];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&bytes);
    out.extend_from_slice(identity);
}

/// Appends the call of a request; with a caller, in NFSv4.
#[inline]
pub(crate) fn encode_request(
    out: &mut Vec<u8>,
    xid: u32,
    identity: &[u8],
    caller: Option<&nfs4::Caller<'_>>,
    request: &Request<'_>,
) {
    match caller {
        None => {
            let procedure = nfs3::procedure(request).code();
            encode_header(out, xid, (wire::nfs3::PROGRAM, wire::nfs3::VERSION, procedure), identity);
            nfs3::encode(request, &mut Encoder::new(out));
        }
        Some(caller) => {
            encode_header(out, xid, COMPOUND, identity);
            nfs4::encode(caller, request, &mut Encoder::new(out));
        }
    }
}

/// The procedure of all calls of NFSv4 but NULL.
const COMPOUND: ProcedureId =
    (wire::nfs4::PROGRAM, wire::nfs4::VERSION, wire::nfs4::Procedure::Compound.code());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed() {
        for (text, address, export) in [
            ("127.0.0.1:/main", "127.0.0.1:2049", "/main"),
            ("127.0.0.1:12049:/a/b", "127.0.0.1:12049", "/a/b"),
            ("[::1]:20490:/", "[::1]:20490", "/"),
            ("::1:/x", "[::1]:2049", "/x"),
        ] {
            let server = Server::parse(text).unwrap();
            assert_eq!((server.address.to_string().as_str(), server.export.as_str()), (address, export));
        }
        for text in ["", "127.0.0.1", "127.0.0.1:2049", "/main"] {
            assert!(Server::parse(text).is_err(), "{text}");
        }
    }
}
