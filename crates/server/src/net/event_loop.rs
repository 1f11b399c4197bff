//! One event loop: a thread that serves its connections and waits for nothing but events.
//!
//! In each turn it takes what happened (sockets, messages of other threads, durability), executes calls, and at the end
//! writes to each connection once, whatever the number of replies.
//!
//! A turn is short. Of the connections that move much data or whose calls take long, one is served, with one portion
//! ([`crate::admission::ready`]); of calls that are tried again, as many as move a portion. A portion ends after some data, or
//! some time. So a small call of one client does not wait for megabytes of others, nor for their thousands of calls. What else
//! may come in any number is bounded as well: replies that became durable, output that sockets take, connections that give way.
//! The next turn, which begins at once, goes on with the rest.
//!
//! # Memory
//! The budget counts what all connections of the loop hold: records that are arriving, calls that wait, replies that have
//! not been sent. [`crate::admission`] decides who waits when it is short, and whose connection is closed if that takes too
//! long.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use nfs::link_local::{Shown, socket_address};
use nfs::service::Connection as Ends;
use qos::Released;
use volume::time::Time;

use crate::admission::origins::Held;
use crate::admission::retry_queues::RetryQueues;
use crate::admission::{Admission, ConnectionKey};
use crate::clock::{self, CallClock};
use crate::connection_origin::ConnectionOrigin;
use crate::counters::census::Connected;
use crate::counters::tally::{SlowCall, Tally, TallySettings};
use crate::counters::{Counters, add};
use crate::limits::{
    BLOCKED_CHECK, BUFFER_SHARE, DRAIN_MAX, PARKED_CHECK, PORTION_MAX, READ_BYTES, SENDS_PER_TURN_MAX,
    SENT_PER_TURN_BYTES, TICK, TURN_MAX,
};
use crate::net::buffers::Buffers;
use crate::net::connection::{Connection, Newcomer, Sent};
use crate::net::connection_shares::ConnectionShares;
use crate::net::connection_table::ConnectionTable;
use crate::net::deferred::DeferredCalls;
use crate::net::held::HeldCalls;
use crate::net::mailbox::{Mailbox, Message};
use crate::net::parked::Parked;
use crate::net::workers::Workers;
use crate::protocol::calls::Calls;
use crate::rates::Rates;

mod answers;
mod holding;
mod input;
mod room;

/// Events taken at once.
const EVENTS_MAX: usize = 1024;

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) workers: Arc<Workers>,
    /// The order of calls that wait for a limit of a pool.
    pub(crate) retry_queues: RetryQueues,
    /// Rate limits.
    pub(crate) rates: Arc<Rates>,
    /// Connections of all loops.
    pub(crate) connections: ConnectionShares,
    /// The mailboxes of all loops, by number.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// The listen addresses.
    pub(crate) targets: Vec<SocketAddr>,
}

impl Shared {
    /// Returns the number of the listen address that a connection came by, whose own end has this address.
    fn target(&self, local: SocketAddr) -> usize {
        let exact = self.targets.iter().position(|target| *target == local);
        let any = || {
            let is_wide = |target: &SocketAddr| target.ip().is_unspecified() && target.port() == local.port();
            self.targets.iter().position(is_wide)
        };
        exact.or_else(any).unwrap_or(0)
    }
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
    tally: Tally,
    connections: ConnectionTable,
    admission: Admission,
    deferred: DeferredCalls,
    /// Calls that rate limits hold.
    held: HeldCalls,
    /// What they release; empty between turns.
    released: Vec<Released>,
    parked: Parked,
    /// Connections with output to send.
    touched: VecDeque<usize>,
    /// Connections that are to be closed to make room.
    giving_way: Vec<ConnectionKey>,
    /// The last turn left something to the next one, since it would have taken too long.
    has_more: bool,
    buffers: Buffers,
    /// Bytes of `buffers` that the budget counts.
    buffers_counted: usize,
    read_buffer: Vec<u8>,
    ticked: Time,
    /// When connections that give way are looked for again.
    next_eviction: Instant,
    call_clock: CallClock,
    /// When a stopping loop gives up what is in flight.
    drain: Option<Instant>,
}

impl EventLoop {
    /// Makes the loop of this number, whose connections hold at most `limit` bytes.
    pub(crate) fn new(
        number: usize,
        poll: Poll,
        shared: Arc<Shared>,
        limit: usize,
        settings: TallySettings,
    ) -> EventLoop {
        let tally = Tally::new(shared.targets.len(), settings);
        EventLoop {
            number,
            poll,
            mailbox: Arc::clone(&shared.mailboxes[number]),
            shared,
            counters: Arc::new(Counters::new(limit, tally.tallied())),
            tally,
            connections: ConnectionTable::default(),
            admission: Admission::new(limit),
            deferred: DeferredCalls::default(),
            held: HeldCalls::new(limit),
            released: Vec::new(),
            parked: Parked::default(),
            touched: VecDeque::new(),
            giving_way: Vec::new(),
            has_more: false,
            buffers: Buffers::new(limit / BUFFER_SHARE),
            buffers_counted: 0,
            read_buffer: vec![0; READ_BYTES],
            ticked: clock::steady(),
            next_eviction: Instant::now(),
            call_clock: CallClock::new(),
            drain: None,
        }
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
            self.call_clock.wake();
            self.tally.begin_turn(self.call_clock.woken());
            self.has_more = false;
            for event in &events {
                self.on_event(event);
            }
            self.mailbox.take(&mut messages);
            for message in messages.drain(..) {
                self.on_message(message);
            }
            self.release_held();
            self.release_parked();
            self.retry_busy(progress);
            if self.deferred.busy() > 0 {
                self.retry_apart();
                self.call_clock.pass();
            }
            let served = self.serve_turn();
            if self.shared.calls.commit(served <= 1 && !self.admission.has_ready()) {
                self.release_parked();
            }
            self.send_touched();
            if !self.deferred.roomless.is_empty() {
                self.readmit();
            }
            self.unblock();
            self.tick();
        }
    }

    /// Serves the connections of one turn. Returns how many they were. Replies leave at the end of the turn, with others of their
    /// connection, unless the calls have taken long: then they do not wait for the next ones.
    fn serve_turn(&mut self) -> usize {
        let (mut turn, mut served) = (self.admission.turn(), 0);
        self.call_clock.begin_turn();
        let mut send_at = PORTION_MAX;
        while let Some(key) = self.admission.next(&mut turn) {
            self.serve(key);
            served += 1;
            let now = self.call_clock.seen();
            self.tally.note_time(now);
            let took = self.call_clock.turn();
            if took >= send_at {
                self.send_touched();
                self.end_turn(clock::steady());
                self.call_clock.pass();
                send_at = took + PORTION_MAX;
            }
            if took >= TURN_MAX {
                self.admission.end_turn(&mut turn);
            }
        }
        served
    }

    /// Returns how long the loop may sleep if nothing happens.
    fn sleep_max(&self) -> Duration {
        if self.has_more || self.admission.has_ready() {
            return Duration::ZERO;
        }
        let check = self.parked.awaits_durability().then_some(PARKED_CHECK);
        let blocked = self.admission.is_short().then_some(BLOCKED_CHECK);
        let most = [check, blocked].into_iter().flatten().fold(TICK, Duration::min);
        let most = self.shared.rates.next_deadline().map_or(most, |due| due.since(clock::steady()).min(most));
        let times = [self.parked.next_time(), self.deferred.next_retry(), self.drain];
        match times.into_iter().flatten().min() {
            Some(time) => time.saturating_duration_since(Instant::now()).min(most),
            None => most,
        }
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        let Token(index) = event.token();
        // An event may be of the mailbox, or of a connection that was just closed.
        let Some(mut connection) = self.connections.take(index) else { return };
        if event.is_readable() && !connection.has_input() {
            connection.arrived = self.call_clock.woken();
        }
        if event.is_error() {
            // Nobody takes its replies, so that its calls need neither wait nor be executed.
            connection.reset();
            self.close(connection);
            return;
        }
        connection.on_event(event);
        if event.is_writable() && connection.unsent() > 0 {
            self.touch(&mut connection);
        }
        self.put_back(connection);
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Connected(newcomer) => self.connect(newcomer),
            Message::Executed(executed) => self.came_back(*executed),
            Message::Send(connection, callback, record) => self.send_callback(connection, callback, record),
            Message::GiveWay(origin, asked) => self.give_way(origin, asked),
            Message::Released(released) => self.on_released(released),
            Message::Drain => self.drain = Some(Instant::now() + DRAIN_MAX),
        }
    }

    fn connect(&mut self, mut newcomer: Newcomer) {
        let token = Token(self.connections.next_index());
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.drain.is_some()
            || self.poll.registry().register(&mut newcomer.stream, token, interest).is_err()
        {
            self.shared.connections.leave(newcomer.place, 0);
            return;
        }
        let origin = self.admission.budget.origins.join(newcomer.place.origin);
        let ends = &newcomer.ends;
        let counted = self.tally.connected(self.shared.target(ends.local), client_of(ends));
        let connection = self.connections.reserve(newcomer, origin, counted);
        self.put_back(connection);
    }

    /// Closes a connection that was taken out of its place.
    fn close(&mut self, mut connection: Box<Connection>) {
        tracing::debug!(client = %socket_address(connection.ends.peer), "connection closed");
        connection.deregister(self.poll.registry());
        connection.departure.complete();
        self.forget_held(&mut connection);
        let origin_key = connection.key.origin;
        if connection.is_queued {
            self.admission.forget(connection.key);
        }
        self.take_back(&mut connection);
        let budget = &mut self.admission.budget;
        budget.count(origin_key, connection.counted_input, Held::default());
        budget.count_replies(origin_key, connection.counted_output + connection.granted_bytes(), 0);
        budget.origins.leave(origin_key);
        self.tally.disconnected(connection.counted);
        self.connections.remove(&connection);
        if !self.shared.connections.leave(connection.place, connection.unread_max()) {
            connection.reset();
        }
        self.shared.calls.connection_closed(connection.ends.id);
    }

    /// Closes a connection because of what it sent.
    fn refuse(&mut self, connection: Box<Connection>) {
        add(&self.counters.malformed, 1);
        self.tally.count_malformed(connection.counted);
        self.close(connection);
    }

    /// Closes a connection to make room for others.
    fn evict(&mut self, mut connection: Box<Connection>, why: &'static str) {
        connection.reset();
        add(&self.counters.evicted, 1);
        tracing::warn!(
            event = "connection_evicted",
            client = %Shown(connection.ends.peer.ip()),
            why,
            "connection closed to make room"
        );
        self.close(connection);
    }

    /// Closes a connection of the origin that has the most: an idle one, or if no loop has one of those, the one that has
    /// been silent longest.
    fn give_way(&mut self, origin: ConnectionOrigin, asked: usize) {
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
        if connection.lent > 0 && !connection.keeps_input() {
            // The call was executed at once.
            self.take_back(&mut connection);
        }
        self.drop_if_leaving(&mut connection);
        connection.release_reserved();
        if let Some(standing) = connection.take_shown() {
            self.admission.budget.origins.note(connection.key.origin, standing, Instant::now());
        }
        // While its origin has plenty of memory, the buffer is kept for the next record.
        if connection.receiver.is_between_records() && self.admission.unseen_max(connection.key) == 0 {
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

    /// Takes back what was lent for a connection's record.
    fn take_back(&mut self, connection: &mut Connection) {
        let lent = std::mem::take(&mut connection.lent);
        self.admission.budget.take_back(connection.key.origin, lent);
    }

    /// Counts what a connection holds.
    fn count(&mut self, connection: &mut Connection) {
        let input = connection.held_input();
        if input != connection.counted_input {
            self.admission.budget.count(connection.key.origin, connection.counted_input, input);
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
            self.touched.push_back(connection.key.index);
        }
    }

    /// Sends output of a connection, after what it answers was counted.
    #[inline]
    fn send(&mut self, connection: &mut Connection) -> io::Result<Sent> {
        self.tally.count_answered();
        connection.send(&mut self.buffers)
    }

    /// Sends the output of the turn, with one system call for each connection if its socket takes it, until much was sent.
    /// Connections whose output is not sent yet come first in the next turn, and partly sent ones last.
    fn send_touched(&mut self) {
        if !self.touched.is_empty() {
            self.shared.calls.await_tenure();
        }
        let mut bytes = 0;
        for _ in 0..self.touched.len().min(SENDS_PER_TURN_MAX) {
            if bytes >= SENT_PER_TURN_BYTES {
                break;
            }
            let Some(index) = self.touched.pop_front() else { break };
            let Some(mut connection) = self.connections.take(index) else { continue };
            connection.is_touched = false;
            match self.send(&mut connection) {
                Ok(sent) => {
                    bytes += sent.bytes;
                    if sent.may_go_on {
                        self.touch(&mut connection);
                    }
                    self.put_back(connection);
                }
                Err(_) => self.close(connection),
            }
        }
        self.has_more |= !self.touched.is_empty();
    }

    /// Sets the gauges. Once in [`TICK`], notes which peers move much, has idle connections give memory
    /// back, and counts who is connected if somebody asks.
    fn tick(&mut self) {
        self.counters.parked.store(self.parked.len(), Ordering::Relaxed);
        self.counters.retry_queued.store(self.deferred.busy(), Ordering::Relaxed);
        self.counters.rate_held.store(self.held.len(), Ordering::Relaxed);
        self.counters.held_bytes.store(self.admission.budget.held(), Ordering::Relaxed);
        self.counters.held_bytes_highest.store(self.admission.budget.highest(), Ordering::Relaxed);
        self.counters.connections.store(self.connections.len(), Ordering::Relaxed);
        let now = clock::steady();
        self.end_turn(now);
        if now.since(self.ticked) < TICK {
            return;
        }
        self.ticked = now;
        self.admission.budget.origins.forget_paces(Instant::now());
        let mut census = self.counters.census.is_wanted().then(HashMap::<IpAddr, Connected>::new);
        for index in self.connections.indexes() {
            let Some(mut connection) = self.connections.take(index) else { continue };
            connection.tick();
            let silent = connection.silent_for();
            if silent > TICK && connection.receiver.is_between_records() {
                connection.receiver.release();
            }
            if let Some(clients) = &mut census {
                clients.entry(client_of(&connection.ends)).or_default().add(&connection.connected());
            }
            self.put_back(connection);
        }
        if let Some(clients) = census {
            self.counters.census.show(clients);
        }
    }

    /// Counts the latencies of the calls that this turn answered.
    fn end_turn(&mut self, now: Time) {
        self.tally.end_turn(now, log_slow);
    }

    /// Whether the loop was told to drain, and nothing is in flight or its time is over.
    fn is_drained(&self) -> bool {
        let Some(deadline) = self.drain else { return false };
        let in_flight = self.parked.len() + self.deferred.in_flight() + self.held.len();
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

/// Returns the address that a client is counted by.
fn client_of(ends: &Ends) -> IpAddr {
    ends.peer.ip().to_canonical()
}

/// Reports a slow call.
pub(crate) fn log_slow(slow: &SlowCall) {
    let milliseconds = |nanos: u64| nanos / 1_000_000;
    let [queue, qos, line, engine, durability, send] = slow.timing.nanos().map(milliseconds);
    tracing::warn!(
        event = "slow_operation",
        client = %Shown(slow.client),
        protocol = slow.operation.protocol().name(),
        operation = slow.operation.name(),
        volume_id = slow.volume.map(tracing::field::display),
        calls = slow.calls,
        milliseconds = milliseconds(slow.timing.total()),
        queue,
        qos,
        line,
        engine,
        durability,
        send,
        "slow operation"
    );
}

#[cfg(test)]
pub(crate) mod tests;
