//! Calls that pass rate limits, are held by them, and go on when they are released.
//!
//! A call is judged when it has arrived, before memory is reserved for its reply. One that is held has no lock, no room in a
//! journal, and no reply. The loop goes on reading its connection, so that urgent calls behind it are served. When too much is held for a
//! client, the loop stops reading the client's connections; each keeps one call, which is judged again later.

use std::time::Instant;

use nfs::service::{IncomingRecord, origin};
use qos::{ClientId, LoopId, Released, Token, Verdict};

use super::EventLoop;
use crate::admission::Want;
use crate::admission::origins::Standing;
use crate::connection_origin::ConnectionOrigin;
use crate::counters::phases::{Phase, Timing};
use crate::net::connection::{Connection, Passed};
use crate::net::held::HeldCall;
use crate::net::mailbox::Message;
use crate::rates::Asker;

/// What became of a call that met limits.
pub(super) enum Judged {
    /// It passes; what it was charged, if anything.
    Passed(Option<Box<Passed>>),
    /// It goes on later.
    Kept,
}

impl EventLoop {
    /// Judges a call that has arrived. Called only while something is limited.
    pub(super) fn judge(&mut self, connection: &mut Connection, record: &IncomingRecord<'_>) -> Judged {
        let Some(charge) = self.shared.calls.charge(record, &connection.ends) else {
            return Judged::Passed(None);
        };
        let peer = connection.ends.peer;
        let rates = &self.shared.rates;
        let limiter = if charge.is_of_client {
            rates.limiter_of(origin(peer.ip()), &mut connection.client_limits)
        } else {
            None
        };
        let target = connection.counted.target;
        let asker = Asker { target, origin: ConnectionOrigin::of(peer), limiter: limiter.as_ref() };
        let Some(mut charged) = rates.charged(&charge, &asker) else { return Judged::Passed(None) };
        let has_room = charge.is_urgent || self.held.has_room(charged.client(), record.length());
        let token = self.token(connection);
        let verdict = if has_room { self.shared.rates.admit(&mut charged, token) } else { Verdict::Full };
        match verdict {
            Verdict::Admitted => Judged::Passed(Some(Box::new(Passed { charged, timing: None }))),
            verdict => {
                let arrived = || Timing::of_arrival(connection.arrived);
                let mut timing = connection.unread_timing().unwrap_or_else(arrived);
                timing.end(Phase::Queue, self.call_clock.seen());
                let record = record.to_kept();
                let call = HeldCall { owner: connection.key, record, charged, timing };
                self.shared.calls.note_held(&call.record.decode(), connection.ends);
                self.keep(connection, call, token, verdict);
                Judged::Kept
            }
        }
    }

    fn token(&mut self, connection: &Connection) -> Token {
        let number = u16::try_from(self.number).unwrap_or(u16::MAX);
        Token { event_loop: LoopId(number), call: self.held.next_token(connection.key.index) }
    }

    /// Keeps a call that may not pass now.
    fn keep(&mut self, connection: &mut Connection, call: HeldCall, token: Token, verdict: Verdict) {
        self.admission.budget.origins.note(call.owner.origin, Standing::Throttled, Instant::now());
        if verdict == Verdict::Held {
            connection.begin_call(call.request_bytes(), 0);
            self.admission.budget.count_requests(call.owner.origin, 0, call.request_bytes());
            self.held.insert(token.call, call);
        } else {
            self.held.stop(call.charged.client(), connection.key);
            connection.stopped = Some(Box::new(call));
        }
    }

    /// Takes what limits release, for this loop and for others.
    pub(super) fn release_held(&mut self) {
        let mut released = std::mem::take(&mut self.released);
        self.shared.rates.release(&mut released);
        for one in released.drain(..) {
            let (Released::Call { token: Token { event_loop, .. }, .. } | Released::Room { event_loop, .. }) =
                one;
            match self.shared.mailboxes.get(usize::from(event_loop.0)) {
                Some(mailbox) if usize::from(event_loop.0) != self.number => {
                    mailbox.send(Message::Released(one))
                }
                _ => self.on_released(one),
            }
        }
        self.released = released;
    }

    /// Lets a call go on, or tries those again for which there is room.
    pub(super) fn on_released(&mut self, released: Released) {
        match released {
            Released::Call { token, waited } => {
                let Some(mut call) = self.held.remove(token.call) else { return };
                let client = call.charged.client();
                call.timing.end(Phase::Qos, call.timing.ended().plus(waited));
                if self.shared.rates.go_on(&mut call.charged, token) == Verdict::Admitted {
                    self.queue_released(call);
                } else {
                    self.held.insert(token.call, call);
                }
                self.try_stopped(client);
            }
            Released::Room { client, .. } => self.try_stopped(client),
        }
    }

    /// Has a released call executed when its connection is served.
    fn queue_released(&mut self, call: HeldCall) {
        if let Some(mut connection) = self.connections.take_owner(call.owner) {
            let waits_for_record = connection.is_queued && matches!(connection.want(), Want::Record { .. });
            connection.released.push_back(call);
            if waits_for_record && self.admission.stop_waiting(connection.key) {
                // The next record may wait for the very memory that this call holds.
                connection.is_queued = false;
            }
            self.put_back(connection);
        }
    }

    /// Judges the calls of a client's connections again that are not read.
    fn try_stopped(&mut self, client: ClientId) {
        while let Some(key) = self.held.take_stopped(client) {
            let Some(mut connection) = self.connections.take_owner(key) else { continue };
            let Some(mut call) = connection.stopped.take() else {
                self.put_back(connection);
                continue;
            };
            let token = self.token(&connection);
            let verdict = match self.held.has_room(client, call.request_bytes()) {
                true => self.shared.rates.admit(&mut call.charged, token),
                false => Verdict::Full,
            };
            if verdict == Verdict::Full {
                connection.stopped = Some(call);
                self.held.stop_again(client, key);
                self.connections.put(connection);
                return;
            }
            // So far it waited for the limit too, unread, and so did what has arrived after it.
            let now = self.call_clock.seen();
            connection.note_unread(call.timing.ended(), now);
            call.timing.end(Phase::Qos, now);
            if verdict == Verdict::Held {
                self.keep(&mut connection, *call, token, verdict);
            } else {
                connection.begin_call(call.request_bytes(), 0);
                self.admission.budget.count_requests(call.owner.origin, 0, call.request_bytes());
                connection.released.push_back(*call);
            }
            self.put_back(connection);
        }
    }

    /// Drops what is held of a connection whose peer sends no more: it has gone, or has connected again and will repeat its calls, and
    /// nobody should wait behind those. Nothing more is taken in, and the connection is closed when what passed the limits is
    /// answered.
    #[inline]
    pub(super) fn drop_if_leaving(&mut self, connection: &mut Connection) {
        let is_held = || {
            let waits = connection.stopped.is_some() || connection.has_released();
            waits || (self.held.len() > 0 && self.held.bytes_of(connection.key) > 0)
        };
        if !connection.is_leaving() {
            return;
        }
        connection.departure.begin(self.call_clock.seen());
        if is_held() {
            self.forget_held(connection);
            connection.end_input();
        }
    }

    /// Forgets what is held of a connection.
    pub(super) fn forget_held(&mut self, connection: &mut Connection) {
        if self.held.len() > 0 {
            let event_loop = LoopId(u16::try_from(self.number).unwrap_or(u16::MAX));
            let mut client = None;
            for token in self.held.tokens_of(connection.key) {
                self.shared.rates.forget(Token { event_loop, call: token });
                if let Some(call) = self.held.remove(token) {
                    client = Some(call.charged.client());
                    self.shared.rates.give_back(&call.charged);
                    self.uncount(connection, &call);
                }
            }
            // Other connections of the client may have stopped for want of the room that these calls had.
            let room = |client| Message::Released(Released::Room { event_loop, client });
            client.into_iter().for_each(|client| self.mailbox.send(room(client)));
        }
        while let Some(call) = self.take_released(connection) {
            self.shared.rates.give_back(&call.charged);
        }
        connection.stopped = None;
    }

    /// Takes the next call of a connection that was released; it is counted no longer.
    pub(super) fn take_released(&mut self, connection: &mut Connection) -> Option<HeldCall> {
        let call = connection.released.pop_front()?;
        self.uncount(connection, &call);
        Some(call)
    }

    /// Stops counting a call that was held.
    fn uncount(&mut self, connection: &mut Connection, call: &HeldCall) {
        self.admission.budget.count_requests(call.owner.origin, call.request_bytes(), 0);
        connection.release_call(call.request_bytes(), 0);
        connection.end_call(0);
    }
}
