//! Connections as calls and the state name them.

use std::net::SocketAddr;

/// Identifies a connection. Never used twice while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The connection that a call came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's address, which the portmapper answers with.
    pub local: SocketAddr,
    /// The connection itself.
    pub id: ConnectionId,
}
