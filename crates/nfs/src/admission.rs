//! What a call may need, told from its bytes before it is executed: room for its reply, and which limit of a volume it
//! would have to wait for. Whoever drives the service reserves the one and keeps order by the other.

use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::limits::{INLINE_WRITE_BYTES_MAX, TRANSFER_BYTES_MAX};
use wire::limits::{OVERHEAD_BYTES_MAX, RECORD_BYTES_MAX};
use wire::mount3;
use wire::nfs3::{
    self, FileHandle3, Procedure, ReadArgs, ReaddirArgs, ReaddirplusArgs, StableHow, WriteArgs,
};
use wire::nfs4::compound::CompoundReader;
use wire::nfs4::{self, ArgOp4, StableHow4};
use wire::rpc::decode_call;
use wire::xdr::{Decode, Decoder};

use crate::limits::{DIRECTORY_BYTES, SMALL_REPLY_BYTES, SMALL_RESULT_BYTES};

/// What of a volume a change may have to wait for. Those that wait for the same are served in the order in which they
/// came; those that wait for something else need not wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Room for unstable data.
    Data,
    /// Room in the journal and in the memtables.
    Journal,
    /// Besides that, a checkpoint that clears truncations of the file.
    Truncation,
}

impl Resource {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// A number below [`Resource::COUNT`].
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Resource::Data => 0,
            Resource::Journal => 1,
            Resource::Truncation => 2,
        }
    }
}

/// The most bytes that the reply to this record may have, its record mark included. Cheap: only the arguments of calls
/// whose replies may be large are looked at.
#[must_use]
pub fn reply_bytes_max(record: &[u8]) -> usize {
    let mut input = Decoder::new(record.get(12..).unwrap_or_default());
    let (Ok(program), Ok(version), Ok(procedure)) = (input.u32(), input.u32(), input.u32()) else {
        return SMALL_REPLY_BYTES;
    };
    match (program, version) {
        (nfs3::PROGRAM, nfs3::VERSION) => match Procedure::from_code(procedure) {
            Some(listing @ (Procedure::Read | Procedure::Readdir | Procedure::Readdirplus)) => {
                wanted_bytes(record, listing).map_or(SMALL_REPLY_BYTES, |bytes| bytes + SMALL_REPLY_BYTES)
            }
            _ => SMALL_REPLY_BYTES,
        },
        (mount3::PROGRAM, _) if procedure == mount3::Procedure::Dump as u32 => RECORD_BYTES_MAX,
        (nfs4::PROGRAM, nfs4::VERSION) => compound_bytes(record),
        _ => SMALL_REPLY_BYTES,
    }
}

/// The value of an extended attribute, as its client does not say how much it wants.
const XATTR_BYTES: u32 = 64 << 10;

const _: () = assert!(XATTR_BYTES as usize >= volume::limits::XATTR_VALUE_BYTES_MAX);

/// The most bytes of the reply to a COMPOUND.
fn compound_bytes(record: &[u8]) -> usize {
    let Ok((_, arguments)) = decode_call(record) else { return SMALL_REPLY_BYTES };
    let Ok(operations) = CompoundReader::new(arguments) else { return SMALL_REPLY_BYTES };
    let mut bytes = SMALL_REPLY_BYTES;
    for operation in operations.map_while(Result::ok) {
        let wanted = match operation {
            ArgOp4::Read(args) => args.count.min(TRANSFER_BYTES_MAX),
            ArgOp4::ReadPlus(args) => args.count.min(TRANSFER_BYTES_MAX),
            ArgOp4::Readdir(args) => args.maxcount.min(DIRECTORY_BYTES),
            ArgOp4::Listxattrs(args) => args.maxcount.min(DIRECTORY_BYTES),
            ArgOp4::Getxattr(_) => XATTR_BYTES,
            _ => 0,
        };
        bytes += SMALL_RESULT_BYTES + usize::try_from(wanted).unwrap_or(RECORD_BYTES_MAX);
    }
    bytes.min(RECORD_BYTES_MAX)
}

/// How much of a file or directory a call asks for, within our own limits.
fn wanted_bytes(record: &[u8], procedure: Procedure) -> Option<usize> {
    let (_, mut arguments) = decode_call(record).ok()?;
    let bytes = match procedure {
        Procedure::Read => ReadArgs::decode(&mut arguments).ok()?.count.min(TRANSFER_BYTES_MAX),
        Procedure::Readdir => ReaddirArgs::decode(&mut arguments).ok()?.count.min(DIRECTORY_BYTES),
        _ => ReaddirplusArgs::decode(&mut arguments).ok()?.maxcount.min(DIRECTORY_BYTES),
    };
    usize::try_from(bytes).ok()
}

/// The volume that a call changes and what of it the call may have to wait for; none for one that changes nothing.
#[must_use]
pub fn awaited(record: &[u8]) -> Option<(VolumeId, Resource)> {
    let (header, mut arguments) = decode_call(record).ok()?;
    match (header.program, header.version) {
        (nfs3::PROGRAM, nfs3::VERSION) => {}
        (nfs4::PROGRAM, nfs4::VERSION) => return awaited_by_compound(arguments),
        _ => return None,
    }
    let resource = match Procedure::from_code(header.procedure)? {
        Procedure::Write => {
            let write = WriteArgs::decode(&mut Decoder::new(arguments.rest())).ok()?;
            let in_journal =
                write.stable != StableHow::Unstable && write.data.len() <= INLINE_WRITE_BYTES_MAX;
            if in_journal { Resource::Journal } else { Resource::Data }
        }
        Procedure::Setattr => Resource::Truncation,
        Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename
        | Procedure::Link => Resource::Journal,
        _ => return None,
    };
    // The arguments of each of them begin with the handle of a file or directory of the volume.
    let handle = FileHandle3::decode(&mut arguments).ok()?;
    Some((Handle::parse(handle.as_bytes())?.volume, resource))
}

/// What the first operation of a COMPOUND that changes something may have to wait for.
fn awaited_by_compound(arguments: Decoder<'_>) -> Option<(VolumeId, Resource)> {
    let mut current = None;
    for operation in CompoundReader::new(arguments).ok()?.map_while(Result::ok) {
        let resource = match operation {
            ArgOp4::Putfh(args) => {
                current = Handle::parse(args.object.as_bytes()).map(|handle| handle.volume);
                continue;
            }
            ArgOp4::Write(args) if args.stable == StableHow4::Unstable => Resource::Data,
            ArgOp4::Write(args) if args.data.len() > INLINE_WRITE_BYTES_MAX => Resource::Data,
            ArgOp4::Setattr(_) => Resource::Truncation,
            ArgOp4::Write(_)
            | ArgOp4::Allocate(_)
            | ArgOp4::Deallocate(_)
            | ArgOp4::Clone(_)
            | ArgOp4::Copy(_)
            | ArgOp4::Setxattr(_)
            | ArgOp4::Removexattr(_)
            | ArgOp4::Create(_)
            | ArgOp4::Open(_)
            | ArgOp4::Remove(_)
            | ArgOp4::Rename(_)
            | ArgOp4::Link(_) => Resource::Journal,
            _ => continue,
        };
        return Some((current?, resource));
    }
    None
}

// The largest READ and READDIR, with all that surrounds the data, is a record.
const _: () = assert!(SMALL_REPLY_BYTES <= OVERHEAD_BYTES_MAX);

#[cfg(test)]
mod tests {
    use volume::handle::HANDLE_BYTES;
    use volume::ids::{Ino, SnapshotId};
    use wire::rpc::{CallHeader, Credential, OpaqueAuth};
    use wire::xdr::{Encode, Encoder};

    use super::*;

    fn call(program: u32, procedure: u32, arguments: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut record = Vec::new();
        let mut out = Encoder::new(&mut record);
        let header = CallHeader {
            xid: 1,
            program,
            version: 3,
            procedure,
            credential: Credential::None,
            verifier: OpaqueAuth::NONE,
        };
        header.encode(&mut out);
        arguments(&mut out);
        record
    }

    fn handle() -> [u8; HANDLE_BYTES] {
        Handle::new(VolumeId(7), Ino(1), SnapshotId::LIVE, &[0; 16]).to_bytes()
    }

    #[test]
    fn replies_are_as_large_as_what_is_asked_for() {
        let bytes = handle();
        let file = FileHandle3::new(&bytes).unwrap();
        let read = |count| {
            let args = ReadArgs { file, offset: 0, count };
            reply_bytes_max(&call(nfs3::PROGRAM, Procedure::Read as u32, |out| args.encode(out)))
        };
        assert_eq!(read(4096), 4096 + SMALL_REPLY_BYTES);
        assert_eq!(read(u32::MAX), (1 << 20) + SMALL_REPLY_BYTES);
        let list = ReaddirplusArgs {
            dir: file,
            cookie: 0,
            cookieverf: Default::default(),
            dircount: 1,
            maxcount: 9,
        };
        let list = call(nfs3::PROGRAM, Procedure::Readdirplus as u32, |out| list.encode(out));
        assert_eq!(reply_bytes_max(&list), 9 + SMALL_REPLY_BYTES);
        let attributes = call(nfs3::PROGRAM, Procedure::Getattr as u32, |out| file.encode(out));
        assert_eq!(reply_bytes_max(&attributes), SMALL_REPLY_BYTES);
        let dump = call(mount3::PROGRAM, mount3::Procedure::Dump as u32, |_| {});
        assert_eq!(reply_bytes_max(&dump), RECORD_BYTES_MAX);
        assert_eq!(reply_bytes_max(&[0; 3]), SMALL_REPLY_BYTES, "what is no call gets no large reply");
    }

    #[test]
    fn changes_wait_for_what_they_take() {
        let bytes = handle();
        let file = FileHandle3::new(&bytes).unwrap();
        let write = |stable, length| {
            let data = vec![0; length];
            let args = WriteArgs { file, offset: 0, count: 0, stable, data: &data };
            awaited(&call(nfs3::PROGRAM, Procedure::Write as u32, |out| args.encode(out)))
        };
        let volume = VolumeId(7);
        assert_eq!(write(StableHow::Unstable, 10), Some((volume, Resource::Data)));
        assert_eq!(write(StableHow::FileSync, INLINE_WRITE_BYTES_MAX), Some((volume, Resource::Journal)));
        assert_eq!(write(StableHow::FileSync, INLINE_WRITE_BYTES_MAX + 1), Some((volume, Resource::Data)));
        let remove = call(nfs3::PROGRAM, Procedure::Remove as u32, |out| file.encode(out));
        assert_eq!(awaited(&remove), Some((volume, Resource::Journal)));
        let attributes = call(nfs3::PROGRAM, Procedure::Getattr as u32, |out| file.encode(out));
        assert_eq!(awaited(&attributes), None);
    }
}
