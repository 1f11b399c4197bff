//! One event loop: a thread that serves its connections and never waits for anything but events.
//!
//! In each turn it takes what happened (sockets, messages of other threads, durability), executes calls, and at the end
//! writes to each connection once, however many replies that takes along.
//!
//! # Memory
//! `held` is what all its connections hold: records that are arriving, calls that wait, replies that have not left. While
//! it is over `limit`, no socket is read, but that of one *favoured* connection at most: else connections that have each
//! received half a record would wait for each other. One that keeps memory waiting without moving a byte is closed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use nfs::service::Connection as Ends;
use wire::limits::RECORD_BYTES_MAX;
use wire::record::RecordReader;

use crate::acceptor::Acceptor;
use crate::buffers::Buffers;
use crate::calls::Calls;
use crate::connection::{Connection, Received};
use crate::counters::{Counters, add};
use crate::limits::{DRAIN_MAX, PARKED_CHECK, READ_BYTES, SEND_EARLY_BYTES, STALL_MAX, TICK};
use crate::mailbox::{Mailbox, Message};
use crate::parked::Parked;
use crate::workers::{HeldCall, Owner, Workers};

mod answers;

/// Events taken at once.
const EVENTS: usize = 1024;

/// The token of the mailbox; listeners have those before it, connections count from zero.
pub(crate) const MAILBOX: Token = Token(usize::MAX);

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) workers: Arc<Workers>,
    /// Connections of all loops.
    pub(crate) connections: AtomicUsize,
}

/// The peer sent what deserves no connection.
struct Refused;

/// An event loop before and while it runs.
pub(crate) struct EventLoop {
    poll: Poll,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    /// In the first loop only.
    acceptor: Option<Acceptor>,
    connections: Vec<Option<Box<Connection>>>,
    vacant: Vec<usize>,
    generation: u64,
    /// Connections with input to take.
    ready: VecDeque<usize>,
    /// Connections with input, for which there is no memory.
    starved: VecDeque<usize>,
    favoured: Option<Owner>,
    /// Connections with output to send.
    touched: Vec<usize>,
    parked: Parked,
    /// Calls that the engine found no room for, and when to try them again.
    busy: VecDeque<HeldCall>,
    retry: Option<Instant>,
    at_workers: usize,
    buffers: Buffers,
    read_buffer: Vec<u8>,
    held: usize,
    limit: usize,
    ticked: Instant,
    /// Set when the server stops: when to give up what is in flight.
    drain: Option<Instant>,
}

impl EventLoop {
    /// A loop whose connections hold at most `limit` bytes.
    pub(crate) fn new(poll: Poll, mailbox: Arc<Mailbox>, shared: Arc<Shared>, limit: usize) -> EventLoop {
        EventLoop {
            poll,
            mailbox,
            shared,
            counters: Arc::default(),
            acceptor: None,
            connections: Vec::new(),
            vacant: Vec::new(),
            generation: 0,
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            favoured: None,
            touched: Vec::new(),
            parked: Parked::default(),
            busy: VecDeque::new(),
            retry: None,
            at_workers: 0,
            buffers: Buffers::default(),
            read_buffer: vec![0; READ_BYTES],
            held: 0,
            limit,
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
            for _ in 0..self.ready.len() {
                self.serve_next();
            }
            self.send_touched();
            self.feed_starved();
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
        self.held -= connection.counted;
        self.vacant.push(index);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Puts a connection back into its place, and on the list on which its state belongs.
    fn put_back(&mut self, index: usize, mut connection: Box<Connection>) {
        // Memory for the next record is kept as long as there is plenty.
        if self.held > self.limit / 2 && connection.reader.is_between_records() {
            connection.reader.release();
        }
        let bytes = connection.held_bytes();
        self.held = self.held - connection.counted + bytes;
        connection.counted = bytes;
        if connection.is_over() {
            self.close(index, connection);
            return;
        }
        let wanted = self.drain.is_none() && connection.has_input() && !connection.is_full();
        if wanted && !connection.listed {
            connection.listed = true;
            let owner = Owner { index, generation: connection.generation };
            let list = if self.has_room(owner) { &mut self.ready } else { &mut self.starved };
            list.push_back(index);
        }
        self.connections[index] = Some(connection);
    }

    /// Whether there is memory to read from this connection.
    fn has_room(&self, owner: Owner) -> bool {
        self.held < self.limit || self.favoured == Some(owner)
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

    /// Takes one portion of input from the connection that waits longest.
    fn serve_next(&mut self) {
        let Some(index) = self.ready.pop_front() else { return };
        let Some(mut connection) = self.connections[index].take() else { return };
        let owner = Owner { index, generation: connection.generation };
        connection.listed = false;
        // Both may have changed since it was listed. Where it is put back, it is listed again when it is time.
        if connection.is_full() || !self.has_room(owner) {
            self.put_back(index, connection);
            return;
        }
        let result = if connection.rest.is_empty() {
            let mut buffer = std::mem::take(&mut self.read_buffer);
            let result = match connection.receive(&mut buffer) {
                Received::Bytes(count) => {
                    add(&self.counters.received, u64::try_from(count).unwrap_or(0));
                    self.take_in(index, &mut connection, &buffer[..count])
                }
                Received::Nothing => Ok(()),
                Received::End => {
                    connection.ended = true;
                    Ok(())
                }
            };
            self.read_buffer = buffer;
            result
        } else {
            let rest = std::mem::take(&mut connection.rest);
            self.take_in(index, &mut connection, &rest)
        };
        match result {
            Ok(()) => self.put_back(index, connection),
            Err(Refused) => {
                add(&self.counters.refused, 1);
                // What was answered before may still leave.
                let _ = connection.send(&mut self.buffers);
                self.close(index, connection);
            }
        }
    }

    /// Executes the calls that `input` completes, as far as the connection's limits allow.
    fn take_in(
        &mut self,
        index: usize,
        connection: &mut Connection,
        mut input: &[u8],
    ) -> Result<(), Refused> {
        let mut reader = std::mem::replace(&mut connection.reader, RecordReader::new(RECORD_BYTES_MAX));
        let mut result = Ok(());
        while !input.is_empty() && result.is_ok() {
            if connection.is_full() && (connection.send(&mut self.buffers).is_err() || connection.is_full()) {
                connection.rest = input.to_vec();
                break;
            }
            if connection.unsent() >= SEND_EARLY_BYTES && connection.send(&mut self.buffers).is_err() {
                // The end of the turn finds the same and closes it.
                break;
            }
            result = match reader.next(&mut input) {
                Ok(Some(record)) => self.call(index, connection, record),
                Ok(None) => Ok(()),
                Err(error) => {
                    tracing::debug!(peer = %connection.ends.peer, %error, "connection refused");
                    Err(Refused)
                }
            };
        }
        connection.reader = reader;
        if connection.unsent() > 0 {
            self.touch(index, connection);
        }
        result
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

    /// Lets connections be read again if there is memory, or else one of them.
    fn feed_starved(&mut self) {
        if self.held < self.limit {
            self.favoured = None;
            self.ready.append(&mut self.starved);
            return;
        }
        let in_flight = self.parked.len() + self.busy.len() + self.at_workers;
        let favoured = self.favoured.and_then(|owner| self.connection_of(owner));
        if in_flight > 0 || favoured.is_some_and(|connection| !connection.reader.is_between_records()) {
            return;
        }
        self.favoured = None;
        while let Some(index) = self.starved.pop_front() {
            if let Some(connection) = &self.connections[index] {
                self.favoured = Some(Owner { index, generation: connection.generation });
                self.ready.push_back(index);
                return;
            }
        }
    }

    /// Once in a while: idle connections give memory back, and gauges are set.
    fn tick(&mut self) {
        self.counters.parked.store(self.parked.len(), Ordering::Relaxed);
        self.counters.held_bytes.store(self.held, Ordering::Relaxed);
        let count = self.connections.len() - self.vacant.len();
        self.counters.connections.store(count, Ordering::Relaxed);
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        let short = self.held >= self.limit;
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
