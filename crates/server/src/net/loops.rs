//! The event loops and workers of a server, started and stopped together.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use mio::net::TcpListener;
use mio::{Poll, Waker};

use crate::admission::retry_queues::RetryQueues;
use crate::background::driver::join;
use crate::counters::Counters;
use crate::counters::tally::TallySettings;
use crate::error::Error;
use crate::limits::LOOP_BYTES_MIN;
use crate::net::acceptor::Acceptor;
use crate::net::connection_shares::ConnectionShares;
use crate::net::event_loop::{EventLoop, Shared};
use crate::net::mailbox::{Mailbox, Message};
use crate::net::workers::Workers;
use crate::protocol::calls::Calls;
use crate::rates::Rates;

/// The number of threads, and their memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopSettings {
    pub(crate) threads: usize,
    pub(crate) workers: usize,
    /// Bytes of requests and replies of all loops.
    pub(crate) request_bytes: usize,
    /// Bytes that the kernel should keep at most of what all connections have received and sent.
    pub(crate) buffer_bytes: usize,
    /// Connections at once, of all loops.
    pub(crate) connections: usize,
    pub(crate) tally: TallySettings,
    /// Whether connections end by a reset.
    pub(crate) ends_by_reset: bool,
}

/// The threads that serve connections.
pub(crate) struct Loops {
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) workers: Arc<Workers>,
    acceptor: JoinHandle<()>,
    /// Ends the acceptor.
    stop_accepting: Waker,
    threads: Vec<JoinHandle<()>>,
    worker_threads: Vec<JoinHandle<()>>,
}

impl Loops {
    /// Starts loops and workers that serve `calls` on `listeners`.
    pub(crate) fn start(
        settings: LoopSettings,
        listeners: Vec<TcpListener>,
        calls: Arc<dyn Calls>,
        rates: Arc<Rates>,
    ) -> Result<Loops, Error> {
        let (workers, worker_threads) =
            Workers::start(settings.workers, &calls).map_err(|error| no_thread(&error))?;
        let no_loop = |error: io::Error| {
            Error::failed(format!(
                "cannot start an event loop: {error}; raise the limit of open files (ulimit -n)"
            ))
        };
        let limit = (settings.request_bytes / settings.threads).max(LOOP_BYTES_MIN);
        let (mut polls, mut mailboxes) = (Vec::new(), Vec::new());
        for _ in 0..settings.threads {
            let poll = Poll::new().map_err(no_loop)?;
            mailboxes.push(Arc::new(Mailbox::new(poll.registry()).map_err(no_loop)?));
            polls.push(poll);
        }
        let targets =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>().map_err(no_loop)?;
        let first = Arc::clone(&mailboxes[0]);
        rates.on_change(Box::new(move || first.wake()));
        let shared = Arc::new(Shared {
            retry_queues: RetryQueues::new(calls.queues()),
            calls,
            workers: Arc::clone(&workers),
            rates,
            connections: ConnectionShares::new(settings.connections, settings.buffer_bytes),
            mailboxes: mailboxes.clone(),
            targets,
        });
        let loops: Vec<EventLoop> = polls
            .into_iter()
            .enumerate()
            .map(|(number, poll)| EventLoop::new(number, poll, Arc::clone(&shared), limit, settings.tally))
            .collect();
        let counters: Vec<_> = loops.iter().map(EventLoop::counters).collect();
        let mut acceptor = Acceptor::new(listeners, shared, Arc::clone(&counters[0])).map_err(no_loop)?;
        if settings.ends_by_reset {
            acceptor.end_by_reset();
        }
        let stop_accepting = acceptor.stop().map_err(no_loop)?;
        let mut threads = Vec::new();
        for (number, event_loop) in loops.into_iter().enumerate() {
            let thread = thread::Builder::new().name(format!("loop {number}"));
            threads.push(thread.spawn(move || event_loop.run()).map_err(|error| no_thread(&error))?);
        }
        let thread = thread::Builder::new().name("accept".to_owned());
        let acceptor = thread.spawn(move || acceptor.run()).map_err(|error| no_thread(&error))?;
        Ok(Loops { mailboxes, counters, workers, acceptor, stop_accepting, threads, worker_threads })
    }

    /// Finishes the calls in flight, and ends the threads.
    pub(crate) fn stop(self) {
        match self.stop_accepting.wake() {
            Ok(()) => join(self.acceptor),
            Err(error) => tracing::warn!(%error, "connections are accepted until the process ends"),
        }
        for mailbox in &self.mailboxes {
            mailbox.send(Message::Drain);
        }
        for thread in self.threads {
            join(thread);
        }
        self.workers.close();
        for thread in self.worker_threads {
            join(thread);
        }
    }
}

pub(crate) fn no_thread(error: &io::Error) -> Error {
    Error::failed(format!("cannot start a thread: {error}; raise the limit of processes (ulimit -u)"))
}
