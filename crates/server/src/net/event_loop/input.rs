//! Input: reads from connections and executes the calls that arrive, as far as there is memory for them and their replies.

use nfs::admission::Needs;
use nfs::limits::SMALL_REPLY_BYTES_MAX;
use nfs::service::IncomingRecord;
use wire::limits::RECORD_BYTES_MAX;
use wire::record::{MARK_BYTES, Peek, RecordReader, peek};

use super::{EventLoop, Malformed};
use crate::admission::{ConnectionKey, Want};
use crate::counters::add;
use crate::limits::{HEAVY_BYTES, PORTION_BYTES, READ_BYTES, SEND_EARLY_BYTES, SMALL_RECORD_BYTES_MAX};
use crate::net::connection::{Connection, Received, WaitingCall};

/// A record that has arrived, decoded once for all that follows.
pub(super) struct Arrival<'r> {
    pub(super) record: IncomingRecord<'r>,
    pub(super) needs: Needs<'r>,
    /// Bytes to reserve for a large reply and the blocks it is made from; zero for a small one.
    pub(super) reply_bytes: usize,
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
        let is_stuck = connection.unsent() > 0 && is_tight;
        if connection.has_input() && !connection.is_full() && !is_stuck {
            connection.is_queued = true;
            self.grant_or_block(connection, want);
        }
    }

    fn grant_or_block(&mut self, connection: &mut Connection, want: Want) {
        let key = connection.key;
        if self.admission.may_go_on(key, want) {
            self.grant(connection, want);
        } else {
            self.admission.block(key, want);
        }
    }

    /// Serves a connection whose turn it is, unless it was closed: a call that waited for room, or one portion of input.
    pub(super) fn serve(&mut self, key: ConnectionKey) {
        let Some(mut connection) = self.connections.take_owner(key) else { return };
        connection.is_queued = false;
        connection.portion_bytes = 0;
        let result = if let Some(waiting) = connection.waiting.take() {
            if waiting.is_granted {
                self.admission.budget.count_replies(connection.key.origin, waiting.reply_bytes, 0);
                let arrival = self.arrival(&waiting.record);
                self.call(&mut connection, &arrival)
            } else {
                connection.waiting = Some(waiting);
                self.put_back(connection);
                return;
            }
        } else {
            // Both may have changed since the connection was queued. It is queued again when they allow it.
            if connection.is_full() || !self.may_read(&connection) {
                self.put_back(connection);
                return;
            }
            self.take_portion(&mut connection)
        };
        connection.is_heavy = connection.portion_bytes >= HEAVY_BYTES;
        // Large output is sent at once, so that it does not pile up; an error recurs at the end of the turn.
        if connection.unsent() >= SEND_EARLY_BYTES {
            let _ = connection.send(&mut self.buffers);
        }
        if connection.unsent() > 0 {
            self.touch(&mut connection);
        }
        match result {
            Ok(()) => self.put_back(connection),
            Err(Malformed) => {
                // Earlier replies may still be sent.
                let _ = connection.send(&mut self.buffers);
                self.refuse(connection);
            }
        }
    }

    /// Takes in what remained of the last portion, or else what one read brings.
    fn take_portion(&mut self, connection: &mut Connection) -> Result<(), Malformed> {
        if !connection.rest.is_empty() {
            let mut rest = std::mem::take(&mut connection.rest);
            let left = self.take_in(connection, &rest[connection.rest_taken..])?;
            connection.rest_taken = rest.len() - left;
            if left == 0 {
                rest = Vec::new();
            }
            connection.rest = rest;
            return Ok(());
        }
        if !connection.reader.space().is_empty() {
            return self.take_part(connection);
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let most = self.receivable(connection, &mut buffer);
        let received = if most == 0 { Received::Nothing } else { connection.receive(&mut buffer[..most]) };
        let result = match self.note_received(connection, received) {
            0 => Ok(()),
            count => self.take_in(connection, &buffer[..count]).map(|left| {
                connection.rest = buffer[count - left..count].to_vec();
                connection.rest_taken = 0;
            }),
        };
        self.read_buffer = buffer;
        result
    }

    /// Returns how many bytes a connection may receive at once, at most the length of `buffer`, which is overwritten. Unless
    /// its origin has plenty of memory, it completes its record, or receives one that is in the socket completely and
    /// needs no memory; a longer one must be reserved first.
    fn receivable(&self, connection: &mut Connection, buffer: &mut [u8]) -> usize {
        if self.admission.has_plenty(connection.key) {
            return buffer.len();
        }
        if connection.has_reserved() || !connection.reader.is_between_records() {
            return connection.missing().min(buffer.len());
        }
        let count = match connection.peek(&mut buffer[..MARK_BYTES + SMALL_RECORD_BYTES_MAX]) {
            Received::Bytes(count) => count,
            Received::Nothing => return 0,
            // A read finds the end again.
            Received::End => return 1,
        };
        match peek(&buffer[..count], RECORD_BYTES_MAX) {
            Ok(Peek::Complete { used, .. }) => return used,
            Ok(Peek::Incomplete { needed }) if needed > MARK_BYTES => {
                connection.announce(needed - MARK_BYTES)
            }
            Ok(Peek::Fragmented) => connection.announce(RECORD_BYTES_MAX),
            // A part of a mark, or one that the reader refuses.
            Ok(Peek::Incomplete { .. }) | Err(_) => return count.min(MARK_BYTES),
        }
        0
    }

    /// Receives a part of a large record into the place where it stays.
    fn take_part(&mut self, connection: &mut Connection) -> Result<(), Malformed> {
        let mut reader = std::mem::replace(&mut connection.reader, RecordReader::new(RECORD_BYTES_MAX));
        let space = reader.space();
        let most = space.len().min(READ_BYTES);
        let received = connection.receive(&mut space[..most]);
        if let Received::Bytes(count) = received {
            reader.received(count);
        }
        connection.reader = reader;
        match self.note_received(connection, received) {
            0 => Ok(()),
            _ => self.take_in(connection, &[]).map(|_| ()),
        }
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
        let mut reader = std::mem::replace(&mut connection.reader, RecordReader::new(RECORD_BYTES_MAX));
        let mut result = Ok(());
        while (!input.is_empty() || reader.has_completed()) && result.is_ok() {
            if connection.is_full() && (connection.send(&mut self.buffers).is_err() || connection.is_full()) {
                break;
            }
            if connection.portion_bytes >= PORTION_BYTES && !input.is_empty() {
                // Other connections are served before this one continues.
                break;
            }
            if connection.unsent() >= SEND_EARLY_BYTES && connection.send(&mut self.buffers).is_err() {
                // The error recurs at the end of the turn, which closes the connection.
                break;
            }
            result = match reader.next(&mut input) {
                Ok(Some(record)) => self.arrived(connection, record),
                Ok(None) => Ok(()),
                Err(error) => {
                    tracing::info!(client = %connection.ends.peer, %error, "connection closed: malformed record");
                    Err(Malformed)
                }
            };
        }
        connection.reader = reader;
        result.map(|()| input.len())
    }

    /// Executes a call that has arrived, or has it wait until there is room for its reply.
    fn arrived(&mut self, connection: &mut Connection, record: &[u8]) -> Result<(), Malformed> {
        let arrival = self.arrival(record);
        let reply_bytes = arrival.reply_bytes;
        if reply_bytes > 0 {
            self.count_output(connection);
            let is_tight = self.admission.budget.is_tight();
            let want = Want::Reply(reply_bytes);
            if !self.admission.may_go_on(connection.key, want) || !connection.may_begin(reply_bytes, is_tight)
            {
                add(&self.counters.reply_blocked, 1);
                connection.waiting =
                    Some(WaitingCall { record: record.to_vec(), reply_bytes, is_granted: false });
                return Ok(());
            }
        }
        self.call(connection, &arrival)
    }

    fn arrival<'r>(&self, record: &'r [u8]) -> Arrival<'r> {
        let record = IncomingRecord::decode(record);
        let needs = self.shared.calls.needs(&record);
        let is_large = needs.reply_bytes_max > SMALL_REPLY_BYTES_MAX;
        let reply_bytes = if is_large { 2 * needs.reply_bytes_max } else { 0 };
        Arrival { record, needs, reply_bytes }
    }

    /// Whether a connection may be read: what it receives is reserved, and its origin may have more replies.
    fn may_read(&self, connection: &Connection) -> bool {
        connection.want() == Want::Answer && self.admission.has_room(connection.key, Want::Answer)
    }
}
