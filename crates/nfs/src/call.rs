//! A call: its arguments, its caller, and the objects that its handles name.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;

use volume::attributes::{Attributes, Wcc};
use volume::bytes::{Slice, WriteData};
use volume::handle::HANDLE_BYTES;
use volume::ids::Ino;
use volume::request::{Access, Credentials, Durability, Failure, Request, RequestKey};
use volume::time::Time;
use volume::volume::Volume;
use wire::nfs3::{Failed, Fattr3, FileHandle3, NfsStat3, WccData};
use wire::rpc::{AuthStat, CallHeader};
use wire::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Payload};

use crate::admission::Awaited;
use crate::clocks::ClockReading;
use crate::connection::Connection;
use crate::context::{Located, Refused, ServiceContext};
use crate::credentials::SharedCredentials;
use crate::exports::Export;
use crate::incoming::{CopyTerms, ReceivedPayload};
use crate::progress::Progress;
use crate::state::ids::FileId;
use crate::status::Retry;
use crate::summary::{Evaluated, Transferred};
use crate::{attributes, status};

/// Why an operation wrote no result of its own. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Media must be read: run the call again where that is allowed.
    WouldBlock,
    /// A limit of a pool is reached, which other changes wait for too: run the call again soon. None stands for the limit
    /// that its arguments imply.
    Busy(Option<Awaited>),
    /// Something is in the way of this call, for example the same call that is being executed: run the call again soon.
    Later,
    /// The arguments cannot be decoded.
    Garbage,
    /// A length in the arguments exceeds its limit: the connection is closed.
    OverLimit,
    /// There is no such procedure.
    Unavailable,
    /// It failed, and its result has no status.
    Failed,
    /// The credential is not accepted.
    Auth(AuthStat),
    /// It failed before it accessed an object, so it has no attributes to show.
    Status(NfsStat3),
}

impl From<Retry> for Stop {
    fn from(retry: Retry) -> Stop {
        match retry {
            Retry::WouldBlock => Stop::WouldBlock,
            Retry::Busy => Stop::Busy(None),
            Retry::Later => Stop::Later,
        }
    }
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Stop {
        match error {
            DecodeError::TooLong { .. } => Stop::OverLimit,
            _ => Stop::Garbage,
        }
    }
}

/// What a reply waits for: the durability of a volume's contents that it shows, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After<'a>(pub(crate) Option<(&'a Arc<Volume>, Durability)>);

impl After<'_> {
    /// Nothing.
    pub(crate) const NOW: After<'static> = After(None);
}

/// The outcome of an operation: it wrote a result (a failure is one too), or it did not.
pub(crate) type Handled<'a> = Result<After<'a>, Stop>;

/// A procedure of a program.
pub(crate) struct Operation {
    /// Executes a call and writes its result after the header of an accepted reply. If it stops, the caller removes
    /// the partial result.
    pub(crate) run: for<'a> fn(&Call<'a>, &mut Encoder<'_>) -> Handled<'a>,
    /// Writes the result of a failure that shows no attributes; none for procedures that cannot fail.
    pub(crate) failed: Option<fn(NfsStat3, &mut Encoder<'_>)>,
    /// Whether it changes a volume. Back-pressure applies to such calls.
    pub(crate) changes: bool,
}

/// A call of a procedure that exists.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a ServiceContext,
    pub(crate) header: &'a CallHeader<'a>,
    /// What follows the header.
    pub(crate) arguments: Decoder<'a>,
    /// The payload that lies elsewhere.
    pub(crate) payload: Option<&'a ReceivedPayload>,
    pub(crate) connection: &'a Connection,
    /// The credential of the header, squashed.
    pub(crate) credentials: &'a SharedCredentials,
    pub(crate) now: ClockReading,
    pub(crate) access: Access,
    /// How much a COPY may copy.
    pub(crate) copy_terms: CopyTerms,
    /// File data that ends the reply without being copied into its buffer.
    pub(crate) tail: Cell<Vec<Slice>>,
    /// How far the call came when it was last run. An operation that stops leaves it here.
    pub(crate) progress: &'a Cell<Option<Progress>>,
    /// Length of the whole record, bytes.
    pub(crate) bytes: usize,
    /// Whether the call changed a volume; for procedures that do not always.
    pub(crate) changed: Cell<bool>,
    /// The file data that it moved.
    pub(crate) transferred: Cell<Transferred>,
    /// The operations of a COMPOUND.
    pub(crate) evaluated: RefCell<Evaluated>,
    /// The object that it is about: the last one that a handle named; of a COMPOUND, that of its main operation. Zero if there
    /// is none.
    pub(crate) ino: Cell<Ino>,
}

impl<'a> Call<'a> {
    /// Decodes the arguments. Bytes after them are ignored, as by other servers.
    pub(crate) fn arguments<T: Decode<'a>>(&self) -> Result<T, Stop> {
        Ok(T::decode(&mut self.arguments.clone())?)
    }

    /// Returns the data of a WRITE, wherever it lies.
    pub(crate) fn data(&self, data: Payload<'a>) -> Result<WriteData<'a>, Stop> {
        write_data(data, self.payload).ok_or(Stop::Garbage)
    }

    /// Returns the client's address. IPv4 mapped into IPv6 becomes IPv4.
    pub(crate) fn client(&self) -> IpAddr {
        self.connection.peer.ip().to_canonical()
    }

    /// Resolves a handle and applies the rules of the export to the caller.
    pub(crate) fn object(&self, handle: FileHandle3<'_>) -> Result<Object<'a>, Stop> {
        let found = self.service.locate(handle.as_bytes(), self.connection.peer);
        let Located { volume, export, ino } = match found {
            Ok(located) => located,
            Err(Refused::BadHandle) => return Err(Stop::Status(NfsStat3::BadHandle)),
            Err(Refused::Stale) => return Err(Stop::Status(NfsStat3::Stale)),
            Err(Refused::NotAdmitted(volume)) => {
                let status = NfsStat3::Acces;
                self.service.log_not_admitted(volume, self.connection.peer, &status);
                return Err(Stop::Status(status));
            }
        };
        if !export.accepts_credential(&self.header.credential) {
            return Err(Stop::Auth(AuthStat::TooWeak));
        }
        self.ino.set(ino);
        let credentials = self.credentials.of(&self.header.credential, export);
        Ok(Object::new(volume, ino, export, credentials, self.now.wall, self.access))
    }
}

/// An object that a handle names, and the credentials to use it with.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) ino: Ino,
    pub(crate) export: &'a Export,
    credentials: &'a Credentials,
    now: Time,
    access: Access,
}

impl<'a> Object<'a> {
    /// Makes an object that is used with `credentials`, the caller's as the export squashes them.
    pub(crate) fn new(
        volume: &'a Arc<Volume>,
        ino: Ino,
        export: &'a Export,
        credentials: &'a Credentials,
        now: Time,
        access: Access,
    ) -> Object<'a> {
        Object { volume, ino, export, credentials, now, access }
    }

    /// The file as the state names it.
    pub(crate) fn file_id(&self) -> FileId {
        FileId { volume: self.volume.id(), ino: self.ino }
    }

    /// Returns another object of the same volume, with the same credentials.
    pub(crate) fn beside(&self, ino: Ino) -> Object<'a> {
        Object { ino, ..*self }
    }

    /// Returns the engine's request for an idempotent operation.
    pub(crate) fn request(&self) -> Request<'a> {
        Request { credentials: self.credentials, now: self.now, access: self.access, key: None }
    }

    /// Returns the engine's request for an operation whose reply is remembered.
    pub(crate) fn request_once<'r>(&'r self, key: &'r RequestKey) -> Request<'r> {
        Request { key: Some(key), ..self.request() }
    }

    /// Whether two objects are in the same volume.
    pub(crate) fn is_beside(&self, other: &Object<'_>) -> bool {
        Arc::ptr_eq(self.volume, other.volume)
    }

    /// Returns what a reply waits for.
    pub(crate) fn after(&self, after: Durability) -> After<'a> {
        After(Some((self.volume, after)))
    }

    /// Converts attributes of an object of the same volume.
    pub(crate) fn fattr3(&self, attributes: &Attributes) -> Fattr3 {
        attributes::fattr3(self.volume.id(), attributes)
    }

    /// Converts the attributes before and after a change in the same volume.
    pub(crate) fn wcc(&self, wcc: &Wcc) -> WccData {
        attributes::wcc(self.volume.id(), wcc)
    }

    /// Returns the bytes of a handle of the same volume, for [`file_handle`].
    pub(crate) fn handle_bytes(&self, ino: Ino) -> [u8; HANDLE_BYTES] {
        self.volume.handle(ino).to_bytes()
    }

    /// Returns the attributes of this object, if available, for a failure to show; `after` then waits for them too.
    pub(crate) fn shown(&self, after: &mut Durability) -> Result<Option<Fattr3>, Stop> {
        match self.volume.attributes(&self.request(), self.ino) {
            Ok(promised) => {
                *after = after.and(promised.after);
                Ok(Some(self.fattr3(&promised.value)))
            }
            Err(failure) => {
                // Returns early only if the call must be run again; the kind of error does not matter.
                status::nfs3(failure.error)?;
                *after = after.and(failure.after);
                Ok(None)
            }
        }
    }

    /// Writes the failure of an idempotent operation, with the attributes of this object.
    pub(crate) fn fail<F: Encode>(
        &self,
        failure: &Failure,
        out: &mut Encoder<'_>,
        body: impl FnOnce(Option<Fattr3>) -> F,
    ) -> Handled<'a> {
        let status = status::nfs3(failure.error)?;
        let mut after = failure.after;
        let body = body(self.shown(&mut after)?);
        Failed { status, body }.encode(out);
        Ok(self.after(after))
    }
}

/// Returns the data of a WRITE: the bytes of its record, or the payload that was received apart.
pub(crate) fn write_data<'a>(data: Payload<'a>, apart: Option<&'a ReceivedPayload>) -> Option<WriteData<'a>> {
    match data.bytes() {
        Some(bytes) => Some(WriteData::Bytes(bytes)),
        None => {
            let received = &apart?.data;
            (received.len() == data.len()).then_some(WriteData::Received(received))
        }
    }
}

/// Makes a handle of the engine's bytes.
pub(crate) fn file_handle(bytes: &[u8; HANDLE_BYTES]) -> FileHandle3<'_> {
    FileHandle3::new(bytes).expect("the engine's handles are within the limit of NFSv3, see limits.rs")
}
