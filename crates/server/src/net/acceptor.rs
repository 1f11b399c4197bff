//! Accepts connections, and distributes them to the event loops in turn. It has a thread of its own, so that a crowd of strangers
//! takes no time of the loops, nor long calls time of newcomers.
//!
//! A connection from an address that no export admits is closed before a byte is read, whatever the limits say: it takes
//! no place. For others [`crate::net::connection_shares`] has places.
//!
//! Listeners take turns, a connection each, so that a crowd at one of them keeps nobody from the others.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use nfs::link_local::{Shown, named, socket_address};
use nfs::service::Connection as Ends;

use crate::connection_origin::ConnectionOrigin;
use crate::counters::{Counters, add};
use crate::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN_MAX, KNOWN_CLIENTS_MAX, PLACE_PAUSE};
use crate::net::callbacks::connection_id;
use crate::net::connection::Newcomer;
use crate::net::connection_shares::{ConnectionShares, Joined};
use crate::net::event_loop::Shared;
use crate::net::listener::{prepare, reset};
use crate::net::mailbox::Message;

/// The token of what ends the thread. Listeners count from zero.
const STOP: Token = Token(usize::MAX);

/// The listening sockets, and the loop of the next connection.
pub(crate) struct Acceptor {
    poll: Poll,
    listeners: Listeners,
    shared: Arc<Shared>,
    /// Those of the first loop. Nobody else counts refused connections.
    counters: Arc<Counters>,
    next: usize,
    /// Whether connections end by a reset, even when the process is killed.
    ends_by_reset: bool,
    /// Connections accepted so far.
    accepted: u64,
    known_clients: HashSet<IpAddr>,
}

impl Acceptor {
    /// Makes one that accepts connections for the event loops of `shared`; `counters` are those of the first loop.
    pub(crate) fn new(
        mut listeners: Vec<TcpListener>,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
    ) -> io::Result<Acceptor> {
        let poll = Poll::new()?;
        for (number, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(number), Interest::READABLE)?;
        }
        Ok(Acceptor {
            poll,
            listeners: Listeners::new(listeners),
            shared,
            counters,
            next: 0,
            ends_by_reset: false,
            accepted: 0,
            known_clients: HashSet::new(),
        })
    }

    /// Ends connections by a reset. After an orderly end a Linux client waits for up to 3 s before it connects again from the same
    /// port (`XS_TCP_INIT_REEST_TO` of its `xprtsock.c`).
    pub(crate) fn end_by_reset(&mut self) {
        self.ends_by_reset = true;
    }

    /// Returns what ends [`Acceptor::run`].
    pub(crate) fn stop(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), STOP)
    }

    /// Accepts connections until it is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(self.listeners.all.len() + 1);
        loop {
            if let Err(error) = self.poll.poll(&mut events, self.listeners.sleep_max())
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "no more connections are accepted: cannot wait for events; restart the server");
                return;
            }
            if events.iter().any(|event| event.token() == STOP) {
                return;
            }
            events.iter().for_each(|event| self.listeners.on_event(event.token()));
            self.take_turn();
        }
    }

    /// Accepts pending connections, as many as one turn may.
    fn take_turn(&mut self) {
        let shared = Arc::clone(&self.shared);
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let Some((stream, peer)) = self.listeners.accept(&shared.connections) else { return };
            match named(peer) {
                Some(peer) if shared.calls.admits(peer.ip()) => self.admit(stream, peer),
                Some(peer) => {
                    let client = Shown(peer.ip().to_canonical());
                    tracing::warn!(%client, "connection refused: no export admits this address");
                    refuse(&stream, &self.counters);
                }
                None => {
                    tracing::warn!(client = %peer, "connection refused: this link-local address cannot be named");
                    refuse(&stream, &self.counters);
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        let Ok(local) = stream.local_addr() else { return };
        if prepare(&stream, local, socket_address(peer)).is_err() {
            return;
        }
        if self.ends_by_reset {
            reset(&stream);
        }
        self.log_first(peer.ip());
        let Shared { connections, mailboxes, .. } = &*self.shared;
        let Joined { place, gives_up } = connections.join(ConnectionOrigin::of(peer));
        // The loop that the newcomer goes to is asked first.
        let chosen = &mailboxes[self.next];
        if let Some(greediest) = gives_up {
            chosen.send(Message::GiveWay(greediest, 0));
        }
        if place.buffers.apply(&stream).is_err() {
            connections.leave(place, 0);
            return;
        }
        self.accepted += 1;
        let ends = Ends { peer, local, id: connection_id(self.accepted, self.next, mailboxes.len()) };
        tracing::debug!(client = %socket_address(ends.peer), event_loop = self.next, "connection accepted");
        chosen.send(Message::Connected(Newcomer { stream, ends, place }));
        self.next = (self.next + 1) % mailboxes.len();
    }

    fn log_first(&mut self, client: IpAddr) {
        if self.known_clients.len() < KNOWN_CLIENTS_MAX && self.known_clients.insert(client) {
            tracing::info!(client = %Shown(client), "client connected for the first time");
        }
    }
}

/// Closes a connection that is not admitted, without leaving anything of it in the kernel.
fn refuse(stream: &TcpStream, counters: &Counters) {
    add(&counters.refused, 1);
    reset(stream);
}

/// The listening sockets.
struct Listeners {
    all: Vec<TcpListener>,
    /// The numbers of those that may have connections, the next one first.
    pending: VecDeque<usize>,
    /// When to accept again after descriptors or places ran out.
    paused: Option<Instant>,
    /// The reason was logged, and nothing was accepted since.
    logged: bool,
}

impl Listeners {
    fn new(all: Vec<TcpListener>) -> Listeners {
        Listeners { all, pending: VecDeque::new(), paused: None, logged: false }
    }

    /// Notes that a listener may have connections.
    fn on_event(&mut self, token: Token) {
        if !self.pending.contains(&token.0) {
            self.pending.push_back(token.0);
        }
    }

    /// Returns how long to sleep if nothing happens.
    fn sleep_max(&self) -> Option<Duration> {
        match self.paused {
            Some(until) => Some(until.saturating_duration_since(Instant::now())),
            None if self.pending.is_empty() => None,
            None => Some(Duration::ZERO),
        }
    }

    /// Accepts a connection from the listener whose turn it is. `None` if there are none, or no places for them now.
    fn accept(&mut self, places: &ConnectionShares) -> Option<(TcpStream, SocketAddr)> {
        if self.paused.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        self.paused = None;
        while let Some(&number) = self.pending.front() {
            if places.is_full() {
                self.paused = Some(Instant::now() + PLACE_PAUSE);
                return None;
            }
            match self.all[number].accept() {
                Ok(accepted) => {
                    self.logged = false;
                    self.pending.rotate_left(1);
                    return Some(accepted);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => _ = self.pending.pop_front(),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    self.pause(&error);
                    return None;
                }
            }
        }
        None
    }

    fn pause(&mut self, error: &io::Error) {
        if !self.logged {
            self.logged = true;
            tracing::warn!("cannot accept a connection: {error}");
        }
        self.paused = Some(Instant::now() + ACCEPT_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Client;

    use super::*;
    use crate::limits::CONNECTIONS_MAX;
    use crate::net::listener::listen_at;

    /// Returns listeners and their addresses.
    fn listeners<const COUNT: usize>() -> (Listeners, [SocketAddr; COUNT]) {
        let all = [(); COUNT].map(|()| listen_at("127.0.0.1:0".parse().unwrap()).unwrap());
        let addresses = all.each_ref().map(|listener| listener.local_addr().unwrap());
        (Listeners::new(all.into()), addresses)
    }

    #[test]
    fn a_crowd_at_one_listener_keeps_nobody_from_another() {
        let (mut listeners, addresses) = listeners::<2>();
        let places = ConnectionShares::new(CONNECTIONS_MAX, 0);
        let _crowd = [0; 20].map(|number| Client::connect(addresses[number]).unwrap());
        let _others = [1; 2].map(|number| Client::connect(addresses[number]).unwrap());
        for number in [0, 1, 0] {
            listeners.on_event(Token(number));
        }
        let accepted: Vec<SocketAddr> = std::iter::from_fn(|| listeners.accept(&places))
            .map(|(stream, _)| stream.local_addr().unwrap())
            .collect();
        assert_eq!(accepted.len(), 22);
        assert_eq!(accepted[..5], [0, 1, 0, 1, 0].map(|number: usize| addresses[number]));
        assert_eq!(listeners.sleep_max(), None);
    }

    #[test]
    fn listeners_stay_pending_while_there_is_no_place() {
        let (mut listeners, [address]) = listeners();
        let _client = Client::connect(address).unwrap();
        listeners.on_event(Token(0));
        assert!(listeners.accept(&ConnectionShares::new(0, 0)).is_none());
        assert!(listeners.sleep_max().is_some_and(|most| most > Duration::ZERO && most <= PLACE_PAUSE));
        assert!(listeners.accept(&ConnectionShares::new(1, 0)).is_none(), "it pauses");
        listeners.paused = Some(Instant::now());
        assert!(listeners.accept(&ConnectionShares::new(1, 0)).is_some());
        assert_eq!(listeners.sleep_max(), Some(Duration::ZERO));
    }
}
