//! Threads for calls that must wait for the disk.
//!
//! Their queue needs no limit of its own: each call in it counts towards the limits of its connection and its loop.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use crate::net::deferred::DeferredCall;
use crate::net::mailbox::{Mailbox, Message};
use crate::protocol::calls::Calls;

struct Job {
    call: DeferredCall,
    answer_to: Arc<Mailbox>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// The queue of calls, shared with the threads.
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

    /// Queues a call; the result goes to `answer_to`.
    pub(crate) fn submit(&self, call: DeferredCall, answer_to: Arc<Mailbox>) {
        self.queue.lock().jobs.push_back(Job { call, answer_to });
        self.changed.notify_one();
    }

    /// Returns the number of calls that no thread has taken.
    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().jobs.len()
    }

    /// Ends the threads and drops queued calls.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.jobs.clear();
        self.changed.notify_all();
    }

    fn run(&self, calls: &dyn Calls) {
        while let Some(Job { call, answer_to }) = self.next() {
            let executed = call.execute(calls);
            calls.commit(false);
            answer_to.send(Message::Executed(Box::new(executed)));
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
