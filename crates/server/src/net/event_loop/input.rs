//! Input: reads from connections and executes the calls that arrive, as far as there is memory for them and their replies.

use std::io::IoSliceMut;
use std::time::Instant;

use nfs::admission::Needs;
use nfs::link_local::socket_address;
use nfs::service::{Arrived, IncomingRecord, Receiver};
use wire::limits::RECORD_BYTES_MAX;
use wire::record::{MARK_BYTES, Peek, peek};

use super::holding::Judged;
use super::{EventLoop, Malformed};
use crate::admission::{ConnectionKey, Want};
use crate::counters::add;
use crate::counters::runs::Source;
use crate::limits::{
    FIRST_READ_BYTES, HEAVY_BYTES, PORTION_BYTES, PORTION_MAX, READ_BYTES, SEND_EARLY_BYTES,
    SHORT_REPLY_ROOM_MAX, SMALL_RECORD_BYTES_MAX,
};
use crate::net::connection::{Connection, Passed, Received, WaitingCall};

/// A record that has arrived, decoded once for all that follows.
pub(super) struct Arrival<'r> {
    pub(super) record: IncomingRecord<'r>,
    pub(super) needs: Needs<'r>,
    /// Bytes to reserve for the reply and the blocks it is made from; zero for a short one.
    pub(super) reply_bytes: usize,
    /// What rate limits did with it.
    pub(super) passed: Option<Box<Passed>>,
}

impl EventLoop {
    /// Puts a connection with input, or a call that waits for room, into the queue it belongs to.
    pub(super) fn enqueue(&mut self, connection: &mut Connection) {
        if connection.is_queued || self.drain.is_some() {
            return;
        }
        let is_tight = self.admission.budget.is_tight();
        let want = connection.want();
        if let Want::Reply(bytes) = want {
            // A call that may not begin waits for a reply of its connection to be sent, which queues it here again.
            connection.is_queued = connection.may_begin(bytes, is_tight);
            if connection.is_queued {
                self.grant_or_block(connection, want);
            }
            return;
        }
        // While memory is tight, a peer that does not read its replies gets no memory for more.
        let is_stuck = (connection.unsent() > 0 && is_tight) || self.has_kept_enough(connection);
        let has_work = connection.has_released() || (connection.has_input() && !connection.is_full());
        if has_work && !is_stuck {
            connection.is_queued = true;
            self.grant_or_block(connection, want);
        } else if let Want::Record { length, counted: 1.. } = want
            && self.admission.may_go_on(connection.key, want)
        {
            // A part came while there was plenty of memory. The rest is sure of its place too.
            connection.reserve(length);
            self.count(connection);
        }
    }

    fn grant_or_block(&mut self, connection: &mut Connection, want: Want) {
        let key = connection.key;
        if self.admission.may_go_on(key, want) {
            self.grant(connection, want);
        } else {
            self.admission.block(key, want, Instant::now());
        }
    }

    /// Serves a connection whose turn it is, unless it was closed: a call that waited for room, or one portion of input.
    pub(super) fn serve(&mut self, key: ConnectionKey) {
        let Some(mut connection) = self.connections.take_owner(key) else { return };
        connection.is_queued = false;
        connection.portion_bytes = 0;
        self.call_clock.begin_portion();
        let (client, arrived) = (connection.ends.peer.ip(), connection.arrived);
        self.tally.begin_source(Source { counted: connection.counted, client, arrived });
        let result = if let Some(waiting) = connection.waiting.take() {
            if waiting.is_granted {
                self.admission.budget.count_replies(connection.key.origin, waiting.reply_bytes, 0);
                let arrival = self.arrival(waiting.record.decode(), waiting.passed);
                self.call(&mut connection, arrival)
            } else {
                connection.waiting = Some(waiting);
                self.put_back(connection);
                return;
            }
        } else if connection.has_released() {
            self.take_in_released(&mut connection)
        } else {
            // All of this may have changed since the connection was queued. It is queued again when it may be read.
            if connection.is_full() || !connection.has_input() || !self.may_read(&connection) {
                self.put_back(connection);
                return;
            }
            self.take_portion(&mut connection)
        };
        self.tally.count_bytes(connection.counted, connection.portion_bytes);
        connection.done.note_bytes(connection.portion_bytes);
        self.call_clock.end_portion();
        connection.is_heavy =
            connection.portion_bytes >= HEAVY_BYTES || self.call_clock.portion() >= PORTION_MAX;
        // Large output is sent at once, so that it does not pile up; an error recurs at the end of the turn.
        if connection.unsent() >= SEND_EARLY_BYTES {
            let _ = self.send(&mut connection);
        }
        if connection.unsent() > 0 {
            self.touch(&mut connection);
        }
        match result {
            Ok(()) => self.put_back(connection),
            Err(Malformed) => {
                // Earlier replies may still be sent.
                let _ = self.send(&mut connection);
                self.refuse(connection);
            }
        }
    }

    /// Executes calls that rate limits have released, as long as there is memory.
    fn take_in_released(&mut self, connection: &mut Connection) -> Result<(), Malformed> {
        let mut result = Ok(());
        while result.is_ok()
            && connection.waiting.is_none()
            && connection.portion_bytes < PORTION_BYTES
            && self.call_clock.portion() < PORTION_MAX
            && let Some(call) = self.take_released(connection)
        {
            self.call_clock.look();
            connection.portion_bytes += call.record.memory_bytes();
            let passed = Passed { charged: call.charged, timing: Some(call.timing) };
            result = self.passed(connection, call.record.decode(), Some(Box::new(passed)));
        }
        result
    }

    /// Takes in what remained of the last portion, or else what one read brings.
    fn take_portion(&mut self, connection: &mut Connection) -> Result<(), Malformed> {
        if !connection.rest.is_empty() {
            let mut rest = std::mem::take(&mut connection.rest);
            let left = self.take_in(connection, &rest[connection.rest_taken..])?;
            connection.rest_taken = rest.len() - left;
            if left == 0 {
                (rest, connection.rest_taken) = (Vec::new(), 0);
            }
            connection.rest = rest;
            return Ok(());
        }
        if connection.receiver.has_spaces() {
            return self.take_part(connection);
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let received = match self.receivable(connection, &mut buffer) {
            0 => Received::Nothing,
            most => connection.receive(&mut [IoSliceMut::new(&mut buffer[..most])]),
        };
        let result = match self.note_received(connection, received) {
            0 => Ok(()),
            count => self.take_in_keeping_rest(connection, &buffer[..count]),
        };
        self.read_buffer = buffer;
        result
    }

    /// Returns how many bytes a connection may receive at once, at most the length of `buffer`, which is overwritten. Unless
    /// its origin has plenty of memory, it completes its record, or receives a small one that is in the socket completely; for
    /// another one, memory must be reserved first. Of a large record, only the start is read into `buffer`.
    fn receivable(&mut self, connection: &mut Connection, buffer: &mut [u8]) -> usize {
        let most = if connection.begins_large_record() { FIRST_READ_BYTES } else { buffer.len() };
        let unseen = self.admission.unseen_max(connection.key);
        if unseen > 0 {
            return most.min(unseen);
        }
        if connection.has_reserved() || !connection.receiver.is_between_records() {
            return connection.missing().min(most);
        }
        let count = match connection.peek(&mut buffer[..MARK_BYTES + SMALL_RECORD_BYTES_MAX]) {
            Received::Bytes(count) => count,
            Received::Nothing => return 0,
            // A read finds the end again.
            Received::End => return 1,
        };
        match peek(&buffer[..count], RECORD_BYTES_MAX) {
            Ok(Peek::Complete { used, .. }) if self.may_take_in(connection, used) => return used,
            Ok(Peek::Complete { used, .. }) => connection.announce(used - MARK_BYTES),
            Ok(Peek::Incomplete { needed }) if needed > MARK_BYTES => {
                connection.announce(needed - MARK_BYTES)
            }
            Ok(Peek::Fragmented) => connection.announce(RECORD_BYTES_MAX),
            // A part of a mark, or one that the reader refuses.
            Ok(Peek::Incomplete { .. }) | Err(_) => return count.min(MARK_BYTES),
        }
        0
    }

    /// Whether a small record of `used` bytes, which is in the socket completely, may be taken in: its call may have to be kept, so
    /// it must fit. If it does not, and the connection keeps no other call, it may be tried with a little that is lent.
    fn may_take_in(&mut self, connection: &mut Connection, used: usize) -> bool {
        let key = connection.key;
        if used == MARK_BYTES || self.admission.may_keep(key, used - MARK_BYTES) {
            return true;
        }
        let is_lent = !connection.keeps_calls() && self.admission.budget.lend(key.origin, used);
        if is_lent {
            connection.lent = used;
        }
        is_lent
    }

    /// Whether a connection takes in nothing more of what it has received until one of its calls is answered: it keeps some, and its
    /// origin has its share.
    fn has_kept_enough(&self, connection: &Connection) -> bool {
        connection.keeps_calls()
            && !connection.has_released()
            && !connection.rest.is_empty()
            && !self.admission.is_within_share(connection.key.origin)
    }

    /// Receives a part of a large record into the place where it stays.
    fn take_part(&mut self, connection: &mut Connection) -> Result<(), Malformed> {
        let mut receiver = std::mem::replace(&mut connection.receiver, Receiver::new(RECORD_BYTES_MAX));
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let (payload, rest) = (receiver.missing_payload(), receiver.missing() - receiver.missing_payload());
        let mut spaces = receiver.spaces(READ_BYTES);
        let in_place: usize = spaces.iter().map(|space| space.len()).sum();
        if in_place == payload {
            // What follows a payload comes with its end: the rest of the record, and the start of the next.
            let has_plenty = self.admission.unseen_max(connection.key) > 0;
            let most = if has_plenty { FIRST_READ_BYTES } else { rest.min(FIRST_READ_BYTES) };
            spaces.push(IoSliceMut::new(&mut buffer[..most]));
        }
        let received = connection.receive(&mut spaces);
        let behind = match received {
            Received::Bytes(count) => {
                receiver.received(count.min(in_place));
                count.saturating_sub(in_place)
            }
            _ => 0,
        };
        connection.receiver = receiver;
        let result = match self.note_received(connection, received) {
            0 => Ok(()),
            _ => self.take_in_keeping_rest(connection, &buffer[..behind]),
        };
        self.read_buffer = buffer;
        result
    }

    /// As [`EventLoop::take_in`]; keeps the rest for the next portion.
    fn take_in_keeping_rest(&mut self, connection: &mut Connection, input: &[u8]) -> Result<(), Malformed> {
        let left = self.take_in(connection, input)?;
        connection.rest = input[input.len() - left..].to_vec();
        connection.rest_taken = 0;
        // What remains, here or in the socket, came with this at the latest, or will come.
        connection.arrived = self.call_clock.woken();
        Ok(())
    }

    /// Counts what a read brought, and returns its length.
    fn note_received(&self, connection: &mut Connection, received: Received) -> usize {
        match received {
            Received::Bytes(count) => {
                add(&self.counters.received, u64::try_from(count).unwrap_or(0));
                connection.portion_bytes += count;
                count
            }
            Received::Nothing => 0,
            Received::End => {
                connection.is_ended = true;
                0
            }
        }
    }

    /// Executes the calls that `input` completes, as far as the limits allow. Returns the length of the rest.
    fn take_in(&mut self, connection: &mut Connection, mut input: &[u8]) -> Result<usize, Malformed> {
        let mut receiver = std::mem::replace(&mut connection.receiver, Receiver::new(RECORD_BYTES_MAX));
        let mut result = Ok(());
        while (!input.is_empty() || receiver.has_completed()) && result.is_ok() {
            if connection.is_full() && (self.send(connection).is_err() || connection.is_full()) {
                break;
            }
            // The last call counts; the next one, if there is one, begins now.
            self.call_clock.look();
            let is_portion =
                connection.portion_bytes >= PORTION_BYTES || self.call_clock.portion() >= PORTION_MAX;
            if is_portion && !input.is_empty() {
                // Other connections are served before this one continues.
                break;
            }
            let may_answer = || self.admission.has_room(connection.key, Want::Answer);
            let has_replies = connection.portion_bytes >= HEAVY_BYTES || connection.keeps_replies();
            if has_replies && !input.is_empty() && !may_answer() {
                // Its replies have used up the memory meanwhile.
                break;
            }
            let is_within_share = || self.admission.is_within_share(connection.key.origin);
            let may_keep = connection.has_reserved() || !connection.keeps_calls() || input.is_empty();
            if !may_keep && !is_within_share() {
                // So have its calls.
                break;
            }
            if connection.unsent() >= SEND_EARLY_BYTES && self.send(connection).is_err() {
                // The error recurs at the end of the turn, which closes the connection.
                break;
            }
            result = match receiver
                .next(&mut input, |start, length| self.shared.calls.arriving(start, length))
            {
                Ok(Some(Arrived { bytes, payload })) => {
                    connection.had_payload = payload.is_some();
                    self.arrived(connection, IncomingRecord::decode_around(bytes, payload.as_ref()))
                }
                Ok(None) => Ok(()),
                Err(error) => {
                    tracing::info!(client = %socket_address(connection.ends.peer), %error, "connection closed: malformed record");
                    Err(Malformed)
                }
            };
        }
        connection.receiver = receiver;
        result.map(|()| input.len())
    }

    /// Executes a call that has arrived, or has it wait: until rate limits let it pass, and there is room for its reply.
    fn arrived(&mut self, connection: &mut Connection, record: IncomingRecord<'_>) -> Result<(), Malformed> {
        if !self.shared.rates.is_limiting() {
            return self.passed(connection, record, None);
        }
        match self.judge(connection, &record) {
            Judged::Passed(passed) => self.passed(connection, record, passed),
            Judged::Kept => Ok(()),
        }
    }

    /// Executes a call that passed the rate limits, or has it wait until there is room for its reply.
    #[inline]
    fn passed(
        &mut self,
        connection: &mut Connection,
        record: IncomingRecord<'_>,
        passed: Option<Box<Passed>>,
    ) -> Result<(), Malformed> {
        let arrival = self.arrival(record, passed);
        if self.may_begin(connection, arrival.reply_bytes) {
            return self.call(connection, arrival);
        }
        add(&self.counters.reply_blocked, 1);
        connection.waiting = Some(WaitingCall {
            record: arrival.record.to_kept(),
            reply_bytes: arrival.reply_bytes,
            is_granted: false,
            passed: arrival.passed,
        });
        Ok(())
    }

    /// Whether a call may begin whose reply takes this much memory. For a short one, nothing is reserved.
    #[inline]
    fn may_begin(&mut self, connection: &mut Connection, reply_bytes: usize) -> bool {
        if reply_bytes <= SHORT_REPLY_ROOM_MAX {
            return reply_bytes == 0 || self.admission.may_begin_short(connection.key, reply_bytes);
        }
        self.count_output(connection);
        let is_tight = self.admission.budget.is_tight();
        self.admission.may_go_on(connection.key, Want::Reply(reply_bytes))
            && connection.may_begin(reply_bytes, is_tight)
    }

    fn arrival<'r>(&self, record: IncomingRecord<'r>, passed: Option<Box<Passed>>) -> Arrival<'r> {
        let needs = self.shared.calls.needs(&record);
        Arrival { record, needs, reply_bytes: 2 * needs.reply_bytes_max, passed }
    }

    /// Whether a connection may be read: what it receives is reserved, and its origin may have more replies.
    fn may_read(&self, connection: &Connection) -> bool {
        connection.want() == Want::Answer && self.admission.has_room(connection.key, Want::Answer)
    }
}
