//! COMPOUNDs, each with the operations in the order of the Linux client.

use wire::nfs3::StableHow;
use wire::nfs4::compound::CompoundArgsEncoder;
use wire::nfs4::{
    AccessArgs, ArgOp4, Attr4, AttrMask, Attributes4, ClientId4, CloseArgs, CommitArgs, Component4,
    CreateArgs, CreateHow4, CreateType4, Fattr4, GetattrArgs, LookupArgs, NfsTime4, OpNum4, OpenArgs,
    OpenClaim4, OwnerId4, PutfhArgs, ReadArgs, ReaddirArgs, RemoveArgs, SequenceArgs, SetTime4, SetattrArgs,
    StableHow4, StateOwner4, Stateid4, Utf8Str4, access, share_access, share_deny,
};
use wire::xdr::{Encode as _, Encoder};

use super::session::Caller;
use crate::client::Handle;
use crate::client::request::{
    DIRECTORY_MODE, FILE_MODE, FILE_TIME_S, File, IfExists, Place, Request, WriteRequest,
};

/// The attributes of an object that the Linux client requests.
const ATTRIBUTES: AttrMask = AttrMask::of(&[
    Attr4::Type,
    Attr4::Change,
    Attr4::Size,
    Attr4::Fsid,
    Attr4::Fileid,
    Attr4::Mode,
    Attr4::Numlinks,
    Attr4::Owner,
    Attr4::OwnerGroup,
    Attr4::Rawdev,
    Attr4::SpaceUsed,
    Attr4::TimeAccess,
    Attr4::TimeMetadata,
    Attr4::TimeModify,
    Attr4::MountedOnFileid,
]);

/// The attributes that tell the Linux client whether its cache is still valid.
const CONSISTENCY: AttrMask =
    AttrMask::of(&[Attr4::Change, Attr4::Size, Attr4::TimeMetadata, Attr4::TimeModify]);

/// The attributes of a listing's entries.
const NAMES: AttrMask = AttrMask::of(&[Attr4::RdattrError, Attr4::MountedOnFileid]);

/// The attributes of a listing's entries if they are wanted, as `ls -l` does.
const ENTRIES: AttrMask = AttrMask::of(&[
    Attr4::Type,
    Attr4::Change,
    Attr4::Size,
    Attr4::Fsid,
    Attr4::RdattrError,
    Attr4::Filehandle,
    Attr4::Fileid,
    Attr4::Mode,
    Attr4::Numlinks,
    Attr4::Owner,
    Attr4::OwnerGroup,
    Attr4::Rawdev,
    Attr4::SpaceUsed,
    Attr4::TimeAccess,
    Attr4::TimeMetadata,
    Attr4::TimeModify,
    Attr4::MountedOnFileid,
]);

/// The rights that the Linux client asks for with an OPEN.
const OPEN_RIGHTS: u32 = access::READ | access::MODIFY | access::EXTEND | access::EXECUTE;
/// The rights that it asks for of a directory.
const RIGHTS: u32 =
    access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE | access::EXECUTE;

/// The attributes that state the transfer sizes.
const SIZES: AttrMask = AttrMask::of(&[Attr4::Maxread, Attr4::Maxwrite]);
const SPACE: AttrMask = AttrMask::of(&[Attr4::SpaceAvail]);

/// Whether the server must cache the reply: the Linux client asks for it where executing the call again would do harm.
const fn is_cached(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Mkdir(_)
            | Request::Create(..)
            | Request::Open(_)
            | Request::Close(_)
            | Request::Commit { .. }
            | Request::SetModeAndTime(_)
            | Request::Remove(_)
            | Request::Rmdir(_)
    )
}

fn putfh(handle: &Handle) -> ArgOp4<'_> {
    ArgOp4::Putfh(PutfhArgs { object: handle.v4() })
}

const fn getattr(attr_request: AttrMask) -> ArgOp4<'static> {
    ArgOp4::Getattr(GetattrArgs { attr_request })
}

/// Encodes attributes, whose bytes go to `values`.
fn fattr<'v>(attributes: &Attributes4<'_>, values: &'v mut Vec<u8>) -> Fattr4<'v> {
    attributes.encode(&mut Encoder::new(values));
    // After the mask and the length.
    let words = values.first_chunk::<4>().map_or(0, |count| u32::from_be_bytes(*count)) as usize;
    let attr_vals = values.get(4 * (words + 2)..).unwrap_or_default();
    Fattr4 { attrmask: attributes.mask(), attr_vals }
}

/// Encodes the COMPOUND of a request.
pub(in crate::client) fn encode(caller: &Caller<'_>, request: &Request<'_>, out: &mut Encoder<'_>) {
    let mut compound = CompoundArgsEncoder::begin(out, Utf8Str4(b""), caller.minor);
    let cachethis = is_cached(request);
    compound.push(&ArgOp4::Sequence(SequenceArgs { cachethis, ..caller.sequence }));
    let mut push = |op: ArgOp4<'_>| compound.push(&op);
    match request {
        Request::Getattr(handle) => [putfh(handle), getattr(ATTRIBUTES)].into_iter().for_each(push),
        Request::Access(handle) => {
            let access = ArgOp4::Access(AccessArgs { access: RIGHTS });
            [putfh(handle), access, getattr(CONSISTENCY)].into_iter().for_each(push);
        }
        Request::Lookup(place) => {
            let lookup = ArgOp4::Lookup(LookupArgs { objname: Component4(place.name) });
            let ops = [putfh(place.directory), lookup, ArgOp4::Getfh, getattr(ATTRIBUTES)];
            ops.into_iter().for_each(push);
        }
        Request::Mkdir(place) => make_directory(place, &mut push),
        Request::Create(place, if_exists) => {
            let (mut values, mode) = (Vec::new(), Some(FILE_MODE));
            let attributes = fattr(&Attributes4 { mode, ..Attributes4::default() }, &mut values);
            let how = match if_exists {
                IfExists::Fail => CreateHow4::Guarded(attributes),
                IfExists::Open => CreateHow4::Unchecked(attributes),
            };
            open(caller, place, share_access::BOTH, Some(how), &mut push);
        }
        Request::Open(place) => open(caller, place, share_access::READ, None, &mut push),
        Request::Close(file) => {
            let close = CloseArgs { seqid: 0, open_stateid: file.stateid };
            let ops = [putfh(&file.handle), getattr(CONSISTENCY), ArgOp4::Close(close)];
            ops.into_iter().for_each(push);
        }
        Request::Read { file: File { handle, stateid }, offset, count } => {
            push(putfh(handle));
            push(ArgOp4::Read(ReadArgs { stateid: *stateid, offset: *offset, count: *count }));
        }
        Request::Commit { file, offset, count } => {
            push(putfh(&file.handle));
            push(ArgOp4::Commit(CommitArgs { offset: *offset, count: *count }));
        }
        Request::SetModeAndTime(file) => set_mode_and_time(file, &mut push),
        Request::Remove(place) | Request::Rmdir(place) => {
            push(putfh(place.directory));
            push(ArgOp4::Remove(RemoveArgs { target: Component4(place.name) }));
        }
        Request::Readdir { directory, position, bytes, plus } => {
            push(putfh(directory));
            push(ArgOp4::Readdir(ReaddirArgs {
                cookie: position.cookie,
                cookieverf: position.verifier,
                dircount: *bytes,
                maxcount: *bytes,
                attr_request: if *plus { ENTRIES } else { NAMES },
            }));
        }
        Request::Sizes(root) => [putfh(root), getattr(SIZES)].into_iter().for_each(push),
        Request::Space(root) => [putfh(root), getattr(SPACE)].into_iter().for_each(push),
    }
    compound.finish();
}

/// Appends the operations that make a directory.
fn make_directory(place: &Place<'_>, push: &mut dyn FnMut(ArgOp4<'_>)) {
    let (mut values, mode) = (Vec::new(), Some(DIRECTORY_MODE));
    push(putfh(place.directory));
    push(ArgOp4::Create(CreateArgs {
        objtype: CreateType4::Dir,
        objname: Component4(place.name),
        createattrs: fattr(&Attributes4 { mode, ..Attributes4::default() }, &mut values),
    }));
    push(ArgOp4::Getfh);
    push(getattr(ATTRIBUTES));
}

/// Appends the operations that set mode and time, as `tar` does.
fn set_mode_and_time(file: &File, push: &mut dyn FnMut(ArgOp4<'_>)) {
    let time = NfsTime4 { seconds: i64::from(FILE_TIME_S), nseconds: 0 };
    let attributes = Attributes4 {
        mode: Some(FILE_MODE),
        time_modify_set: Some(SetTime4::SetToClientTime(time)),
        ..Attributes4::default()
    };
    let mut values = Vec::new();
    let obj_attributes = fattr(&attributes, &mut values);
    push(putfh(&file.handle));
    push(ArgOp4::Setattr(SetattrArgs { stateid: Stateid4::ANONYMOUS, obj_attributes }));
    push(getattr(ATTRIBUTES));
}

/// Appends the operations of an OPEN by name.
fn open<'a>(
    caller: &Caller<'a>,
    place: &Place<'a>,
    access: u32,
    openhow: Option<CreateHow4<'a>>,
    push: &mut dyn FnMut(ArgOp4<'a>),
) {
    push(putfh(place.directory));
    push(ArgOp4::Open(OpenArgs {
        seqid: 0,
        // Without a channel for callbacks a delegation could not be recalled.
        share_access: access | share_access::WANT_NO_DELEG,
        share_deny: share_deny::NONE,
        owner: StateOwner4 { clientid: ClientId4::default(), owner: OwnerId4(caller.owner) },
        openhow,
        claim: OpenClaim4::Null(Component4(place.name)),
    }));
    push(ArgOp4::Getfh);
    push(ArgOp4::Access(AccessArgs { access: OPEN_RIGHTS }));
    push(getattr(ATTRIBUTES));
}

/// The operations of a WRITE: SEQUENCE, PUTFH, WRITE, GETATTR.
const WRITE_OPS: u32 = 4;

/// Encodes the COMPOUND of a WRITE up to the length of its data.
pub(in crate::client) fn encode_write_head(
    caller: &Caller<'_>,
    request: &WriteRequest<'_>,
    out: &mut Encoder<'_>,
) {
    Utf8Str4(b"").encode(out);
    out.u32(caller.minor);
    out.u32(WRITE_OPS);
    ArgOp4::Sequence(caller.sequence).encode(out);
    putfh(&request.file.handle).encode(out);
    OpNum4::Write.encode(out);
    request.file.stateid.encode(out);
    out.u64(request.offset);
    let stable = match request.stable {
        StableHow::Unstable => StableHow4::Unstable,
        StableHow::DataSync => StableHow4::DataSync,
        StableHow::FileSync => StableHow4::FileSync,
    };
    stable.encode(out);
    out.u32(request.length);
}

/// Encodes what follows the data and padding of a WRITE.
pub(in crate::client) fn encode_write_tail(out: &mut Encoder<'_>) {
    getattr(CONSISTENCY).encode(out);
}
