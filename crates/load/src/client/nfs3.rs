//! Requests and replies in the words of NFSv3.

use wire::limits::DATA_BYTES_MAX;
use wire::nfs3::{
    AccessArgs, AccessRes, CommitArgs, CommitRes, CreateArgs, CreateHow3, CreateRes, DirOpArgs3, Fattr3,
    Filename3, FsinfoArgs, FsinfoRes, FsstatArgs, FsstatRes, GetattrArgs, GetattrRes, LookupArgs, LookupRes,
    MkdirArgs, MkdirRes, NfsStat3, NfsTime3, Procedure, ReadArgs, ReaddirArgs, ReaddirRes, ReaddirplusArgs,
    ReaddirplusRes, RemoveArgs, RemoveRes, Res3, RmdirArgs, Sattr3, SetTime, SetattrArgs, SetattrRes,
    WriteRes, access,
};
use wire::xdr::{Decode, DecodeError, Decoder, Encode as _, Encoder, padding};

use super::Handle;
use super::cause::{Cause, Status};
use super::reply::{Found, Listed, Opened, Plain, ReadHead, Sizes, Written};
use super::request::{DIRECTORY_MODE, FILE_MODE, FILE_TIME_S, File, IfExists, Place, Request, WriteRequest};

/// Returns the procedure of a request.
pub(super) const fn procedure(request: &Request<'_>) -> Procedure {
    match request {
        Request::Getattr(_) => Procedure::Getattr,
        Request::Access(_) => Procedure::Access,
        Request::Lookup(_) | Request::Open(_) => Procedure::Lookup,
        Request::Mkdir(_) => Procedure::Mkdir,
        Request::Create(..) => Procedure::Create,
        Request::Close(_) => Procedure::Null,
        Request::Read { .. } => Procedure::Read,
        Request::Commit { .. } => Procedure::Commit,
        Request::SetModeAndTime(_) => Procedure::Setattr,
        Request::Remove(_) => Procedure::Remove,
        Request::Rmdir(_) => Procedure::Rmdir,
        Request::Readdir { plus: false, .. } => Procedure::Readdir,
        Request::Readdir { plus: true, .. } => Procedure::Readdirplus,
        Request::Sizes(_) => Procedure::Fsinfo,
        Request::Space(_) => Procedure::Fsstat,
    }
}

fn place<'a>(place: &Place<'a>) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir: place.directory.v3(), name: Filename3(place.name) }
}

/// Returns attributes that set only the mode.
fn mode(mode: u32) -> Sattr3 {
    Sattr3 { mode: Some(mode), ..Sattr3::default() }
}

/// Encodes the arguments of a request.
#[inline]
pub(super) fn encode(request: &Request<'_>, out: &mut Encoder<'_>) {
    match request {
        Request::Getattr(handle) => GetattrArgs { object: handle.v3() }.encode(out),
        Request::Access(handle) => AccessArgs { object: handle.v3(), access: access::ALL }.encode(out),
        Request::Lookup(at) | Request::Open(at) => LookupArgs { what: place(at) }.encode(out),
        Request::Mkdir(at) => MkdirArgs { place: place(at), attributes: mode(DIRECTORY_MODE) }.encode(out),
        Request::Create(at, if_exists) => {
            let how = match if_exists {
                IfExists::Fail => CreateHow3::Guarded(mode(FILE_MODE)),
                IfExists::Open => CreateHow3::Unchecked(mode(FILE_MODE)),
            };
            CreateArgs { place: place(at), how }.encode(out);
        }
        Request::Close(_) => {}
        Request::Read { file, offset, count } => {
            ReadArgs { file: file.handle.v3(), offset: *offset, count: *count }.encode(out);
        }
        Request::Commit { file, offset, count } => {
            CommitArgs { file: file.handle.v3(), offset: *offset, count: *count }.encode(out);
        }
        Request::SetModeAndTime(file) => {
            let mtime = SetTime::SetToClientTime(NfsTime3 { seconds: FILE_TIME_S, nanoseconds: 0 });
            let new_attributes = Sattr3 { mtime, ..mode(FILE_MODE) };
            SetattrArgs { object: file.handle.v3(), new_attributes, guard: None }.encode(out);
        }
        Request::Remove(at) => RemoveArgs { object: place(at) }.encode(out),
        Request::Rmdir(at) => RmdirArgs { object: place(at) }.encode(out),
        Request::Readdir { directory, position, bytes, plus } => {
            let (dir, cookie, cookieverf) = (directory.v3(), position.cookie, position.verifier);
            if *plus {
                let (dircount, maxcount) = (*bytes, *bytes);
                ReaddirplusArgs { dir, cookie, cookieverf, dircount, maxcount }.encode(out);
            } else {
                ReaddirArgs { dir, cookie, cookieverf, count: *bytes }.encode(out);
            }
        }
        Request::Sizes(root) => FsinfoArgs { fsroot: root.v3() }.encode(out),
        Request::Space(root) => FsstatArgs { fsroot: root.v3() }.encode(out),
    }
}

/// Encodes the arguments of a WRITE up to the length of its data.
#[inline]
pub(super) fn encode_write(request: &WriteRequest<'_>, out: &mut Encoder<'_>) {
    request.file.handle.v3().encode(out);
    out.u64(request.offset);
    out.u32(request.length);
    request.stable.encode(out);
    out.u32(request.length);
}

/// The results of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'r> {
    /// The kept prefix of the results.
    pub(super) results: &'r [u8],
    /// The number of dropped bytes.
    pub(super) cut: usize,
}

impl<'r> Reply<'r> {
    /// Decodes the results of any procedure except READ.
    #[inline]
    fn decode<T: Decode<'r>>(&self, procedure: Procedure) -> Result<T, Cause> {
        if self.cut > 0 {
            return Err(Cause::Malformed(procedure.name(), DecodeError::Trailing(self.cut)));
        }
        wire::xdr::decode_all(self.results).map_err(|error| Cause::Malformed(procedure.name(), error))
    }

    pub(super) fn plain(self, call: Plain) -> Result<(), Cause> {
        fn unit<T>(_: T) {}
        match call {
            Plain::Null | Plain::Close => self.decode(Procedure::Null),
            Plain::Getattr => {
                ok(Procedure::Getattr, self.decode::<GetattrRes>(Procedure::Getattr)?).map(unit)
            }
            Plain::Access => ok(Procedure::Access, self.decode::<AccessRes>(Procedure::Access)?).map(unit),
            Plain::SetModeAndTime => {
                ok(Procedure::Setattr, self.decode::<SetattrRes>(Procedure::Setattr)?).map(unit)
            }
            Plain::Remove => ok(Procedure::Remove, self.decode::<RemoveRes>(Procedure::Remove)?).map(unit),
            Plain::Rmdir => ok(Procedure::Rmdir, self.decode::<RemoveRes>(Procedure::Rmdir)?).map(unit),
        }
    }

    pub(super) fn found(self) -> Result<Found, Cause> {
        let found = ok(Procedure::Lookup, self.decode::<LookupRes<'_>>(Procedure::Lookup)?)?;
        let size = found.obj_attributes.map(|attributes| attributes.size);
        Ok(Found { handle: Handle::of(found.object.as_bytes()), size })
    }

    pub(super) fn made(self) -> Result<Option<Handle>, Cause> {
        let made = ok(Procedure::Mkdir, self.decode::<MkdirRes<'_>>(Procedure::Mkdir)?)?;
        Ok(made.obj.map(|handle| Handle::of(handle.as_bytes())))
    }

    pub(super) fn created(self) -> Result<Opened, Cause> {
        let created = ok(Procedure::Create, self.decode::<CreateRes<'_>>(Procedure::Create)?)?;
        let file = created.obj.map(|handle| File::unopened(Handle::of(handle.as_bytes())));
        Ok(Opened { file, size: created.obj_attributes.map(|attributes| attributes.size) })
    }

    pub(super) fn opened(self) -> Result<Opened, Cause> {
        let Found { handle, size } = self.found()?;
        Ok(Opened { file: Some(File::unopened(handle)), size })
    }

    #[inline]
    pub(super) fn read(self) -> Result<ReadHead<'r>, Cause> {
        let mut input = Decoder::new(self.results);
        let head = self.read_head(&mut input);
        head.map_err(|error| Cause::Malformed(Procedure::Read.name(), error))?
    }

    fn read_head(&self, input: &mut Decoder<'r>) -> Result<Result<ReadHead<'r>, Cause>, DecodeError> {
        let status = NfsStat3::decode(input)?;
        if input.bool()? {
            input.array::<{ Fattr3::BYTES }>()?;
        }
        if status != NfsStat3::Ok {
            return Ok(Err(Cause::Status(Procedure::Read.name(), Status::V3(status))));
        }
        let (count, eof, length) = (input.u32()?, input.bool()?, input.length(DATA_BYTES_MAX)?);
        let there = input.rest().len() + self.cut;
        if length != count as usize || there != length + padding(length) {
            return Ok(Err(Cause::Wrong("READ: count, length of the data and length of the reply differ")));
        }
        Ok(Ok(ReadHead { count, eof, data: input.rest() }))
    }

    #[inline]
    pub(super) fn written(self) -> Result<Written, Cause> {
        let written = ok(Procedure::Write, self.decode::<WriteRes>(Procedure::Write)?)?;
        Ok(Written { count: written.count, committed: written.committed, verifier: written.verf })
    }

    pub(super) fn committed(self) -> Result<[u8; 8], Cause> {
        Ok(ok(Procedure::Commit, self.decode::<CommitRes>(Procedure::Commit)?)?.verf)
    }

    pub(super) fn listed(self, plus: bool, entry: &mut dyn FnMut(u64, &'r [u8])) -> Result<Listed, Cause> {
        if plus {
            let procedure = Procedure::Readdirplus;
            let listed = ok(procedure, self.decode::<ReaddirplusRes<'_>>(procedure)?)?;
            listed.entries.iter().for_each(|it| entry(it.cookie, it.name.0));
            return Ok(Listed { verifier: listed.cookieverf, eof: listed.eof });
        }
        let listed = ok(Procedure::Readdir, self.decode::<ReaddirRes<'_>>(Procedure::Readdir)?)?;
        listed.entries.iter().for_each(|it| entry(it.cookie, it.name.0));
        Ok(Listed { verifier: listed.cookieverf, eof: listed.eof })
    }

    pub(super) fn sizes(self) -> Result<Sizes, Cause> {
        let found = ok(Procedure::Fsinfo, self.decode::<FsinfoRes>(Procedure::Fsinfo)?)?;
        Ok(Sizes { read_bytes: u64::from(found.rtmax), write_bytes: u64::from(found.wtmax) })
    }

    pub(super) fn space(self) -> Result<u64, Cause> {
        Ok(ok(Procedure::Fsstat, self.decode::<FsstatRes>(Procedure::Fsstat)?)?.abytes)
    }
}

/// Returns the body of a successful result, or the failure as a cause.
#[inline]
fn ok<O, F>(procedure: Procedure, result: Res3<O, F>) -> Result<O, Cause> {
    result.map_err(|failed| Cause::Status(procedure.name(), Status::V3(failed.status)))
}
