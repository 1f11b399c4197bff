//! The thread that answers datagrams, at the ports of the connections: the quota tools of clients ask over UDP only.
//!
//! Anybody can send datagrams, in the name of anybody. Those of strangers are dropped unread, those of other hosts are limited in
//! rate, and no reply is longer than its call ([`nfs::datagrams`]). One thread that may wait for media suffices, and never
//! keeps connections waiting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use nfs::datagrams::Unanswered;
use nfs::link_local::named;
use nfs::service::origin;

use crate::background::driver::join;
use crate::clock;
use crate::counters::operations::Counted;
use crate::counters::runs::Source;
use crate::counters::tally::{Tally, TallySettings};
use crate::counters::{Counters, Dropped, add};
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAMS_PER_TURN_MAX};
use crate::net::event_loop::log_slow;
use crate::net::interfaces::source_towards;
use crate::protocol::Protocol;
use crate::protocol::calls::Calls as _;

use rates::Rates;

mod rates;

/// The token of the waker; sockets have their numbers.
const STOP: Token = Token(usize::MAX);

/// The thread.
pub(crate) struct Datagrams {
    counters: Arc<Counters>,
    stop: Waker,
    thread: JoinHandle<()>,
}

impl Datagrams {
    /// Starts the thread for `sockets`, which have the numbers of the listen addresses.
    pub(crate) fn start(
        mut sockets: Vec<UdpSocket>,
        protocol: Arc<Protocol>,
        settings: TallySettings,
    ) -> io::Result<Datagrams> {
        let poll = Poll::new()?;
        for (number, socket) in sockets.iter_mut().enumerate() {
            poll.registry().register(socket, Token(number), Interest::READABLE)?;
        }
        let stop = Waker::new(poll.registry(), STOP)?;
        let tally = Tally::new(sockets.len(), settings);
        let counters = Arc::new(Counters::without_connections(tally.tallied()));
        let answerer = Answerer { protocol, rates: Rates::default(), tally, counters: Arc::clone(&counters) };
        let run = move || answerer.run(poll, &sockets);
        let thread = thread::Builder::new().name("datagrams".to_owned()).spawn(run)?;
        Ok(Datagrams { counters, stop, thread })
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Ends the thread after the datagram that it is answering.
    pub(crate) fn stop(self) {
        self.stop.wake().expect("a byte fits the descriptor of the waker");
        join(self.thread);
    }
}

/// What the thread has.
struct Answerer {
    protocol: Arc<Protocol>,
    rates: Rates,
    tally: Tally,
    counters: Arc<Counters>,
}

impl Answerer {
    /// Answers datagrams until the thread is to stop. Sockets take turns, so that a crowd at one keeps nobody from another.
    fn run(mut self, mut poll: Poll, sockets: &[UdpSocket]) {
        let mut events = Events::with_capacity(sockets.len() + 1);
        let mut pending = vec![false; sockets.len()];
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        loop {
            let patience = pending.contains(&true).then_some(Duration::ZERO);
            match poll.poll(&mut events, patience) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    panic!("cannot wait for datagrams: {error}")
                }
                _ => {}
            }
            self.tally.begin_turn(clock::steady());
            for event in &events {
                match event.token() {
                    STOP => return,
                    Token(number) => pending[number] = true,
                }
            }
            for (number, (socket, pending)) in sockets.iter().zip(&mut pending).enumerate() {
                *pending = *pending && self.take_turn(number, socket, &mut buffer);
            }
            self.tally.end_turn(clock::steady(), log_slow);
        }
    }

    /// Answers some datagrams of a socket. Returns whether there may be more.
    fn take_turn(&mut self, number: usize, socket: &UdpSocket, buffer: &mut [u8]) -> bool {
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            match socket.recv_from(buffer) {
                Ok((length, peer)) => {
                    if let Err(dropped) = self.answer(number, socket, &buffer[..length], peer) {
                        add(&self.counters.dropped[dropped as usize], 1);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // That an earlier reply could not be delivered.
                Err(_) => {}
            }
        }
        true
    }

    /// Answers a datagram.
    fn answer(
        &mut self,
        number: usize,
        socket: &UdpSocket,
        datagram: &[u8],
        peer: SocketAddr,
    ) -> Result<(), Dropped> {
        add(&self.counters.received, datagram.len() as u64);
        let (service, now) = (self.protocol.service(), clock::read());
        let client = named(peer).filter(|client| service.admits(client.ip())).ok_or(Dropped::Stranger)?;
        if !self.rates.admits(origin(client.ip()), now.steady) {
            return Err(Dropped::Rate);
        }
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(Dropped::Malformed);
        }
        let local = local_towards(socket, peer).ok_or(Dropped::NoReply)?;
        let (reply, summary) = service.handle_datagram(datagram, (client, local), now).map_err(
            |unanswered| match unanswered {
                Unanswered::Malformed => Dropped::Malformed,
                Unanswered::NoReply => Dropped::NoReply,
            },
        )?;
        let target = u32::try_from(number).expect("there are few listen addresses");
        let counted = Counted { target, client: None };
        self.tally.count_bytes(counted, datagram.len() + reply.len());
        self.tally.begin_source(Source { counted, client: client.ip(), arrived: now.steady });
        self.tally.answered(&summary, now.steady);
        self.tally.note_time(clock::steady());
        self.tally.count_answered();
        self.protocol.await_tenure();
        // What cannot be sent is lost, as any datagram may be: the client asks again.
        let _ = socket.send_to(&reply, peer);
        Ok(())
    }
}

/// Returns the address by which `peer` can reach a socket: that from which a reply would be sent, if the socket is bound to all.
fn local_towards(socket: &UdpSocket, peer: SocketAddr) -> Option<SocketAddr> {
    let bound = socket.local_addr().ok()?;
    let ip = if bound.ip().is_unspecified() { source_towards(bound.ip(), peer)? } else { bound.ip() };
    Some(SocketAddr::new(ip, bound.port()))
}
