//! Room: lets blocked connections go on when there is memory, and takes it from others when they wait too long.

use std::time::Instant;

use super::EventLoop;
use crate::admission::candidates::Candidates;
use crate::admission::eviction::{Because, Holder};
use crate::admission::line::Waiter;
use crate::admission::long_calls::{Choice, When};
use crate::admission::origins::Half;
use crate::admission::{Blocked, ConnectionKey, Short, Want};
use crate::limits::{BLOCKED_CHECK, EVICTIONS_PER_TURN_MAX, PORTION_MAX};
use crate::net::connection::Connection;

impl EventLoop {
    /// Lets blocked connections go on as far as there is memory, after making room for those that have waited too long.
    pub(super) fn unblock(&mut self) {
        if !self.admission.is_short() {
            self.giving_way.clear();
            return;
        }
        self.buffers.release();
        self.admission.budget.count_buffers(std::mem::take(&mut self.buffers_counted), 0);
        let now = Instant::now();
        self.go_on(now);
        if now < self.next_eviction && self.giving_way.is_empty() {
            return;
        }
        self.release_idle(now);
        // What takes longer than a portion goes on in the next turn.
        if self.make_all_room(now) {
            self.next_eviction = now + BLOCKED_CHECK;
        } else {
            self.has_more = true;
        }
    }

    /// Lets blocked connections go on, in order. Returns them.
    fn go_on(&mut self, now: Instant) -> Vec<ConnectionKey> {
        let mut went_on = Vec::new();
        for blocked in Blocked::BOTH {
            let mut goes_on = true;
            while std::mem::take(&mut goes_on) {
                let mut pass = self.admission.pass(blocked);
                while let Some(waiter) = self.admission.next_of(&mut pass, now) {
                    went_on.push(waiter.key);
                    if let Some(mut connection) = self.connections.take_owner(waiter.key) {
                        if connection.want() == waiter.want {
                            self.grant(&mut connection, waiter.want);
                        } else {
                            // It gave memory back while it waited.
                            connection.is_queued = false;
                            self.enqueue(&mut connection);
                        }
                        self.connections.put(connection);
                    }
                    goes_on = true;
                }
            }
        }
        went_on
    }

    /// Frees memory that connections keep for their next record, if somebody has waited too long.
    fn release_idle(&mut self, now: Instant) {
        let waits = |half| !self.admission.waiting_too_long(Short::Requests, half, now).is_empty();
        if !Half::BOTH.into_iter().any(waits) {
            return;
        }
        for index in self.connections.indexes() {
            let Some(mut connection) = self.connections.take(index) else { continue };
            if connection.receiver.is_between_records() && connection.receiver.memory_bytes() > 0 {
                connection.receiver.release();
                self.count(&mut connection);
            }
            self.connections.put(connection);
        }
        self.go_on(now);
    }

    /// Reserves what a connection wants, and has it served.
    pub(super) fn grant(&mut self, connection: &mut Connection, want: Want) {
        match want {
            Want::Record { length, .. } => {
                connection.reserve(length);
                self.count(connection);
            }
            Want::Reply(bytes) => {
                self.admission.budget.count_replies(connection.key.origin, 0, bytes);
                connection.grant_reply();
            }
            Want::Answer => {}
        }
        self.admission.push_ready(connection.key, connection.is_heavy);
    }

    /// Makes room in both parts of memory for those that have waited too long. Returns whether it is done, not interrupted since
    /// it took long.
    fn make_all_room(&mut self, now: Instant) -> bool {
        let began = Instant::now();
        if !self.close_giving_way(began) {
            return false;
        }
        for short in Short::BOTH {
            for half in Half::BOTH {
                if !self.make_room_in(half, short, began, now) {
                    return false;
                }
            }
            if !self.make_own_room(short, began, now) {
                return false;
            }
        }
        true
    }

    /// Makes room in a part of memory for those of a half that have waited too long. Returns whether there was time for that.
    fn make_room_in(&mut self, half: Half, short: Short, began: Instant, now: Instant) -> bool {
        // All connections are looked at once, if somebody has waited too long.
        let mut candidates = None;
        for _ in 0..EVICTIONS_PER_TURN_MAX {
            let waiters = self.admission.waiting_too_long(short, half, now);
            let Some((first, others)) = waiters.split_first() else { break };
            let look = |event_loop: &EventLoop| event_loop.candidates(short, half, now);
            if !self.make_room_for((first, others), short, &mut candidates, look) {
                break;
            }
            let is_in_time = self.close_giving_way(began) && began.elapsed() < PORTION_MAX;
            let went_on = self.go_on(now);
            candidates.iter_mut().for_each(|candidates| candidates.went_on(went_on.iter().copied()));
            if !is_in_time {
                return false;
            }
        }
        true
    }

    /// Makes room for the first of those that wait. Returns whether there may be more now.
    ///
    /// A call that ends is only repeated. So long calls give way before connections do, if they hold enough, and for all that wait.
    fn make_room_for(
        &mut self,
        waiters: (&Waiter, &[Waiter]),
        short: Short,
        candidates: &mut Option<Candidates>,
        look: impl FnOnce(&EventLoop) -> Candidates,
    ) -> bool {
        if let Some(has_ended) = self.end_some_long(waiters, short, When::Enough) {
            return has_ended;
        }
        let candidates = candidates.get_or_insert_with(|| look(self));
        if let Some(closed) = self.admission.make_room(waiters.0, candidates) {
            self.giving_way.extend(closed);
            return true;
        }
        self.end_some_long(waiters, short, When::Any) == Some(true)
    }

    /// Ends long calls for connections that wait. Returns whether some ended at once; those that threads execute end when their
    /// turn is over. None if too little is held even for the first.
    fn end_some_long(&mut self, waiters: (&Waiter, &[Waiter]), short: Short, when: When) -> Option<bool> {
        let numbers = match self.admission.choose_long(waiters, short, when, &mut self.deferred.long) {
            Choice::End(numbers) => numbers,
            Choice::Wait => return Some(false),
            Choice::TooLittle => return None,
        };
        let mut calls = self.shared.workers.take_back(&numbers, &self.mailbox);
        self.deferred.at_workers -= calls.len();
        if calls.len() < numbers.len() {
            calls.extend(self.deferred.take_numbered(&numbers));
        }
        let has_ended = !calls.is_empty();
        calls.into_iter().for_each(|call| self.end_long(call));
        Some(has_ended)
    }

    /// Makes room in the shares of origins for those of their connections that have waited too long. Returns whether there was time
    /// for that.
    fn make_own_room(&mut self, short: Short, began: Instant, now: Instant) -> bool {
        let waiters = self.admission.wait_for_their_own(short, now);
        if waiters.is_empty() {
            return true;
        }
        let mut candidates = self.candidates(short, Half::Steady, now);
        let closed = waiters.iter().filter_map(|waiter| candidates.take_stopped(waiter));
        self.giving_way.extend(closed.take(EVICTIONS_PER_TURN_MAX));
        let is_done = self.close_giving_way(began);
        self.go_on(now);
        is_done
    }

    /// Returns all connections that may give way to those of a half.
    fn candidates(&self, short: Short, half: Half, now: Instant) -> Candidates {
        let holder = |connection: &Connection| {
            connection.holder(short).or_else(|| self.throttled(connection, short, half))
        };
        self.admission.candidates(short, self.connections.iter().filter_map(holder), now)
    }

    /// Returns a connection that gives way to those of a half since rate limits hold its calls.
    fn throttled(&self, connection: &Connection, short: Short, half: Half) -> Option<Holder> {
        let bytes = self.held.bytes_of(connection.key) + connection.stopped_bytes();
        let gives_way = bytes > 0 && short == Short::Requests && half == Half::Fast;
        gives_way.then_some(Holder { key: connection.key, bytes, because: Because::Throttled })
    }

    /// Closes connections that give way, one at least. Returns whether there was time for all, and for more.
    fn close_giving_way(&mut self, began: Instant) -> bool {
        while let Some(key) = self.giving_way.pop() {
            if let Some(connection) = self.connections.take_owner(key) {
                self.evict(connection, "others waited for the memory that it held");
            }
            if began.elapsed() >= PORTION_MAX {
                return false;
            }
        }
        true
    }
}
