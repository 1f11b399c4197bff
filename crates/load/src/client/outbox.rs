//! The calls of actors: how they are encoded and sent, and how replies find them.

use std::sync::Arc;

use wire::record::OpenRecord;
use wire::xdr::{Encoder, padding};

use super::nfs4::{self, Answer, Caller, Session};
use super::reply::Reply;
use super::request::{Request, WriteRequest};
use super::{COMPOUND, Connection, Protocol, encode_header, encode_request, is_delayed, nfs3};
use crate::error::LoadError;

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
    /// Whether only the front of the reply is kept.
    skims: bool,
    /// The session and the slot of a COMPOUND.
    pub(crate) slot: Option<(u32, u32)>,
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
        self.find(xid).is_some_and(|index| !self.slots[index].skims)
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
    pub(crate) protocol: Protocol,
    /// The sessions of NFSv4.
    pub(crate) sessions: Vec<Session>,
    /// Tells the open owners of this event loop from those of the others.
    pub(crate) index: u32,
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

/// The reply to a call.
#[derive(Debug)]
pub(crate) enum Arrived<'r> {
    Reply(Reply<'r>),
    /// The server asks for the call to be made again later. The reply says so, too.
    Delayed(Reply<'r>),
}

impl Io {
    /// Records the send time of the calls that leave now.
    pub(crate) fn stamp(&mut self, now_ns: u64) {
        for index in self.unstamped.drain(..) {
            self.calls.slots[index as usize].sent_ns = now_ns;
        }
    }

    /// Handles the results of a call, and frees its slot in the session.
    ///
    /// # Errors
    /// If the session cannot be used any more.
    #[inline]
    pub(crate) fn arrived<'r>(
        &mut self,
        call: &PendingCall,
        results: &'r [u8],
        cut: usize,
    ) -> Result<Arrived<'r>, LoadError> {
        let Some((session, slot)) = call.slot else {
            let reply = Reply::V3(nfs3::Reply { results, cut });
            return Ok(if is_delayed(results) { Arrived::Delayed(reply) } else { Arrived::Reply(reply) });
        };
        Ok(match self.sessions[session as usize].replied(slot, results, cut)? {
            Answer::Results(results) => Arrived::Reply(Reply::V4(results)),
            Answer::Delayed(results) => Arrived::Delayed(Reply::V4(results)),
        })
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

/// A call's role in its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallTag {
    /// Returned with the reply.
    pub(crate) part: u32,
    /// The phase that counts this call separately.
    pub(crate) phase: Option<u8>,
    /// Whether to keep only the front of the reply, because nobody looks at its data.
    pub(crate) skims: bool,
}

/// Sends the calls of one operation of one virtual thread.
pub(crate) struct Outbox<'l> {
    pub(crate) io: &'l mut Io,
    pub(crate) thread: u32,
    pub(crate) lane: u32,
    /// The thread's session in [`Io::sessions`].
    pub(crate) session: u32,
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

    /// Whether files are opened and closed.
    pub(crate) fn has_opens(&self) -> bool {
        self.io.protocol.has_opens()
    }

    /// Queues a NULL call, with AUTH_NONE.
    pub(crate) fn null(&mut self) {
        let (connection, xid) = self.begin_call(CallTag::default(), None);
        let procedure = (wire::nfs3::PROGRAM, self.io.protocol.program_version(), 0);
        let out = self.io.connections[connection].out();
        let record = OpenRecord::begin(out);
        encode_header(out, xid, procedure, &[0; 16]);
        record.seal(out);
    }

    /// Queues a call. If no slot of the session is free, the actor is told to send it again once there is one.
    #[inline]
    pub(crate) fn call(&mut self, tag: CallTag, request: &Request<'_>) {
        let Ok(slot) = self.take_slot(tag) else { return };
        let (connection, xid) = self.begin_call(tag, slot);
        let owner = self.owner();
        let Io { connections, identity, sessions, protocol, .. } = &mut *self.io;
        let caller = caller(*protocol, sessions, slot, &owner);
        let out = connections[connection].out();
        let record = OpenRecord::begin(out);
        encode_request(out, xid, identity, caller.as_ref(), request);
        record.seal(out);
    }

    /// Queues a WRITE, as [`Self::call`].
    pub(crate) fn write(&mut self, tag: CallTag, request: &WriteRequest<'_>, payload: Payload<'_>) {
        let Ok(slot) = self.take_slot(tag) else { return };
        let (index, xid) = self.begin_call(tag, slot);
        let owner = self.owner();
        let Io { connections, identity, sessions, protocol, shared, .. } = &mut *self.io;
        let caller = caller(*protocol, sessions, slot, &owner);
        let connection = &mut connections[index];
        let length = request.length as usize;
        let out = connection.out();
        let record = OpenRecord::begin(out);
        match &caller {
            None => {
                let procedure = wire::nfs3::Procedure::Write.code();
                let procedure = (wire::nfs3::PROGRAM, wire::nfs3::VERSION, procedure);
                encode_header(out, xid, procedure, identity);
                nfs3::encode_write(request, &mut Encoder::new(out));
            }
            Some(caller) => {
                encode_header(out, xid, COMPOUND, identity);
                nfs4::encode_write_head(caller, request, &mut Encoder::new(out));
            }
        }
        let mut inserted = 0;
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
                    inserted = length;
                }
            }
        }
        let out = connection.out();
        out.extend_from_slice(&[0; 3][..padding(length)]);
        if caller.is_some() {
            nfs4::encode_write_tail(&mut Encoder::new(out));
        }
        record.seal_with(out, inserted);
    }

    /// Returns the open owner: each thread is one.
    fn owner(&self) -> [u8; 8] {
        (u64::from(self.io.index) << 32 | u64::from(self.thread)).to_be_bytes()
    }

    /// Takes a slot of the thread's session, if the protocol has sessions. If none is free, the call waits in line.
    #[inline]
    fn take_slot(&mut self, tag: CallTag) -> Result<Option<(u32, u32)>, NoFreeSlot> {
        let Some(session) = self.io.sessions.get_mut(self.session as usize) else { return Ok(None) };
        if let Some(slot) = session.take() {
            return Ok(Some((self.session, slot)));
        }
        session.waiting.push_back((self.thread, self.lane, tag.part));
        *self.outstanding += 1;
        Err(NoFreeSlot)
    }

    /// Chooses a connection for a call, and gives it a transaction ID.
    #[inline]
    fn begin_call(&mut self, tag: CallTag, slot: Option<(u32, u32)>) -> (usize, u32) {
        let chosen = self.connections[*self.next];
        *self.next += 1;
        if *self.next == self.connections.len() {
            *self.next = 0;
        }
        let (index, xid) = self.io.calls.take(PendingCall {
            xid: 0,
            busy: true,
            thread: self.thread,
            lane: self.lane,
            part: tag.part,
            phase: tag.phase,
            skims: tag.skims,
            slot,
            sent_ns: 0,
        });
        if tag.phase.is_some() {
            self.io.unstamped.push(index);
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

/// No slot of the session is free; the call waits in line.
struct NoFreeSlot;

/// Returns what a COMPOUND begins with, if the call has a slot.
#[inline]
fn caller<'a>(
    protocol: Protocol,
    sessions: &[Session],
    slot: Option<(u32, u32)>,
    owner: &'a [u8],
) -> Option<Caller<'a>> {
    let (minor, (session, slot)) = protocol.minor().zip(slot)?;
    Some(Caller { minor, sequence: sessions[session as usize].sequence(slot), owner })
}
