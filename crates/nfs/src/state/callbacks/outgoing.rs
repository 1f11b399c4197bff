//! Calls from here to a client (RFC 7530 section 16.33, RFC 8881 section 20): what whoever drives the service sends.

use std::net::{IpAddr, SocketAddr};

use crate::connection::ConnectionId;

/// Where a callback goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// By a connection that the client made: the backchannel of a session.
    Connection(ConnectionId),
    /// By a connection of our own to this address, made if there is none: NFSv4.0.
    Address(SocketAddr),
    /// By a connection of our own to this program of a host, which its rpcbind knows: NLM and NSM.
    Program {
        /// The host.
        host: IpAddr,
        /// The RPC program.
        program: u32,
        /// Its version.
        version: u32,
    },
}

/// A call that is to be sent to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Names it in [`crate::service::Service::callback_failed`].
    pub id: u64,
    /// Where it goes.
    pub to: Destination,
    /// The call with its record mark.
    pub record: Vec<u8>,
}
