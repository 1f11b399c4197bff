//! A server that serves a *group*: volumes and addresses that move between machines together, and one NFSv4 identity.
//!
//! The agent of the machine (`holdfast node`) runs it as a child. The agent holds the sockets, so that no client ever finds a port
//! closed, and the addresses; the child has what they serve. The data directory is on a device that several machines can
//! reach, so the child claims it before anything else ([`store::Claim`]); in a Ceph cluster, it takes the lease of the namespace when
//! it may.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use mio::net;
use rados::Candidacy;
use store::Claim;

/// What gives a server the right to serve a group.
#[derive(Clone, Debug)]
pub enum Right {
    /// The claim on its data directory.
    Claim(Arc<Claim>),
    /// The lease of its namespace, which is yet to be taken.
    Lease(Candidacy),
}

/// What the agent hands over, and the right to serve.
#[derive(Clone, Debug)]
pub struct Group {
    /// The right to serve.
    pub right: Right,
    /// Listening sockets, which replace the addresses of the configuration.
    pub listeners: Arc<[TcpListener]>,
    /// Sockets for datagrams at the same ports; none if datagrams are not taken.
    pub datagrams: Arc<[UdpSocket]>,
}

impl Group {
    /// Returns the claim on the data directory, if there is one.
    pub(crate) fn claim(&self) -> Option<Arc<Claim>> {
        match &self.right {
            Right::Claim(claim) => Some(Arc::clone(claim)),
            Right::Lease(_) => None,
        }
    }

    /// Returns the sockets as event loops use them.
    pub(crate) fn sockets(&self) -> io::Result<(Vec<net::TcpListener>, Vec<net::UdpSocket>)> {
        let listener = |listener: &TcpListener| {
            listener.set_nonblocking(true)?;
            listener.try_clone().map(net::TcpListener::from_std)
        };
        let socket = |socket: &UdpSocket| {
            socket.set_nonblocking(true)?;
            socket.try_clone().map(net::UdpSocket::from_std)
        };
        let listeners = self.listeners.iter().map(listener).collect::<io::Result<_>>()?;
        Ok((listeners, self.datagrams.iter().map(socket).collect::<io::Result<_>>()?))
    }
}
