//! The open connections of a listener: how many there may be, which gives way to a new one, and the means to close them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use parking_lot::Mutex;

use super::connection::Stream;
use super::response::SMALL_BYTES;
use super::{CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, REPLY_BYTES_MAX, STREAMS_MAX, STREAMS_PER_PEER_MAX};

/// The open connections.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    open: HashMap<u64, Open>,
}

struct Open {
    /// The host, as limits count it; none for processes of this machine, which have the permissions of the socket.
    origin: Option<IpAddr>,
    /// Its last request came from a known caller: a process of this machine, or the bearer of a token.
    is_known: bool,
    /// It is sent a stream, which ends with it.
    is_stream: bool,
    /// Since when no answer is being made for it. `None` while one is, and for a stream.
    idle: Option<Instant>,
    /// The bytes of the reply that it is being sent.
    reply: usize,
    /// A second descriptor of the socket.
    stream: Box<dyn Stream>,
}

impl Connections {
    /// Adds a connection. If there are too many, or too many of its host, the one of them that has been idle longest is closed
    /// for it; those that have not shown a token go first. Returns `None` if none is idle.
    pub(super) fn add(&self, origin: Option<IpAddr>, stream: Box<dyn Stream>) -> Option<u64> {
        let mut state = self.state.lock();
        if origin.is_some() && state.of(origin) >= CONNECTIONS_PER_PEER_MAX {
            state.close_idlest(|open| open.origin == origin)?;
        } else if state.open.len() >= CONNECTIONS_MAX {
            state.close_idlest(|_| true)?;
        }
        state.next += 1;
        let number = state.next;
        state.open.insert(
            number,
            Open {
                origin,
                is_known: origin.is_none(),
                is_stream: false,
                idle: Some(Instant::now()),
                reply: 0,
                stream,
            },
        );
        Some(number)
    }

    /// Notes whether the caller of the request that arrives is known.
    pub(super) fn note_caller(&self, number: u64, is_known: bool) {
        if let Some(open) = self.state.lock().open.get_mut(&number) {
            open.is_known = is_known;
        }
    }

    /// Notes that a whole request has arrived and its answer is being made. Before and after that, the connection counts as idle: a
    /// peer that sends or receives slowly must not keep others out.
    pub(super) fn set_busy(&self, number: u64) {
        if let Some(open) = self.state.lock().open.get_mut(&number) {
            open.idle = None;
        }
    }

    /// Notes that a connection is sent a stream until it is closed, unless too many are, in all or of its host.
    pub(super) fn begin_stream(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let origin = state.open.get(&number).and_then(|open| open.origin);
        let streams = || state.open.values().filter(|open| open.is_stream);
        let of_host = streams().filter(|open| open.origin == origin).count();
        if streams().count() >= STREAMS_MAX || (origin.is_some() && of_host >= STREAMS_PER_PEER_MAX) {
            return false;
        }
        if let Some(open) = state.open.get_mut(&number) {
            open.is_stream = true;
        }
        true
    }

    /// Notes that the answer for a connection is made, and that this many bytes are being sent. If replies hold too much, others that
    /// are being sent are given up for it. A small one, such as a refusal, does not count, so nobody without a token cuts off others.
    pub(super) fn begin_reply(&self, number: u64, bytes: usize) {
        let mut state = self.state.lock();
        let Some(open) = state.open.get_mut(&number) else { return };
        open.idle = Some(Instant::now());
        if bytes <= SMALL_BYTES {
            return;
        }
        open.reply = bytes;
        while state.reply_bytes(|_| true) > REPLY_BYTES_MAX && state.close_slowest_reply(number).is_some() {}
    }

    /// Notes that a reply was sent.
    pub(super) fn end_reply(&self, number: u64) {
        if let Some(open) = self.state.lock().open.get_mut(&number) {
            open.reply = 0;
        }
    }

    /// Removes a connection.
    pub(super) fn remove(&self, number: u64) {
        self.state.lock().open.remove(&number);
    }

    /// Ends the reads and writes of all connections.
    pub(super) fn shut_down(&self) {
        for open in self.state.lock().open.values() {
            open.stream.shut_down();
        }
    }
}

impl State {
    fn of(&self, origin: Option<IpAddr>) -> usize {
        self.open.values().filter(|open| open.origin == origin).count()
    }

    /// Returns the bytes of the replies that some connections are being sent.
    fn reply_bytes(&self, of: impl Fn(&Open) -> bool) -> usize {
        self.open.values().filter(|open| of(open)).map(|open| open.reply).sum()
    }

    /// Closes the connection to which a reply has been sent for longest, of those of the host with the most bytes; not `but`.
    fn close_slowest_reply(&mut self, but: u64) -> Option<()> {
        let others = self.open.iter().filter(|(number, open)| **number != but && open.reply > 0);
        let slowest = others.max_by_key(|(number, open)| {
            let of_host = self.reply_bytes(|other| other.origin == open.origin);
            (of_host, Reverse(open.idle), Reverse(**number))
        });
        let number = *slowest?.0;
        self.open.remove(&number)?.stream.shut_down();
        Some(())
    }

    /// Closes an idle connection that `may` go: the one idle longest, of those whose caller is unknown if there are any. That
    /// ends its thread.
    fn close_idlest(&mut self, may: impl Fn(&Open) -> bool) -> Option<()> {
        let idle = self
            .open
            .iter()
            .filter(|(_, open)| may(open))
            .filter_map(|(number, open)| Some((open.is_known, open.idle?, *number)));
        let (_, _, number) = idle.min()?;
        self.open.remove(&number)?.stream.shut_down();
        Some(())
    }
}
