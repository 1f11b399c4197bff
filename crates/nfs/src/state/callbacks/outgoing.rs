//! Outgoing calls to clients, for whoever drives the service to send (RFC 7530 section 16.33, RFC 8881 section 20).

use std::net::{IpAddr, SocketAddr};

use crate::connection::ConnectionId;

/// The destination of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A connection that the client made: the backchannel of a session.
    Connection(ConnectionId),
    /// NFSv4.0: this address, over a connection that the server makes.
    Address(SocketAddr),
    /// NLM and NSM: this program of a host, whose port its rpcbind knows, over a connection that the server makes.
    Program {
        /// The host.
        host: IpAddr,
        /// The RPC program.
        program: u32,
        /// Its version.
        version: u32,
    },
}

/// A call to send to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Identifies it in [`crate::service::Service::callback_answered`] and [`crate::service::Service::callback_failed`].
    pub id: u64,
    /// Its destination.
    pub to: Destination,
    /// The call with its record mark.
    pub record: Vec<u8>,
}
