//! One event loop: a thread that serves its connections and never waits for anything but events.
//!
//! In each turn it takes what happened (sockets, messages of other threads, durability), executes calls, and at the end
//! writes to each connection once, however many replies that takes along.
//!
//! A turn is short: of connections that move much data one is served, with one portion ([`crate::admission::ready`]), and of calls that
//! are tried again as many as move a portion. So a small call of one client does not wait for megabytes of others.
//!
//! # Memory
//! `budget` counts what all its connections hold: records that are arriving, calls that wait, replies that have not left.
//! Before a call runs whose reply may be large, its size is reserved; while it does not fit, the call waits in its
//! connection. While requests are over their part, no socket is read, but that of one *favoured* connection at most: else
//! connections that have each received half a record would wait for each other. Connections wait in the order in which
//! they came. One that keeps memory waiting without moving a byte is closed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use nfs::service::{Connection as Ends, ConnectionId};

use crate::admission::budget::Budget;
use crate::admission::lines::{Lines, Place};
use crate::admission::ready::Ready;
use crate::counters::{Counters, add};
use crate::limits::{BUFFER_SHARE, DRAIN_MAX, PARKED_CHECK, READ_BYTES, STALL_MAX, TICK};
use crate::net::acceptor::Acceptor;
use crate::net::buffers::Buffers;
use crate::net::connection::Connection;
use crate::net::mailbox::{Mailbox, Message};
use crate::net::parked::Parked;
use crate::net::workers::{HeldCall, Owner, Workers};
use crate::protocol::calls::Calls;

mod answers;
mod input;

/// Events taken at once.
const EVENTS: usize = 1024;

/// The token of the mailbox; listeners have those before it, connections count from zero.
pub(crate) const MAILBOX: Token = Token(usize::MAX);

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) workers: Arc<Workers>,
    /// Calls that found no room in the engine.
    pub(crate) lines: Lines,
    /// Connections of all loops.
    pub(crate) connections: AtomicUsize,
}

/// The peer sent what deserves no connection.
struct Refused;

/// An event loop before and while it runs.
pub(crate) struct EventLoop {
    number: usize,
    poll: Poll,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    /// In the first loop only.
    acceptor: Option<Acceptor>,
    connections: Vec<Option<Box<Connection>>>,
    vacant: Vec<usize>,
    generation: u64,
    /// Where a connection is that a callback may be sent by.
    by_id: HashMap<ConnectionId, usize>,
    /// Connections with input to take.
    ready: Ready,
    /// Connections with input, for which there is no memory.
    starved: VecDeque<usize>,
    /// Connections with a call for whose reply there is no memory.
    hungry: VecDeque<usize>,
    favoured: Option<Owner>,
    /// Connections with output to send.
    touched: Vec<usize>,
    parked: Parked,
    /// Calls that the engine found no room for, and when to try them again.
    busy: BTreeMap<Place, HeldCall>,
    retry: Option<Instant>,
    at_workers: usize,
    buffers: Buffers,
    read_buffer: Vec<u8>,
    budget: Budget,
    /// What of `buffers` is counted.
    buffers_counted: usize,
    ticked: Instant,
    /// Set when the server stops: when to give up what is in flight.
    drain: Option<Instant>,
}

impl EventLoop {
    /// The loop of this number, whose connections hold at most `limit` bytes.
    pub(crate) fn new(
        number: usize,
        poll: Poll,
        mailbox: Arc<Mailbox>,
        shared: Arc<Shared>,
        limit: usize,
    ) -> EventLoop {
        EventLoop {
            number,
            poll,
            mailbox,
            shared,
            counters: Arc::new(Counters::new(limit)),
            acceptor: None,
            connections: Vec::new(),
            vacant: Vec::new(),
            generation: 0,
            by_id: HashMap::new(),
            ready: Ready::default(),
            starved: VecDeque::new(),
            hungry: VecDeque::new(),
            favoured: None,
            touched: Vec::new(),
            parked: Parked::default(),
            busy: BTreeMap::new(),
            retry: None,
            at_workers: 0,
            buffers: Buffers::new(limit / BUFFER_SHARE),
            read_buffer: vec![0; READ_BYTES],
            budget: Budget::new(limit),
            buffers_counted: 0,
            ticked: Instant::now(),
            drain: None,
        }
    }

    /// Makes this loop accept connections, for itself and others.
    pub(crate) fn accept_with(&mut self, mut acceptor: Acceptor) -> io::Result<()> {
        acceptor.register(self.poll.registry())?;
        self.acceptor = Some(acceptor);
        Ok(())
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves until it is told to drain and has done so.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut messages = Vec::new();
        while !self.is_drained() {
            let waiting = self.parked.awaits_durability() || !self.busy.is_empty();
            let early = self.mailbox.before_sleep(waiting);
            let timeout = if early { Duration::ZERO } else { self.sleep_most() };
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "an event loop cannot wait for events");
                return;
            }
            let progress = self.mailbox.after_sleep() | early;
            for event in &events {
                self.happened(event);
            }
            self.mailbox.take(&mut messages);
            for message in messages.drain(..) {
                self.read(message);
            }
            self.accept();
            self.release_parked();
            self.retry_busy(progress);
            let mut turn = self.ready.turn();
            let served = turn.len();
            while let Some(index) = self.ready.next(&mut turn) {
                self.serve(index);
            }
            if self.shared.calls.commit(served <= 1 && self.ready.is_empty()) {
                self.release_parked();
            }
            self.send_touched();
            self.feed();
            self.tick();
        }
    }

    /// How long there is nothing to do, if nothing happens.
    fn sleep_most(&self) -> Duration {
        if !self.ready.is_empty() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let check = self.parked.awaits_durability().then(|| now + PARKED_CHECK);
        let accept = self.acceptor.as_ref().and_then(Acceptor::paused_until);
        [check, accept, self.parked.next_time(), self.retry, self.drain]
            .into_iter()
            .flatten()
            .map(|time| time.saturating_duration_since(now))
            .fold(TICK, Duration::min)
    }

    fn happened(&mut self, event: &mio::event::Event) {
        let Token(index) = event.token();
        let Some(mut connection) = self.connections.get_mut(index).and_then(Option::take) else {
            if let Some(acceptor) = &mut self.acceptor {
                acceptor.happened(event.token());
            }
            return;
        };
        connection.closing |= event.is_read_closed() || event.is_error();
        connection.readable |= event.is_readable() || connection.closing;
        if event.is_writable() && connection.unsent() > 0 {
            self.touch(index, &mut connection);
        }
        self.put_back(index, connection);
    }

    fn read(&mut self, message: Message) {
        match message {
            Message::Connected(stream, ends) => self.connect(stream, ends),
            Message::Finished(finished) => {
                self.at_workers -= 1;
                self.finished(finished);
            }
            Message::Send(connection, callback, record) => self.send_callback(connection, callback, record),
            Message::Drain => {
                self.acceptor = None;
                self.drain = Some(Instant::now() + DRAIN_MAX);
            }
        }
    }

    fn accept(&mut self) {
        let Some(mut acceptor) = self.acceptor.take() else { return };
        let shared = Arc::clone(&self.shared);
        acceptor.accept(&shared.connections, |stream, ends| self.connect(stream, ends));
        self.acceptor = Some(acceptor);
    }

    fn connect(&mut self, mut stream: TcpStream, ends: Ends) {
        let index = self.vacant.pop().unwrap_or(self.connections.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.drain.is_some() || self.poll.registry().register(&mut stream, Token(index), interest).is_err()
        {
            self.vacant.push(index);
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.generation += 1;
        self.by_id.insert(ends.id, index);
        let connection = Box::new(Connection::new(stream, ends, self.generation));
        if index == self.connections.len() {
            self.connections.push(None);
        }
        self.put_back(index, connection);
    }

    /// Ends a connection that was taken out of its place.
    fn close(&mut self, index: usize, mut connection: Box<Connection>) {
        tracing::debug!(peer = %connection.ends.peer, "connection closed");
        // Closing the socket deregisters it as well.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        self.budget.count_requests(connection.counted_input, 0);
        self.budget.count_replies(connection.counted_output, 0);
        self.vacant.push(index);
        self.by_id.remove(&connection.ends.id);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.calls.connection_closed(connection.ends.id);
    }

    /// Puts a connection back into its place, and on the list on which its state belongs.
    fn put_back(&mut self, index: usize, mut connection: Box<Connection>) {
        // Memory for the next record is kept as long as there is plenty.
        if self.budget.is_tight() && connection.reader.is_between_records() {
            connection.reader.release();
        }
        self.count(&mut connection);
        if connection.is_over() {
            self.close(index, connection);
            return;
        }
        self.list(index, &mut connection);
        self.connections[index] = Some(connection);
    }

    /// Counts what a connection holds now.
    fn count(&mut self, connection: &mut Connection) {
        let input = connection.input_bytes();
        self.budget.count_requests(connection.counted_input, input);
        connection.counted_input = input;
        self.count_output(connection);
    }

    /// Counts what a connection's output holds now, and the buffers that are kept.
    fn count_output(&mut self, connection: &mut Connection) {
        let (output, kept) = (connection.output.held_bytes(), self.buffers.bytes());
        if output != connection.counted_output || kept != self.buffers_counted {
            self.budget.count_replies(connection.counted_output + self.buffers_counted, output + kept);
            connection.counted_output = output;
            self.buffers_counted = kept;
        }
    }

    fn connection_of(&mut self, owner: Owner) -> Option<&mut Box<Connection>> {
        let connection = self.connections.get_mut(owner.index)?.as_mut()?;
        (connection.generation == owner.generation).then_some(connection)
    }

    /// Remembers to send a connection's output at the end of the turn.
    fn touch(&mut self, index: usize, connection: &mut Connection) {
        if !connection.touched {
            connection.touched = true;
            self.touched.push(index);
        }
    }

    /// Sends the output of the turn: one system call for each connection, if its socket takes it.
    fn send_touched(&mut self) {
        for index in std::mem::take(&mut self.touched) {
            let Some(mut connection) = self.connections[index].take() else { continue };
            connection.touched = false;
            match connection.send(&mut self.buffers) {
                Ok(()) => self.put_back(index, connection),
                Err(_) => self.close(index, connection),
            }
        }
    }

    /// Once in a while: idle connections give memory back, and gauges are set.
    fn tick(&mut self) {
        self.counters.parked.store(self.parked.len(), Ordering::Relaxed);
        self.counters.in_line.store(self.busy.len(), Ordering::Relaxed);
        self.counters.held_bytes.store(self.budget.held(), Ordering::Relaxed);
        self.counters.held_bytes_highest.store(self.budget.highest(), Ordering::Relaxed);
        let count = self.connections.len() - self.vacant.len();
        self.counters.connections.store(count, Ordering::Relaxed);
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        let short = !self.starved.is_empty() || !self.hungry.is_empty();
        for index in 0..self.connections.len() {
            let Some(mut connection) = self.connections[index].take() else { continue };
            let silent = connection.moved.elapsed();
            if short && silent > STALL_MAX && connection.waits_for_peer() {
                tracing::warn!(peer = %connection.ends.peer, "connection closed: it held memory and did not move");
                add(&self.counters.refused, 1);
                self.close(index, connection);
                continue;
            }
            if silent > TICK && connection.reader.is_between_records() {
                connection.reader.release();
            }
            self.put_back(index, connection);
        }
    }

    /// Whether it was told to finish and has, or has run out of time.
    fn is_drained(&self) -> bool {
        let Some(deadline) = self.drain else { return false };
        let in_flight = self.parked.len() + self.busy.len() + self.at_workers;
        let unsent = self.connections.iter().flatten().filter(|connection| connection.unsent() > 0).count();
        if in_flight + unsent == 0 {
            return true;
        }
        let over = Instant::now() >= deadline;
        if over {
            tracing::warn!(
                in_flight,
                unsent,
                "stopping with replies that did not leave; clients will ask again"
            );
        }
        over
    }
}

#[cfg(test)]
mod tests;
