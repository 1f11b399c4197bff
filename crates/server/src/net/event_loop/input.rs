//! What a loop takes in, and when: input of its connections, as far as there is memory for it and for the replies.

use nfs::limits::SMALL_REPLY_BYTES;
use wire::limits::RECORD_BYTES_MAX;
use wire::record::RecordReader;

use super::{EventLoop, Refused};
use crate::counters::add;
use crate::limits::{HEAVY_BYTES, PORTION_BYTES, READ_BYTES, SEND_EARLY_BYTES};
use crate::net::connection::{Connection, Received, Waiting};
use crate::net::workers::Owner;

/// What is reserved for a large reply: itself, and the blocks that it is made from.
pub(super) fn reserved_bytes(reply_bytes_max: usize) -> usize {
    if reply_bytes_max > SMALL_REPLY_BYTES { 2 * reply_bytes_max } else { 0 }
}

impl EventLoop {
    /// Puts a connection on the list on which its state belongs.
    pub(super) fn list(&mut self, index: usize, connection: &mut Connection) {
        if connection.listed || self.drain.is_some() {
            return;
        }
        if let Some(Waiting { reply_bytes, .. }) = connection.waiting {
            // If it may not begin, one of its own replies is still to leave, and then it comes here again.
            connection.listed = connection.may_begin(reply_bytes, self.budget.is_tight());
            if connection.listed && self.hungry.is_empty() && reply_bytes <= self.budget.room_to_reply() {
                self.ready.push(index, connection.is_heavy);
            } else if connection.listed {
                self.hungry.push_back(index);
            }
            return;
        }
        // Who does not take replies gets no more memory for them while there is little.
        let stuck = connection.unsent() > 0 && self.budget.is_tight();
        if connection.has_input() && !connection.is_full() && !stuck {
            connection.listed = true;
            let begun = !connection.reader.is_between_records();
            let owner = Owner { index, generation: connection.generation };
            if self.has_room(owner) && (begun || self.starved.is_empty() || self.favoured == Some(owner)) {
                self.ready.push(index, connection.is_heavy);
            } else if begun {
                // Completing a record gives memory back sooner than beginning another.
                self.starved.push_front(index);
            } else {
                self.starved.push_back(index);
            }
        }
    }

    /// Whether there is memory to read from this connection.
    fn has_room(&self, owner: Owner) -> bool {
        self.budget.room_to_read() > 0 || self.favoured == Some(owner)
    }

    /// Serves a connection whose turn it is: the call that waited for room, or one portion of input.
    pub(super) fn serve(&mut self, index: usize) {
        let Some(mut connection) = self.connections[index].take() else { return };
        connection.listed = false;
        connection.portion_bytes = 0;
        let result = if let Some(waiting) = connection.waiting.take() {
            if self.may_begin(&connection, waiting.reply_bytes) {
                self.call(index, &mut connection, &waiting.call, waiting.reply_bytes)
            } else {
                connection.waiting = Some(waiting);
                self.put_back(index, connection);
                return;
            }
        } else {
            let owner = Owner { index, generation: connection.generation };
            // Both may have changed since it was listed. Where it is put back, it is listed again when it is time.
            if connection.is_full() || !self.has_room(owner) {
                self.put_back(index, connection);
                return;
            }
            self.take_portion(index, &mut connection)
        };
        connection.is_heavy = connection.portion_bytes >= HEAVY_BYTES;
        // Large output leaves at once, so that it does not pile up; an error shows again at the end of the turn.
        if connection.unsent() >= SEND_EARLY_BYTES {
            let _ = connection.send(&mut self.buffers);
        }
        if connection.unsent() > 0 {
            self.touch(index, &mut connection);
        }
        match result {
            Ok(()) => self.put_back(index, connection),
            Err(Refused) => {
                add(&self.counters.refused, 1);
                // What was answered before may still leave.
                let _ = connection.send(&mut self.buffers);
                self.close(index, connection);
            }
        }
    }

    /// Takes in what was left the last time, or else what one read brings.
    fn take_portion(&mut self, index: usize, connection: &mut Connection) -> Result<(), Refused> {
        if !connection.rest.is_empty() {
            let mut rest = std::mem::take(&mut connection.rest);
            let left = self.take_in(index, connection, &rest[connection.rest_taken..])?;
            connection.rest_taken = rest.len() - left;
            if left == 0 {
                rest = Vec::new();
            }
            connection.rest = rest;
            return Ok(());
        }
        if !connection.reader.space().is_empty() {
            return self.take_part(index, connection);
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        // While others wait to be read, a connection that completes a record does not begin another along with it.
        let most = match connection.reader.missing() {
            1.. if !self.starved.is_empty() => connection.reader.missing().min(buffer.len()),
            _ => buffer.len(),
        };
        let result = match connection.receive(&mut buffer[..most]) {
            Received::Bytes(count) => {
                add(&self.counters.received, u64::try_from(count).unwrap_or(0));
                connection.portion_bytes += count;
                self.take_in(index, connection, &buffer[..count]).map(|left| {
                    connection.rest = buffer[count - left..count].to_vec();
                    connection.rest_taken = 0;
                })
            }
            Received::Nothing => Ok(()),
            Received::End => {
                connection.ended = true;
                Ok(())
            }
        };
        self.read_buffer = buffer;
        result
    }

    /// Receives a part of a large record into the place where it stays.
    fn take_part(&mut self, index: usize, connection: &mut Connection) -> Result<(), Refused> {
        let mut reader = std::mem::replace(&mut connection.reader, RecordReader::new(RECORD_BYTES_MAX));
        let space = reader.space();
        let most = space.len().min(READ_BYTES);
        let received = connection.receive(&mut space[..most]);
        if let Received::Bytes(count) = received {
            reader.received(count);
        }
        connection.reader = reader;
        match received {
            Received::Bytes(count) => {
                add(&self.counters.received, u64::try_from(count).unwrap_or(0));
                connection.portion_bytes += count;
                self.take_in(index, connection, &[]).map(|_| ())
            }
            Received::Nothing => Ok(()),
            Received::End => {
                connection.ended = true;
                Ok(())
            }
        }
    }

    /// Executes the calls that `input` completes, as far as the limits allow; returns how much was left.
    fn take_in(
        &mut self,
        index: usize,
        connection: &mut Connection,
        mut input: &[u8],
    ) -> Result<usize, Refused> {
        let mut reader = std::mem::replace(&mut connection.reader, RecordReader::new(RECORD_BYTES_MAX));
        let mut result = Ok(());
        while (!input.is_empty() || reader.has_completed()) && result.is_ok() {
            if connection.is_full() && (connection.send(&mut self.buffers).is_err() || connection.is_full()) {
                break;
            }
            if connection.portion_bytes >= PORTION_BYTES && !input.is_empty() {
                // Others have their turn before it goes on.
                break;
            }
            if connection.unsent() >= SEND_EARLY_BYTES && connection.send(&mut self.buffers).is_err() {
                // The end of the turn finds the same and closes it.
                break;
            }
            result = match reader.next(&mut input) {
                Ok(Some(record)) => self.arrived(index, connection, record),
                Ok(None) => Ok(()),
                Err(error) => {
                    tracing::debug!(peer = %connection.ends.peer, %error, "connection refused");
                    Err(Refused)
                }
            };
        }
        connection.reader = reader;
        result.map(|()| input.len())
    }

    /// Executes a call that has arrived, or lets it wait until there is room for its reply.
    fn arrived(&mut self, index: usize, connection: &mut Connection, record: &[u8]) -> Result<(), Refused> {
        let reply_bytes = reserved_bytes(self.shared.calls.reply_bytes_max(record));
        if reply_bytes > 0 {
            self.count_output(connection);
            if !self.hungry.is_empty() || !self.may_begin(connection, reply_bytes) {
                add(&self.counters.hungry, 1);
                connection.waiting = Some(Waiting { call: record.to_vec(), reply_bytes });
                return Ok(());
            }
        }
        self.call(index, connection, record, reply_bytes)
    }

    fn may_begin(&self, connection: &Connection, reply_bytes: usize) -> bool {
        reply_bytes <= self.budget.room_to_reply()
            && connection.may_begin(reply_bytes, self.budget.is_tight())
    }

    /// Serves those again that waited for memory, in their order and as many as there is memory for; if there is none to
    /// read, one of them is read nevertheless.
    pub(super) fn feed(&mut self) {
        let mut room = self.budget.room_to_reply();
        while let Some(index) = self.hungry.front().copied() {
            let waiting = self.connections[index].as_ref().and_then(|connection| connection.waiting.as_ref());
            let wanted = waiting.map_or(0, |waiting| waiting.reply_bytes);
            if wanted > room {
                break;
            }
            room -= wanted;
            self.hungry.pop_front();
            self.make_ready(index);
        }
        let mut room = self.budget.room_to_read();
        if room > 0 {
            self.favoured = None;
        }
        while room > 0
            && let Some(index) = self.starved.pop_front()
        {
            room = room.saturating_sub(READ_BYTES);
            self.make_ready(index);
        }
        if !self.starved.is_empty() {
            self.favour();
        }
    }

    /// Lets a connection go on that waited for memory.
    fn make_ready(&mut self, index: usize) {
        let is_heavy = self.connections[index].as_ref().is_some_and(|connection| connection.is_heavy);
        self.ready.push(index, is_heavy);
    }

    /// Chooses one of those that wait to be read, unless what is in flight gives memory back soon.
    fn favour(&mut self) {
        let in_flight = self.busy.len() + self.at_workers;
        let favoured = self.favoured.and_then(|owner| self.connection_of(owner));
        if in_flight > 0 || favoured.is_some_and(|connection| !connection.reader.is_between_records()) {
            return;
        }
        self.favoured = None;
        while let Some(index) = self.starved.pop_front() {
            if let Some(connection) = &self.connections[index] {
                if self.budget.is_full_of_replies() && connection.reader.is_between_records() {
                    // Another call would add to them. Those that have begun a record stand before all others.
                    self.starved.push_front(index);
                    return;
                }
                self.favoured = Some(Owner { index, generation: connection.generation });
                self.make_ready(index);
                return;
            }
        }
    }
}
