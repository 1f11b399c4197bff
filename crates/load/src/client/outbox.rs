//! What an actor sends its calls through, and what becomes of them until they are answered.

use std::sync::Arc;

use wire::nfs3::{self, Procedure, StableHow};
use wire::record::OpenRecord;
use wire::xdr::{Encode, Encoder, padding};

use super::{Connection, Handle, encode_header};

/// File data up to this is copied behind its call; more is sent from where it lies. A copy of this size costs less
/// than two more pieces of a system call.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// Data of WRITE calls when nobody verifies: all writers share it.
pub(crate) const SHARED_BYTES: usize = 4 << 20;

/// A call that is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCall {
    /// Its transaction number; meaningful while `busy`.
    xid: u32,
    busy: bool,
    /// The virtual thread, by its place in the event loop.
    pub(crate) thread: u32,
    pub(crate) lane: u32,
    pub(crate) part: u32,
    /// The phase that counts this call by itself.
    pub(crate) phase: Option<u8>,
    /// All of its reply is wanted.
    whole: bool,
    /// When it was sent, in nanoseconds.
    pub(crate) sent_ns: u64,
}

/// The calls in flight of an event loop. A transaction number is a counter above the slot's index, so that a reply
/// finds its call without a search and one to an older call is noticed.
#[derive(Debug)]
pub(crate) struct CallTable {
    slots: Vec<PendingCall>,
    free: Vec<u32>,
    index_bits: u32,
    counter: u32,
}

impl CallTable {
    /// For at most so many calls in flight.
    pub(crate) fn new(most: u32, first: u32) -> Self {
        let index_bits = (u32::BITS - most.max(1).leading_zeros()).min(24);
        Self { slots: Vec::new(), free: Vec::new(), index_bits, counter: first }
    }

    fn take(&mut self, slot: PendingCall) -> (u32, u32) {
        self.counter = self.counter.wrapping_add(1);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("bounded by threads, depth and parts")
        });
        assert!(index >> self.index_bits == 0, "more calls in flight than there are slots");
        let xid = self.counter << self.index_bits | index;
        self.slots[index as usize] = PendingCall { xid, busy: true, ..slot };
        (index, xid)
    }

    fn find(&self, xid: u32) -> Option<usize> {
        let index = (xid & ((1 << self.index_bits) - 1)) as usize;
        self.slots.get(index).filter(|slot| slot.busy && slot.xid == xid).map(|_| index)
    }

    /// Whether all of the reply is wanted.
    pub(crate) fn wants_whole(&self, xid: u32) -> bool {
        self.find(xid).is_some_and(|index| self.slots[index].whole)
    }

    /// The call that a reply answers; it is no longer in flight.
    pub(crate) fn answered(&mut self, xid: u32) -> Option<PendingCall> {
        let index = self.find(xid)?;
        self.slots[index].busy = false;
        self.free.push(u32::try_from(index).expect("it came from 32 bits"));
        Some(self.slots[index])
    }
}

/// Connections and calls of an event loop.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) connections: Vec<Connection>,
    pub(crate) calls: CallTable,
    /// Connections with something to send.
    pub(crate) dirty: Vec<u32>,
    /// Calls whose time of sending is not written down yet.
    pub(crate) unstamped: Vec<u32>,
    pub(crate) identity: Vec<u8>,
    /// What calls of NULL carry instead of an identity: 16 zeros, AUTH_NONE twice.
    pub(crate) shared: Arc<[u8]>,
}

impl Io {
    /// Writes down when the calls of the last moment are sent.
    pub(crate) fn stamp(&mut self, now_ns: u64) {
        for index in self.unstamped.drain(..) {
            self.calls.slots[index as usize].sent_ns = now_ns;
        }
    }
}

/// The data of a WRITE.
pub(crate) enum Payload<'p> {
    /// Whatever, from the shared data.
    Any {
        /// Where it begins in it, below [`SHARED_BYTES`]; cut to what fits.
        start: u64,
    },
    /// What this function writes.
    Made(&'p mut dyn FnMut(&mut [u8])),
}

/// The file, place and promise of a WRITE.
pub(crate) struct WriteCall<'a> {
    pub(crate) file: &'a Handle,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) stable: StableHow,
}

/// A call's place in its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// A number that comes back with the reply.
    pub(crate) part: u32,
    /// Counts this call by itself, as a phase.
    pub(crate) phase: Option<u8>,
    /// All of the reply is wanted: its data or its entries are looked at.
    pub(crate) whole: bool,
}

/// Sends the calls of one operation of one virtual thread.
pub(crate) struct Outbox<'l> {
    pub(crate) io: &'l mut Io,
    pub(crate) thread: u32,
    pub(crate) lane: u32,
    /// The connections of the thread.
    pub(crate) connections: &'l [u32],
    /// Which of them is next.
    pub(crate) next: &'l mut usize,
    /// Calls of the operation in flight.
    pub(crate) outstanding: &'l mut u32,
    /// Something of the operation failed already.
    pub(crate) failed: bool,
    /// Blocks of 4 KiB that were verified just now.
    pub(crate) verified: &'l mut u64,
}

impl Outbox<'_> {
    /// Whether the reply that is being handled is the operation's last, and nothing failed.
    pub(crate) fn all_is_well(&self) -> bool {
        *self.outstanding == 0 && !self.failed
    }

    /// Counts blocks that were found right.
    pub(crate) fn verified(&mut self, blocks: u64) {
        *self.verified += blocks;
    }

    /// A NULL call.
    pub(crate) fn null(&mut self) {
        let (connection, xid) = self.take_slot(Part::default());
        let out = self.io.connections[connection].out();
        let record = OpenRecord::begin(out);
        encode_header(out, xid, nfs3::PROGRAM, Procedure::Null.code(), &[0; 16]);
        record.seal(out);
    }

    /// Any call.
    #[inline]
    pub(crate) fn call(&mut self, part: Part, procedure: Procedure, args: &impl Encode) {
        let (connection, xid) = self.take_slot(part);
        let Io { connections, identity, .. } = &mut *self.io;
        let out = connections[connection].out();
        let record = OpenRecord::begin(out);
        encode_header(out, xid, nfs3::PROGRAM, procedure.code(), identity);
        args.encode(&mut Encoder::new(out));
        record.seal(out);
    }

    /// A WRITE.
    pub(crate) fn write(&mut self, part: Part, call: &WriteCall<'_>, payload: Payload<'_>) {
        let (index, xid) = self.take_slot(part);
        let Io { connections, identity, shared, .. } = &mut *self.io;
        let connection = &mut connections[index];
        let length = call.length as usize;
        let out = connection.out();
        let mark_at = out.len();
        out.extend_from_slice(&[0; 4]);
        encode_header(out, xid, nfs3::PROGRAM, Procedure::Write.code(), identity);
        let mut encoder = Encoder::new(out);
        call.file.wire().encode(&mut encoder);
        encoder.u64(call.offset);
        encoder.u32(call.length);
        call.stable.encode(&mut encoder);
        encoder.u32(call.length);
        let record = out.len() - mark_at - 4 + length + padding(length);
        let mark = u32::try_from(record).expect("a record is about a MiB") | 1 << 31;
        Encoder::new(out).patch(mark_at, &mark.to_be_bytes());
        match payload {
            Payload::Made(fill) => {
                let at = out.len();
                out.resize(at + length, 0);
                fill(&mut out[at..]);
            }
            Payload::Any { start } => {
                let start = usize::try_from(start).unwrap_or(0) % (SHARED_BYTES - length + 1);
                if length <= COPIED_BYTES_MAX {
                    out.extend_from_slice(&shared[start..start + length]);
                } else {
                    connection.insert(start, start + length);
                }
            }
        }
        Encoder::new(connection.out()).pad(length);
    }

    /// Takes a slot and a connection for a call.
    #[inline]
    fn take_slot(&mut self, part: Part) -> (usize, u32) {
        let chosen = self.connections[*self.next];
        *self.next += 1;
        if *self.next == self.connections.len() {
            *self.next = 0;
        }
        let (slot, xid) = self.io.calls.take(PendingCall {
            xid: 0,
            busy: true,
            thread: self.thread,
            lane: self.lane,
            part: part.part,
            phase: part.phase,
            whole: part.whole,
            sent_ns: 0,
        });
        if part.phase.is_some() {
            self.io.unstamped.push(slot);
        }
        *self.outstanding += 1;
        let connection = &mut self.io.connections[chosen as usize];
        if !connection.dirty {
            connection.dirty = true;
            self.io.dirty.push(chosen);
        }
        (chosen as usize, xid)
    }
}
