//! Accepts connections in the first loop and distributes them to all loops in turn.
//!
//! A connection from an address that no export admits is closed before a byte is read, whatever the limits say: it takes
//! no place. For others [`crate::net::connection_shares`] has places.
//!
//! Listeners take turns, a connection each, so that a crowd at one of them keeps nobody from the others.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use nfs::service::Connection as Ends;

use crate::admission::origins::ConnectionOrigin;
use crate::counters::{Counters, add};
use crate::limits::{
    ACCEPT_PAUSE, ACCEPTS_PER_TURN_MAX, KNOWN_CLIENTS_MAX, PLACE_PAUSE, REFUSALS_PER_TURN_MAX,
};
use crate::net::callbacks::connection_id;
use crate::net::connection_shares::ConnectionShares;
use crate::net::event_loop::Shared;
use crate::net::listener::{prepare, reset};
use crate::net::mailbox::{MAILBOX, Mailbox, Message};

/// The listening sockets, and the loop of the next connection.
pub(crate) struct Acceptor {
    listeners: Vec<TcpListener>,
    /// The numbers of the listeners that may have connections, the next one first.
    pending: VecDeque<usize>,
    /// When to accept again after descriptors or places ran out.
    paused: Option<Instant>,
    /// The reason was logged, and nothing was accepted since.
    logged: bool,
    /// The mailboxes of all loops. The first loop runs this.
    loops: Vec<Arc<Mailbox>>,
    next: usize,
    /// Whether connections end by a reset, even when the process is killed.
    ends_by_reset: bool,
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
            pending: VecDeque::new(),
            paused: None,
            logged: false,
            loops,
            next: 0,
            ends_by_reset: false,
            accepted: 0,
            known_clients: HashSet::new(),
        }
    }

    /// Ends connections by a reset. After an orderly end a Linux client waits for up to 3 s before it connects again from the same
    /// port (`XS_TCP_INIT_REEST_TO` of its `xprtsock.c`).
    pub(crate) fn end_by_reset(&mut self) {
        self.ends_by_reset = true;
    }

    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (number, listener) in self.listeners.iter_mut().enumerate() {
            registry.register(listener, Token(MAILBOX.0 - 1 - number), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Notes an event that is not of an open connection: of a listener, the mailbox, or a connection that was just closed.
    pub(crate) fn on_event(&mut self, token: Token) {
        let number = (MAILBOX.0 - 1).checked_sub(token.0).filter(|number| *number < self.listeners.len());
        if let Some(number) = number.filter(|number| !self.pending.contains(number)) {
            self.pending.push_back(number);
        }
    }

    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused
    }

    /// Whether connections are pending that the last turn left.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty() && self.paused.is_none()
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
        }
        if !self.is_pending() {
            return;
        }
        self.take_turn(&shared.connections, |acceptor, stream, peer| {
            let is_admitted = shared.calls.admits(peer.ip());
            if is_admitted {
                acceptor.admit(stream, peer, shared, &mut own);
            } else {
                refuse(&stream, peer, counters);
            }
            is_admitted
        });
    }

    /// Accepts from one listener after the other. The next turn goes on with the listener where this one stops. `accepted`
    /// says whether a connection was admitted. Those that are refused at once count apart, so that strangers keep few newcomers
    /// waiting in the queue of the kernel, which may overflow.
    fn take_turn(
        &mut self,
        places: &ConnectionShares,
        mut accepted: impl FnMut(&mut Acceptor, TcpStream, SocketAddr) -> bool,
    ) {
        let (mut admitted, mut others) = (0, 0);
        while admitted < ACCEPTS_PER_TURN_MAX && others < REFUSALS_PER_TURN_MAX {
            let Some(number) = self.pending.pop_front() else { return };
            match self.accept_at(number, places) {
                Accepted::Connection(stream, peer) => {
                    self.pending.push_back(number);
                    let count = if accepted(self, stream, peer) { &mut admitted } else { &mut others };
                    *count += 1;
                }
                Accepted::Nothing => others += 1,
                Accepted::Paused => return self.pending.push_front(number),
            }
        }
    }

    fn accept_at(&mut self, number: usize, places: &ConnectionShares) -> Accepted {
        if places.is_full() {
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
        if self.ends_by_reset {
            reset(&stream);
        }
        self.log_first(peer.ip());
        if let Some(greediest) = shared.connections.join(ConnectionOrigin::of(peer)) {
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

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Client;

    use super::*;
    use crate::limits::CONNECTIONS_MAX;
    use crate::net::listener::listen_at;

    /// Takes a turn. Returns how many connections each of two listeners accepted.
    fn turn(acceptor: &mut Acceptor, places: &ConnectionShares, ports: [u16; 2]) -> [usize; 2] {
        let mut counts = [0; 2];
        acceptor.take_turn(places, |_, stream, _| {
            let port = stream.local_addr().unwrap().port();
            counts[usize::from(port == ports[1])] += 1;
            true
        });
        counts
    }

    #[test]
    fn a_crowd_at_one_listener_keeps_nobody_from_another() {
        let listeners = [(); 2].map(|()| listen_at("127.0.0.1:0".parse().unwrap()).unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let ports = addresses.map(|address| address.port());
        let connect = |number: usize| Client::connect(addresses[number]).unwrap();
        let mut acceptor = Acceptor::new(listeners.into(), Vec::new());
        let places = ConnectionShares::new(CONNECTIONS_MAX);
        let crowd = ACCEPTS_PER_TURN_MAX * 3;
        let _crowd: Vec<Client> = (0..crowd).map(|_| connect(0)).collect();
        let _others = [connect(1), connect(1)];
        for token in [MAILBOX.0, MAILBOX.0 - 1, MAILBOX.0 - 2, MAILBOX.0 - 1, MAILBOX.0 - 3, 0] {
            acceptor.on_event(Token(token));
        }
        assert_eq!(acceptor.pending, [0, 1]);
        assert_eq!(turn(&mut acceptor, &places, ports), [ACCEPTS_PER_TURN_MAX - 2, 2]);
        let _another = connect(1);
        acceptor.on_event(Token(MAILBOX.0 - 2));
        assert_eq!(turn(&mut acceptor, &places, ports), [ACCEPTS_PER_TURN_MAX - 1, 1]);
        assert_eq!(turn(&mut acceptor, &places, ports), [ACCEPTS_PER_TURN_MAX, 0]);
        assert_eq!(turn(&mut acceptor, &places, ports), [3, 0]);
        assert!(!acceptor.is_pending());
    }

    #[test]
    fn strangers_take_no_turns_of_newcomers() {
        let listener = listen_at("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(vec![listener], Vec::new());
        acceptor.on_event(Token(MAILBOX.0 - 1));
        let strangers = ACCEPTS_PER_TURN_MAX * 2;
        let _clients: Vec<Client> = (0..strangers + 1).map(|_| Client::connect(address).unwrap()).collect();
        let mut accepted = 0;
        acceptor.take_turn(&ConnectionShares::new(CONNECTIONS_MAX), |_, _, _| {
            accepted += 1;
            accepted > strangers
        });
        assert_eq!(accepted, strangers + 1, "the newcomer behind them too");
    }

    #[test]
    fn listeners_stay_pending_while_there_is_no_place() {
        let listener = listen_at("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(vec![listener], Vec::new());
        let _client = Client::connect(address).unwrap();
        acceptor.on_event(Token(MAILBOX.0 - 1));
        acceptor.take_turn(&ConnectionShares::new(0), |_, _, _| panic!("there was no place"));
        assert!(!acceptor.is_pending() && acceptor.paused_until().is_some());
        acceptor.paused = None;
        assert_eq!(turn(&mut acceptor, &ConnectionShares::new(1), [address.port(), 0]), [1, 0]);
    }
}
