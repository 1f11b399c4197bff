//! Threads for calls that must wait for the disk, and for the rest of calls that take long.
//!
//! The latter need processors, as event loops do, and are continued by threads of a lower priority. A thread cannot get its priority
//! back without privileges, so these are others than those that begin calls, which most often wait for the disk only.
//!
//! Calls wait in a line for each origin, and origins take turns. An origin may use at most three times as many threads as are
//! free, and all but the last one. So one origin uses 12 of 16, two use six each, and a newcomer finds one that is free unless
//! there are nearly as many origins as threads.
//!
//! The lines need no limit of their own: each call in them counts towards the limits of its connection and its loop.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use crate::connection_origin::ConnectionOrigin;
use crate::limits::WORKERS_SHARE;
use crate::net::deferred::DeferredCall;
use crate::net::mailbox::{Mailbox, Message};
use crate::priority::let_others_go_first;
use crate::protocol::calls::Calls;

struct Job {
    call: DeferredCall,
    answer_to: Arc<Mailbox>,
}

/// The calls of an origin.
struct Line<T> {
    waiting: VecDeque<T>,
    /// Calls that threads execute.
    running: usize,
}

/// What waits for threads, and whose it is.
struct Lines<T> {
    /// The origins with calls that wait or run.
    origins: HashMap<ConnectionOrigin, Line<T>>,
    /// Those with calls that wait. The first one's turn is next.
    order: VecDeque<ConnectionOrigin>,
    /// Threads that execute no call.
    free: usize,
    waiting: usize,
}

impl<T> Lines<T> {
    fn new(threads: usize) -> Lines<T> {
        Lines { origins: HashMap::new(), order: VecDeque::new(), free: threads, waiting: 0 }
    }

    fn push(&mut self, origin: ConnectionOrigin, job: T) {
        let line =
            self.origins.entry(origin).or_insert_with(|| Line { waiting: VecDeque::new(), running: 0 });
        if line.waiting.is_empty() {
            self.order.push_back(origin);
        }
        line.waiting.push_back(job);
        self.waiting += 1;
    }

    /// Returns the place in the order of the first origin that may use a thread.
    fn next_in_order(&self) -> Option<usize> {
        let may_use = |origin| {
            let running = self.origins.get(origin).map_or(0, |line| line.running);
            running < if running == 0 { self.free } else { WORKERS_SHARE * self.free.saturating_sub(1) }
        };
        self.order.iter().position(may_use)
    }

    /// Begins the next call, if a thread may be used for one.
    fn begin(&mut self) -> Option<(ConnectionOrigin, T)> {
        let origin = self.order.remove(self.next_in_order()?)?;
        let line = self.origins.get_mut(&origin)?;
        let job = line.waiting.pop_front()?;
        if !line.waiting.is_empty() {
            self.order.push_back(origin);
        }
        line.running += 1;
        self.free -= 1;
        self.waiting -= 1;
        Some((origin, job))
    }

    /// Takes those that wait and that `is_wanted` says.
    fn take_back(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for line in self.origins.values_mut() {
            if line.waiting.iter().any(&is_wanted) {
                let (wanted, others): (VecDeque<T>, _) = line.waiting.drain(..).partition(&is_wanted);
                taken.extend(wanted);
                line.waiting = others;
            }
        }
        let origins = &mut self.origins;
        origins.retain(|_, line| line.running > 0 || !line.waiting.is_empty());
        self.order.retain(|origin| origins.get(origin).is_some_and(|line| !line.waiting.is_empty()));
        self.waiting -= taken.len();
        taken
    }

    /// Ends a call that was begun.
    fn end(&mut self, origin: ConnectionOrigin) {
        self.free += 1;
        if let Some(line) = self.origins.get_mut(&origin) {
            line.running -= 1;
            if line.running == 0 && line.waiting.is_empty() {
                self.origins.remove(&origin);
            }
        }
    }
}

struct State {
    lines: Lines<Job>,
    closed: bool,
}

/// Threads that share lines of calls.
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

/// The calls that wait, shared with the threads.
pub(crate) struct Workers {
    /// Begins calls.
    first: Pool,
    /// Continues those that took more than their turn.
    long: Pool,
}

impl Workers {
    /// Starts `count` threads to begin calls, and as many to continue long ones.
    pub(crate) fn start(
        count: usize,
        calls: &Arc<dyn Calls>,
    ) -> io::Result<(Arc<Workers>, Vec<JoinHandle<()>>)> {
        let workers = Arc::new(Workers { first: Pool::new(count), long: Pool::new(count) });
        let mut threads = Vec::new();
        for number in 0..count {
            let own = || (Arc::clone(&workers), Arc::clone(calls));
            let (workers, calls) = own();
            let thread = thread::Builder::new().name(format!("worker {number}"));
            threads.push(thread.spawn(move || workers.first.run(&*calls))?);
            let (workers, calls) = own();
            let thread = thread::Builder::new().name(format!("long {number}"));
            threads.push(thread.spawn(move || {
                let_others_go_first();
                workers.long.run(&*calls);
            })?);
        }
        Ok((workers, threads))
    }

    /// Queues a call; the result goes to `answer_to`.
    pub(crate) fn submit(&self, mut call: DeferredCall, answer_to: Arc<Mailbox>) {
        let was_long = std::mem::replace(&mut call.is_long, true);
        let pool = if was_long { &self.long } else { &self.first };
        pool.submit(Job { call, answer_to });
    }

    /// Returns the calls of a loop, by their numbers among its long ones, that no thread has taken.
    pub(crate) fn take_back(&self, numbers: &BTreeSet<u64>, answer_to: &Arc<Mailbox>) -> Vec<DeferredCall> {
        let is_wanted = |job: &Job| {
            job.call.number.is_some_and(|number| numbers.contains(&number))
                && Arc::ptr_eq(&job.answer_to, answer_to)
        };
        let jobs = [&self.first, &self.long].map(|pool| pool.state.lock().lines.take_back(is_wanted));
        jobs.into_iter().flatten().map(|job| job.call).collect()
    }

    /// Returns the number of calls that no thread has taken.
    pub(crate) fn queued(&self) -> usize {
        self.first.queued() + self.long.queued()
    }

    /// Ends the threads and drops queued calls.
    pub(crate) fn close(&self) {
        self.first.close();
        self.long.close();
    }
}

impl Pool {
    fn new(threads: usize) -> Pool {
        let state = State { lines: Lines::new(threads), closed: false };
        Pool { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn submit(&self, job: Job) {
        self.state.lock().lines.push(job.call.origin(), job);
        self.changed.notify_one();
    }

    fn queued(&self) -> usize {
        self.state.lock().lines.waiting
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.lines = Lines::new(0);
        self.changed.notify_all();
    }

    fn run(&self, calls: &dyn Calls) {
        let mut ended = None;
        while let Some((origin, Job { call, answer_to })) = self.next(ended) {
            let executed = if call.is_abandoned() {
                call.skip()
            } else {
                let executed = call.execute(calls);
                calls.commit(false);
                executed
            };
            answer_to.send(Message::Executed(Box::new(executed)));
            ended = Some(origin);
        }
    }

    /// Ends the thread's last call, if there was one, and waits for the next. Returns nothing when all is over.
    fn next(&self, ended: Option<ConnectionOrigin>) -> Option<(ConnectionOrigin, Job)> {
        let mut state = self.state.lock();
        if let Some(origin) = ended {
            state.lines.end(origin);
        }
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.lines.begin() {
                if state.lines.next_in_order().is_some() {
                    // The end of a call may let several others begin.
                    self.changed.notify_one();
                }
                return Some(next);
            }
            self.changed.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn origin(number: u8) -> ConnectionOrigin {
        IpAddr::from([192, 0, 2, number]).into()
    }

    /// Begins what may begin. Returns the number of calls of each of four origins.
    fn begin_all(lines: &mut Lines<()>) -> [usize; 4] {
        while lines.begin().is_some() {}
        [1, 2, 3, 4].map(|number| lines.origins.get(&origin(number)).map_or(0, |line| line.running))
    }

    #[test]
    fn an_origin_leaves_threads_for_others() {
        let mut lines = Lines::new(16);
        (0..100).for_each(|_| lines.push(origin(1), ()));
        assert_eq!(begin_all(&mut lines), [12, 0, 0, 0]);
        lines.push(origin(2), ());
        assert_eq!(begin_all(&mut lines), [12, 1, 0, 0], "a newcomer is served at once");
        (0..100).for_each(|_| lines.push(origin(3), ()));
        assert_eq!(begin_all(&mut lines), [12, 1, 2, 0]);
        // As calls end, the greedy origins come to use about the same.
        let mut running = [0; 4];
        for _ in 0..12 {
            lines.end(origin(1));
            running = begin_all(&mut lines);
        }
        assert!([running[0], running[2]].iter().all(|count| (5..=8).contains(count)), "{running:?}");
        lines.push(origin(4), ());
        let [one, two, three, four] = begin_all(&mut lines);
        assert_eq!([one, two, three, four], [running[0], 1, running[2], 1]);
        assert!(lines.free > 0);
    }

    #[test]
    fn calls_that_are_taken_back_leave_the_order_to_others() {
        let mut lines = Lines::new(2);
        for number in 0..10 {
            lines.push(origin(1 + number % 3), number);
        }
        assert_eq!(lines.begin(), Some((origin(1), 0)));
        assert_eq!(lines.take_back(|number| number % 3 == 1), [1, 4, 7]);
        let mut taken = lines.take_back(|number| *number > 5);
        taken.sort_unstable();
        assert_eq!((taken, lines.waiting), (vec![6, 8, 9], 3));
        lines.end(origin(1));
        let rest: Vec<_> = std::iter::from_fn(|| {
            let begun = lines.begin();
            begun.iter().for_each(|(origin, _)| lines.end(*origin));
            begun
        })
        .collect();
        assert_eq!(rest, [(origin(3), 2), (origin(1), 3), (origin(3), 5)]);
        assert_eq!((lines.free, lines.waiting, lines.origins.len(), lines.order.len()), (2, 0, 0, 0));
    }

    #[test]
    fn few_threads_serve_everybody_in_turn() {
        for threads in [1, 2] {
            let mut lines = Lines::new(threads);
            (0..10).for_each(|_| lines.push(origin(1), ()));
            lines.push(origin(2), ());
            let mut served = Vec::new();
            while let Some((begun, ())) = lines.begin() {
                served.push(begun);
                lines.end(begun);
            }
            assert_eq!((served.len(), served[1]), (11, origin(2)));
            assert_eq!((lines.free, lines.waiting, lines.origins.len()), (threads, 0, 0));
        }
        let mut lines = Lines::new(2);
        (0..10).for_each(|_| lines.push(origin(1), ()));
        assert_eq!(begin_all(&mut lines), [1, 0, 0, 0]);
    }
}
