//! The service: exports and volumes, and what becomes of a call.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use volume::bytes::Slice;
use volume::request::{Access, Durability, Durable, Error};
use volume::time::Time;
use volume::volume::Volume;
use wire::nfs3::NfsStat3;
use wire::record::OpenRecord;
use wire::rpc::{
    AcceptStat, AuthStat, CallError, CallHeader, Credential, ReplyHeader, decode_call, encode_success,
};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::call::{After, Call, Operation, Stop};
pub use crate::connection::{Connection, ConnectionId};
use crate::context::{ServiceContext, Shared};
use crate::dispatch;
use crate::exports::{Export, ExportsError};
pub use crate::progress::Progress;
use crate::state::SharedState;
pub use crate::state::callbacks::outgoing::{Callback, Destination};
use crate::state::config::Config;
use crate::state::restart::Records;

/// The front of a call, in bytes: xid, direction, RPC version, program, version and procedure (RFC 5531 section 9).
pub const HEAD_BYTES: usize = 24;

/// What a reply that was written waits for.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The volume that it shows.
    pub volume: Arc<Volume>,
    /// What of it must be durable; [`Volume::durability`] tells.
    pub durability: Durability,
}

/// What became of a call. `W` is how a volume and a state of it are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<W = Wait> {
    /// The reply was appended, with its record mark, as one fragment.
    Reply {
        /// The reply may leave when this is durable. If it never will be, [`Service::failure_reply`] is to be sent
        /// instead. None: it may leave at once.
        after: Option<W>,
        /// How long to hold the reply back besides, so that changes do not outrun checkpoints; zero normally.
        hold: Duration,
    },
    /// Media must be read. Nothing was appended; run the same call again with [`Access::Blocking`], and with its
    /// [`Progress`] if there is one. Without one, nothing was changed either.
    WouldBlock,
    /// A limit is reached just now, or the same call is being executed by another thread. Nothing was appended; run it
    /// again in a moment, with its [`Progress`] if there is one.
    Busy,
    /// The record is a reply; whoever waited for it has it. Nothing was appended.
    Nothing,
    /// The record is no call, or breaks a limit of the protocol. Nothing was appended; close the connection.
    Close,
}

impl<W> Outcome<W> {
    /// The same with another name for what a reply waits for.
    pub fn map_wait<V>(self, name: impl FnOnce(W) -> V) -> Outcome<V> {
        match self {
            Outcome::Reply { after, hold } => Outcome::Reply { after: after.map(name), hold },
            Outcome::WouldBlock => Outcome::WouldBlock,
            Outcome::Busy => Outcome::Busy,
            Outcome::Nothing => Outcome::Nothing,
            Outcome::Close => Outcome::Close,
        }
    }
}

/// Serves exports and volumes, which do not change: a new configuration is a new service, see [`Service::replaced_by`].
/// Event loops and worker threads share it.
#[derive(Debug)]
pub struct Service {
    pub(crate) context: ServiceContext,
}

impl Service {
    /// Serves `volumes` as `exports` say.
    ///
    /// # Errors
    /// [`ExportsError`] for paths that cannot be mounted, and exports without their volume.
    pub fn new(exports: Vec<Export>, volumes: Vec<Arc<Volume>>) -> Result<Service, ExportsError> {
        Ok(Service { context: ServiceContext::new(exports, volumes, Arc::default())? })
    }

    /// Returns a service with another configuration that takes over from this one. Both can be used until all calls that
    /// this one was given have ended.
    ///
    /// # Errors
    /// Those of [`Service::new`].
    pub fn replaced_by(
        &self,
        exports: Vec<Export>,
        volumes: Vec<Arc<Volume>>,
    ) -> Result<Service, ExportsError> {
        let shared = Arc::clone(&self.context.shared);
        Ok(Service { context: ServiceContext::new(exports, volumes, shared)? })
    }

    /// Sets the length of leases (RFC 8881 section 8.3). Must be called before the first call is handled.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Service {
        let config = Config { lease, ..self.context.shared.state.config().clone() };
        self.with_config(config)
    }

    /// Limits the memory for what clients of NFSv4 and NLM hold to `bytes`. Must be called before the first call is handled.
    #[must_use]
    pub fn with_state_bytes(self, bytes: u64) -> Service {
        let config = self.context.shared.state.config().clone().bound(bytes);
        self.with_config(config)
    }

    fn with_config(mut self, config: Config) -> Service {
        self.context.shared = Arc::new(Shared { state: SharedState::new(config), ..Shared::default() });
        self
    }

    /// Returns the volumes, in no particular order.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.context.volumes()
    }

    /// Restores what clients of NFSv4 and NLM held when the volumes were last served. Must be called once, before the first
    /// call is handled. Reads media.
    ///
    /// # Errors
    /// If the records of a volume cannot be read.
    pub fn restore_state(&self, now: Time) -> Result<(), Error> {
        let mut records = Records::default();
        for volume in self.volumes() {
            let id = volume.id();
            volume.scan_state(&mut |key, value| records.add(id, key, value))?;
            volume.remembered_keys(&mut |key| records.remember_key(&key.0));
        }
        self.context.shared.state.restore(&self.context.context(now), records);
        // All files that clients hold are held again by now.
        self.volumes().for_each(|volume| volume.reap_orphans());
        Ok(())
    }

    /// Returns gauges and counters of the state of clients, name and value.
    pub fn state_gauges(&self) -> Vec<(&'static str, u64)> {
        self.context.shared.state.gauges()
    }

    /// Copies a part of each copy that continues after its reply. May block for media. Returns when to call it again, unless
    /// [`Service::on_copies`] reports a new one earlier.
    pub fn copy_some(&self, now: Time) -> Duration {
        self.context.copy_some(now)
    }

    /// Sets what is called when there is a new copy. `notify` may be called by any thread and must not block.
    pub fn on_copies(&self, notify: Box<dyn Fn() + Send + Sync>) {
        self.context.shared.state.on_copies(notify);
    }

    /// Executes a call: a whole record without its mark, as it came by `connection`. The reply is appended to `out`, with
    /// its record mark; `out` may hold earlier replies.
    ///
    /// `progress` is none for a call that is new, and is kept for one that is to be run again: a COMPOUND goes on where it
    /// stopped.
    pub fn handle(
        &self,
        record: &[u8],
        connection: Connection,
        now: Time,
        access: Access,
        progress: &mut Option<Progress>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let mut tail = Vec::new();
        let outcome = self.handle_in_parts(record, connection, now, access, progress, out, &mut tail);
        tail.iter().for_each(|slice| out.extend_from_slice(slice));
        outcome
    }

    /// The same without copying much data of a file: if there is some, it is put into `tail` and is to be sent right behind
    /// what was appended to `out`.
    #[allow(
        clippy::too_many_arguments,
        reason = "one place in the server calls it, and each of them is its own matter"
    )]
    pub fn handle_in_parts(
        &self,
        record: &[u8],
        connection: Connection,
        now: Time,
        access: Access,
        progress: &mut Option<Progress>,
        out: &mut Vec<u8>,
        tail: &mut Vec<Slice>,
    ) -> Outcome {
        let (header, arguments) = match decode_call(record) {
            Ok((header, arguments)) => (header, arguments.rest()),
            Err(CallError::NotACall) if is_reply(record) => {
                self.context.shared.state.reply(&self.context.context(now), record, Some(connection.id));
                return Outcome::Nothing;
            }
            Err(error) => return refuse(error, out),
        };
        let operation = match find(&header) {
            Ok(operation) => operation,
            Err(reply) => return rpc_reply(reply, out),
        };
        let xid = header.xid;
        let call = Call {
            service: &self.context,
            header,
            arguments,
            connection,
            now,
            access,
            tail: Cell::default(),
            progress: Cell::new(progress.take()),
            bytes: record.len(),
            changed: Cell::new(false),
        };
        let reply = OpenRecord::begin(out);
        let body = out.len();
        let mut encoder = Encoder::new(out);
        encode_success(&mut encoder, xid);
        let result = (operation.run)(&call, &mut encoder);
        let mut data = call.tail.take();
        *progress = call.progress.take();
        let changes = operation.changes || call.changed.get();
        let outcome = match result {
            Ok(after) => settle(operation, changes, after, xid, out, body, &mut data),
            Err(stop) => {
                data.clear();
                stopped(operation, stop, xid, out, body)
            }
        };
        match outcome {
            Outcome::Reply { .. } => {
                reply.seal_with(out, data.iter().map(|slice| slice.len()).sum());
                tail.append(&mut data);
            }
            _ => reply.abandon(out),
        }
        outcome
    }

    /// A connection is gone; no call comes by it any more, and nothing can be sent by it.
    pub fn connection_closed(&self, connection: ConnectionId) {
        self.context.shared.state.connection_closed(connection);
    }

    /// Does what is due by time: leases that ended, callbacks that were not answered. Returns when to call it again, at
    /// most a second later.
    pub fn tick(&self, now: Time) -> Duration {
        self.context.shared.state.tick(&self.context.context(now))
    }

    /// Takes the callbacks that are to be sent. Their replies come back as records by the connection that they went out
    /// by, or to [`Service::callback_answered`] if that was one of our own; one that could not be sent is to be given to [`Service::callback_failed`].
    #[must_use]
    pub fn take_callbacks(&self) -> Vec<Callback> {
        self.context.shared.state.take_callbacks()
    }

    /// What a client answered by a connection of our own: a whole record without its mark.
    pub fn callback_answered(&self, record: &[u8], now: Time) {
        self.context.shared.state.reply(&self.context.context(now), record, None);
    }

    /// A callback could not be sent: its connection is gone, or its address cannot be reached.
    pub fn callback_failed(&self, id: u64, now: Time) {
        self.context.shared.state.callback_failed(&self.context.context(now), id);
    }

    /// `notify` is called by whichever thread makes a callback that is to be sent. It must not block.
    pub fn on_callbacks(&self, notify: Box<dyn Fn() + Send + Sync>) {
        self.context.shared.state.on_callbacks(notify);
    }

    /// Appends the reply, with its record mark, that is to be sent when what the real reply showed will never be durable:
    /// NFS3ERR_IO in the form of the procedure. Of `record` only the first [`HEAD_BYTES`] are looked at; nothing is
    /// appended if they are not those of a call that was answered with results.
    pub fn failure_reply(&self, record: &[u8], out: &mut Vec<u8>) {
        let mut head = [0; HEAD_BYTES / 4];
        let mut input = Decoder::new(record);
        for word in &mut head {
            let Ok(value) = input.u32() else { return };
            *word = value;
        }
        let [xid, _, _, program, version, procedure] = head;
        let Ok(operation) = dispatch::find(program, version, procedure) else { return };
        let reply = OpenRecord::begin(out);
        let body = out.len();
        fail(operation, NfsStat3::Io, xid, out, body);
        reply.seal(out);
    }
}

/// The operation of a call, or the reply that says why there is none.
fn find(header: &CallHeader<'_>) -> Result<&'static Operation, ReplyHeader<'static>> {
    if matches!(header.credential, Credential::Other(_)) {
        return Err(ReplyHeader::auth_error(header.xid, AuthStat::BadCred));
    }
    dispatch::find(header.program, header.version, header.procedure)
        .map_err(|stat| ReplyHeader::accepted(header.xid, stat))
}

/// Answers a record that is not a call that could be dispatched.
fn refuse(error: CallError, out: &mut Vec<u8>) -> Outcome {
    match error.reply() {
        Some(reply) => rpc_reply(reply, out),
        None => Outcome::Close,
    }
}

/// Appends a reply without results.
fn rpc_reply(header: ReplyHeader<'_>, out: &mut Vec<u8>) -> Outcome {
    let reply = OpenRecord::begin(out);
    header.encode(&mut Encoder::new(out));
    reply.seal(out);
    Outcome::Reply { after: None, hold: Duration::ZERO }
}

/// Finds out whether the result that an operation wrote may be shown yet.
fn settle(
    operation: &Operation,
    changes: bool,
    after: After<'_>,
    xid: u32,
    out: &mut Vec<u8>,
    body: usize,
    data: &mut Vec<Slice>,
) -> Outcome {
    let Some((volume, durability)) = after.0 else {
        return Outcome::Reply { after: None, hold: Duration::ZERO };
    };
    let hold = if changes { volume.throttle() } else { Duration::ZERO };
    let state = if durability == Durability::NOW { Durable::Yes } else { volume.durability(durability) };
    let after = match state {
        Durable::Yes => None,
        Durable::NotYet => Some(Wait { volume: Arc::clone(volume), durability }),
        Durable::Failed => {
            data.clear();
            fail(operation, NfsStat3::Io, xid, out, body);
            None
        }
    };
    Outcome::Reply { after, hold }
}

/// Answers a call whose operation wrote no result.
fn stopped(operation: &Operation, stop: Stop, xid: u32, out: &mut Vec<u8>, body: usize) -> Outcome {
    let header = match stop {
        Stop::WouldBlock => return Outcome::WouldBlock,
        Stop::Busy => return Outcome::Busy,
        Stop::OverLimit => return Outcome::Close,
        Stop::Status(status) => {
            fail(operation, status, xid, out, body);
            return Outcome::Reply { after: None, hold: Duration::ZERO };
        }
        Stop::Garbage => ReplyHeader::accepted(xid, AcceptStat::GarbageArgs),
        Stop::Unavailable => ReplyHeader::accepted(xid, AcceptStat::ProcUnavail),
        Stop::Failed => ReplyHeader::accepted(xid, AcceptStat::SystemErr),
        Stop::Auth(stat) => ReplyHeader::auth_error(xid, stat),
    };
    out.truncate(body);
    header.encode(&mut Encoder::new(out));
    Outcome::Reply { after: None, hold: Duration::ZERO }
}

/// Writes a failure without attributes in place of what stands behind `body`.
fn fail(operation: &Operation, status: NfsStat3, xid: u32, out: &mut Vec<u8>, body: usize) {
    out.truncate(body);
    let mut encoder = Encoder::new(out);
    match operation.failed {
        Some(failed) => {
            encode_success(&mut encoder, xid);
            failed(status, &mut encoder);
        }
        None => ReplyHeader::accepted(xid, AcceptStat::SystemErr).encode(&mut encoder),
    }
}

/// Whether a record is a reply.
fn is_reply(record: &[u8]) -> bool {
    ReplyHeader::decode(&mut Decoder::new(record)).is_ok()
}

#[cfg(test)]
mod tests;
