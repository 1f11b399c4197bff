//! Encodes NFSv3 calls.

use volume::attributes::{Device, SetAttributes, SetTime};
use volume::results::Stability;
use volume::time::Time;
use wire::nfs3::{self, *};

use super::{RpcTransport, decode};
use crate::call::{Call, CreateHow, NodeKind, payload, target};
use crate::rpc::encoded;
use crate::transport::ResolvedCall;

/// Returns the bytes that a client allows for a listing, or `None` for another call.
pub(super) fn listing_bytes(call: &ResolvedCall, given: Option<u32>) -> Option<u32> {
    let Call::ReadDirectory { entries_max, plus, .. } = call.operation.call else { return None };
    // Room for about `entries_max` short names; a long one may not fit at all.
    let each = if plus { 160 } else { 28 };
    Some(given.unwrap_or(decode::EMPTY_BYTES + u32::from(entries_max) * each))
}

fn time(time: Time) -> Result<NfsTime3, String> {
    let seconds = u32::try_from(time.seconds()).map_err(|_| format!("NFSv3 cannot express {time:?}"))?;
    Ok(NfsTime3 { seconds, nanoseconds: time.subsecond_nanos() })
}

fn set_time(set: SetTime) -> Result<nfs3::SetTime, String> {
    Ok(match set {
        SetTime::Keep => nfs3::SetTime::DontChange,
        SetTime::Now => nfs3::SetTime::SetToServerTime,
        SetTime::To(to) => nfs3::SetTime::SetToClientTime(time(to)?),
    })
}

fn sattr3(set: &SetAttributes) -> Result<Sattr3, String> {
    Ok(Sattr3 {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set_time(set.atime)?,
        mtime: set_time(set.mtime)?,
    })
}

fn device(device: Device, set: &SetAttributes) -> Result<DeviceData3, String> {
    let spec = SpecData3 { major: device.major, minor: device.minor };
    Ok(DeviceData3 { dev_attributes: sattr3(set)?, spec })
}

fn how(how: &CreateHow) -> Result<CreateHow3, String> {
    Ok(match how {
        CreateHow::Unchecked(set) => CreateHow3::Unchecked(sattr3(set)?),
        CreateHow::Guarded(set) => CreateHow3::Guarded(sattr3(set)?),
        CreateHow::UncheckedIf(..) | CreateHow::ExclusiveWith(..) => {
            return Err("NFSv3 has no such CREATE".to_owned());
        }
        CreateHow::Exclusive(verifier) => CreateHow3::Exclusive(*verifier),
    })
}

fn stable(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}

/// Returns the procedure of a call and its encoded arguments.
pub(super) fn arguments(
    bytes: &RpcTransport,
    call: &ResolvedCall,
    given: Option<u32>,
) -> Result<(Procedure, Vec<u8>), String> {
    let file = |ino| FileHandle3::new(bytes.handle(ino)?).ok_or("the handle is too long".to_owned());
    let object = file(call.object)?;
    Ok(match call.operation.call {
        Call::Nothing => (Procedure::Null, Vec::new()),
        Call::GetAttributes { .. } => (Procedure::Getattr, encoded(&GetattrArgs { object })),
        Call::SetAttributes { set, .. } => {
            let guard = call.guard.map(|guard| time(Time::from_nanos(guard))).transpose()?;
            let args = SetattrArgs { object, new_attributes: sattr3(&set)?, guard };
            (Procedure::Setattr, encoded(&args))
        }
        Call::Access { mask, .. } => (Procedure::Access, encoded(&AccessArgs { object, access: mask })),
        Call::ReadLink { .. } => (Procedure::Readlink, encoded(&ReadlinkArgs { symlink: object })),
        Call::Read { offset, count, .. } => {
            (Procedure::Read, encoded(&ReadArgs { file: object, offset, count }))
        }
        Call::Write { offset, length, stability, .. } => {
            let data = &payload(call.operation.id, length);
            let stable = stable(stability);
            let args = WriteArgs { file: object, offset, count: length, stable, data: data.into() };
            (Procedure::Write, encoded(&args))
        }
        Call::Commit { offset, count, .. } => {
            (Procedure::Commit, encoded(&CommitArgs { file: object, offset, count }))
        }
        Call::ReadDirectory { plus, .. } => listing(call, object, plus, given),
        Call::Status => (Procedure::Fsstat, encoded(&FsstatArgs { fsroot: object })),
        Call::Limits { .. } => (Procedure::Fsinfo, encoded(&FsinfoArgs { fsroot: object })),
        Call::Configuration { .. } => (Procedure::Pathconf, encoded(&PathconfArgs { object })),
        _ => names(call, object, file(call.other)?)?,
    })
}

fn listing(
    call: &ResolvedCall,
    dir: FileHandle3<'_>,
    plus: bool,
    given: Option<u32>,
) -> (Procedure, Vec<u8>) {
    let (cookie, cookieverf) = (call.cookie, [0; 8]);
    let count = listing_bytes(call, given).unwrap_or(0);
    if plus {
        let args = ReaddirplusArgs { dir, cookie, cookieverf, dircount: count, maxcount: count };
        (Procedure::Readdirplus, encoded(&args))
    } else {
        (Procedure::Readdir, encoded(&ReaddirArgs { dir, cookie, cookieverf, count }))
    }
}

/// Encodes a call that names a directory entry.
fn names(
    call: &ResolvedCall,
    first: FileHandle3<'_>,
    second: FileHandle3<'_>,
) -> Result<(Procedure, Vec<u8>), String> {
    let name = match call.operation.call {
        Call::Lookup { name, .. }
        | Call::Create { name, .. }
        | Call::MakeDirectory { name, .. }
        | Call::MakeSymlink { name, .. }
        | Call::MakeNode { name, .. }
        | Call::Remove { name, .. }
        | Call::RemoveDirectory { name, .. }
        | Call::Rename { name, .. }
        | Call::Link { name, .. } => name.bytes(),
        _ => return Err("a call without a name".to_owned()),
    };
    let place = DirOpArgs3 { dir: first, name: Filename3(&name) };
    Ok(match call.operation.call {
        Call::Lookup { .. } => (Procedure::Lookup, encoded(&LookupArgs { what: place })),
        Call::Create { how: wish, .. } => {
            (Procedure::Create, encoded(&CreateArgs { place, how: how(&wish)? }))
        }
        Call::MakeDirectory { set, .. } => {
            (Procedure::Mkdir, encoded(&MkdirArgs { place, attributes: sattr3(&set)? }))
        }
        Call::MakeSymlink { length, set, .. } => {
            let to = target(call.operation.id, length);
            let symlink = SymlinkData3 { symlink_attributes: sattr3(&set)?, symlink_data: NfsPath3(&to) };
            (Procedure::Symlink, encoded(&SymlinkArgs { place, symlink }))
        }
        Call::MakeNode { kind, set, .. } => {
            let what = match kind {
                NodeKind::Block(numbers) => MknodData3::Blk(device(numbers, &set)?),
                NodeKind::Character(numbers) => MknodData3::Chr(device(numbers, &set)?),
                NodeKind::Socket => MknodData3::Sock(sattr3(&set)?),
                NodeKind::Fifo => MknodData3::Fifo(sattr3(&set)?),
            };
            (Procedure::Mknod, encoded(&MknodArgs { place, what }))
        }
        Call::Remove { .. } => (Procedure::Remove, encoded(&RemoveArgs { object: place })),
        Call::RemoveDirectory { .. } => (Procedure::Rmdir, encoded(&RmdirArgs { object: place })),
        Call::Rename { as_name, .. } => {
            let to = DirOpArgs3 { dir: second, name: Filename3(&as_name.bytes()) };
            (Procedure::Rename, encoded(&RenameArgs { from: place, to }))
        }
        _ => {
            let link = DirOpArgs3 { dir: second, name: Filename3(&name) };
            (Procedure::Link, encoded(&LinkArgs { file: first, link }))
        }
    })
}
