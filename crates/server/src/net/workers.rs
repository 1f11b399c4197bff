//! Threads for calls that have to wait for the disk.
//!
//! Their queue needs no limit of its own: each call in it counts towards the limits of its connection and of its loop.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nfs::service::{Connection, Progress};
use parking_lot::{Condvar, Mutex};
use volume::request::Access;

use crate::admission::lines::Place;
use crate::limits::HELD_OVERHEAD_BYTES;
use crate::net::mailbox::{Mailbox, Message};
use crate::net::output::Body;
use crate::protocol::calls::{Calls, Handled};

/// A connection of a loop: its place, and which of those that were there over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) index: usize,
    pub(crate) generation: u64,
}

/// A call that was not answered where it arrived.
#[derive(Debug)]
pub(crate) struct HeldCall {
    pub(crate) owner: Owner,
    pub(crate) connection: Connection,
    /// The call's bytes.
    pub(crate) call: Vec<u8>,
    /// How it is to be tried next.
    pub(crate) access: Access,
    /// How far it came.
    pub(crate) progress: Option<Progress>,
    /// Bytes reserved for a large reply and what it is made from; zero for a small one.
    pub(crate) reply_bytes: usize,
    /// Where it waits, or waited.
    pub(crate) place: Option<Place>,
}

impl HeldCall {
    /// Executes it, or the rest of it.
    pub(crate) fn try_again(&mut self, calls: &dyn Calls, reply: &mut Body) -> Handled {
        calls.handle(
            &self.call,
            self.connection,
            self.access,
            &mut self.progress,
            &mut reply.bytes,
            &mut reply.tail,
        )
    }

    /// What it is counted with among the requests.
    pub(crate) fn request_bytes(&self) -> usize {
        self.call.capacity() + HELD_OVERHEAD_BYTES
    }
}

/// A call that a worker has executed.
pub(crate) struct Finished {
    pub(crate) held: HeldCall,
    pub(crate) handled: Handled,
    /// The reply with its record mark, if there is one.
    pub(crate) reply: Body,
}

struct Job {
    held: HeldCall,
    answer_to: Arc<Mailbox>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// The queue of calls; its threads hold it too.
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Workers {
    /// Starts `count` threads.
    pub(crate) fn start(
        count: usize,
        calls: &Arc<dyn Calls>,
    ) -> io::Result<(Arc<Workers>, Vec<JoinHandle<()>>)> {
        let workers = Arc::new(Workers { queue: Mutex::default(), changed: Condvar::new() });
        let mut threads = Vec::new();
        for number in 0..count {
            let (workers, calls) = (Arc::clone(&workers), Arc::clone(calls));
            let thread = thread::Builder::new().name(format!("worker {number}"));
            threads.push(thread.spawn(move || workers.run(&*calls))?);
        }
        Ok((workers, threads))
    }

    /// Queues a call; what becomes of it goes to `answer_to`.
    pub(crate) fn submit(&self, held: HeldCall, answer_to: Arc<Mailbox>) {
        self.queue.lock().jobs.push_back(Job { held, answer_to });
        self.changed.notify_one();
    }

    /// Calls that no thread has taken yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().jobs.len()
    }

    /// Ends the threads; calls that are still queued are dropped.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.jobs.clear();
        self.changed.notify_all();
    }

    fn run(&self, calls: &dyn Calls) {
        while let Some(Job { mut held, answer_to }) = self.next() {
            let mut reply = Body::default();
            let handled = held.try_again(calls, &mut reply);
            calls.commit(false);
            answer_to.send(Message::Finished(Finished { held, handled, reply }));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            self.changed.wait(&mut queue);
        }
    }
}
