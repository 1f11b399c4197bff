//! Connections that the server opens to clients, for calls that cannot use a connection of the client: callbacks of
//! NFSv4.0, granted locks of NLM, notices of NSM.
//!
//! One thread drives them all and waits for none of them, so a client that answers slowly, or a byte at a time, delays
//! nobody else. At most one call to a host is in flight; others to it wait in line. A call that is not answered within
//! [`OUTBOUND_CALL_MAX`] of being queued has failed, however far it got.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use nfs::service::{Callback, Destination, origin};
use parking_lot::Mutex;

use crate::background::driver::join;
use crate::limits::{
    OUTBOUND_CALL_MAX, OUTBOUND_CALLS_MAX, OUTBOUND_QUEUED_MAX, OUTBOUND_QUEUED_PER_HOST_MAX,
};
use crate::protocol::NOT_SENT;
use exchange::Exchange;
use kept::Kept;

mod exchange;
mod kept;

const WAKER: Token = Token(usize::MAX);

/// Events taken at once.
const EVENTS_MAX: usize = 256;

/// Calls on their way to the thread.
pub(crate) struct Queue {
    waker: Waker,
    state: Mutex<Incoming>,
}

#[derive(Default)]
struct Incoming {
    callbacks: Vec<Callback>,
    closed: bool,
}

impl Queue {
    /// Queues a call; returns it if the thread has yet to take [`OUTBOUND_QUEUED_MAX`] others, or after [`Queue::close`].
    pub(crate) fn push(&self, callback: Callback) -> Result<(), Callback> {
        let mut state = self.state.lock();
        if state.closed || state.callbacks.len() >= OUTBOUND_QUEUED_MAX {
            return Err(callback);
        }
        state.callbacks.push(callback);
        drop(state);
        self.wake();
        Ok(())
    }

    /// Returns the calls since the last time, or `None` after [`Queue::close`].
    fn take(&self) -> Option<Vec<Callback>> {
        let mut state = self.state.lock();
        (!state.closed).then(|| std::mem::take(&mut state.callbacks))
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.wake();
    }

    fn wake(&self) {
        // It fails only when the thread is gone.
        let _ = self.waker.wake();
    }
}

/// The thread and its queue.
pub(crate) struct Outbound {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// What is called when a callback was answered, or has failed.
type Ended = dyn Fn(u64, io::Result<Vec<u8>>) + Send + Sync;

impl Outbound {
    /// Starts the thread. Each result is passed to `ended`, with the number of the callback.
    pub(crate) fn start(ended: Arc<Ended>) -> io::Result<Outbound> {
        Outbound::start_with(ended, OUTBOUND_CALL_MAX)
    }

    fn start_with(ended: Arc<Ended>, call_max: Duration) -> io::Result<Outbound> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let queue = Arc::new(Queue { waker, state: Mutex::default() });
        let driver = Driver {
            poll,
            queue: Arc::clone(&queue),
            ended,
            call_max,
            lines: HashMap::new(),
            waiting: 0,
            next_hosts: VecDeque::new(),
            exchanges: HashMap::new(),
            next_token: 0,
            kept: Kept::default(),
        };
        let thread = thread::Builder::new().name("outbound".to_owned()).spawn(move || driver.run())?;
        Ok(Outbound { queue, thread })
    }

    /// Returns the queue of calls to be sent.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Ends the thread; calls that are not answered are dropped.
    pub(crate) fn stop(self) {
        self.queue.close();
        join(self.thread);
    }
}

/// The state of the thread.
struct Driver {
    poll: Poll,
    queue: Arc<Queue>,
    ended: Arc<Ended>,
    /// How long a call may take in all.
    call_max: Duration,
    /// Calls that wait for an earlier one to the same host, with their deadlines. A host that is being
    /// called has an entry, even if none waits.
    lines: HashMap<IpAddr, VecDeque<(Callback, Instant)>>,
    /// Calls in all lines, at most [`OUTBOUND_QUEUED_MAX`].
    waiting: usize,
    /// Hosts whose next call may begin when less than [`OUTBOUND_CALLS_MAX`] are in flight.
    next_hosts: VecDeque<IpAddr>,
    exchanges: HashMap<Token, Exchange>,
    next_token: usize,
    kept: Kept,
}

impl Driver {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            if let Err(error) = self.poll.poll(&mut events, self.sleep_max())
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "clients are no longer called back: cannot wait for events; restart the server");
                return self.queue.close();
            }
            let Some(callbacks) = self.queue.take() else { return };
            let deadline = Instant::now() + self.call_max;
            for callback in callbacks {
                self.line_up(callback, deadline);
            }
            for event in &events {
                self.advance(event.token());
            }
            self.expire();
            self.begin_next();
        }
    }

    /// Returns the time until the next deadline.
    fn sleep_max(&self) -> Option<Duration> {
        let now = Instant::now();
        let flying = self.exchanges.values().map(|exchange| exchange.deadline);
        let waiting = self.lines.values().filter_map(|line| line.front()).map(|(_, deadline)| *deadline);
        flying.chain(waiting).min().map(|first| first.saturating_duration_since(now))
    }

    fn line_up(&mut self, callback: Callback, deadline: Instant) {
        let Some(host) = host(&callback) else {
            return self.end(callback.id, Err(io::ErrorKind::Unsupported.into()));
        };
        let is_new = !self.lines.contains_key(&host);
        let line = self.lines.entry(host).or_default();
        if line.len() >= OUTBOUND_QUEUED_PER_HOST_MAX {
            return self.end(callback.id, Err(not_sent("too many calls wait for this client")));
        }
        line.push_back((callback, deadline));
        self.waiting += 1;
        if is_new {
            self.next_hosts.push_back(host);
        }
        if self.waiting > OUTBOUND_QUEUED_MAX {
            self.shorten_longest();
        }
    }

    /// Ends the last call of the longest line, so that hosts which do not answer leave room for others.
    fn shorten_longest(&mut self) {
        let longest = self.lines.values_mut().max_by_key(|line| line.len());
        if let Some((callback, _)) = longest.and_then(VecDeque::pop_back) {
            self.waiting -= 1;
            self.end(callback.id, Err(not_sent("many calls wait, most of them for this client")));
        }
    }

    /// Begins calls to hosts that are not being called, up to the limit.
    fn begin_next(&mut self) {
        while self.exchanges.len() < OUTBOUND_CALLS_MAX {
            let Some(host) = self.next_hosts.pop_front() else { return };
            let Some((callback, deadline)) = self.lines.get_mut(&host).and_then(VecDeque::pop_front) else {
                self.lines.remove(&host);
                continue;
            };
            self.waiting -= 1;
            let token = Token(self.next_token);
            self.next_token = (self.next_token + 1) % WAKER.0;
            let place = (self.poll.registry(), token);
            match Exchange::begin(callback, deadline, place, &mut self.kept) {
                Ok(exchange) => {
                    self.exchanges.insert(token, exchange);
                    // A kept connection is writable without an event.
                    self.advance(token);
                }
                Err((callback, error)) => {
                    self.next_hosts.push_back(host);
                    self.end(callback.id, Err(error));
                }
            }
        }
    }

    /// Continues a call.
    fn advance(&mut self, token: Token) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if let Some(result) = exchange.advance(self.poll.registry()).transpose() {
            self.finish(token, result);
        }
    }

    /// Ends a call, and lets the next one to the same host begin.
    fn finish(&mut self, token: Token, result: io::Result<Vec<u8>>) {
        let Some(exchange) = self.exchanges.remove(&token) else { return };
        self.next_hosts.extend(host(&exchange.callback));
        let id = match &result {
            Ok(_) => exchange.finish(self.poll.registry(), &mut self.kept),
            Err(error) => {
                let client = host(&exchange.callback).map(tracing::field::display);
                tracing::info!(client, %error, "a call to a client failed");
                exchange.callback.id
            }
        };
        self.end(id, result);
    }

    /// Ends calls whose deadline has passed.
    fn expire(&mut self) {
        let now = Instant::now();
        let late = self.exchanges.iter().filter(|(_, exchange)| exchange.deadline <= now);
        let late: Vec<Token> = late.map(|(token, _)| *token).collect();
        for token in late {
            self.finish(token, Err(io::ErrorKind::TimedOut.into()));
        }
        let mut waited = Vec::new();
        for line in self.lines.values_mut() {
            while line.front().is_some_and(|(_, deadline)| *deadline <= now) {
                waited.extend(line.pop_front().map(|(callback, _)| callback.id));
            }
        }
        self.waiting -= waited.len();
        for id in waited {
            self.end(id, Err(not_sent("its turn did not come in time")));
        }
    }

    fn end(&self, callback: u64, result: io::Result<Vec<u8>>) {
        (self.ended)(callback, result);
    }
}

/// Returns the error of a call that was not begun, which says nothing about the client.
fn not_sent(why: &str) -> io::Error {
    io::Error::new(NOT_SENT, why)
}

/// Returns the host that a call goes to, as limits count hosts.
fn host(callback: &Callback) -> Option<IpAddr> {
    match callback.to {
        Destination::Address(address) => Some(origin(address.ip())),
        Destination::Program { host, .. } => Some(origin(host)),
        Destination::Connection(_) => None,
    }
}

#[cfg(test)]
mod tests;
