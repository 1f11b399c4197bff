//! HTTP/1.1 for the administration of a server (RFC 9110, RFC 9112): bounded in connections, bytes and time.
//!
//! Each connection has a thread of its own, which no event loop waits for. A request must have arrived whole
//! [`REQUEST_MAX`] after its first byte, a connection without a request is closed after [`IDLE_MAX`], and a reply must be
//! taken within [`REPLY_MAX`]. What exceeds a limit is refused with an explanation (RFC 9457) where that is possible.
//! Threads that serve other hosts are nicer than event loops.

use std::time::Duration;

mod answer;
pub mod client;
mod connection;
mod connections;
mod handshakes;
mod listener;
mod response;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
mod turns;

pub(crate) use connection::Peer;
pub use http_request::{CONTENT_BYTES_MAX, FIELDS_MAX, HEAD_BYTES_MAX};
pub(crate) use listener::{Handler, Listener, Socket, Verdict};

pub(crate) use response::{Body, Response};
pub(crate) use turns::Turns;

/// How long a request may take to arrive.
pub const REQUEST_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be without a request.
pub const IDLE_MAX: Duration = Duration::from_secs(30);

/// How long a peer may take to receive a reply, or one event of a stream.
pub const REPLY_MAX: Duration = Duration::from_secs(10);

/// Most connections to one listener.
pub const CONNECTIONS_MAX: usize = 64;

/// Of them, those of one address.
pub const CONNECTIONS_PER_PEER_MAX: usize = 16;

/// Most connections to one listener that are sent streams. The others remain for requests that end.
pub const STREAMS_MAX: usize = 56;

/// Of them, those of one address.
pub const STREAMS_PER_PEER_MAX: usize = 12;

/// Requests without a valid token, or refused for want of a role, after which a connection is closed.
pub const REFUSALS_MAX: usize = 3;

/// How long content that nobody reads is thrown away, so that the peer sees the reply that refuses it.
pub const LINGER_MAX: Duration = Duration::from_secs(1);

/// The most bytes that large replies of one listener hold while they are sent, unless one alone is larger. Beyond that, those that
/// peers take slowly are given up.
pub const REPLY_BYTES_MAX: usize = 16 << 20;

/// How many bytes a peer may send for each that it is expected to. A record of TLS has some twenty besides its content, or in
/// place of any: records without content, or with new keys, cost a peer little and the server much.
pub const RECEIVED_PER_BYTE_MAX: usize = 2;

/// The bytes that it may send besides: a handshake, and what follows in the last record, which has up to 16 KiB.
pub const RECEIVED_SPARE_BYTES: usize = 20 << 10;

/// What the requests of one listener hold at most, bytes.
pub const REQUEST_BYTES_MAX: usize = CONNECTIONS_MAX * (HEAD_BYTES_MAX + CONTENT_BYTES_MAX);
