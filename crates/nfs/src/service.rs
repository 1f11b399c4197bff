//! The service, the entrance of this crate: executes calls, and says what their replies wait for.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use volume::Pool;
use volume::bytes::Slice;
use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::request::{Durability, Durable, Error};
use volume::time::Time;
use volume::volume::Volume;
use wire::nfs3::NfsStat3;
use wire::record::OpenRecord;
use wire::rpc::{
    AcceptStat, AuthStat, CallError, CallHeader, Credential, ReplyHeader, SUCCESS_BYTES, encode_success,
};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::admission::Awaited;
use crate::call::{After, Call, Handled, Operation, Stop};
use crate::charge::CopyLimits;
pub use crate::clocks::ClockReading;
use crate::connection::Transport;
pub use crate::connection::{Connection, ConnectionId, is_privileged, origin};
use crate::context::{ServiceContext, Shared};
use crate::credentials::SharedCredentials;
use crate::dispatch;
use crate::exports::{Export, ExportsError};
use crate::incoming::place_of;
pub use crate::incoming::{
    Arrived, ArrivingPayload, CallId, Incoming, IncomingRecord, KeptRecord, ReceivedPayload, Receiver,
    ReplyBuffer,
};
use crate::limits::{PAYLOAD_BYTES_MIN, fits_a_file};
pub use crate::progress::Progress;
pub use crate::state::callbacks::outgoing::{Callback, Destination};
use crate::state::config::Config;
pub use crate::state::holdings::Holding;
use crate::state::ids::cipher::IdKeys;
pub use crate::state::restart::LostRecords;
use crate::state::restart::Records;
use crate::state::{SharedState, StateStore as _};
use crate::summary::{CallSummary, OperationId, Protocol, Status};

/// What a reply waits for.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The pool of the volume whose contents the reply shows.
    pub pool: Arc<Pool>,
    /// What must be durable there, for [`Pool::durability`].
    pub durability: Durability,
}

/// The outcome of handling a record.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The reply was appended, with its record mark, as one fragment.
    Reply {
        /// The reply may be sent when this is durable, or at once if there is nothing to wait for. If it can never become
        /// durable, [`Service::failure_reply`] must be sent instead.
        after: Option<Wait>,
        /// An additional delay of the reply, so that changes do not outrun checkpoints; normally zero.
        hold: Duration,
        /// What was done, to be counted.
        summary: CallSummary,
    },
    /// Media must be read, or the call is long and gives its turn up. Nothing was appended. Run the same call again with
    /// [`volume::request::Access::Blocking`], after other calls that wait for such a run, and with its [`Progress`] if there is
    /// one; if there is none, nothing was changed either.
    WouldBlock,
    /// A limit of a pool is reached, see [`crate::admission::AwaitedLimit`]. Nothing was appended. Run the call again when
    /// other changes find room, with its [`Progress`] if there is one. None stands for the limit that was expected
    /// ([`crate::admission::Needs::awaited`]); a COMPOUND may meet others, of other volumes.
    Busy(Option<Awaited>),
    /// Something is in the way of this call, for example another thread that executes the same call; other calls need not
    /// wait for it. Nothing was appended. Run the call again in a moment, with its [`Progress`] if there is one.
    Later,
    /// The record is a reply and was given to the callback it answers. Nothing was appended.
    Nothing,
    /// The record is no call, or breaks a limit of the protocol. Nothing was appended. Close the connection.
    Close,
}

impl Outcome {
    /// A reply that may be sent at once.
    fn reply_now(summary: CallSummary) -> Outcome {
        Outcome::Reply { after: None, hold: Duration::ZERO, summary }
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
        let keys = IdKeys::of(volumes.iter().map(Arc::as_ref));
        let shared = Arc::new(Shared::new(SharedState::new(Config::default(), keys)));
        Ok(Service { context: ServiceContext::new(exports, volumes, shared)? })
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

    /// Returns the exports in force, in the order of the configuration.
    pub fn exports(&self) -> impl Iterator<Item = &Export> {
        self.context.exports.iter()
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

    /// Has the portmapper tell that datagrams are taken too, at the ports of the connections. Must be called before the first
    /// call is handled.
    #[must_use]
    pub fn with_datagrams(self) -> Service {
        let config = self.context.shared.state.config().clone();
        self.with(config, true)
    }

    fn with_config(self, config: Config) -> Service {
        let has_datagrams = self.context.shared.has_datagrams;
        self.with(config, has_datagrams)
    }

    fn with(mut self, config: Config, has_datagrams: bool) -> Service {
        let keys = self.context.shared.state.keys().clone();
        let state = SharedState::new(config, keys);
        self.context.shared = Arc::new(Shared { has_datagrams, ..Shared::new(state) });
        self
    }

    /// Returns the volume with this id.
    pub fn volume(&self, id: VolumeId) -> Option<&Arc<Volume>> {
        self.context.volume(id)
    }

    /// Returns the volume that keeps clients and sessions: the one with the lowest id. Their ids are made with its secret, so it
    /// must stay.
    pub fn home(&self) -> VolumeId {
        self.context.home()
    }

    /// Frees what clients hold of a volume that this service no longer has. No call of an earlier service may be in
    /// progress. Takes time in proportion to all that clients hold.
    pub fn free_state_of(&self, volume: VolumeId, now: ClockReading) {
        self.context.shared.state.free_volume(&self.context.state_context(now), volume);
    }

    /// Returns the volumes, in no particular order.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.context.volumes()
    }

    /// Restores what clients of NFSv4 and NLM held when the volumes were last served. Must be called once, before the first
    /// call is handled. Reads media.
    ///
    /// Returns the records that are lost; their clients learn of it with their next call.
    ///
    /// # Errors
    /// A volume is not ready.
    pub fn restore_state(&self, now: ClockReading) -> Result<LostRecords, Error> {
        let mut records = Records::default();
        for volume in self.volumes() {
            let id = volume.id();
            match volume.scan_state(&mut |key, value| records.add(id, key, value)) {
                Err(Error::Io) => records.add_unreadable(id),
                scanned => scanned?,
            }
            volume.remembered_keys(&mut |key| records.remember_key(key.bytes()));
        }
        let lost = self.context.shared.state.restore(&self.context.state_context(now), records);
        // All files that clients held before the restart are held again.
        self.volumes().for_each(|volume| volume.reap_orphans());
        // Whatever was lost of the state was dropped just now, so that the next start need not drop everything again.
        self.volumes().for_each(|volume| volume.settle_state());
        self.note_exports(now);
        Ok(lost)
    }

    /// Notes that this service's exports are now in force. What a client holds in a volume that they close to it is freed after a lease or
    /// two.
    pub fn note_exports(&self, now: ClockReading) {
        self.context.shared.state.exports_changed(now.steady);
    }

    /// Returns gauges and counters of the state of clients, name and value.
    pub fn state_gauges(&self) -> Vec<(&'static str, u64)> {
        self.context.shared.state.gauges()
    }

    /// Returns what each client of NFSv4, and each host that locks by NLM, holds. `now` is the steady clock.
    pub fn holdings(&self, now: Time) -> Vec<Holding> {
        self.context.shared.state.holdings(now)
    }

    /// Copies a part of each copy that continues after its reply. May block for media. Returns when to call it again, unless
    /// [`Service::on_copies`] reports a new one, or `limits` allow one to go on earlier.
    pub fn copy_some(&self, now: ClockReading, limits: &dyn CopyLimits) -> Duration {
        self.context.copy_some(now, limits)
    }

    /// Sets what is called when there is a new copy. `notify` may be called by any thread and must not block.
    pub fn on_copies(&self, notify: Box<dyn Fn() + Send + Sync>) {
        self.context.shared.state.on_copies(notify);
    }

    /// Returns where to receive the payload of a large WRITE of whose record, `length` bytes, only the `start` has arrived; none
    /// for other records, or if more must arrive to know. Nothing but the file's volume is checked: whatever refuses
    /// the call later gives the memory back.
    pub fn arriving(&self, start: &[u8], length: usize) -> Option<ArrivingPayload> {
        let place = place_of(start, length)?;
        let bytes = u64::try_from(place.length).ok()?;
        if place.length < PAYLOAD_BYTES_MIN || !fits_a_file(place.offset, bytes) {
            return None;
        }
        let volume = self.context.volume(Handle::parse(place.handle)?.volume)?;
        Some(ArrivingPayload::new(place.at, volume.arriving(place.offset, place.length)))
    }

    /// Executes a call and appends its reply to `reply`, with its record mark.
    ///
    /// `progress` is none for a new call, and is kept for a call that must be run again: a COMPOUND continues where it
    /// stopped.
    pub fn handle(
        &self,
        incoming: &Incoming<'_>,
        progress: &mut Option<Progress>,
        reply: &mut ReplyBuffer,
    ) -> Outcome {
        let Incoming { record, ref connection, now, access, copy_terms } = *incoming;
        let (header, arguments) = match record.call() {
            Ok(call) => call,
            Err(CallError::NotACall) if is_reply(record.bytes()) => {
                let state = &self.context.shared.state;
                state.reply(&self.context.state_context(now), record.bytes(), connection.id);
                return Outcome::Nothing;
            }
            Err(error) => return refuse(error, &mut reply.bytes),
        };
        let (operation, id) = match find(header, connection) {
            Ok(found) => found,
            Err(header) => return append_header(header, &mut reply.bytes),
        };
        let credentials = SharedCredentials::default();
        let call = Call {
            service: &self.context,
            header,
            arguments: arguments.clone(),
            payload: record.payload(),
            connection,
            credentials: &credentials,
            now,
            access,
            copy_terms,
            tail: Cell::default(),
            progress: Cell::from_mut(progress),
            bytes: record.length(),
            changed: Cell::new(false),
            transferred: Cell::default(),
            evaluated: RefCell::default(),
            ino: Cell::default(),
        };
        let mut writing = OpenReply::begin(operation, header.xid, &mut reply.bytes);
        let result = writing.execute(&call);
        let mut tail = call.tail.take();
        let outcome = match result {
            Ok(after) => writing.promise(after, &call, id, &mut tail),
            Err(stop) => {
                tail.clear();
                writing.stop(stop, id)
            }
        };
        writing.end(matches!(outcome, Outcome::Reply { .. }), &tail);
        reply.tail.append(&mut tail);
        outcome
    }

    /// Returns whether any export admits clients at this address. Connections of others should be closed before a byte is
    /// read. Which port a call must come from is checked for each call.
    #[must_use]
    pub fn admits(&self, client: IpAddr) -> bool {
        self.context.exports.admit_address(client)
    }

    /// Returns whether an export of this volume admits the peer of a connection. Calls of others that name an object of it are
    /// refused.
    #[must_use]
    pub fn admits_to(&self, volume: VolumeId, connection: &Connection) -> bool {
        self.context.exports.admitting(volume, connection.peer).is_some()
    }

    /// Notes that a connection is closed: no call will come by it, and nothing can be sent by it.
    pub fn connection_closed(&self, connection: ConnectionId) {
        self.context.shared.state.connection_closed(connection);
    }

    /// Ends expired leases and gives up callbacks that were not answered in time. Returns when to call it again, at most a
    /// second later.
    pub fn tick(&self, now: ClockReading) -> Duration {
        self.context.shared.state.tick(&self.context.state_context(now))
    }

    /// Takes the callbacks that must be sent. A reply by a connection of a client goes to [`Service::handle`], like every
    /// record; one by a connection of our own to [`Service::callback_answered`]. Callbacks that cannot be sent are reported to
    /// [`Service::callback_failed`], those for which there was no room to [`Service::callback_not_sent`].
    #[must_use]
    pub fn take_callbacks(&self) -> Vec<Callback> {
        self.context.shared.state.take_callbacks()
    }

    /// Takes what a client answered to callback `id` over a connection that the server made for it: a whole record without its
    /// mark. If it is not the reply to that call, the callback has failed.
    pub fn callback_answered(&self, id: u64, record: &[u8], now: ClockReading) {
        self.context.shared.state.callback_answered(&self.context.state_context(now), id, record);
    }

    /// Notes that a callback could not be sent: its connection is closed, or its address cannot be reached.
    pub fn callback_failed(&self, id: u64, now: ClockReading) {
        self.context.shared.state.callback_failed(&self.context.state_context(now), id);
    }

    /// Notes that a callback was not sent because too many others wait, which says nothing about the client.
    pub fn callback_not_sent(&self, id: u64, now: ClockReading) {
        self.context.shared.state.callback_not_sent(&self.context.state_context(now), id);
    }

    /// Sets what is called when there is a callback to send. `notify` may be called by any thread and must not block.
    pub fn on_callbacks(&self, notify: Box<dyn Fn() + Send + Sync>) {
        self.context.shared.state.on_callbacks(notify);
    }

    /// Appends the reply, with its record mark, that replaces a reply whose effects can never become durable:
    /// NFS3ERR_IO in the form of the procedure. Appends nothing for a procedure that does not exist.
    pub fn failure_reply(&self, call: CallId, out: &mut Vec<u8>) {
        let Ok((operation, _)) = dispatch::find(Transport::Tcp, call.program, call.version, call.procedure)
        else {
            return;
        };
        let mut writing = OpenReply::begin(operation, call.xid, out);
        writing.fail(NfsStat3::Io);
        writing.end(true, &[]);
    }
}

/// Finds the operation of a call.
///
/// # Errors
/// The reply that reports the reason.
fn find(
    header: &CallHeader<'_>,
    connection: &Connection,
) -> Result<(&'static Operation, OperationId), ReplyHeader<'static>> {
    if matches!(header.credential, Credential::Other(_)) {
        return Err(ReplyHeader::auth_error(header.xid, AuthStat::BadCred));
    }
    dispatch::find(connection.transport(), header.program, header.version, header.procedure)
        .map_err(|stat| ReplyHeader::accepted(header.xid, stat))
}

/// Answers a record that is not a call that can be dispatched.
fn refuse(error: CallError, out: &mut Vec<u8>) -> Outcome {
    match error.reply() {
        Some(header) => append_header(header, out),
        None => Outcome::Close,
    }
}

/// Appends a reply to a call that names no procedure to execute.
fn append_header(header: ReplyHeader<'_>, out: &mut Vec<u8>) -> Outcome {
    let record = OpenRecord::begin(out);
    header.encode(&mut Encoder::new(out));
    record.seal(out);
    Outcome::reply_now(CallSummary::of_one(OperationId::UNKNOWN, Status::UNAVAILABLE))
}

/// A reply that is being written.
struct OpenReply<'o> {
    operation: &'static Operation,
    xid: u32,
    out: &'o mut Vec<u8>,
    record: OpenRecord,
    /// Where the header of the reply begins in `out`.
    start: usize,
}

impl<'o> OpenReply<'o> {
    #[inline]
    fn begin(operation: &'static Operation, xid: u32, out: &'o mut Vec<u8>) -> OpenReply<'o> {
        let record = OpenRecord::begin(out);
        OpenReply { operation, xid, start: out.len(), record, out }
    }

    /// Writes the header of an accepted call, and lets the operation write its result.
    #[inline]
    fn execute<'a>(&mut self, call: &Call<'a>) -> Handled<'a> {
        let mut encoder = Encoder::new(self.out);
        encode_success(&mut encoder, self.xid);
        (self.operation.run)(call, &mut encoder)
    }

    /// Determines what a written result waits for, and replaces a result that can never become durable.
    #[inline]
    fn promise(
        &mut self,
        after: After<'_>,
        call: &Call<'_>,
        id: OperationId,
        tail: &mut Vec<Slice>,
    ) -> Outcome {
        let (transferred, evaluated) = (call.transferred.get(), call.evaluated.take());
        let Some((volume, durability)) = after.0 else {
            let summary =
                CallSummary::new(id, self.status(id), (None, call.ino.get()), transferred, evaluated);
            return Outcome::reply_now(summary);
        };
        let is_change = self.operation.changes || call.changed.get();
        let hold = if is_change { volume.throttle() } else { Duration::ZERO };
        let state = if durability == Durability::NOW { Durable::Yes } else { volume.durability(durability) };
        let after = match state {
            Durable::Yes => None,
            Durable::NotYet => Some(Wait { pool: Arc::clone(volume.pool()), durability }),
            Durable::Failed => {
                tail.clear();
                self.fail(NfsStat3::Io);
                None
            }
        };
        let object = (Some(volume.id()), call.ino.get());
        let summary = CallSummary::new(id, self.status(id), object, transferred, evaluated);
        Outcome::Reply { after, hold, summary }
    }

    /// Replies to a call whose operation wrote no result.
    fn stop(&mut self, stop: Stop, id: OperationId) -> Outcome {
        let (header, status) = match stop {
            Stop::WouldBlock => return Outcome::WouldBlock,
            Stop::Busy(awaited) => return Outcome::Busy(awaited),
            Stop::Later => return Outcome::Later,
            Stop::OverLimit => return Outcome::Close,
            Stop::Status(status) => {
                self.fail(status);
                return Outcome::reply_now(CallSummary::of_one(id, self.status(id)));
            }
            Stop::Garbage => (ReplyHeader::accepted(self.xid, AcceptStat::GarbageArgs), Status::GARBAGE_ARGS),
            Stop::Unavailable => {
                (ReplyHeader::accepted(self.xid, AcceptStat::ProcUnavail), Status::UNAVAILABLE)
            }
            Stop::Failed => (ReplyHeader::accepted(self.xid, AcceptStat::SystemErr), Status::SYSTEM_ERROR),
            Stop::Auth(stat) => (ReplyHeader::auth_error(self.xid, stat), Status::AUTH_ERROR),
        };
        self.out.truncate(self.start);
        header.encode(&mut Encoder::new(self.out));
        Outcome::reply_now(CallSummary::of_one(id, status))
    }

    /// Replaces the written result by a failure without attributes.
    fn fail(&mut self, status: NfsStat3) {
        self.out.truncate(self.start);
        let mut encoder = Encoder::new(self.out);
        match self.operation.failed {
            Some(failed) => {
                encode_success(&mut encoder, self.xid);
                failed(status, &mut encoder);
            }
            None => ReplyHeader::accepted(self.xid, AcceptStat::SystemErr).encode(&mut encoder),
        }
    }

    /// Returns the status of the written result.
    #[inline]
    fn status(&self, id: OperationId) -> Status {
        let result = self.out.get(self.start + SUCCESS_BYTES..).unwrap_or_default();
        match self.operation.failed {
            // Whatever has a status begins with it,
            Some(_) => Status::of_result(result),
            // but results of NLM begin with a cookie.
            None if id.protocol() == Protocol::Nlm => Status::of_nlm(result),
            // and those of RQUOTA, which has no failures of NFS, with a number for success too.
            None if id.protocol() == Protocol::Rquota => Status::of_rquota(result),
            None => Status::OK,
        }
    }

    /// Completes the record if there is a reply, else removes it.
    #[inline]
    fn end(self, is_reply: bool, tail: &[Slice]) {
        if is_reply {
            self.record.seal_with(self.out, tail.iter().map(|slice| slice.len()).sum());
        } else {
            self.record.abandon(self.out);
        }
    }
}

/// Whether a record is a reply.
fn is_reply(record: &[u8]) -> bool {
    ReplyHeader::decode(&mut Decoder::new(record)).is_ok()
}

mod held;
#[cfg(test)]
mod tests;
