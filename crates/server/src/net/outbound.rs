//! Connections that the server opens to clients, for calls that cannot use a connection of the client: callbacks of
//! NFSv4.0, granted locks of NLM, notices of NSM.
//!
//! One thread drives them all and waits for none of them, so a client that answers slowly, or a byte at a time, delays
//! nobody else. At most one call to a host is in flight; others to it wait in line ([`hosts`] says which one comes next). A
//! call that is not answered within [`OUTBOUND_CALL_MAX`] of its turn has failed, however far it got.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use nfs::link_local::Shown;
use nfs::service::{Callback, Destination, origin};
use parking_lot::Mutex;

use crate::background::driver::join;
use crate::limits::{OUTBOUND_CALL_MAX, OUTBOUND_QUEUED_MAX, OUTBOUND_SLOW};
use crate::protocol::NOT_SENT;
use exchange::Exchange;
use hosts::{Ending, Hosts, NoRoom};
use kept::Kept;
use sources::Sources;

mod exchange;
mod hosts;
mod kept;
mod sources;

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
    /// How many of them are for each host.
    by_host: HashMap<Option<IpAddr>, usize>,
    closed: bool,
}

impl Incoming {
    /// Counts one more call to a host, unless the host already has an eighth as many as there are free places: so dozens of busy
    /// hosts leave room for another one. Returns whether it did.
    fn take_place(&mut self, host: Option<IpAddr>) -> bool {
        let free = OUTBOUND_QUEUED_MAX.saturating_sub(self.callbacks.len());
        let of_host = self.by_host.entry(host).or_default();
        let fits = *of_host < free.div_ceil(8);
        *of_host += usize::from(fits);
        fits
    }
}

impl Queue {
    /// Queues a call. Returns it if too many calls to its host are waiting for the thread to take them, or after [`Queue::close`].
    pub(crate) fn push(&self, callback: Callback) -> Result<(), Callback> {
        let mut state = self.state.lock();
        if state.closed || !state.take_place(host(&callback)) {
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
        state.by_host.clear();
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
    /// Starts the thread of a server that listens on `listen`. Each result is passed to `ended`, with the number of the callback.
    pub(crate) fn start(ended: Arc<Ended>, listen: &[SocketAddr]) -> io::Result<Outbound> {
        Outbound::start_with(ended, listen, OUTBOUND_CALL_MAX)
    }

    fn start_with(ended: Arc<Ended>, listen: &[SocketAddr], call_max: Duration) -> io::Result<Outbound> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let queue = Arc::new(Queue { waker, state: Mutex::default() });
        let driver = Driver {
            poll,
            queue: Arc::clone(&queue),
            ended,
            call_max,
            hosts: Hosts::default(),
            exchanges: HashMap::new(),
            next_token: 0,
            links: Links { kept: Kept::default(), sources: Sources::of(listen) },
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

/// Where connections come from.
struct Links {
    kept: Kept,
    sources: Sources,
}

/// The state of the thread.
struct Driver {
    poll: Poll,
    queue: Arc<Queue>,
    ended: Arc<Ended>,
    /// How long a call may take when its turn has come.
    call_max: Duration,
    hosts: Hosts,
    exchanges: HashMap<Token, Exchange>,
    next_token: usize,
    links: Links,
}

impl Driver {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            if let Err(error) = self.poll.poll(&mut events, self.sleep_max())
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "callbacks to clients have stopped: cannot wait for events; restart the server");
                return self.queue.close();
            }
            let Some(callbacks) = self.queue.take() else { return };
            callbacks.into_iter().for_each(|callback| self.line_up(callback));
            for event in &events {
                self.advance(event.token());
            }
            self.expire();
            self.begin_next();
        }
    }

    /// Returns the time until something changes if nobody is heard of.
    fn sleep_max(&self) -> Option<Duration> {
        let now = Instant::now();
        let deadlines = self.exchanges.values().map(|exchange| exchange.deadline);
        let slow = self.blocked_by(now).map(|(_, exchange)| exchange.begun + OUTBOUND_SLOW);
        let first = deadlines.chain(slow).chain(self.hosts.next_change(now)).min();
        first.map(|first| first.saturating_duration_since(now))
    }

    fn line_up(&mut self, callback: Callback) {
        let Some(host) = host(&callback) else {
            return self.end(callback.id, Err(io::ErrorKind::Unsupported.into()));
        };
        if let Err(NoRoom(id, why)) = self.hosts.push(host, callback, Instant::now()) {
            self.end(id, Err(not_sent(why)));
        }
    }

    /// Begins the calls whose turn it is, in place of slow ones if they need their slots.
    fn begin_next(&mut self) {
        loop {
            let now = Instant::now();
            if let Some((host, callback)) = self.hosts.begin_next(now) {
                self.begin(host, callback, now);
                continue;
            }
            let slowest = self.blocked_by(now).filter(|(_, exchange)| exchange.begun + OUTBOUND_SLOW <= now);
            let Some(token) = slowest.map(|(token, _)| token) else { return };
            self.finish(token, Err(io::ErrorKind::TimedOut.into()));
        }
    }

    /// Returns the call that gives way first if one waits for a slot.
    fn blocked_by(&self, now: Instant) -> Option<(Token, &Exchange)> {
        let standing = self.hosts.blocked(now)?;
        let others = self.exchanges.iter().map(|(token, exchange)| (*token, exchange));
        let gives_way = |exchange: &Exchange| {
            host(&exchange.callback).is_some_and(|host| self.hosts.can_give_way(host, standing))
        };
        others.filter(|(_, exchange)| gives_way(exchange)).min_by_key(|(_, exchange)| exchange.begun)
    }

    fn begin(&mut self, host: IpAddr, callback: Callback, now: Instant) {
        let token = Token(self.next_token);
        self.next_token = (self.next_token + 1) % WAKER.0;
        let (times, place) = ((now, now + self.call_max), (self.poll.registry(), token));
        match Exchange::begin(callback, times, place, &mut self.links) {
            Ok(exchange) => {
                self.exchanges.insert(token, exchange);
                // A kept connection is writable without an event.
                self.advance(token);
            }
            Err((callback, error)) => {
                self.hosts.ended(host, callback.to, Ending::Failed, now);
                self.end(callback.id, Err(error));
            }
        }
    }

    /// Continues a call.
    fn advance(&mut self, token: Token) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if let Some(result) = exchange.advance(self.poll.registry(), &self.links.sources).transpose() {
            self.finish(token, result);
        }
    }

    /// Ends a call. If it was not answered, those that wait for the same program or address end as well.
    fn finish(&mut self, token: Token, result: io::Result<Vec<u8>>) {
        let Some(exchange) = self.exchanges.remove(&token) else { return };
        let now = Instant::now();
        let how = match &result {
            Ok(_) => Ending::Answered(now.saturating_duration_since(exchange.begun)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ending::Silent,
            Err(_) => Ending::Failed,
        };
        let host = host(&exchange.callback);
        let lost =
            host.map(|host| self.hosts.ended(host, exchange.callback.to, how, now)).unwrap_or_default();
        let id = match &result {
            Ok(_) => exchange.finish(self.poll.registry(), &mut self.links.kept),
            Err(error) => {
                let client = host.map(|host| tracing::field::display(Shown(host)));
                tracing::info!(client, %error, "a call to a client failed");
                exchange.callback.id
            }
        };
        self.end(id, result);
        for id in lost {
            self.end(id, Err(io::ErrorKind::TimedOut.into()));
        }
    }

    /// Ends calls whose deadline has passed.
    fn expire(&mut self) {
        let now = Instant::now();
        let late = self.exchanges.iter().filter(|(_, exchange)| exchange.deadline <= now);
        let late: Vec<Token> = late.map(|(token, _)| *token).collect();
        for token in late {
            self.finish(token, Err(io::ErrorKind::TimedOut.into()));
        }
        for id in self.hosts.take_late(now) {
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
