//! A server that serves a *group*: volumes and addresses that move between machines together, and one NFSv4 identity.
//!
//! The agent of the machine (`holdfast node`) runs it as a child. The agent holds the sockets, so that no client ever finds a port
//! closed, and the addresses; the child has what they serve. The data directory is on a device that several machines can
//! reach, so the child claims it before anything else ([`store::Claim`]).

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use mio::net;
use store::Claim;

/// What the agent hands over, and the claim.
#[derive(Clone, Debug)]
pub struct Group {
    /// That on the data directory.
    pub claim: Arc<Claim>,
    /// Listening sockets, which replace the addresses of the configuration.
    pub listeners: Arc<[TcpListener]>,
    /// Sockets for datagrams at the same ports; none if datagrams are not taken.
    pub datagrams: Arc<[UdpSocket]>,
}

impl Group {
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
