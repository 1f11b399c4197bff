//! Accepts connections in the first loop and distributes them to all loops in turn.
//!
//! A connection from an address that no export admits is closed before a byte is read, whatever the limits say: it takes
//! no place. For others [`crate::net::connection_shares`] has places.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use nfs::service::{Connection as Ends, origin};

use crate::counters::{Counters, add};
use crate::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN_MAX, KNOWN_CLIENTS_MAX, PLACE_PAUSE};
use crate::net::callbacks::connection_id;
use crate::net::event_loop::Shared;
use crate::net::listener::{prepare, reset};
use crate::net::mailbox::{MAILBOX, Mailbox, Message};

/// The listening sockets, and the loop of the next connection.
pub(crate) struct Acceptor {
    listeners: Vec<TcpListener>,
    /// Some listener may have connections.
    pending: bool,
    /// When to accept again after descriptors or places ran out.
    paused: Option<Instant>,
    /// The reason was logged, and nothing was accepted since.
    logged: bool,
    /// The mailboxes of all loops. The first loop runs this.
    loops: Vec<Arc<Mailbox>>,
    next: usize,
    /// Connections accepted so far.
    accepted: u64,
    known_clients: HashSet<IpAddr>,
}

/// The result of one try to accept.
enum Accepted {
    Connection(TcpStream, SocketAddr),
    /// No connection is pending.
    Nothing,
    /// Nothing can be accepted for now.
    Paused,
}

impl Acceptor {
    pub(crate) fn new(listeners: Vec<TcpListener>, loops: Vec<Arc<Mailbox>>) -> Acceptor {
        Acceptor {
            listeners,
            pending: false,
            paused: None,
            logged: false,
            loops,
            next: 0,
            accepted: 0,
            known_clients: HashSet::new(),
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (number, listener) in self.listeners.iter_mut().enumerate() {
            registry.register(listener, Token(MAILBOX.0 - 1 - number), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Notes an event that is not of a connection.
    pub(crate) fn on_event(&mut self, token: Token) {
        self.pending |= token != MAILBOX;
    }

    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused
    }

    /// Whether connections are pending that the last turn left.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending && self.paused.is_none()
    }

    /// Accepts pending connections, as many as one turn may. `counters` are those of the first loop; `own` takes its
    /// connections.
    pub(crate) fn accept(
        &mut self,
        shared: &Shared,
        counters: &Counters,
        mut own: impl FnMut(TcpStream, Ends),
    ) {
        if self.paused.is_some_and(|time| Instant::now() >= time) {
            self.paused = None;
            self.pending = true;
        }
        if !self.is_pending() {
            return;
        }
        let mut left = ACCEPTS_PER_TURN_MAX;
        for number in 0..self.listeners.len() {
            loop {
                if left == 0 {
                    return;
                }
                left -= 1;
                match self.accept_at(number, shared) {
                    Accepted::Connection(stream, peer) if shared.calls.admits(peer.ip()) => {
                        self.admit(stream, peer, shared, &mut own);
                    }
                    Accepted::Connection(stream, peer) => refuse(&stream, peer, counters),
                    Accepted::Nothing => break,
                    Accepted::Paused => return,
                }
            }
        }
        self.pending = false;
    }

    fn accept_at(&mut self, number: usize, shared: &Shared) -> Accepted {
        if shared.connections.is_full() {
            self.paused = Some(Instant::now() + PLACE_PAUSE);
            return Accepted::Paused;
        }
        loop {
            match self.listeners[number].accept() {
                Ok((stream, peer)) => {
                    self.logged = false;
                    return Accepted::Connection(stream, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Accepted::Nothing,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    self.pause(&format!("cannot accept a connection: {error}"));
                    return Accepted::Paused;
                }
            }
        }
    }

    fn admit(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        shared: &Shared,
        own: &mut impl FnMut(TcpStream, Ends),
    ) {
        let Ok(local) = stream.local_addr() else { return };
        if prepare(&stream, local, peer).is_err() {
            return;
        }
        self.log_first(peer.ip());
        if let Some(greediest) = shared.connections.join(origin(peer.ip())) {
            // The loop that the newcomer goes to is asked first.
            self.loops[self.next].send(Message::GiveWay(greediest, 0));
        }
        self.distribute(stream, peer, local, own);
    }

    fn distribute(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        local: SocketAddr,
        own: &mut impl FnMut(TcpStream, Ends),
    ) {
        let chosen = self.next;
        self.next = (self.next + 1) % self.loops.len();
        self.accepted += 1;
        let ends = Ends { peer, local, id: connection_id(self.accepted, chosen, self.loops.len()) };
        tracing::debug!(client = %ends.peer, event_loop = chosen, "connection accepted");
        if chosen == 0 {
            own(stream, ends);
        } else {
            self.loops[chosen].send(Message::Connected(stream, ends));
        }
    }

    fn pause(&mut self, why: &str) {
        if !self.logged {
            self.logged = true;
            tracing::warn!("{why}");
        }
        self.paused = Some(Instant::now() + ACCEPT_PAUSE);
    }

    fn log_first(&mut self, client: IpAddr) {
        if self.known_clients.len() < KNOWN_CLIENTS_MAX && self.known_clients.insert(client) {
            tracing::info!(%client, "client connected for the first time");
        }
    }
}

/// Closes a connection that no export admits, without leaving anything of it in the kernel.
fn refuse(stream: &TcpStream, peer: SocketAddr, counters: &Counters) {
    add(&counters.refused, 1);
    tracing::warn!(client = %peer.ip().to_canonical(), "connection refused: no export admits this address");
    reset(stream);
}
