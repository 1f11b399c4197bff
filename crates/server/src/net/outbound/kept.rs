//! Connections to clients that a later call can use.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use crate::limits::OUTBOUND_KEPT_MAX;

/// How long a connection is kept for the next call.
const KEPT: Duration = Duration::from_secs(60);

/// Idle connections, one for each address.
#[derive(Default)]
pub(super) struct Kept {
    streams: HashMap<SocketAddr, (TcpStream, Instant)>,
}

impl Kept {
    pub(super) fn take(&mut self, address: SocketAddr) -> Option<TcpStream> {
        self.close_old();
        self.streams.remove(&address).map(|(stream, _)| stream)
    }

    /// Keeps a connection, unless there are [`OUTBOUND_KEPT_MAX`].
    pub(super) fn put(&mut self, address: SocketAddr, stream: TcpStream) {
        self.close_old();
        if self.streams.len() < OUTBOUND_KEPT_MAX {
            self.streams.insert(address, (stream, Instant::now()));
        }
    }

    fn close_old(&mut self) {
        self.streams.retain(|_, (_, since)| since.elapsed() < KEPT);
    }
}
