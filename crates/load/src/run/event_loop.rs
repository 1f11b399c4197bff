//! An event loop: one thread of the operating system that runs many virtual threads over many connections.
//!
//! The clock is read once for all replies of one read and once for all calls of one write, so latency spans from
//! handing a call to the system until reading its reply, without the client's own work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use wire::rpc::{AcceptStat, ReplyBody, ReplyHeader};
use wire::xdr::{Decode as _, Decoder};

use super::tally::Tally;
use crate::client::cause::Cause;
use crate::client::outbox::{Arrived, Io, Outbox, PendingCall};
use crate::client::reply::Reply;
use crate::client::{Connection, DELAY, DELAYS_MAX, Received};
use crate::error::LoadError;
use crate::workload::actor::{Actor, Begun};

/// The size of a read, small enough for the processor's cache.
const RECEIVE_BYTES: usize = 256 << 10;

/// Reads of one connection before the next connection is served.
const READS_MAX: u32 = 4;

/// How long an event loop waits for events before it checks what it shares with the coordinator.
const POLL_TIMEOUT: Duration = Duration::from_millis(20);

/// After this many failures without any success, the measurement ends.
const FAILURES_MAX: u64 = 1000;

const WAKER: Token = Token(usize::MAX);

/// The state that event loops share with their coordinator.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Times are nanoseconds since this instant.
    pub(crate) epoch: Instant,
    /// Operations that end at this time or later do not count.
    pub(crate) until_ns: AtomicU64,
    /// Begin no more operations.
    pub(crate) stop: AtomicBool,
    /// Abandon operations in flight.
    pub(crate) abandon: AtomicBool,
    /// Replies to all event loops so far; shows whether the server answers.
    pub(crate) answered: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            until_ns: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
            answered: AtomicU64::new(0),
        }
    }

    /// Returns the current time.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The command to run a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageCommand {
    /// The index of the stage, for the actors.
    pub(crate) stage: usize,
    /// Operations that end before this time do not count.
    pub(crate) from_ns: u64,
    /// The length of the intervals that are counted separately.
    pub(crate) interval_ns: u64,
    /// The number of operations that each thread may begin.
    pub(crate) quota: u64,
    /// Whether any failure ends the measurement, as during preparation.
    pub(crate) strict: bool,
}

/// A message of an event loop to its coordinator.
#[derive(Debug)]
pub(crate) enum WorkerMessage {
    /// The counts of an interval.
    Interval {
        /// The interval's number within the stage.
        interval: u64,
        /// Whether this is the last interval of the stage, which may be incomplete.
        is_last: bool,
        tally: Box<Tally>,
    },
    /// All operations have ended, the last one at this time.
    Done { last_ns: u64 },
    /// The event loop failed.
    Fatal(LoadError),
}

/// A virtual thread.
pub(crate) struct VirtualThread {
    pub(crate) actor: Box<dyn Actor>,
    pub(crate) connections: Vec<u32>,
    /// The index of the session.
    pub(crate) session: u32,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) next: usize,
    /// Lanes that wait for another operation to end.
    pub(crate) waiting: Vec<u32>,
    /// The number of operations that the thread may still begin.
    pub(crate) quota: u64,
}

/// The place of one operation in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    started_ns: u64,
    outstanding: u32,
    bytes: u64,
    /// Calls that the server asked to make again later.
    delays: u32,
    failed: Option<Cause>,
}

/// A call that is made again later.
#[derive(Clone, Copy, Debug)]
struct DelayedCall {
    due_ns: u64,
    thread: u32,
    lane: u32,
    part: u32,
}

/// An event loop.
pub(crate) struct EventLoop {
    poll: Poll,
    io: Io,
    threads: Vec<VirtualThread>,
    shared: Arc<Shared>,
    commands: Receiver<StageCommand>,
    messages: Sender<WorkerMessage>,
    /// Operations, by thread and lane, whose start time is recorded when their first calls leave.
    begun: Vec<(u32, u32)>,
    /// Calls that are made again later, in the order of their times.
    delayed: VecDeque<DelayedCall>,
    command: StageCommand,
    tally: Tally,
    interval: u64,
    now_ns: u64,
    last_ns: u64,
    /// Operations in flight.
    active: u64,
    failures: u64,
    succeeded: bool,
    fatal: Option<LoadError>,
}

impl EventLoop {
    /// Makes an event loop and the waker that interrupts its waiting.
    pub(crate) fn new(
        io: Io,
        threads: Vec<VirtualThread>,
        shared: Arc<Shared>,
        commands: Receiver<StageCommand>,
        messages: Sender<WorkerMessage>,
    ) -> Result<(Self, Waker), LoadError> {
        let failed = |error: std::io::Error| LoadError::new(format!("cannot wait for events: {error}"));
        let poll = Poll::new().map_err(failed)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(failed)?;
        let mut this = Self {
            poll,
            io,
            threads,
            shared,
            commands,
            messages,
            begun: Vec::new(),
            delayed: VecDeque::new(),
            command: StageCommand { stage: 0, from_ns: 0, interval_ns: 1, quota: 0, strict: true },
            tally: Tally::new(),
            interval: 0,
            now_ns: 0,
            last_ns: 0,
            active: 0,
            failures: 0,
            succeeded: false,
            fatal: None,
        };
        for (index, connection) in this.io.connections.iter_mut().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            this.poll.registry().register(connection.stream(), Token(index), interest).map_err(failed)?;
        }
        Ok((this, waker))
    }

    /// Runs stages until the coordinator drops its sender.
    pub(crate) fn run(mut self) {
        while let Ok(command) = self.commands.recv() {
            let message = match self.stage(command) {
                Ok(()) => WorkerMessage::Done { last_ns: self.last_ns },
                Err(error) => WorkerMessage::Fatal(error),
            };
            let fatal = matches!(message, WorkerMessage::Fatal(_));
            if self.messages.send(message).is_err() || fatal {
                return;
            }
        }
    }

    fn stage(&mut self, command: StageCommand) -> Result<(), LoadError> {
        self.command = command;
        self.interval = 0;
        self.active = 0;
        self.now_ns = self.shared.now_ns();
        self.last_ns = self.now_ns;
        self.delayed.clear();
        let mut buffer = vec![0; RECEIVE_BYTES];
        let mut events = Events::with_capacity(1024);
        for thread in 0..self.threads.len() {
            let state = &mut self.threads[thread];
            state.actor.enter(command.stage);
            state.quota = command.quota;
            state.waiting.clear();
            for lane in 0..state.lanes.len() {
                self.begin(thread, lane);
            }
        }
        self.flush()?;
        while self.active > 0 && !self.shared.abandon.load(Ordering::Relaxed) {
            if let Err(error) = self.poll.poll(&mut events, Some(POLL_TIMEOUT))
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                return Err(LoadError::new(format!("cannot wait for events: {error}")));
            }
            for event in &events {
                let Token(index) = event.token();
                if event.token() == WAKER {
                    continue;
                }
                if event.is_writable() {
                    self.io.connections[index].unblock();
                    self.flush_one(index)?;
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.receive(index, &mut buffer)?;
                }
            }
            self.now_ns = self.shared.now_ns();
            self.publish_if_due();
            self.repeat_delayed()?;
        }
        self.publish(true);
        Ok(())
    }

    /// Reads from a connection and handles the replies.
    fn receive(&mut self, index: usize, buffer: &mut [u8]) -> Result<(), LoadError> {
        for _ in 0..READS_MAX {
            let received = self.io.connections[index].receive(buffer);
            let received =
                received.map_err(|error| LoadError::new(format!("a connection broke: {error}")))?;
            let bytes = match received {
                Received::Nothing => return Ok(()),
                Received::End if self.active == 0 => return Ok(()),
                Received::End => {
                    return Err(LoadError::new("the server closed a connection with calls in flight"));
                }
                Received::Bytes(bytes) => bytes,
            };
            self.now_ns = self.shared.now_ns();
            self.publish_if_due();
            let mut answered = 0;
            self.handle(index, &buffer[..bytes], &mut answered)?;
            self.shared.answered.fetch_add(answered, Ordering::Relaxed);
            self.flush()?;
            if bytes < buffer.len() {
                return Ok(());
            }
        }
        // More bytes may be there. Events are edge-triggered, so registering again makes the next poll report them,
        // after the other connections were served.
        let stream = self.io.connections[index].stream();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let again = self.poll.registry().reregister(stream, Token(index), interest);
        again.map_err(|error| LoadError::new(format!("cannot wait for events: {error}")))
    }

    /// Handles received bytes.
    fn handle(&mut self, index: usize, bytes: &[u8], answered: &mut u64) -> Result<(), LoadError> {
        let mut incoming = std::mem::take(&mut self.io.connections[index].incoming);
        // Both closures use this event loop, but never at the same time.
        let this = std::cell::RefCell::new(&mut *self);
        let taken =
            incoming.take(bytes, &mut |xid| this.borrow().io.calls.wants_whole(xid), &mut |record, cut| {
                *answered += 1;
                this.borrow_mut().answer(record, cut)
            });
        self.io.connections[index].incoming = incoming;
        taken.map_err(|error| LoadError::new(format!("the server's reply: {error}")))?;
        self.fatal.take().map_or(Ok(()), Err)
    }

    /// Handles a reply. Returns whether to go on.
    fn answer(&mut self, record: &[u8], cut: usize) -> bool {
        let mut input = Decoder::new(record);
        let header = match ReplyHeader::decode(&mut input) {
            Ok(header) => header,
            Err(error) => return self.fail(format!("the server's reply cannot be decoded: {error}")),
        };
        let Some(call) = self.io.calls.answered(header.xid) else {
            return self.fail("the server replied to a call that was not made".to_owned());
        };
        let result = match header.body {
            ReplyBody::Accepted { stat: AcceptStat::Success, .. } => {
                match self.io.arrived(&call, input.rest(), cut) {
                    Ok(Arrived::Reply(reply)) => self.deliver(&call, reply),
                    Ok(Arrived::Delayed(_)) if self.delay(&call) => {
                        self.serve_waiting(&call);
                        return true;
                    }
                    Ok(Arrived::Delayed(reply)) => self.deliver(&call, reply),
                    Err(error) => return self.fail(error.to_string()),
                }
            }
            ReplyBody::Accepted { stat, .. } => self.refused(&call, format!("not executed: {stat}")),
            ReplyBody::Denied(denied) => self.refused(&call, format!("denied: {denied}")),
        };
        // Calls that wait have the first choice of the slot, before those of the next operation.
        self.serve_waiting(&call);
        if let Some(phase) = call.phase
            && result.is_ok()
            && self.is_counted()
        {
            self.tally.phase(phase, 1, self.now_ns.saturating_sub(call.sent_ns).max(1));
        }
        let lane = self.lane(&call);
        match result {
            Ok(bytes) => lane.bytes += bytes,
            Err(cause) => lane.failed = Some(lane.failed.take().unwrap_or(cause)),
        }
        if lane.outstanding == 0 {
            self.end(call.thread as usize, call.lane as usize);
        }
        self.fatal.is_none()
    }

    /// Handles a call that the server did not execute. With NFSv4, its slot cannot be used any more.
    fn refused(&mut self, call: &PendingCall, words: String) -> Result<u64, Cause> {
        self.lane(call).outstanding -= 1;
        if call.slot.is_some() {
            self.fail(format!("COMPOUND: {words}"));
        }
        Err(Cause::Rpc(words))
    }

    fn lane(&mut self, call: &PendingCall) -> &mut Lane {
        &mut self.threads[call.thread as usize].lanes[call.lane as usize]
    }

    fn deliver(&mut self, call: &PendingCall, reply: Reply<'_>) -> Result<u64, Cause> {
        let (lane, part) = (call.lane as usize, call.part);
        self.with_actor((call.thread, call.lane), true, |actor, out| actor.reply(lane, part, reply, out))
    }

    /// Lets an actor go on with the operation of a lane; `is_settled` says that one of its calls is no longer outstanding.
    fn with_actor<T>(
        &mut self,
        (thread, lane): (u32, u32),
        is_settled: bool,
        act: impl FnOnce(&mut dyn Actor, &mut Outbox<'_>) -> T,
    ) -> T {
        let VirtualThread { actor, connections, session, lanes, next, .. } =
            &mut self.threads[thread as usize];
        let state = &mut lanes[lane as usize];
        state.outstanding -= u32::from(is_settled);
        let mut verified = 0;
        let mut out = Outbox {
            io: &mut self.io,
            thread,
            lane,
            session: *session,
            connections,
            next,
            outstanding: &mut state.outstanding,
            failed: state.failed.is_some(),
            verified: &mut verified,
        };
        let result = act(actor.as_mut(), &mut out);
        self.tally.verified_blocks += verified;
        result
    }

    /// Notes that the server asked for a call to be made again later. Returns false if it has asked too often.
    fn delay(&mut self, call: &PendingCall) -> bool {
        let lane = self.lane(call);
        lane.delays += 1;
        if lane.delays > DELAYS_MAX {
            return false;
        }
        self.tally.delayed_calls += 1;
        let due_ns = self.now_ns + u64::try_from(DELAY.as_nanos()).expect("a tenth of a second");
        let PendingCall { thread, lane, part, .. } = *call;
        self.delayed.push_back(DelayedCall { due_ns, thread, lane, part });
        true
    }

    /// Makes delayed calls whose time has come.
    fn repeat_delayed(&mut self) -> Result<(), LoadError> {
        while let Some(&DelayedCall { thread, lane, part, .. }) =
            self.delayed.front().filter(|call| call.due_ns <= self.now_ns)
        {
            self.delayed.pop_front();
            self.send_again(thread, lane, part);
        }
        self.flush()
    }

    /// Makes the calls that wait for a slot of the call's session.
    fn serve_waiting(&mut self, call: &PendingCall) {
        let Some((session, _)) = call.slot else { return };
        while let Some(session) = self.io.sessions.get_mut(session as usize)
            && session.has_free_slot()
            && let Some((thread, lane, part)) = session.waiting.pop_front()
        {
            self.send_again(thread, lane, part);
        }
    }

    fn send_again(&mut self, thread: u32, lane: u32, part: u32) {
        self.with_actor((thread, lane), true, |actor, out| actor.send(lane as usize, part, out));
    }

    /// Whether an operation that ends now counts.
    #[inline]
    fn is_counted(&self) -> bool {
        self.now_ns >= self.command.from_ns && self.now_ns < self.shared.until_ns.load(Ordering::Relaxed)
    }

    /// Ends an operation: counts it and begins the next one.
    fn end(&mut self, thread: usize, lane: usize) {
        self.active -= 1;
        self.last_ns = self.now_ns;
        let counts = self.is_counted();
        let state = &mut self.threads[thread];
        let ended = std::mem::take(&mut state.lanes[lane]);
        let counted = state.actor.ended(lane, ended.failed.is_none());
        let latency_ns = self.now_ns.saturating_sub(ended.started_ns).max(1);
        match ended.failed {
            None => {
                self.succeeded = true;
                if counts {
                    self.tally.operations += counted.operations;
                    self.tally.bytes += ended.bytes;
                    if counted.operations > 0 {
                        self.tally.latency.saturating_record(latency_ns);
                    }
                    if let Some(phase) = counted.phase {
                        self.tally.phase(phase, counted.operations.max(1), latency_ns);
                    }
                }
            }
            Some(cause) => {
                // Failures always count, also those outside of the measured time.
                self.tally.error(&cause);
                self.failures += 1;
                if self.command.strict {
                    self.fail(format!("the preparation failed: {}", cause.explained()));
                } else if !self.succeeded && self.failures >= FAILURES_MAX {
                    let reason = cause.explained();
                    self.fail(format!("all of the first {FAILURES_MAX} operations failed: {reason}"));
                }
            }
        }
        self.begin(thread, lane);
        for lane in std::mem::take(&mut self.threads[thread].waiting) {
            self.begin(thread, lane as usize);
        }
    }

    /// Begins an operation on a free lane, if the actor has one.
    fn begin(&mut self, thread: usize, lane: usize) {
        let stopped = self.shared.stop.load(Ordering::Relaxed)
            || self.now_ns >= self.shared.until_ns.load(Ordering::Relaxed)
            || self.fatal.is_some();
        if stopped || self.threads[thread].quota == 0 {
            return;
        }
        let (thread_id, lane_id) = ids(thread, lane);
        let begun = self.with_actor((thread_id, lane_id), false, |actor, out| actor.begin(lane, out));
        let state = &mut self.threads[thread];
        match begun {
            Begun::Started => {
                state.quota -= 1;
                self.active += 1;
                self.begun.push((thread_id, lane_id));
            }
            Begun::Wait => state.waiting.push(lane_id),
            Begun::Exhausted => {}
        }
    }

    /// Sends queued calls and records their send time.
    fn flush(&mut self) -> Result<(), LoadError> {
        if self.io.dirty.is_empty() {
            return Ok(());
        }
        let now_ns = self.shared.now_ns();
        for (thread, lane) in self.begun.drain(..) {
            self.threads[thread as usize].lanes[lane as usize].started_ns = now_ns;
        }
        self.io.stamp(now_ns);
        while let Some(index) = self.io.dirty.pop() {
            self.io.connections[index as usize].dirty = false;
            self.flush_one(index as usize)?;
        }
        Ok(())
    }

    fn flush_one(&mut self, index: usize) -> Result<(), LoadError> {
        let Io { connections, shared, .. } = &mut self.io;
        let flushed = connections[index].flush(shared);
        flushed.map_err(|error| LoadError::new(format!("a connection broke: {error}")))
    }

    fn fail(&mut self, sentence: String) -> bool {
        self.fatal.get_or_insert(LoadError::new(sentence));
        false
    }

    /// Sends the counts of intervals that are over.
    fn publish_if_due(&mut self) {
        let since = self.now_ns.saturating_sub(self.command.from_ns);
        while self.interval < since / self.command.interval_ns {
            self.publish(false);
        }
    }

    fn publish(&mut self, is_last: bool) {
        let tally = Box::new(std::mem::replace(&mut self.tally, Tally::new()));
        // The coordinator may have given up this measurement.
        let _ = self.messages.send(WorkerMessage::Interval { interval: self.interval, is_last, tally });
        self.interval += 1;
    }
}

/// Converts indices to the type that calls carry.
fn ids(thread: usize, lane: usize) -> (u32, u32) {
    let id = |index| u32::try_from(index).expect("threads and lanes are bounded");
    (id(thread), id(lane))
}

/// Wraps a connected stream.
pub(crate) fn connection(stream: std::net::TcpStream) -> std::io::Result<Connection> {
    stream.set_nonblocking(true)?;
    Ok(Connection::new(mio::net::TcpStream::from_std(stream)))
}
