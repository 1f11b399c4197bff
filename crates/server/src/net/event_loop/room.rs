//! Room: lets blocked connections go on when there is memory, and takes it from others when they wait too long.

use std::time::Instant;

use super::EventLoop;
use crate::admission::origins::Half;
use crate::admission::{Blocked, Short, Want};
use crate::limits::{BLOCKED_CHECK, EVICTIONS_PER_TURN_MAX};
use crate::net::connection::Connection;

impl EventLoop {
    /// Lets blocked connections go on as far as there is memory, after making room for those that have waited too long.
    pub(super) fn unblock(&mut self) {
        if !self.admission.is_short() {
            return;
        }
        self.buffers.release();
        self.admission.budget.count_buffers(std::mem::take(&mut self.buffers_counted), 0);
        let now = Instant::now();
        self.go_on(now);
        if now < self.next_eviction {
            return;
        }
        self.release_idle(now);
        for short in Short::BOTH {
            for half in Half::BOTH {
                let mut evictions = 0;
                while evictions < EVICTIONS_PER_TURN_MAX && self.make_room(short, half, now) {
                    evictions += 1;
                    self.go_on(now);
                }
            }
        }
        self.next_eviction = now + BLOCKED_CHECK;
    }

    /// Lets blocked connections go on, in order.
    fn go_on(&mut self, now: Instant) {
        for blocked in Blocked::BOTH {
            let mut goes_on = true;
            while std::mem::take(&mut goes_on) {
                let mut pass = self.admission.pass(blocked);
                while let Some(waiter) = self.admission.next_of(&mut pass, now) {
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
    }

    /// Frees memory that connections keep for their next record, if somebody has waited too long.
    fn release_idle(&mut self, now: Instant) {
        let waits = |half| self.admission.waits_too_long(Short::Requests, half, now).is_some();
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

    /// Closes connections that give way to the first one of a half that has waited too long. Returns whether one does so.
    fn make_room(&mut self, short: Short, half: Half, now: Instant) -> bool {
        let Some(waiter) = self.admission.waits_too_long(short, half, now) else { return false };
        let holders: Vec<_> =
            self.connections.iter().filter_map(|connection| connection.holder(short)).collect();
        let Some(closed) = self.admission.make_room(&waiter, short, &holders, now) else { return false };
        for key in closed {
            if let Some(connection) = self.connections.take_owner(key) {
                self.evict(connection, "others waited for the memory that it held");
            }
        }
        true
    }
}
