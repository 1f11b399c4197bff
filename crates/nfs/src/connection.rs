//! The connection that a call came by.

use std::net::SocketAddr;

/// Tells connections apart: never used twice while a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The connection that a call came by: which one, and its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The client.
    pub peer: SocketAddr,
    /// Ours: what a portmapper's answer names.
    pub local: SocketAddr,
    /// Which one.
    pub id: ConnectionId,
}
