//! RPC over TCP from any address of the namespace, as any user. The codec is written from RFC 5531.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketType};

use super::cursor::Cursor;
use super::places;
use crate::nfs::Arguments;

/// NFSv3.
pub(in crate::e2e) const NFS3: Program = Program(crate::nfs::NFS, 3);
/// NFSv4.
pub(in crate::e2e) const NFS4: Program = Program(crate::nfs::NFS, 4);
/// MOUNT of NFSv3.
pub(in crate::e2e) const MOUNT: Program = Program(crate::nfs::MOUNT, 3);
/// The lock manager of NFSv3.
pub(in crate::e2e) const NLM: Program = Program(100_021, 4);
/// The status monitor.
pub(in crate::e2e) const NSM: Program = Program(100_024, 1);
/// The portmapper.
pub(in crate::e2e) const PORTMAP: Program = Program(100_000, 2);

/// Quotas.
pub(in crate::e2e) const RQUOTA: Program = Program(100_011, 2);

/// Time limit of a call of somebody who should be served.
pub(in crate::e2e) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest reply.
const REPLY_BYTES_MAX: usize = 3 << 20;
/// Privileged ports that callers use. Those below are for services.
const PRIVILEGED: std::ops::Range<u16> = 600..1024;

/// A program and its version.
#[derive(Clone, Copy, Debug)]
pub(in crate::e2e) struct Program(pub(in crate::e2e) u32, pub(in crate::e2e) u32);

/// Why a call failed.
#[derive(Debug)]
pub(in crate::e2e) enum Failure {
    /// The connection cannot be made, is closed, or is silent for too long.
    Io(io::Error),
    /// The RPC was rejected; the words say why.
    Rejected([u32; 2]),
    /// The RPC was accepted but not executed.
    NotExecuted(u32),
    /// The protocol's status is not success.
    Status(&'static str, u32),
    /// The reply makes no sense.
    Malformed,
    /// The reply says what it must not.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io(error) if error.kind() == io::ErrorKind::WouldBlock => f.write_str("no reply"),
            Failure::Io(error) => write!(f, "{error}"),
            Failure::Rejected([reason, detail]) => write!(f, "rejected ({reason}, {detail})"),
            Failure::NotExecuted(status) => write!(f, "not executed ({status})"),
            Failure::Status(what, status) => write!(f, "{what}: status {status}"),
            Failure::Malformed => f.write_str("malformed reply"),
            Failure::Wrong(what) => f.write_str(what),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.to_string()
    }
}

impl Failure {
    /// The protocol's status, if there is one.
    pub(in crate::e2e) fn status(&self) -> Option<u32> {
        match self {
            Failure::Status(_, status) => Some(*status),
            _ => None,
        }
    }
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(in crate::e2e) struct Caller {
    pub(in crate::e2e) address: IpAddr,
    /// Whether it calls from a port below 1024.
    pub(in crate::e2e) privileged: bool,
    /// The user that it claims to be.
    pub(in crate::e2e) user: u32,
}

impl Caller {
    /// The kernel of the host at this address, or its superuser.
    pub(in crate::e2e) fn host(address: IpAddr) -> Caller {
        Caller { address, privileged: true, user: 0 }
    }

    /// A program of an unprivileged user, who claims to be `user`.
    pub(in crate::e2e) fn unprivileged(address: IpAddr, user: u32) -> Caller {
        Caller { address, privileged: false, user }
    }
}

/// Connects to a port of the server.
pub(in crate::e2e) fn connect(from: Caller, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let to = SocketAddr::new(places::server(from.address), port);
    let mut ports = if from.privileged { fastrand::u16(PRIVILEGED)..PRIVILEGED.end } else { 0..1 };
    loop {
        let own = ports.next().unwrap_or_else(|| fastrand::u16(PRIVILEGED));
        match connect_from(SocketAddr::new(from.address, own), to, patience) {
            Err(error) if from.privileged && is_taken(&error) => {}
            result => return result,
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// Connects from an address and a port. `patience` limits each wait.
pub(in crate::e2e) fn connect_from(
    own: SocketAddr,
    to: SocketAddr,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = socket_of(own.ip(), SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &own)?;
    // On Linux, this limits connecting as well.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns a socket that can be bound to an address of the namespace.
pub(in crate::e2e) fn socket_of(own: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, kind, None)?;
    if own.is_ipv6() {
        // Only the prefix is assigned to the namespace.
        sockopt::set_ipv6_freebind(&socket, true)?;
    }
    Ok(socket)
}

/// The record of a call, with its mark.
pub(in crate::e2e) fn record(
    xid: u32,
    program: Program,
    procedure: u32,
    user: u32,
    arguments: &Arguments,
) -> Vec<u8> {
    let mut call = Arguments::default();
    call.word(xid).word(0).word(2).word(program.0).word(program.1).word(procedure);
    // AUTH_SYS: stamp, no machine name, user, the group of the same number, no further groups; no verifier.
    call.word(1).word(20).word(0).word(0).word(user).word(user).word(0).word(0).word(0);
    call.fixed(arguments.bytes());
    let length = u32::try_from(call.bytes().len()).expect("calls are short");
    let mut record = (length | 0x8000_0000).to_be_bytes().to_vec();
    record.extend_from_slice(call.bytes());
    record
}

/// What arrives on a connection.
#[derive(Debug)]
pub(in crate::e2e) enum Message {
    /// The xid of a reply, and its results.
    Reply(u32, Result<Cursor, Failure>),
    /// The xid of a call of the server, and what follows the kind of message.
    Call(u32, Cursor),
}

/// A connection, and the user on whose behalf it calls.
#[derive(Debug)]
pub(in crate::e2e) struct Link {
    pub(in crate::e2e) stream: TcpStream,
    pub(in crate::e2e) user: u32,
    pub(in crate::e2e) next_xid: u32,
}

impl Link {
    /// Connects to the port of NFS.
    pub(in crate::e2e) fn open(from: Caller) -> Result<Link, Failure> {
        Link::open_within(from, PATIENCE)
    }

    /// Connects to the port of NFS. `patience` limits each wait.
    pub(in crate::e2e) fn open_within(from: Caller, patience: Duration) -> Result<Link, Failure> {
        let stream = connect(from, super::super::lab::PORT, patience)?;
        Ok(Link { stream, user: from.user, next_xid: fastrand::u32(..) })
    }

    /// Makes a call and waits for its results.
    pub(in crate::e2e) fn call(
        &mut self,
        program: Program,
        procedure: u32,
        arguments: &Arguments,
    ) -> Result<Cursor, Failure> {
        let xid = self.send(program, procedure, arguments)?;
        loop {
            let (answered, results) = self.receive()?;
            if answered == xid {
                return results;
            }
        }
    }

    /// Sends a call and returns its xid.
    pub(in crate::e2e) fn send(
        &mut self,
        program: Program,
        procedure: u32,
        arguments: &Arguments,
    ) -> Result<u32, Failure> {
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1);
        self.stream.write_all(&record(xid, program, procedure, self.user, arguments))?;
        Ok(xid)
    }

    /// Receives a reply: its xid, and its results. Calls of the server are ignored.
    pub(in crate::e2e) fn receive(&mut self) -> Result<(u32, Result<Cursor, Failure>), Failure> {
        loop {
            if let Message::Reply(xid, results) = self.receive_message()? {
                return Ok((xid, results));
            }
        }
    }

    /// Receives a reply, or a call of the server.
    pub(in crate::e2e) fn receive_message(&mut self) -> Result<Message, Failure> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let length = usize::try_from(u32::from_be_bytes(mark) & 0x7fff_ffff).unwrap_or(usize::MAX);
        if length > REPLY_BYTES_MAX {
            return Err(Failure::Malformed);
        }
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message)?;
        let mut message = Cursor::new(message);
        match (message.word()?, message.word()?) {
            (xid, 0) => Ok(Message::Call(xid, message)),
            (xid, _) => Ok(Message::Reply(xid, accepted(message))),
        }
    }

    /// Sends the answer to a call of the server.
    pub(in crate::e2e) fn answer(&mut self, reply: &Arguments) -> Result<(), Failure> {
        let length = u32::try_from(reply.bytes().len()).expect("replies are short");
        self.stream.write_all(&(length | 0x8000_0000).to_be_bytes())?;
        Ok(self.stream.write_all(reply.bytes())?)
    }
}

/// Reads the rest of a reply's header.
fn accepted(mut reply: Cursor) -> Result<Cursor, Failure> {
    if reply.word()? != 0 {
        return Err(Failure::Rejected([reply.word()?, reply.word()?]));
    }
    reply.word()?;
    reply.opaque()?;
    match reply.word()? {
        0 => Ok(reply),
        status => Err(Failure::NotExecuted(status)),
    }
}
