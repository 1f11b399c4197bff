//! One connection: the record that is arriving, the replies that are being sent, and what lies between.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::time::{Duration, Instant};

use mio::Registry;
use mio::net::TcpStream;
use nfs::charge::CopyTerms;
use nfs::limits::PAYLOAD_BYTES_MIN;
use nfs::service::{Connection as Ends, KeptRecord, Receiver};
use nfs::summary::Protocol;
use volume::time::Time;
use wire::limits::RECORD_BYTES_MAX;
use wire::record::MARK_BYTES;

use crate::admission::eviction::{Because, Holder};
use crate::admission::origins::{Held, Standing};
use crate::admission::pace::Pace;
use crate::admission::{ConnectionKey, Short, Want};
use crate::counters::census::Connected;
use crate::counters::operations::Counted;
use crate::counters::phases::{Phase, Timing};
use crate::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_CALLS_MAX, FAST_TICK_BYTES, PORTION_BYTES, SMALL_REPLY_ROOM_MAX,
};
use crate::net::buffers::Buffers;
use crate::net::connection_shares::Place;
use crate::net::departure::Departure;
use crate::net::held::HeldCall;
use crate::net::listener::reset;
use crate::net::output::Output;
use crate::rates::Charged;
use crate::rates::limiters::OfClient;

/// What a connection has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Calls that were answered, or are about to be.
    pub(crate) calls: u64,
    /// Bytes that were received and replied.
    pub(crate) bytes: u64,
    /// A bit for each [`nfs::summary::Protocol`] that was used.
    pub(crate) protocols: u64,
}

impl Done {
    #[inline]
    pub(crate) fn note_call(&mut self, protocol: Protocol) {
        self.calls += 1;
        self.protocols |= 1 << protocol as u32;
    }

    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

/// What was sent.
pub(crate) struct Sent {
    pub(crate) bytes: usize,
    /// There is more, which the socket may take.
    pub(crate) may_go_on: bool,
}

/// A connection that was accepted, and that a loop is about to serve.
pub(crate) struct Newcomer {
    pub(crate) stream: TcpStream,
    pub(crate) ends: Ends,
    pub(crate) place: Place,
}

/// A connection that is being served.
pub(crate) struct Connection {
    pub(crate) key: ConnectionKey,
    pub(crate) ends: Ends,
    /// What it has of what the connections of all loops share.
    pub(crate) place: Place,
    stream: TcpStream,
    /// Where its calls are counted.
    pub(crate) counted: Counted,
    pub(crate) done: Done,
    /// When the input arrived that is taken in next, as far as the loop knows.
    pub(crate) arrived: Time,
    pub(crate) receiver: Receiver,
    /// A call that waits until there is room for its reply; the input after it waits too.
    pub(crate) waiting: Option<WaitingCall>,
    /// Calls that rate limits held, and released.
    pub(crate) released: VecDeque<HeldCall>,
    /// A call that those limits have no room for; the input after it waits too.
    pub(crate) stopped: Option<Box<HeldCall>>,
    /// When the unread input arrived, and for how long rate limits have kept it unread.
    unread: Option<(Time, Duration)>,
    /// The limits of its client.
    pub(crate) client_limits: OfClient,
    /// Bytes that were received but not taken in, because a limit was reached; those before `rest_taken` were.
    pub(crate) rest: Vec<u8>,
    pub(crate) rest_taken: usize,
    /// The length of the next record, if it was looked at but not received.
    announced: usize,
    /// The last record was one whose payload was received apart, so that the next one may be another.
    pub(crate) had_payload: bool,
    /// Bytes reserved for the record that is arriving.
    reserved: usize,
    /// Bytes that were lent for the record that is being taken in.
    pub(crate) lent: usize,
    /// Replies to be sent.
    pub(crate) output: Output,
    /// Calls that have not been answered.
    calls: usize,
    /// Bytes of those that must be run again.
    call_bytes: usize,
    /// Bytes reserved for replies, and of parked ones.
    reply_bytes: usize,
    /// The socket may have something to read.
    is_readable: bool,
    /// The peer announced its end; what it sent before may still have to be read.
    is_closing: bool,
    /// When the peer is gone, for the calls that it shares this with.
    pub(crate) departure: Departure,
    /// All that the peer sent was read.
    pub(crate) is_ended: bool,
    /// It is in a queue of the loop's admission.
    pub(crate) is_queued: bool,
    /// It is in the loop's list of connections with output to send.
    pub(crate) is_touched: bool,
    /// Bytes received and replied in the current portion, or the last one.
    pub(crate) portion_bytes: usize,
    /// It moved much data when it was last served.
    pub(crate) is_heavy: bool,
    /// What the budget counts for what it receives.
    pub(crate) counted_input: Held,
    /// Bytes that the budget counts for its output.
    pub(crate) counted_output: usize,
    /// When a byte was last moved.
    moved: Instant,
    /// Bytes moved since the last tick.
    moved_bytes: usize,
    /// Bytes sent so far. What of them the peer has acknowledged is not known.
    sent_bytes: usize,
    /// The pace of the record for which memory is reserved.
    record_pace: Option<Pace>,
    /// Since when input of that record waits in the socket.
    readable_since: Instant,
    /// The pace of the replies that the socket did not take at once.
    reply_pace: Option<Pace>,
    /// What the pace of the peer has shown.
    shown: Option<Standing>,
}

/// A call that waits for room for its reply.
pub(crate) struct WaitingCall {
    pub(crate) record: KeptRecord,
    /// Bytes to be reserved.
    pub(crate) reply_bytes: usize,
    /// They are reserved, and the call is run when the connection is served.
    pub(crate) is_granted: bool,
    /// What rate limits did with it.
    pub(crate) passed: Option<Box<Passed>>,
}

/// What rate limits did with a call before it was executed. In a box, so that calls that meet none do not carry its place along.
#[derive(Debug)]
pub(crate) struct Passed {
    /// What it was charged.
    pub(crate) charged: Charged,
    /// Its time so far, if it was held.
    pub(crate) timing: Option<Timing>,
}

/// Returns how much a COPY may copy that passed rate limits, if it met any.
pub(crate) fn copy_terms(passed: Option<&Passed>) -> CopyTerms {
    passed.map_or(CopyTerms::Free, |passed| passed.charged.copy_terms())
}

/// The result of a read.
pub(crate) enum Received {
    /// This number of bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The peer has closed, or the connection is broken.
    End,
}

// Ten thousand idle ones take little memory.
const _: () = assert!(size_of::<Connection>() <= 1024);

impl Connection {
    pub(crate) fn new(newcomer: Newcomer, key: ConnectionKey, counted: Counted) -> Connection {
        let Newcomer { stream, ends, place } = newcomer;
        Connection {
            key,
            ends,
            place,
            stream,
            counted,
            done: Done::default(),
            arrived: Time::EPOCH,
            receiver: Receiver::new(RECORD_BYTES_MAX),
            waiting: None,
            released: VecDeque::new(),
            stopped: None,
            unread: None,
            client_limits: OfClient::default(),
            rest: Vec::new(),
            rest_taken: 0,
            announced: 0,
            had_payload: false,
            reserved: 0,
            lent: 0,
            output: Output::default(),
            calls: 0,
            call_bytes: 0,
            reply_bytes: 0,
            is_readable: false,
            is_closing: false,
            departure: Departure::none(),
            is_ended: false,
            is_queued: false,
            is_touched: false,
            portion_bytes: 0,
            is_heavy: false,
            counted_input: Held::default(),
            counted_output: 0,
            moved: Instant::now(),
            moved_bytes: 0,
            sent_bytes: 0,
            record_pace: None,
            readable_since: Instant::now(),
            reply_pace: None,
            shown: None,
        }
    }

    /// Notes an event of the socket.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event) {
        if self.record_pace.is_some() && !self.is_readable {
            self.readable_since = Instant::now();
        }
        self.is_closing |= event.is_read_closed() || event.is_error();
        self.is_readable |= event.is_readable() || self.is_closing;
    }

    /// Has the kernel keep nothing for the peer when the connection is closed.
    pub(crate) fn reset(&mut self) {
        reset(&self.stream);
        self.sent_bytes = 0;
    }

    /// Returns how much the kernel keeps for the peer at most when the connection is closed now.
    pub(crate) fn unread_max(&self) -> usize {
        self.sent_bytes
    }

    /// Ends the events of the socket. Closing it would do so as well.
    pub(crate) fn deregister(&mut self, registry: &Registry) {
        let _ = registry.deregister(&mut self.stream);
    }

    /// Returns what it needs before it can be served.
    pub(crate) fn want(&self) -> Want {
        if let Some(waiting) = &self.waiting {
            return if waiting.is_granted { Want::Answer } else { Want::Reply(waiting.reply_bytes) };
        }
        if self.has_released() {
            return Want::Answer;
        }
        let length = self.receiver.record_bytes_max().max(self.announced);
        if length <= self.reserved {
            return Want::Answer;
        }
        Want::Record { length, counted: self.record_bytes() }
    }

    /// Notes the length of the next record, which will be received when memory is reserved for it.
    pub(crate) fn announce(&mut self, length: usize) {
        self.announced = length;
    }

    /// Reserves memory for the record that is arriving, or is the next.
    pub(crate) fn reserve(&mut self, length: usize) {
        if self.reserved == 0 {
            self.readable_since = Instant::now();
            self.record_pace = Some(Pace::begin(self.readable_since));
        }
        self.reserved = length;
    }

    /// Whether memory is reserved for a record.
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved > 0
    }

    /// Returns the bytes that complete the current fragment, or the record that was looked at; one if nothing is known of
    /// them.
    pub(crate) fn missing(&self) -> usize {
        match self.announced {
            0 => self.receiver.missing().max(1),
            announced => MARK_BYTES + announced,
        }
    }

    /// Whether only the start of a record should be read, which will say where the rest belongs.
    pub(crate) fn begins_large_record(&self) -> bool {
        let is_between = self.receiver.record_bytes_max() == 0;
        let may_be_large = is_between && (self.had_payload || self.announced >= PAYLOAD_BYTES_MIN);
        may_be_large || self.receiver.is_undecided()
    }

    /// Reserves nothing any longer if no record is arriving.
    pub(crate) fn release_reserved(&mut self) {
        if self.reserved > 0 && self.announced == 0 && self.receiver.record_bytes_max() == 0 {
            let pace = self.record_pace.take();
            let shown = pace.and_then(|pace| pace.of_record(self.reserved, Instant::now()));
            self.shown = shown.or(self.shown);
            self.reserved = 0;
        }
    }

    /// Returns what the pace of the peer has shown since the last call.
    pub(crate) fn take_shown(&mut self) -> Option<Standing> {
        self.shown.take()
    }

    /// Notes that memory for the reply to the waiting call is reserved.
    pub(crate) fn grant_reply(&mut self) {
        self.waiting.as_mut().expect("a call waits for its reply").is_granted = true;
    }

    /// Returns the bytes that are reserved for the reply to the waiting call.
    pub(crate) fn granted_bytes(&self) -> usize {
        let granted = self.waiting.as_ref().filter(|waiting| waiting.is_granted);
        granted.map_or(0, |waiting| waiting.reply_bytes)
    }

    /// Returns the bytes of memory for the record that is arriving.
    fn record_bytes(&self) -> usize {
        self.receiver.memory_bytes().max(self.reserved)
    }

    /// Notes that a tick has passed.
    pub(crate) fn tick(&mut self) {
        if std::mem::take(&mut self.moved_bytes) >= FAST_TICK_BYTES {
            self.shown = Some(Standing::Fast);
        }
    }

    /// Returns what decides whether it gives way, if it holds memory that is short: because of its peer, or because it waits
    /// for more itself.
    pub(crate) fn holder(&self, short: Short) -> Option<Holder> {
        let waits_for_more = matches!(self.want(), Want::Record { counted: 1.., .. });
        let (bytes, because) = match short {
            Short::Requests if waits_for_more => (self.counted_input.requests, Because::WaitsForMore),
            Short::Requests => {
                // While it does not take replies, it may not be read.
                let of_record = self.record_pace.filter(|_| self.waits_for_peer());
                let paces = [of_record, self.reply_pace].into_iter().flatten();
                (self.counted_input.requests, Because::Pace(paces.min_by_key(Pace::behind_since)?))
            }
            Short::Replies => (self.counted_output, Because::Pace(self.reply_pace?)),
        };
        (bytes > 0).then_some(Holder { key: self.key, bytes, because })
    }

    /// Returns what operators see of it.
    pub(crate) fn connected(&self) -> Connected {
        let Done { calls, bytes, protocols } = self.done;
        Connected { connections: 1, calls, bytes, protocols, idle: self.silent_for() }
    }

    /// Counts a call that is not answered at once.
    pub(crate) fn begin_call(&mut self, request_bytes: usize, reply_bytes: usize) {
        self.calls += 1;
        self.call_bytes += request_bytes;
        self.reply_bytes += reply_bytes;
    }

    /// Stops counting the bytes of a call that need not be run again, and what was reserved for its reply.
    pub(crate) fn release_call(&mut self, request_bytes: usize, reply_bytes: usize) {
        self.call_bytes -= request_bytes;
        self.reply_bytes -= reply_bytes;
    }

    /// Counts a reply that may have to wait.
    pub(crate) fn add_reply_bytes(&mut self, bytes: usize) {
        self.reply_bytes += bytes;
    }

    /// Stops counting a call that was answered, and its reply.
    pub(crate) fn end_call(&mut self, reply_bytes: usize) {
        self.calls -= 1;
        self.reply_bytes -= reply_bytes;
    }

    /// Returns when a byte moved last.
    pub(crate) fn moved(&self) -> Instant {
        self.moved
    }

    /// Returns how long no byte has moved.
    pub(crate) fn silent_for(&self) -> Duration {
        self.moved.elapsed()
    }

    /// Whether calls that were held can go on.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Notes that rate limits kept the connection from being read from `since` until now.
    pub(crate) fn note_unread(&mut self, since: Time, now: Time) {
        let before = self.unread.filter(|(arrived, _)| *arrived == self.arrived);
        let before = before.map_or(Duration::ZERO, |(_, time)| time);
        self.unread = Some((self.arrived, before + now.since(since.max(self.arrived))));
    }

    /// Returns the times so far of a call that is taken in now, if rate limits have kept it from that.
    pub(crate) fn unread_timing(&self) -> Option<Timing> {
        let (arrived, time) = self.unread.filter(|(arrived, _)| *arrived == self.arrived)?;
        let mut timing = Timing::of_arrival(arrived);
        timing.end(Phase::Qos, arrived.plus(time));
        Some(timing)
    }

    /// Whether it has reached the limits of one connection.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_some()
            || self.stopped.is_some()
            || self.calls >= CONNECTION_CALLS_MAX
            || self.call_bytes + self.reply_bytes + self.unsent() >= CONNECTION_BYTES_MAX
    }

    /// Whether it may begin one more reply; a large one while memory is tight only after all its other replies were sent.
    pub(crate) fn may_begin(&self, reply_bytes: usize, is_tight: bool) -> bool {
        let owed = self.reply_bytes + self.unsent();
        let must_wait = is_tight && reply_bytes > SMALL_REPLY_ROOM_MAX;
        owed == 0 || (!must_wait && owed + reply_bytes <= CONNECTION_BYTES_MAX)
    }

    /// Whether calls of it are kept to be executed.
    pub(crate) fn keeps_calls(&self) -> bool {
        self.call_bytes > 0
    }

    /// Whether memory is reserved for replies of calls that are kept, or is held by replies that wait.
    pub(crate) fn keeps_replies(&self) -> bool {
        self.reply_bytes > 0
    }

    /// Whether a record that it has received, or a call, is still to be taken in.
    pub(crate) fn keeps_input(&self) -> bool {
        self.waiting.is_some() || self.stopped.is_some() || !self.rest.is_empty()
    }

    /// Whether the peer sends no more than what may still have to be read.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_closing || self.is_ended
    }

    /// Takes in no more, whatever the peer has sent.
    pub(crate) fn end_input(&mut self) {
        self.is_ended = true;
        (self.rest, self.rest_taken) = (Vec::new(), 0);
        self.receiver = Receiver::new(RECORD_BYTES_MAX);
        self.announced = 0;
    }

    /// Whether there is input to take in.
    pub(crate) fn has_input(&self) -> bool {
        !self.rest.is_empty() || (self.is_readable && !self.is_ended)
    }

    /// Whether the peer sends no more, and all its calls are answered.
    pub(crate) fn is_over(&self) -> bool {
        self.is_ended
            && self.waiting.is_none()
            && self.stopped.is_none()
            && self.rest.is_empty()
            && self.calls == 0
            && self.unsent() == 0
    }

    /// Whether nothing is under way: no call, no reply, no part of a record.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls == 0
            && self.unsent() == 0
            && self.waiting.is_none()
            && self.stopped.is_none()
            && !self.has_input()
            && self.receiver.is_between_records()
    }

    /// Returns the bytes of output that the socket has not taken.
    pub(crate) fn unsent(&self) -> usize {
        self.output.unsent()
    }

    /// Returns what it holds for input, apart from deferred calls.
    pub(crate) fn held_input(&self) -> Held {
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.record.memory_bytes());
        Held {
            requests: self.record_bytes() + self.rest.capacity() + waiting + self.stopped_bytes(),
            rests: if self.keeps_calls() { self.rest.len() - self.rest_taken } else { 0 },
            ..Held::default()
        }
    }

    /// Returns the bytes of the call that rate limits have no room for.
    pub(crate) fn stopped_bytes(&self) -> usize {
        self.stopped.as_ref().map_or(0, |call| call.request_bytes())
    }

    /// Whether the rest of its record has yet to come.
    fn waits_for_peer(&self) -> bool {
        !self.has_input() && !self.is_full()
    }

    /// Reads once.
    pub(crate) fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Received {
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        loop {
            match self.stream.read_vectored(buffers) {
                Ok(0) => return Received::End,
                Ok(count) => {
                    self.moved = Instant::now();
                    self.moved_bytes += count;
                    if let Some(pace) = &mut self.record_pace {
                        pace.pause(self.moved.saturating_duration_since(self.readable_since));
                        pace.moved(count, self.moved);
                        self.readable_since = self.moved;
                    }
                    self.announced = 0;
                    // A short read drained the socket, and more input raises a new event. An end of stream reported
                    // with these bytes raises none, so it is read at once.
                    self.is_readable = count == length || self.is_closing;
                    return Received::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Received::Nothing;
                }
                Err(_) => return Received::End,
            }
        }
    }

    /// Looks at what a read would bring.
    pub(crate) fn peek(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            match self.stream.peek(buffer) {
                Ok(0) => return Received::End,
                Ok(count) => return Received::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Received::Nothing;
                }
                Err(_) => return Received::End,
            }
        }
    }

    /// Writes as much of the output as the socket takes, in few system calls, but no more calls after [`PORTION_BYTES`].
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn send(&mut self, buffers: &mut Buffers) -> io::Result<Sent> {
        let (mut sent, mut is_full) = (0, false);
        while self.unsent() > 0 && sent < PORTION_BYTES {
            match self.output.with_parts(|parts| self.stream.write_vectored(parts)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.output.advance(count);
                    self.moved = Instant::now();
                    sent += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.output.compact();
                    is_full = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.moved_bytes += sent;
        self.sent_bytes = self.sent_bytes.saturating_add(sent);
        self.note_sent(sent);
        if self.unsent() == 0 {
            self.output.clear(buffers);
        }
        Ok(Sent { bytes: sent, may_go_on: self.unsent() > 0 && !is_full })
    }

    /// Notes the pace at which the peer takes replies. What a socket takes at once says nothing of it.
    fn note_sent(&mut self, bytes: usize) {
        let is_taken = self.unsent() == 0;
        match &mut self.reply_pace {
            None if is_taken => {}
            None => self.reply_pace = Some(Pace::begin(Instant::now())),
            Some(pace) => {
                pace.moved(bytes, self.moved);
                if is_taken {
                    self.shown = pace.of_replies(self.moved).or(self.shown);
                    self.reply_pace = None;
                }
            }
        }
    }
}
