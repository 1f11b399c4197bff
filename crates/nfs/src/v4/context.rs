//! The evaluation state of a COMPOUND, which its operations read and change.

use std::borrow::Cow;
use std::cell::RefMut;
use std::sync::Arc;

use volume::bytes::{Slice, WriteData};
use volume::ids::{Ino, VolumeId};
use volume::request::{Access, Answer, Durability, Error, Failure};
use volume::volume::Volume;
use wire::nfs4::compound::{CompoundReader, OpError};
use wire::nfs4::{FattrError, FileHandle4, NfsStat4, OpNum4, Stateid4};
use wire::rpc::CallHeader;
use wire::xdr::{Block, Decode, DecodeError, Encoder, Payload, padding};

use crate::admission::AwaitedLimit;
use crate::call::{Call, Object, write_data};
use crate::clocks::ClockReading;
use crate::connection::Connection;
use crate::context::refusals::PathText;
use crate::context::{Located, Refused, ServiceContext};
use crate::credentials::SharedCredentials;
use crate::exports::Export;
use crate::exports::pseudo::Node;
use crate::incoming::{CopyTerms, ReceivedPayload};
use crate::limits::COMPOUND_REPLY_BYTES_MAX;
use crate::link_local::Shown;
use crate::progress::{Parts, Suspended};
use crate::state::SlotGuard;
use crate::status;
use crate::summary::{Evaluated, Moved, MovedIn, Transferred};
use crate::v4::operations;
use crate::v4::waits::Waits;

/// Why an operation wrote no result.
#[derive(Debug)]
pub(crate) enum OpStop {
    /// It failed with this status.
    Status(NfsStat4),
    /// It needs media, or is long and gives its turn up. Nothing was changed, except by the parts that it noted.
    WouldBlock,
    /// This limit of the pool is reached. Nothing was changed, except by the parts that it noted; try again soon.
    Busy(AwaitedLimit),
    /// Something else is in its way, for example another request. Nothing was changed, except by the parts that it noted; try
    /// again soon.
    Later,
    /// The whole COMPOUND was answered before.
    Replay(Arc<[u8]>),
}

impl From<NfsStat4> for OpStop {
    fn from(status: NfsStat4) -> OpStop {
        OpStop::Status(status)
    }
}

impl From<DecodeError> for OpStop {
    fn from(_: DecodeError) -> OpStop {
        OpStop::Status(NfsStat4::BadXdr)
    }
}

impl From<FattrError> for OpStop {
    fn from(error: FattrError) -> OpStop {
        OpStop::Status(error.status())
    }
}

impl From<Error> for OpStop {
    fn from(error: Error) -> OpStop {
        match error {
            Error::WouldBlock => OpStop::WouldBlock,
            Error::Busy => OpStop::Busy(AwaitedLimit::Journal),
            Error::ObjectBusy => OpStop::Later,
            _ => OpStop::Status(status::nfs4(error)),
        }
    }
}

/// The outcome of an operation: it wrote its whole result, the status first, or it did not.
pub(crate) type Done = Result<(), OpStop>;

/// The object of a filehandle.
#[derive(Clone, Copy)]
pub(crate) enum Target<'c> {
    /// A directory of the pseudo file system.
    Pseudo(&'c Node),
    /// An object of a volume.
    Stored(Object<'c>),
}

impl Target<'_> {
    /// Returns the bytes of its filehandle.
    pub(crate) fn handle(&self) -> HandleBytes {
        match self {
            Target::Pseudo(node) => HandleBytes::new(&node.handle()),
            Target::Stored(object) => HandleBytes::new(&object.handle_bytes(object.ino)),
        }
    }

    /// Returns the volume of the object.
    pub(super) fn volume(&self) -> Option<VolumeId> {
        match self {
            Target::Pseudo(_) => None,
            Target::Stored(object) => Some(object.volume.id()),
        }
    }

    /// Returns the object and its volume, if it is in one.
    pub(super) fn stored_id(&self) -> Option<(VolumeId, Ino)> {
        match self {
            Target::Pseudo(_) => None,
            Target::Stored(object) => Some((object.volume.id(), object.ino)),
        }
    }
}

/// The bytes of a filehandle of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandleBytes {
    bytes: [u8; volume::handle::HANDLE_BYTES],
    length: usize,
}

impl HandleBytes {
    /// Bytes of the longest encoded handle.
    pub(crate) const ENCODED_MAX: usize = 4 + volume::handle::HANDLE_BYTES;

    pub(crate) fn new(bytes: &[u8]) -> HandleBytes {
        let mut handle = HandleBytes { bytes: [0; volume::handle::HANDLE_BYTES], length: bytes.len() };
        let (front, _) = handle.bytes.split_at_mut(bytes.len());
        front.copy_from_slice(bytes);
        handle
    }

    /// Returns the bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).expect("no handle is longer than those of volumes")
    }

    /// Encodes the filehandle.
    #[inline]
    pub(crate) fn put(&self, fields: &mut Block<'_>) {
        fields.u32(u32::try_from(self.length).expect("handles are short"));
        // The bytes after a shorter handle are zeros.
        fields.put_start(self.bytes, self.length + padding(self.length));
    }

    /// Returns the filehandle in the types of NFSv4.
    pub(crate) fn as_handle(&self) -> FileHandle4<'_> {
        FileHandle4::new(self.as_slice()).expect("handles are within the limit of NFSv4, see limits.rs")
    }
}

/// A COMPOUND that is being evaluated.
pub(crate) struct Compound<'c> {
    pub(crate) service: &'c ServiceContext,
    pub(crate) header: &'c CallHeader<'c>,
    pub(crate) connection: &'c Connection,
    credentials: &'c SharedCredentials,
    pub(crate) now: ClockReading,
    pub(crate) access: Access,
    /// How much a COPY may copy.
    pub(crate) copy_terms: CopyTerms,
    /// The minor version: 0, 1 or 2.
    pub(crate) minor: u32,
    /// The number of operations.
    pub(crate) operations: u32,
    /// The operation that is being executed.
    pub(crate) index: u32,
    /// Bytes of the whole call, with its header.
    pub(crate) call_bytes: usize,
    pub(crate) current: Option<Target<'c>>,
    pub(crate) saved: Option<Target<'c>>,
    pub(crate) current_stateid: Option<Stateid4>,
    pub(crate) saved_stateid: Option<Stateid4>,
    /// The slot of the session, after SEQUENCE.
    pub(crate) slot: Option<SlotGuard>,
    /// The parts of the operation that are done.
    pub(crate) parts: Parts,
    /// Bytes that the COPYs before it have copied, over all runs.
    pub(crate) copied: u64,
    /// The number of parts that this run began, of all operations.
    pub(super) parts_of_run: u32,
    /// What the operations weigh that this run began, see `turns.rs`.
    pub(super) weight_of_run: u32,
    /// Whether this run ends since it did as much as a run may do.
    pub(super) is_turn_over: bool,
    /// Whether it ends before it is done, as others wait for what it holds: the operation at hand fails with NFS4ERR_DELAY.
    pub(super) ends: bool,
    /// The status of the last operation.
    pub(super) status: NfsStat4,
    /// What the reply waits for.
    pub(super) waits: Waits<'c>,
    /// Whether anything was changed.
    pub(super) changed: bool,
    /// The operations that were evaluated, and what they moved.
    pub(super) evaluated: RefMut<'c, Evaluated>,
    pub(super) moved: Moved,
    /// The end of the reply, if it is not in the buffer. Only the last operation may set it.
    pub(super) tail: Vec<Slice>,
    /// The payload that lies elsewhere.
    payload: Option<&'c ReceivedPayload>,
    /// What is not decoded yet: the arguments of this operation until it starts, then the operations after it.
    reader: CompoundReader<'c>,
    /// The bytes from this operation on, its number first.
    from_here: &'c [u8],
    /// The start of the COMPOUND's result in the reply's buffer.
    reply_start: usize,
    /// Up to where it may reach there, and be cached in its slot if it must be.
    reply_end_max: usize,
}

impl<'c> Compound<'c> {
    pub(super) fn new(call: &'c Call<'c>, reader: CompoundReader<'c>, reply_start: usize) -> Compound<'c> {
        Compound {
            credentials: call.credentials,
            service: call.service,
            header: call.header,
            connection: call.connection,
            now: call.now,
            access: call.access,
            copy_terms: call.copy_terms,
            minor: reader.minorversion(),
            operations: reader.announced(),
            index: 0,
            call_bytes: call.bytes,
            current: None,
            saved: None,
            current_stateid: None,
            saved_stateid: None,
            slot: None,
            parts: Parts::default(),
            copied: 0,
            parts_of_run: 0,
            weight_of_run: 0,
            is_turn_over: false,
            ends: false,
            status: NfsStat4::Ok,
            waits: Waits::default(),
            changed: false,
            evaluated: call.evaluated.borrow_mut(),
            moved: Moved::default(),
            tail: Vec::new(),
            payload: call.payload,
            reader,
            from_here: &[],
            reply_start,
            reply_end_max: reply_start + COMPOUND_REPLY_BYTES_MAX,
        }
    }

    /// Continues where an earlier run stopped.
    pub(super) fn resume(&mut self, suspended: Suspended, out: &mut Encoder<'_>) {
        while self.index < suspended.index && self.reader.next().is_some() {
            self.index += 1;
        }
        self.parts = suspended.parts;
        self.copied = suspended.copied;
        self.status = suspended.status;
        // The configuration may have changed. A handle that is no longer valid counts as none.
        let again = |handle: &Option<Box<[u8]>>| handle.as_ref().and_then(|handle| self.resolve(handle).ok());
        (self.current, self.saved) = (again(&suspended.current), again(&suspended.saved));
        self.current_stateid = suspended.current_stateid;
        self.saved_stateid = suspended.saved_stateid;
        if let Some(slot) = suspended.slot {
            self.set_slot(slot);
        }
        for (id, durability) in suspended.waits {
            self.service.volume(id).into_iter().for_each(|volume| self.waits.add(volume, durability));
        }
        self.changed = suspended.changed;
        *self.evaluated = suspended.evaluated;
        self.moved = suspended.moved;
        self.tail = suspended.tail;
        out.raw(&suspended.results);
    }

    /// Sets the slot of the request, which limits the reply.
    pub(crate) fn set_slot(&mut self, slot: SlotGuard) {
        let cached = if slot.cache_this() { slot.reply_bytes_cached_max() } else { usize::MAX };
        let bytes = slot.reply_bytes_max().min(cached).min(COMPOUND_REPLY_BYTES_MAX);
        self.reply_end_max = self.reply_start + bytes;
        self.slot = Some(slot);
    }

    /// Begins the next operation: reads its number.
    #[inline]
    pub(super) fn next_operation(&mut self) -> Option<Result<OpNum4, OpError>> {
        self.from_here = self.reader.rest();
        self.reader.next_number()
    }

    /// Decodes the arguments of this operation.
    ///
    /// # Errors
    /// NFS4ERR_BADXDR.
    #[inline]
    pub(super) fn arguments<T: Decode<'c>>(&mut self) -> Result<T, DecodeError> {
        self.reader.arguments()
    }

    /// Checks the arguments of an operation that is not executed.
    ///
    /// # Errors
    /// NFS4ERR_BADXDR.
    pub(super) fn skip_arguments(&mut self, operation: OpNum4) -> Result<(), DecodeError> {
        self.reader.arguments_of(operation).map(drop)
    }

    /// Returns the operation that was begun and is not complete.
    pub(super) fn unfinished(&self) -> Option<OpNum4> {
        let number = self.from_here.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        if self.index < self.reader.index() { number.and_then(OpNum4::from_code) } else { None }
    }

    /// Returns the bytes of this operation, its number first.
    pub(crate) fn operation_bytes(&self) -> &'c [u8] {
        let length = self.from_here.len() - self.reader.rest().len();
        self.from_here.get(..length).unwrap_or_default()
    }

    /// Returns the first `most` bytes of the operations after this one, wherever they lie.
    pub(crate) fn following_bytes(&self, most: usize) -> Cow<'c, [u8]> {
        let (before, after) = self.reader.rest_around_payload();
        match (before.get(..most), after, self.payload) {
            (Some(bytes), ..) => Cow::Borrowed(bytes),
            (None, Some(after), Some(payload)) => {
                let parts = [before].into_iter().chain(payload.data.slices()).chain([after]);
                Cow::Owned(parts.flatten().copied().take(most).collect())
            }
            _ => Cow::Borrowed(before),
        }
    }

    /// Returns the data of a WRITE, wherever it lies.
    ///
    /// # Errors
    /// NFS4ERR_BADXDR if it is nowhere.
    pub(crate) fn data(&self, data: Payload<'c>) -> Result<WriteData<'c>, OpStop> {
        write_data(data, self.payload).ok_or(OpStop::Status(NfsStat4::BadXdr))
    }

    /// Returns the next operation; none if this is the last.
    pub(crate) fn following(&self) -> Option<OpNum4> {
        self.reader.peek()
    }

    /// Returns whether this operation is the last.
    pub(crate) fn is_last(&self) -> bool {
        self.index + 1 == self.operations
    }

    /// Returns whether data may be sent after the reply's buffer instead of in it: nothing follows, and the slot does
    /// not cache the reply.
    pub(crate) fn may_have_tail(&self) -> bool {
        self.is_last() && !self.slot.as_ref().is_some_and(SlotGuard::cache_this)
    }

    /// Sets the data to send after the reply's buffer.
    pub(crate) fn set_tail(&mut self, tail: Vec<Slice>) {
        self.tail = tail;
    }

    /// Returns the object of the current filehandle, whatever security it requires, for operations that only name it.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE.
    pub(crate) fn named(&self) -> Result<&Target<'c>, OpStop> {
        self.current.as_ref().ok_or(OpStop::Status(NfsStat4::NoFileHandle))
    }

    /// Returns the object of the current filehandle, for operations that use it.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, and NFS4ERR_WRONGSEC if the caller's security flavor is not accepted there.
    pub(crate) fn target(&self) -> Result<Target<'c>, OpStop> {
        self.usable(self.current.as_ref()).copied()
    }

    /// Returns the object of the current filehandle, for operations that fail with `otherwise` on directories of the
    /// pseudo file system.
    pub(crate) fn object_or(&self, otherwise: NfsStat4) -> Result<Object<'c>, OpStop> {
        stored(self.usable(self.current.as_ref())?, otherwise)
    }

    /// Checks that the caller may use an object. A filehandle becomes current without this check before operations that only
    /// name it.
    fn usable<'t>(&self, target: Option<&'t Target<'c>>) -> Result<&'t Target<'c>, OpStop> {
        let target = target.ok_or(OpStop::Status(NfsStat4::NoFileHandle))?;
        if self.accepts_security(target) { Ok(target) } else { Err(NfsStat4::WrongSec.into()) }
    }

    fn accepts_security(&self, target: &Target<'c>) -> bool {
        match target {
            Target::Pseudo(_) => true,
            Target::Stored(object) => object.export.accepts_credential(&self.header.credential),
        }
    }

    /// Returns the object of the current filehandle, for operations that are not for directories.
    pub(crate) fn file(&self) -> Result<Object<'c>, OpStop> {
        self.object_or(NfsStat4::IsDir)
    }

    /// Returns the object of the current filehandle, for operations that change it.
    pub(crate) fn changeable(&self) -> Result<Object<'c>, OpStop> {
        let object = self.object_or(NfsStat4::Rofs)?;
        if object.export.read_only { Err(NfsStat4::Rofs.into()) } else { Ok(object) }
    }

    /// Returns the object of the saved filehandle, like [`Compound::object_or`].
    pub(crate) fn saved_object_or(&self, otherwise: NfsStat4) -> Result<Object<'c>, OpStop> {
        stored(self.usable(self.saved.as_ref())?, otherwise)
    }

    /// Sets the current filehandle. The current stateid is dropped with the old one (RFC 8881 section 16.2.3.1.2).
    ///
    /// # Errors
    /// NFS4ERR_WRONGSEC if the caller's security flavor is not accepted there and the next operation would use the
    /// filehandle (RFC 8881 section 2.6.3.1).
    pub(crate) fn set_current(&mut self, target: Target<'c>) -> Result<(), OpStop> {
        if !self.accepts_security(&target) && !self.following().is_some_and(operations::needs_no_security) {
            return Err(NfsStat4::WrongSec.into());
        }
        self.current = Some(target);
        self.current_stateid = None;
        Ok(())
    }

    /// Resolves a filehandle.
    #[inline]
    pub(crate) fn resolve(&self, handle: &[u8]) -> Result<Target<'c>, OpStop> {
        match self.service.pseudo.resolve(handle) {
            Some(None) => Err(NfsStat4::Stale.into()),
            Some(Some(node)) => self.entered(node),
            None => match self.service.locate(handle, self.connection.peer) {
                Ok(Located { volume, export, ino }) => Ok(self.stored(volume, export, ino)),
                Err(Refused::BadHandle) => Err(NfsStat4::BadHandle.into()),
                Err(Refused::Stale) => Err(NfsStat4::Stale.into()),
                Err(Refused::NotAdmitted(volume)) => {
                    let status = NfsStat4::Access;
                    self.service.log_not_admitted(volume, self.connection.peer, &status);
                    Err(status.into())
                }
            },
        }
    }

    /// Returns the object at a place of the pseudo file system: the root of a volume, or the place itself.
    ///
    /// # Errors
    /// NFS4ERR_NOENT if this client sees nothing there. Every client sees the root.
    pub(crate) fn entered(&self, node: &'c Node) -> Result<Target<'c>, OpStop> {
        let exports = &self.service.exports;
        if let Some(volume) = node.volume.and_then(|id| self.service.volume(id))
            && let Some(export) = exports.admitting(volume.id(), self.connection.peer)
        {
            return Ok(self.stored(volume, export, Ino::ROOT));
        }
        let root = self.service.pseudo.root();
        if node.fileid != root.fileid && !node.is_visible(exports, self.connection.peer) {
            return Err(NfsStat4::NoEnt.into());
        }
        Ok(Target::Pseudo(node))
    }

    /// Logs that the client entered the export of the current filehandle from above, as it does when it mounts.
    pub(crate) fn note_mount(&self) {
        let Some(Target::Stored(Object { export, .. })) = &self.current else { return };
        let client = self.connection.peer.ip().to_canonical();
        tracing::info!(event = "mount", client = %Shown(client), path = %PathText(export.path.as_bytes()), "export mounted");
    }

    /// Returns the directory of the pseudo file system that the root of a volume covers; none for other objects.
    pub(crate) fn covered(&self, volume: VolumeId, ino: Ino) -> Option<&'c Node> {
        if ino != Ino::ROOT {
            return None;
        }
        let service = self.service;
        service.pseudo.place_of(volume, &service.exports, self.connection.peer)
    }

    /// Returns an object of a volume, on behalf of the caller.
    fn stored(&self, volume: &'c Arc<Volume>, export: &'c Export, ino: Ino) -> Target<'c> {
        let credentials = self.credentials.of(&self.header.credential, export);
        Target::Stored(Object::new(volume, ino, export, credentials, self.now.wall, self.access))
    }

    /// Unwraps the engine's answer, and makes the reply wait for what it shows.
    pub(crate) fn answered<T>(&mut self, volume: &'c Arc<Volume>, answer: Answer<T>) -> Result<T, OpStop> {
        match answer {
            Ok(promised) => {
                self.wait_for(volume, promised.after);
                Ok(promised.value)
            }
            Err(Failure { error, after }) => {
                self.wait_for(volume, after);
                Err(error.into())
            }
        }
    }

    /// Does what [`Compound::answered`] does, without moving what the engine returned.
    #[inline]
    pub(crate) fn shown<'t, T>(
        &mut self,
        volume: &'c Arc<Volume>,
        answer: &'t Answer<T>,
    ) -> Result<&'t T, OpStop> {
        match answer {
            Ok(promised) => {
                self.wait_for(volume, promised.after);
                Ok(&promised.value)
            }
            Err(Failure { error, after }) => {
                self.wait_for(volume, *after);
                Err((*error).into())
            }
        }
    }

    /// Makes the reply wait for this durability.
    pub(crate) fn wait_for(&mut self, volume: &'c Arc<Volume>, after: Durability) {
        self.waits.add(volume, after);
    }

    /// Returns what the reply waits for in a volume.
    pub(crate) fn waits_for(&self, volume: &Arc<Volume>) -> Durability {
        let wait = self.waits.iter().find(|(other, _)| Arc::ptr_eq(other, volume));
        wait.map_or(Durability::NOW, |(_, durability)| durability)
    }

    /// Notes a change, so that back-pressure applies to the call.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Notes file data that a READ or WRITE moved in a volume.
    #[inline]
    pub(crate) fn note_transferred(&mut self, volume: &Volume, transferred: Transferred) {
        self.moved.note(&mut self.evaluated, volume.id(), transferred);
    }

    /// Notes what else was read in a volume, which rate limits count.
    pub(crate) fn note_read(&mut self, volume: &Volume, bytes: usize) {
        self.note_apart(volume, Transferred::read(bytes));
    }

    /// Notes what else was written in a volume, which rate limits count.
    pub(crate) fn note_written(&mut self, volume: &Volume, bytes: u64) {
        self.note_apart(volume, Transferred::written(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    fn note_apart(&mut self, volume: &Volume, bytes: Transferred) {
        self.moved.note_apart(&mut self.evaluated, MovedIn { volume: volume.id(), bytes });
    }

    /// Returns the stateid that the arguments mean, which may be the current one (RFC 8881 section 16.2.3.1.2).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if there is none.
    pub(crate) fn stateid(&self, stateid: Stateid4) -> Result<Stateid4, OpStop> {
        if self.minor == 0 || stateid != Stateid4::CURRENT {
            return Ok(stateid);
        }
        self.current_stateid.ok_or(OpStop::Status(NfsStat4::BadStateId))
    }

    /// Returns the stateid that the arguments mean for the saved filehandle, which may be the saved one.
    ///
    /// # Errors
    /// Those of [`Compound::stateid`].
    pub(crate) fn saved_stateid(&self, stateid: Stateid4) -> Result<Stateid4, OpStop> {
        if self.minor == 0 || stateid != Stateid4::CURRENT {
            return Ok(stateid);
        }
        self.saved_stateid.ok_or(OpStop::Status(NfsStat4::BadStateId))
    }

    /// Returns the largest result of the whole COMPOUND, in bytes.
    fn reply_bytes_max(&self) -> usize {
        self.slot
            .as_ref()
            .map_or(COMPOUND_REPLY_BYTES_MAX, |slot| slot.reply_bytes_max().min(COMPOUND_REPLY_BYTES_MAX))
    }

    /// Returns the bytes that remain for this operation's result, which begins at `position` of the buffer.
    pub(crate) fn room(&self, position: usize) -> usize {
        self.reply_bytes_max().saturating_sub(position.saturating_sub(self.reply_start))
    }

    /// Checks that the reply may reach `position` of its buffer.
    #[inline]
    pub(super) fn check_room(&self, position: usize) -> Result<(), OpStop> {
        if position <= self.reply_end_max { Ok(()) } else { self.check_room_of_each(position) }
    }

    /// Returns which limit the reply exceeds that reaches this position.
    #[cold]
    fn check_room_of_each(&self, position: usize) -> Result<(), OpStop> {
        let bytes = position.saturating_sub(self.reply_start);
        if bytes > self.reply_bytes_max() {
            return Err(if self.minor == 0 { NfsStat4::Resource } else { NfsStat4::RepTooBig }.into());
        }
        match &self.slot {
            Some(slot) if slot.cache_this() && bytes > slot.reply_bytes_cached_max() => {
                Err(NfsStat4::RepTooBigToCache.into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns an object of a volume; fails with `otherwise` for a directory of the pseudo file system.
fn stored<'c>(target: &Target<'c>, otherwise: NfsStat4) -> Result<Object<'c>, OpStop> {
    match target {
        Target::Pseudo(_) => Err(otherwise.into()),
        Target::Stored(object) => Ok(*object),
    }
}
