//! Room: lets blocked connections go on when there is memory, and takes it from others when they wait too long.

use std::time::Instant;

use super::EventLoop;
use crate::admission::line::Waiter;
use crate::admission::origins::Standing;
use crate::admission::{ConnectionKey, Short, Want};
use crate::limits::{BLOCKED_CHECK, EVICTIONS_PER_TURN_MAX, SMALL_RECORD_BYTES_MAX};
use crate::net::connection::Connection;

impl EventLoop {
    /// Lets blocked connections go on as far as there is memory, after making room for those that have waited too long.
    pub(super) fn unblock(&mut self) {
        if !self.admission.is_short() {
            return;
        }
        self.buffers.release();
        self.admission.budget.count_buffers(std::mem::take(&mut self.buffers_counted), 0);
        for short in [Short::Requests, Short::Replies] {
            self.go_on(short);
        }
        if Instant::now() < self.next_eviction {
            return;
        }
        for short in [Short::Requests, Short::Replies] {
            let mut evictions = 0;
            while evictions < EVICTIONS_PER_TURN_MAX && self.evict_for_first(short) {
                evictions += 1;
                self.go_on(short);
            }
        }
        self.next_eviction = Instant::now() + BLOCKED_CHECK;
    }

    /// Lets blocked connections go on, in order. A large record or reply that finds no room stops only other large ones, and
    /// none if only its origin's share is used up.
    fn go_on(&mut self, short: Short) {
        loop {
            let (mut is_large_stopped, mut went_on) = (false, false);
            for waiter in self.admission.next_blocked(short) {
                let want = waiter.want;
                let is_large = match want {
                    Want::Record { length, .. } => length > SMALL_RECORD_BYTES_MAX,
                    Want::Reply(_) => true,
                    Want::Answer => false,
                };
                if (is_large && is_large_stopped) || !self.admission.has_room(waiter.key, want) {
                    is_large_stopped |= is_large && !self.admission.is_over_share(&waiter);
                    continue;
                }
                self.admission.unblock(short, waiter.key.origin);
                if let Some(mut connection) = self.connections.take_owner(waiter.key) {
                    if connection.want() == want {
                        self.grant(&mut connection, want);
                    } else {
                        // It gave memory back while it waited.
                        connection.is_queued = false;
                        self.enqueue(&mut connection);
                    }
                    self.connections.put(connection);
                }
                went_on = true;
            }
            if !went_on {
                return;
            }
        }
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

    /// Closes a connection that gives way to the first blocked one that has not used up its share. Returns whether there was
    /// one.
    fn evict_for_first(&mut self, short: Short) -> bool {
        let blocked = self.admission.next_blocked(short);
        let first = blocked.into_iter().find(|waiter| !self.admission.is_over_share(waiter));
        let Some(waiter) = first else { return false };
        let Some(holder) = self.holder_for(&waiter) else { return false };
        let Some(connection) = self.connections.take_owner(holder) else { return false };
        if connection.is_slow() {
            self.admission.budget.origins.note(holder.origin, Standing::Slow, Instant::now());
        }
        self.evict(connection, "others waited for the memory that it held");
        true
    }

    fn holder_for(&self, waiter: &Waiter) -> Option<ConnectionKey> {
        let short = self.admission.short_for(waiter.key, waiter.want);
        let holders = self.connections.iter().filter_map(|connection| connection.holder(short));
        self.admission.gives_way(waiter, holders)
    }
}
