//! Accepts connections in the first loop and distributes them to all loops in turn.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use nfs::service::Connection as Ends;

use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, KNOWN_CLIENTS_MAX};
use crate::net::callbacks::connection_id;
use crate::net::listener::prepare;
use crate::net::mailbox::{MAILBOX, Mailbox, Message};

/// The listening sockets, and the loop of the next connection.
pub(crate) struct Acceptor {
    listeners: Vec<TcpListener>,
    /// Some listener may have connections.
    pending: bool,
    /// When to accept again after descriptors ran out or there were too many connections.
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

    /// Accepts pending connections. `connections` counts those of all loops; `own` takes those for the first loop.
    pub(crate) fn accept(&mut self, connections: &AtomicUsize, mut own: impl FnMut(TcpStream, Ends)) {
        if self.paused.is_some_and(|time| Instant::now() >= time) {
            self.paused = None;
            self.pending = true;
        }
        if !self.pending || self.paused.is_some() {
            return;
        }
        self.pending = false;
        for number in 0..self.listeners.len() {
            while self.paused.is_none() {
                if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                    self.pause("new connections wait: the limit of connections is reached");
                    break;
                }
                match self.listeners[number].accept() {
                    Ok((stream, peer)) => {
                        let Ok(local) = stream.local_addr() else { continue };
                        if prepare(&stream, local, peer).is_err() {
                            continue;
                        }
                        self.logged = false;
                        self.log_first(peer.ip());
                        connections.fetch_add(1, Ordering::Relaxed);
                        self.distribute(stream, peer, local, &mut own);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                        ) => {}
                    Err(error) => self.pause(&format!("cannot accept a connection: {error}")),
                }
            }
        }
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
