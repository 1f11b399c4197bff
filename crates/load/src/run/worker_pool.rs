//! The event loops of a measurement and their threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use mio::Waker;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wire::nfs4::SessionId4;

use super::Options;
use super::event_loop::{EventLoop, Lane, Shared, StageCommand, VirtualThread, WorkerMessage, connection};
use super::layout::LoopShare;
use crate::client::nfs4::Session;
use crate::client::outbox::{CallTable, Io, SHARED_BYTES};
use crate::client::{Connection, Server, connect_for_load, encoded_identity};
use crate::error::LoadError;
use crate::random::{filler, fresh_seed};
use crate::workload::actor::Actor;

/// The event loops.
pub(super) struct WorkerPool {
    workers: Vec<Worker>,
    pub(super) shared: Arc<Shared>,
    pub(super) messages: Receiver<WorkerMessage>,
    pub(super) threads: u32,
}

struct Worker {
    commands: Option<Sender<StageCommand>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    /// Virtual threads of this event loop.
    threads: u64,
}

impl WorkerPool {
    /// Connects, divides virtual threads, connections and sessions among event loops, and starts their threads.
    pub(super) fn spawn(
        server: &Server,
        options: &Options,
        shares: &[LoopShare],
        sessions: Vec<Session>,
        actors: Vec<Box<dyn Actor>>,
        parts_max: u32,
    ) -> Result<Self, LoadError> {
        let data: Arc<[u8]> = filler(SHARED_BYTES).into();
        let shared = Arc::new(Shared::new());
        let (sender, messages) = channel();
        let (mut actors, mut sessions): (VecDeque<_>, VecDeque<_>) = (actors.into(), sessions.into());
        let mut workers = Vec::new();
        for (index, share) in (0..).zip(shares) {
            let LoopShare { threads, connections, .. } = *share;
            let own: Vec<Session> = sessions.drain(..sessions.len().min(share.sessions as usize)).collect();
            let virtual_threads = (0..threads).filter_map(|thread| {
                let connections = share.connections_of(options.connections, thread);
                let lanes = vec![Lane::default(); options.depth as usize];
                let (actor, session) = (actors.pop_front()?, share.session_of(thread));
                let (next, waiting, quota) = (0, Vec::new(), 0);
                Some(VirtualThread { actor, connections, session, lanes, next, waiting, quota })
            });
            let virtual_threads: Vec<VirtualThread> = virtual_threads.collect();
            let mut session_of = vec![None; connections as usize];
            for thread in &virtual_threads {
                let session = own.get(thread.session as usize).map(|session| session.id);
                thread.connections.iter().for_each(|it| session_of[*it as usize] = session);
            }
            let connections =
                session_of.into_iter().map(|it| connect(server, it)).collect::<Result<Vec<_>, _>>()?;
            let calls_max = threads.saturating_mul(options.depth).saturating_mul(parts_max);
            let first = u32::try_from(fresh_seed() >> 32).expect("32 bits");
            let io = Io {
                protocol: server.protocol,
                sessions: own,
                index,
                connections,
                calls: CallTable::new(calls_max, first),
                dirty: Vec::new(),
                unstamped: Vec::new(),
                identity: encoded_identity(server.identity),
                shared: Arc::clone(&data),
            };
            let (command, commands) = channel();
            let (event_loop, waker) =
                EventLoop::new(io, virtual_threads, Arc::clone(&shared), commands, sender.clone())?;
            let thread = std::thread::Builder::new()
                .name(format!("load {index}"))
                .spawn(move || event_loop.run())
                .map_err(|error| LoadError::new(format!("cannot start a thread: {error}")))?;
            workers.push(Worker {
                commands: Some(command),
                waker,
                thread: Some(thread),
                threads: u64::from(threads),
            });
        }
        Ok(Self { workers, shared, messages, threads: options.threads })
    }

    /// Returns the number of event loops.
    pub(super) fn size(&self) -> usize {
        self.workers.len()
    }

    /// Begins a stage on all event loops. Each virtual thread gets an equal share of `operations`.
    pub(super) fn begin(&self, command: StageCommand, operations: Option<u64>) -> Result<(), LoadError> {
        for worker in &self.workers {
            // Rounded up, so a stage runs at least the requested number.
            let quota = operations.map_or(u64::MAX, |all| all.div_ceil(u64::from(self.threads)));
            let sent =
                worker.commands.as_ref().map(|commands| commands.send(StageCommand { quota, ..command }));
            if worker.threads > 0 && !matches!(sent, Some(Ok(()))) {
                return Err(LoadError::new("an event loop has ended"));
            }
        }
        Ok(())
    }

    /// Wakes all event loops, to make them check the shared state.
    pub(super) fn wake(&self) {
        for worker in &self.workers {
            // An event loop that cannot be woken wakes within [`POLL_TIMEOUT`](super::event_loop).
            let _ = worker.waker.wake();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.abandon.store(true, Ordering::Relaxed);
        self.wake();
        for worker in &mut self.workers {
            worker.commands = None;
            if let Some(thread) = worker.thread.take() {
                // The thread's panic was printed already.
                let _ = thread.join();
            }
        }
    }
}

fn connect(server: &Server, session: Option<SessionId4>) -> Result<Connection, LoadError> {
    let stream = connect_for_load(server, session)?;
    connection(stream).map_err(|error| LoadError::new(format!("cannot prepare a connection: {error}")))
}

/// Raises the limit of open files, as far as allowed, if the connections need it.
pub(super) fn allow_files(connections: u32) {
    let wanted = u64::from(connections) + 128;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let raised = maximum.map_or(wanted, |maximum| wanted.min(maximum));
        // If the limit stays too low, opening connections fails with an error that says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    }
}
