//! The calls of actors: how they are encoded and sent, and how replies find them.

use std::sync::Arc;

use wire::nfs3::{self, Procedure, StableHow};
use wire::record::OpenRecord;
use wire::xdr::{Encode, Encoder, padding};

use super::{Connection, Handle, encode_header};

/// File data up to this size is copied after its call; larger data is sent from its own buffer. A copy of this size
/// costs less than two more buffers of a vectored write.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// The data that all WRITE calls share unless they are verified.
pub(crate) const SHARED_BYTES: usize = 4 << 20;

/// A call in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCall {
    /// The transaction ID, valid while `busy`.
    xid: u32,
    busy: bool,
    /// The index of the virtual thread in its event loop.
    pub(crate) thread: u32,
    pub(crate) lane: u32,
    pub(crate) part: u32,
    /// The phase that counts this call separately.
    pub(crate) phase: Option<u8>,
    /// Whether the whole reply is kept.
    whole: bool,
    /// When the call was sent, in nanoseconds.
    pub(crate) sent_ns: u64,
}

/// The calls in flight of an event loop. A transaction ID is a counter above the slot's index, so a reply finds its
/// call without a search, and a reply to an older call is noticed.
#[derive(Debug)]
pub(crate) struct CallTable {
    slots: Vec<PendingCall>,
    free: Vec<u32>,
    index_bits: u32,
    counter: u32,
}

impl CallTable {
    /// Makes a table for at most `calls_max` calls in flight.
    pub(crate) fn new(calls_max: u32, first: u32) -> Self {
        let index_bits = (u32::BITS - calls_max.max(1).leading_zeros()).min(24);
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

    /// Whether the whole reply is kept.
    pub(crate) fn wants_whole(&self, xid: u32) -> bool {
        self.find(xid).is_some_and(|index| self.slots[index].whole)
    }

    /// Returns the call that a reply answers, and frees its slot.
    pub(crate) fn answered(&mut self, xid: u32) -> Option<PendingCall> {
        let index = self.find(xid)?;
        self.slots[index].busy = false;
        self.free.push(u32::try_from(index).expect("it came from 32 bits"));
        Some(self.slots[index])
    }
}

/// The connections and calls of an event loop.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) connections: Vec<Connection>,
    pub(crate) calls: CallTable,
    /// Connections with queued calls.
    pub(crate) dirty: Vec<u32>,
    /// Calls whose send time is not recorded yet.
    pub(crate) unstamped: Vec<u32>,
    pub(crate) identity: Vec<u8>,
    /// Filler data for WRITE.
    pub(crate) shared: Arc<[u8]>,
}

impl Io {
    /// Records the send time of the calls that leave now.
    pub(crate) fn stamp(&mut self, now_ns: u64) {
        for index in self.unstamped.drain(..) {
            self.calls.slots[index as usize].sent_ns = now_ns;
        }
    }
}

/// The data of a WRITE.
pub(crate) enum Payload<'p> {
    /// Any part of the shared data.
    Any {
        /// The offset into the shared data, reduced to what fits.
        start: u64,
    },
    /// Data that this function writes.
    Made(&'p mut dyn FnMut(&mut [u8])),
}

/// The arguments of a WRITE, without its data.
pub(crate) struct WriteCall<'a> {
    pub(crate) file: &'a Handle,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) stable: StableHow,
}

/// A call's role in its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallTag {
    /// Returned with the reply.
    pub(crate) part: u32,
    /// The phase that counts this call separately.
    pub(crate) phase: Option<u8>,
    /// Whether to keep the whole reply, because its data or entries are checked.
    pub(crate) whole: bool,
}

/// Sends the calls of one operation of one virtual thread.
pub(crate) struct Outbox<'l> {
    pub(crate) io: &'l mut Io,
    pub(crate) thread: u32,
    pub(crate) lane: u32,
    /// The connections of the thread.
    pub(crate) connections: &'l [u32],
    /// The index of the connection to use next.
    pub(crate) next: &'l mut usize,
    /// Calls of the operation in flight.
    pub(crate) outstanding: &'l mut u32,
    /// Whether a call of the operation failed.
    pub(crate) failed: bool,
    /// Blocks of 4 KiB that this reply verified.
    pub(crate) verified: &'l mut u64,
}

impl Outbox<'_> {
    /// Whether the current reply is the operation's last and no call failed.
    pub(crate) fn is_complete_success(&self) -> bool {
        *self.outstanding == 0 && !self.failed
    }

    /// Counts verified blocks.
    pub(crate) fn verified(&mut self, blocks: u64) {
        *self.verified += blocks;
    }

    /// Queues a NULL call, with AUTH_NONE.
    pub(crate) fn null(&mut self) {
        let (connection, xid) = self.take_slot(CallTag::default());
        let out = self.io.connections[connection].out();
        let record = OpenRecord::begin(out);
        encode_header(out, xid, nfs3::PROGRAM, Procedure::Null.code(), &[0; 16]);
        record.seal(out);
    }

    /// Queues a call.
    #[inline]
    pub(crate) fn call(&mut self, tag: CallTag, procedure: Procedure, args: &impl Encode) {
        let (connection, xid) = self.take_slot(tag);
        let Io { connections, identity, .. } = &mut *self.io;
        let out = connections[connection].out();
        let record = OpenRecord::begin(out);
        encode_header(out, xid, nfs3::PROGRAM, procedure.code(), identity);
        args.encode(&mut Encoder::new(out));
        record.seal(out);
    }

    /// Queues a WRITE.
    pub(crate) fn write(&mut self, tag: CallTag, call: &WriteCall<'_>, payload: Payload<'_>) {
        let (index, xid) = self.take_slot(tag);
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
    fn take_slot(&mut self, tag: CallTag) -> (usize, u32) {
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
            part: tag.part,
            phase: tag.phase,
            whole: tag.whole,
            sent_ns: 0,
        });
        if tag.phase.is_some() {
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
