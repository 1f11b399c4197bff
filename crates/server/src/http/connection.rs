//! Sockets whose reads and writes end by a deadline, and whose peers send no more than they are expected to.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nfs::link_local::socket_address;
use nfs::service::origin;

use super::{RECEIVED_PER_BYTE_MAX, RECEIVED_SPARE_BYTES};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this machine, which the permissions of the socket admitted, by its user.
    Local(u32),
    /// A host, as [`nfs::link_local::named`] names it.
    Remote(SocketAddr),
}

impl Peer {
    /// Returns what limits count it by: its address, or the /64 network of that, as for clients of NFS. Local processes have
    /// none.
    pub(crate) fn origin(&self) -> Option<IpAddr> {
        self.address().map(origin)
    }

    /// Returns the address of a host.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Peer::Local(_) => None,
            Peer::Remote(address) => Some(address.ip()),
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Local(uid) => write!(f, "uid {uid}"),
            Peer::Remote(address) => socket_address(*address).fmt(f),
        }
    }
}

/// A stream socket of either kind.
pub(super) trait Stream: Read + Write + Send {
    fn wait_at_most(&self, time: Duration) -> io::Result<()>;
    fn shut_down(&self);
}

macro_rules! stream {
    ($type:ty) => {
        impl Stream for $type {
            fn wait_at_most(&self, time: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(time))?;
                self.set_write_timeout(Some(time))
            }

            fn shut_down(&self) {
                // The peer may have done so.
                let _ = self.shutdown(Shutdown::Both);
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

/// A connection with limits.
pub(super) trait Connection: Read + Write + Send {
    /// Lets reads and writes take until `time` from now, all together.
    fn allow(&mut self, time: Duration);

    /// Lets the peer send what a request, or a part of one, with at most `bytes` can need, however that is encrypted. Reads fail
    /// once it sends more.
    fn expect(&mut self, bytes: usize);
}

/// A socket with a deadline.
pub(super) struct Timed {
    stream: Box<dyn Stream>,
    deadline: Instant,
    /// The bytes that the peer may still send.
    expected: usize,
}

impl Timed {
    pub(super) fn new(stream: Box<dyn Stream>) -> Timed {
        Timed { stream, deadline: Instant::now(), expected: 0 }
    }

    fn wait(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { self.stream.wait_at_most(left) }
    }
}

/// A timeout of a socket is reported as if it had been non-blocking.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Connection for Timed {
    fn allow(&mut self, time: Duration) {
        self.deadline = Instant::now() + time;
    }

    fn expect(&mut self, bytes: usize) {
        self.expected = RECEIVED_PER_BYTE_MAX * bytes + RECEIVED_SPARE_BYTES;
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.expected == 0 {
            return Err(io::Error::other("the peer sends far more than its request can need"));
        }
        self.wait()?;
        let most = into.len().min(self.expected);
        let count = self.stream.read(&mut into[..most]).map_err(timed_out)?;
        self.expected -= count;
        Ok(count)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait()?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
