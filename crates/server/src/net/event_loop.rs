//! One event loop: a thread that serves its connections and waits for nothing but events.
//!
//! In each turn it takes what happened (sockets, messages of other threads, durability), executes calls, and at the end
//! writes to each connection once, whatever the number of replies.
//!
//! A turn is short. Of the connections that move much data or whose calls take long, one is served, with one portion
//! ([`crate::admission::ready`]); of calls that are tried again, as many as move a portion. A portion ends after some data, or
//! some time. So a small call of one client does not wait for megabytes of others, nor for their thousands of calls.
//!
//! # Memory
//! The budget counts what all connections of the loop hold: records that are arriving, calls that wait, replies that have
//! not been sent. [`crate::admission`] decides who waits when it is short, and whose connection is closed if that takes too
//! long.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use nfs::service::{Connection as Ends, origin};

use crate::admission::Admission;
use crate::admission::retry_queues::RetryQueues;
use crate::clock::CallClock;
use crate::counters::{Counters, add};
use crate::limits::{BLOCKED_CHECK, BUFFER_SHARE, DRAIN_MAX, PARKED_CHECK, READ_BYTES, TICK, TURN_MAX};
use crate::net::acceptor::Acceptor;
use crate::net::buffers::Buffers;
use crate::net::connection::Connection;
use crate::net::connection_shares::ConnectionShares;
use crate::net::connection_table::ConnectionTable;
use crate::net::deferred::DeferredCalls;
use crate::net::mailbox::{Mailbox, Message};
use crate::net::parked::Parked;
use crate::net::workers::Workers;
use crate::protocol::calls::Calls;

mod answers;
mod input;
mod room;

/// Events taken at once.
const EVENTS_MAX: usize = 1024;

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) workers: Arc<Workers>,
    /// The order of calls that wait for a limit of a volume.
    pub(crate) retry_queues: RetryQueues,
    /// Connections of all loops.
    pub(crate) connections: ConnectionShares,
    /// The mailboxes of all loops, by number.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
}

/// The peer broke a rule; its connection is closed.
struct Malformed;

/// An event loop before and while it runs.
pub(crate) struct EventLoop {
    number: usize,
    poll: Poll,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    /// In the first loop only.
    acceptor: Option<Acceptor>,
    connections: ConnectionTable,
    admission: Admission,
    deferred: DeferredCalls,
    parked: Parked,
    /// Connections with output to send.
    touched: Vec<usize>,
    buffers: Buffers,
    /// Bytes of `buffers` that the budget counts.
    buffers_counted: usize,
    read_buffer: Vec<u8>,
    ticked: Instant,
    /// When connections that give way are looked for again.
    next_eviction: Instant,
    call_clock: CallClock,
    /// When a stopping loop gives up what is in flight.
    drain: Option<Instant>,
}

impl EventLoop {
    /// Makes the loop of this number, whose connections hold at most `limit` bytes.
    pub(crate) fn new(number: usize, poll: Poll, shared: Arc<Shared>, limit: usize) -> EventLoop {
        EventLoop {
            number,
            poll,
            mailbox: Arc::clone(&shared.mailboxes[number]),
            shared,
            counters: Arc::new(Counters::new(limit)),
            acceptor: None,
            connections: ConnectionTable::default(),
            admission: Admission::new(limit),
            deferred: DeferredCalls::default(),
            parked: Parked::default(),
            touched: Vec::new(),
            buffers: Buffers::new(limit / BUFFER_SHARE),
            buffers_counted: 0,
            read_buffer: vec![0; READ_BYTES],
            ticked: Instant::now(),
            next_eviction: Instant::now(),
            call_clock: CallClock::new(),
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

    /// Serves until it is told to drain and nothing is in flight.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut messages = Vec::new();
        while !self.is_drained() {
            let waiting = self.parked.awaits_durability() || self.deferred.busy() > 0;
            let early = self.mailbox.before_sleep(waiting);
            let timeout = if early { Duration::ZERO } else { self.sleep_max() };
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "event loop ended: cannot wait for events; restart the server");
                return;
            }
            let progress = self.mailbox.after_sleep() | early;
            for event in &events {
                self.on_event(event);
            }
            self.mailbox.take(&mut messages);
            for message in messages.drain(..) {
                self.on_message(message);
            }
            self.accept();
            self.release_parked();
            self.retry_busy(progress);
            if self.deferred.busy() > 0 {
                self.retry_apart();
            }
            let served = self.serve_turn();
            if self.shared.calls.commit(served <= 1 && !self.admission.has_ready()) {
                self.release_parked();
            }
            self.send_touched();
            self.unblock();
            self.tick();
        }
    }

    /// Serves the connections of one turn. Returns how many they were.
    fn serve_turn(&mut self) -> usize {
        let (mut turn, mut served) = (self.admission.turn(), 0);
        self.call_clock.begin_turn();
        while let Some(key) = self.admission.next(&mut turn) {
            self.serve(key);
            served += 1;
            if self.call_clock.turn() >= TURN_MAX {
                turn.end_light();
            }
        }
        served
    }

    /// Returns how long the loop may sleep if nothing happens.
    fn sleep_max(&self) -> Duration {
        if self.admission.has_ready() || self.acceptor.as_ref().is_some_and(Acceptor::is_pending) {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let check = self.parked.awaits_durability().then(|| now + PARKED_CHECK);
        let blocked = self.admission.is_short().then(|| now + BLOCKED_CHECK);
        let accept = self.acceptor.as_ref().and_then(Acceptor::paused_until);
        [check, blocked, accept, self.parked.next_time(), self.deferred.next_retry(), self.drain]
            .into_iter()
            .flatten()
            .map(|time| time.saturating_duration_since(now))
            .fold(TICK, Duration::min)
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        let Token(index) = event.token();
        let Some(mut connection) = self.connections.take(index) else {
            if let Some(acceptor) = &mut self.acceptor {
                acceptor.on_event(event.token());
            }
            return;
        };
        connection.on_event(event);
        if event.is_writable() && connection.unsent() > 0 {
            self.touch(&mut connection);
        }
        self.put_back(connection);
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Connected(stream, ends) => self.connect(stream, ends),
            Message::Executed(executed) => {
                self.deferred.at_workers -= 1;
                self.executed(*executed);
            }
            Message::Send(connection, callback, record) => self.send_callback(connection, callback, record),
            Message::GiveWay(origin, asked) => self.give_way(origin, asked),
            Message::Drain => {
                self.acceptor = None;
                self.drain = Some(Instant::now() + DRAIN_MAX);
            }
        }
    }

    fn accept(&mut self) {
        let Some(mut acceptor) = self.acceptor.take() else { return };
        let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(&self.counters));
        acceptor.accept(&shared, &counters, |stream, ends| self.connect(stream, ends));
        self.acceptor = Some(acceptor);
    }

    fn connect(&mut self, mut stream: TcpStream, ends: Ends) {
        let token = Token(self.connections.next_index());
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.drain.is_some() || self.poll.registry().register(&mut stream, token, interest).is_err() {
            self.shared.connections.leave(origin(ends.peer.ip()));
            return;
        }
        let origin = self.admission.budget.origins.join(origin(ends.peer.ip()));
        let connection = self.connections.reserve(stream, ends, origin);
        self.put_back(connection);
    }

    /// Closes a connection that was taken out of its place.
    fn close(&mut self, mut connection: Box<Connection>) {
        tracing::debug!(client = %connection.ends.peer, "connection closed");
        connection.deregister(self.poll.registry());
        let origin_key = connection.key.origin;
        if connection.is_queued {
            self.admission.forget(connection.key);
        }
        let budget = &mut self.admission.budget;
        budget.count_requests(origin_key, connection.counted_input, 0);
        budget.count_replies(origin_key, connection.counted_output + connection.granted_bytes(), 0);
        budget.origins.leave(origin_key);
        self.connections.remove(&connection);
        self.shared.connections.leave(origin(connection.ends.peer.ip()));
        self.shared.calls.connection_closed(connection.ends.id);
    }

    /// Closes a connection because of what it sent.
    fn refuse(&mut self, connection: Box<Connection>) {
        add(&self.counters.malformed, 1);
        self.close(connection);
    }

    /// Closes a connection to make room for others.
    fn evict(&mut self, connection: Box<Connection>, why: &'static str) {
        add(&self.counters.evicted, 1);
        tracing::warn!(client = %connection.ends.peer.ip(), why, "connection closed to make room");
        self.close(connection);
    }

    /// Closes a connection of the origin that has the most: an idle one, or if no loop has one of those, the one that has
    /// been silent longest.
    fn give_way(&mut self, origin: IpAddr, asked: usize) {
        let loops = self.shared.mailboxes.len();
        if let Some(connection) = self.connections.take_idlest(origin, asked < loops) {
            self.evict(connection, "too many connections");
        } else if asked + 1 < 2 * loops {
            let next = (self.number + 1) % loops;
            self.shared.mailboxes[next].send(Message::GiveWay(origin, asked + 1));
            return;
        }
        self.shared.connections.gave_up(origin);
    }

    /// Puts a connection back into its place and into the queue it belongs to.
    fn put_back(&mut self, mut connection: Box<Connection>) {
        connection.release_reserved();
        if let Some(standing) = connection.take_shown() {
            self.admission.budget.origins.note(connection.key.origin, standing, Instant::now());
        }
        // While its origin has plenty of memory, the buffer is kept for the next record.
        if connection.receiver.is_between_records() && !self.admission.has_plenty(connection.key) {
            connection.receiver.release();
        }
        self.count(&mut connection);
        if connection.is_over() {
            self.close(connection);
            return;
        }
        self.enqueue(&mut connection);
        self.connections.put(connection);
    }

    /// Counts what a connection holds.
    fn count(&mut self, connection: &mut Connection) {
        let input = connection.input_bytes();
        if input != connection.counted_input {
            self.admission.budget.count_requests(connection.key.origin, connection.counted_input, input);
            connection.counted_input = input;
        }
        self.count_output(connection);
    }

    /// Counts what a connection's output holds, and the buffers that are kept.
    fn count_output(&mut self, connection: &mut Connection) {
        let (output, kept) = (connection.output.held_bytes(), self.buffers.bytes());
        let budget = &mut self.admission.budget;
        if output != connection.counted_output {
            budget.count_replies(connection.key.origin, connection.counted_output, output);
            connection.counted_output = output;
        }
        if kept != self.buffers_counted {
            budget.count_buffers(self.buffers_counted, kept);
            self.buffers_counted = kept;
        }
    }

    /// Has a connection's output sent at the end of the turn.
    fn touch(&mut self, connection: &mut Connection) {
        if !connection.is_touched {
            connection.is_touched = true;
            self.touched.push(connection.key.index);
        }
    }

    /// Sends the output of the turn, with one system call for each connection if its socket takes it.
    fn send_touched(&mut self) {
        for index in std::mem::take(&mut self.touched) {
            let Some(mut connection) = self.connections.take(index) else { continue };
            connection.is_touched = false;
            match connection.send(&mut self.buffers) {
                Ok(()) => self.put_back(connection),
                Err(_) => self.close(connection),
            }
        }
    }

    /// Sets the gauges. Once in [`TICK`], notes which peers move much, and has idle connections give memory back.
    fn tick(&mut self) {
        self.counters.parked.store(self.parked.len(), Ordering::Relaxed);
        self.counters.retry_queued.store(self.deferred.busy(), Ordering::Relaxed);
        self.counters.held_bytes.store(self.admission.budget.held(), Ordering::Relaxed);
        self.counters.held_bytes_highest.store(self.admission.budget.highest(), Ordering::Relaxed);
        self.counters.connections.store(self.connections.len(), Ordering::Relaxed);
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        self.admission.budget.origins.forget_paces(self.ticked);
        for index in self.connections.indexes() {
            let Some(mut connection) = self.connections.take(index) else { continue };
            connection.tick();
            let silent = connection.silent_for();
            if silent > TICK && connection.receiver.is_between_records() {
                connection.receiver.release();
            }
            self.put_back(connection);
        }
    }

    /// Whether the loop was told to drain, and nothing is in flight or its time is over.
    fn is_drained(&self) -> bool {
        let Some(deadline) = self.drain else { return false };
        let in_flight = self.parked.len() + self.deferred.in_flight();
        let unsent = self.connections.iter().filter(|connection| connection.unsent() > 0).count();
        if in_flight + unsent == 0 {
            return true;
        }
        let is_over = Instant::now() >= deadline;
        if is_over {
            tracing::warn!(
                in_flight,
                unsent,
                "stopping with unsent replies; clients will repeat their calls"
            );
        }
        is_over
    }
}

#[cfg(test)]
pub(crate) mod tests;
