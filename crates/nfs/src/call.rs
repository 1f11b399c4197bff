//! What an operation is told: its arguments, its caller, and the objects that its handles name.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use volume::attributes::{Attributes, Wcc};
use volume::bytes::Slice;
use volume::handle::HANDLE_BYTES;
use volume::ids::Ino;
use volume::request::{Access, Credentials, Durability, Failure, Request, RequestKey};
use volume::time::Time;
use volume::volume::Volume;
use wire::nfs3::{Failed, Fattr3, FileHandle3, NfsStat3, WccData};
use wire::rpc::{AuthStat, CallHeader, Credential};
use wire::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::connection::Connection;
use crate::context::{Located, Refused, ServiceContext};
use crate::exports::Export;
use crate::progress::Progress;
use crate::state::ids::FileId;
use crate::status::Retry;
use crate::{attributes, credentials, status};

/// Why an operation wrote no result of its own; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It needs media: run it again where that is allowed.
    WouldBlock,
    /// A limit is reached, or the same call is being executed: run it again soon.
    Busy,
    /// The arguments cannot be decoded.
    Garbage,
    /// A length in the arguments is over its limit: not worth an answer.
    OverLimit,
    /// There is no such procedure.
    Unavailable,
    /// It failed, and has no result to say so in.
    Failed,
    /// The credential does not do.
    Auth(AuthStat),
    /// It failed before it looked at any object, so that it has no attributes to show.
    Status(NfsStat3),
}

impl From<Retry> for Stop {
    fn from(retry: Retry) -> Stop {
        match retry {
            Retry::WouldBlock => Stop::WouldBlock,
            Retry::Busy => Stop::Busy,
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

/// What a reply waits for; nothing, if it shows nothing of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After<'a>(pub(crate) Option<(&'a Arc<Volume>, Durability)>);

impl After<'_> {
    /// Nothing.
    pub(crate) const NOW: After<'static> = After(None);
}

/// What became of an operation: it wrote a result, a failure included, or it did not.
pub(crate) type Handled<'a> = Result<After<'a>, Stop>;

/// A procedure of a program.
pub(crate) struct Operation {
    /// Executes a call and writes its whole result, behind the header of an accepted reply. What it wrote before it
    /// stopped is taken back.
    pub(crate) run: for<'a> fn(&Call<'a>, &mut Encoder<'_>) -> Handled<'a>,
    /// Writes the result of a failure that shows no attributes; none for procedures that cannot fail.
    pub(crate) failed: Option<fn(NfsStat3, &mut Encoder<'_>)>,
    /// Whether it changes a volume, so that back-pressure applies to it.
    pub(crate) changes: bool,
}

/// A call whose program, version and procedure are known to exist.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a ServiceContext,
    pub(crate) header: &'a CallHeader<'a>,
    /// What follows the header.
    pub(crate) arguments: &'a [u8],
    pub(crate) connection: &'a Connection,
    pub(crate) now: Time,
    pub(crate) access: Access,
    /// The end of the reply, if it is not in the buffer that the operation writes to.
    pub(crate) tail: Cell<Vec<Slice>>,
    /// How far the call came when it was run before; what an operation leaves here it finds again.
    pub(crate) progress: Cell<Option<Progress>>,
    /// Bytes of the whole record.
    pub(crate) bytes: usize,
    /// Whether the call turned out to change a volume, beside procedures that always do.
    pub(crate) changed: Cell<bool>,
}

impl<'a> Call<'a> {
    /// Reads the arguments. Bytes after them are ignored, as other servers do.
    pub(crate) fn arguments<T: Decode<'a>>(&self) -> Result<T, Stop> {
        Ok(T::decode(&mut Decoder::new(self.arguments))?)
    }

    /// The client's address, the same however it reaches us.
    pub(crate) fn client(&self) -> IpAddr {
        self.connection.peer.ip().to_canonical()
    }

    /// Finds what a handle names, and under which rules this caller may use it.
    pub(crate) fn object(&self, handle: FileHandle3<'_>) -> Result<Object<'a>, Stop> {
        let found = self.service.locate(handle.as_bytes(), self.connection.peer);
        let Located { volume, export, ino } = match found {
            Ok(located) => located,
            Err(Refused::BadHandle) => return Err(Stop::Status(NfsStat3::BadHandle)),
            Err(Refused::Stale) => return Err(Stop::Status(NfsStat3::Stale)),
            Err(Refused::NotAdmitted) => return Err(Stop::Status(NfsStat3::Acces)),
        };
        if !export.is_content_with(&self.header.credential) {
            return Err(Stop::Auth(AuthStat::TooWeak));
        }
        Ok(Object::new(volume, ino, export, &self.header.credential, self.now, self.access))
    }
}

/// An object that a handle names, and in whose name it is used.
pub(crate) struct Object<'a> {
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) ino: Ino,
    pub(crate) export: &'a Export,
    credentials: Credentials,
    now: Time,
    access: Access,
}

impl<'a> Object<'a> {
    /// An object, in the name of whom the credential says.
    pub(crate) fn new(
        volume: &'a Arc<Volume>,
        ino: Ino,
        export: &'a Export,
        credential: &Credential<'_>,
        now: Time,
        access: Access,
    ) -> Object<'a> {
        let credentials = credentials::credentials(credential, export);
        Object { volume, ino, export, credentials, now, access }
    }

    /// The file as the state names it.
    pub(crate) fn file_id(&self) -> FileId {
        FileId { volume: self.volume.id(), ino: self.ino }
    }

    /// Another object of the same volume, in the same name.
    pub(crate) fn beside(&self, ino: Ino) -> Object<'a> {
        let Object { volume, export, now, access, .. } = *self;
        Object { volume, ino, export, credentials: self.credentials.clone(), now, access }
    }

    /// What the engine is told about the caller of an idempotent operation.
    pub(crate) fn request(&self) -> Request<'_> {
        Request { credentials: &self.credentials, now: self.now, access: self.access, key: None }
    }

    /// The same for an operation whose answer is remembered.
    pub(crate) fn request_once<'r>(&'r self, key: &'r RequestKey) -> Request<'r> {
        Request { key: Some(key), ..self.request() }
    }

    /// Whether two handles are of the same volume.
    pub(crate) fn is_beside(&self, other: &Object<'_>) -> bool {
        Arc::ptr_eq(self.volume, other.volume)
    }

    /// The reply waits for this.
    pub(crate) fn after(&self, after: Durability) -> After<'a> {
        After(Some((self.volume, after)))
    }

    /// Attributes of an object of the same volume.
    pub(crate) fn fattr3(&self, attributes: &Attributes) -> Fattr3 {
        attributes::fattr3(self.volume.id(), attributes)
    }

    /// Both sides of a change in the same volume.
    pub(crate) fn wcc(&self, wcc: &Wcc) -> WccData {
        attributes::wcc(self.volume.id(), wcc)
    }

    /// The bytes of a handle of the same volume; [`file_handle`] makes them one.
    pub(crate) fn handle_bytes(&self, ino: Ino) -> [u8; HANDLE_BYTES] {
        self.volume.handle(ino).to_bytes()
    }

    /// The attributes of this object for a failure to show, if they can be had; `after` then waits for them too.
    pub(crate) fn shown(&self, after: &mut Durability) -> Result<Option<Fattr3>, Stop> {
        match self.volume.attributes(&self.request(), self.ino) {
            Ok(promised) => {
                *after = after.and(promised.after);
                Ok(Some(self.fattr3(&promised.value)))
            }
            Err(failure) => {
                // Fails here only if nothing can be answered yet; which of the errors it is matters to nobody.
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

/// The handle of these bytes.
pub(crate) fn file_handle(bytes: &[u8; HANDLE_BYTES]) -> FileHandle3<'_> {
    FileHandle3::new(bytes).expect("the engine's handles are within the limit of NFSv3, see limits.rs")
}
