//! What a call needs before it is executed: room for its reply, and the limit of a pool it may have to wait for. The
//! caller of the service reserves the former, and keeps the order of calls by the latter.

use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::limits::{INLINE_WRITE_BYTES_MAX, TRANSFER_BYTES_MAX};
use wire::limits::{OPAQUE4_BYTES_MAX, OVERHEAD_BYTES_MAX, RECORD_BYTES_MAX};
use wire::mount3;
use wire::nfs3::{
    self, FileHandle3, Procedure, ReadArgs, ReaddirArgs, ReaddirplusArgs, StableHow, WriteArgs,
};
use wire::nfs4::compound::CompoundReader;
use wire::nfs4::{self, ArgOp4, GetattrArgs, OpNum4, PutfhArgs, SequenceArgs, StableHow4};
use wire::xdr::{Decode, Decoder};

use crate::incoming::IncomingRecord;
use crate::limits::{DIRECTORY_BYTES_MAX, SMALL_REPLY_BYTES_MAX, SMALL_RESULT_BYTES};

/// A limit that a call waits for, and a volume whose limit it is.
pub type Awaited = (VolumeId, AwaitedLimit);

/// The limit of a pool that a change may have to wait for. Changes of one origin that wait for the same are served in the
/// order in which they came, and origins take turns; changes that wait for different ones are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedLimit {
    /// Room for unstable data.
    Data,
    /// Room in the journal and in the memtables.
    Journal,
}

impl AwaitedLimit {
    /// The number of limits.
    pub const COUNT: usize = 2;

    /// Returns a number below [`AwaitedLimit::COUNT`].
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            AwaitedLimit::Data => 0,
            AwaitedLimit::Journal => 1,
        }
    }

    /// Returns the limit for a WRITE of `length` bytes: data goes to the journal if it is stable and small.
    pub(crate) fn of_write(unstable: bool, length: usize) -> AwaitedLimit {
        if unstable || length > INLINE_WRITE_BYTES_MAX { AwaitedLimit::Data } else { AwaitedLimit::Journal }
    }

    /// Returns the limit for an operation of a COMPOUND; none for one that changes no object.
    fn of_operation(operation: &ArgOp4<'_>) -> Option<AwaitedLimit> {
        match operation {
            ArgOp4::Write(args) => {
                Some(AwaitedLimit::of_write(args.stable == StableHow4::Unstable, args.data.len()))
            }
            other => changes_object(other.num()).then_some(AwaitedLimit::Journal),
        }
    }
}

/// Returns whether an operation changes an object, so that it keeps an order if it meets a limit. COMMIT, and operations that
/// change only state of clients, may find the journal full too, but keep no order among calls.
pub(crate) fn changes_object(operation: OpNum4) -> bool {
    matches!(
        operation,
        OpNum4::Write
            | OpNum4::Setattr
            | OpNum4::Allocate
            | OpNum4::Deallocate
            | OpNum4::Clone
            | OpNum4::Copy
            | OpNum4::Setxattr
            | OpNum4::Removexattr
            | OpNum4::Create
            | OpNum4::Open
            | OpNum4::Remove
            | OpNum4::Rename
            | OpNum4::Link
    )
}

/// Bytes reserved for the value of an extended attribute: GETXATTR has no limit of its own.
const XATTR_BYTES: u32 = 64 << 10;

const _: () = assert!(XATTR_BYTES as usize >= volume::limits::XATTR_VALUE_BYTES_MAX);

/// Bytes reserved for the target of a symbolic link.
const SYMLINK_BYTES: u32 = 4 << 10;

const _: () = assert!(SYMLINK_BYTES as usize >= volume::limits::SYMLINK_BYTES_MAX);

/// Bytes reserved for the name of an owner.
const OWNER_BYTES: u32 = 1 << 10;

const _: () = assert!(OWNER_BYTES as usize >= wire::limits::OPAQUE4_BYTES_MAX);

/// Bytes of a status.
const STATUS_BYTES: usize = 4;

/// Bytes of the reply to a COMPOUND besides the results: the headers, and the tag of the call.
const COMPOUND_BYTES: usize = SMALL_RESULT_BYTES + OPAQUE4_BYTES_MAX;

/// What a call needs before it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs<'r> {
    /// The most bytes that the reply is expected to have, its record mark included, if that depends on the call: its data or
    /// names, or the results of several operations. Zero for a call whose reply is short in any case.
    pub reply_bytes_max: usize,
    /// For a call that changes an object: a handle of the volume, and the limit the call may have to wait for.
    pub change: Option<(&'r [u8], AwaitedLimit)>,
}

impl<'r> Needs<'r> {
    /// What most calls need: nothing.
    const SHORT: Needs<'static> = Needs { reply_bytes_max: 0, change: None };

    /// Determines what a record needs. Only the arguments of calls that change something or whose replies may be
    /// long are decoded; what cannot be decoded needs no more than an error.
    #[must_use]
    pub fn of(record: &IncomingRecord<'r>) -> Needs<'r> {
        let Ok((header, arguments)) = record.call() else { return Needs::SHORT };
        let needs = match (header.program, header.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => Needs::of_nfs3(header.procedure, arguments),
            (nfs4::PROGRAM, nfs4::VERSION) => Needs::of_compound(arguments),
            (mount3::PROGRAM, _) if header.procedure == mount3::Procedure::Dump as u32 => {
                Some(Needs { reply_bytes_max: RECORD_BYTES_MAX, change: None })
            }
            _ => None,
        };
        needs.unwrap_or(Needs::SHORT)
    }

    /// Returns the volume whose objects the call changes, and the limit the call may have to wait for; none for other calls.
    /// What a COMPOUND waits for is known when it has met a limit: see `Outcome::Busy` of the service.
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        let (handle, limit) = self.change?;
        Some((Handle::parse(handle)?.volume, limit))
    }

    /// A reply with up to `bytes` of data or names.
    fn reply(bytes: u32) -> Option<Needs<'r>> {
        let bytes = usize::try_from(bytes).ok()?;
        Some(Needs { reply_bytes_max: bytes + SMALL_RESULT_BYTES, change: None })
    }

    fn of_nfs3(procedure: u32, arguments: &Decoder<'r>) -> Option<Needs<'r>> {
        let mut input = arguments.clone();
        let limit = match Procedure::from_code(procedure)? {
            Procedure::Read => {
                return Needs::reply(ReadArgs::decode(&mut input).ok()?.count.min(TRANSFER_BYTES_MAX));
            }
            Procedure::Readdir => {
                return Needs::reply(ReaddirArgs::decode(&mut input).ok()?.count.min(DIRECTORY_BYTES_MAX));
            }
            Procedure::Readdirplus => {
                return Needs::reply(
                    ReaddirplusArgs::decode(&mut input).ok()?.maxcount.min(DIRECTORY_BYTES_MAX),
                );
            }
            Procedure::Readlink => return Needs::reply(SYMLINK_BYTES),
            Procedure::Write => {
                let write = WriteArgs::decode(&mut input.clone()).ok()?;
                AwaitedLimit::of_write(write.stable == StableHow::Unstable, write.data.len())
            }
            Procedure::Setattr
            | Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Rename
            | Procedure::Link => AwaitedLimit::Journal,
            _ => return None,
        };
        // The arguments of each of them begin with the handle of a file or directory of the volume.
        let handle = FileHandle3::decode(&mut input).ok()?;
        Some(Needs { change: Some((handle.as_bytes(), limit)), ..Needs::SHORT })
    }

    /// Walks the operations once. The first one that changes an object says what the COMPOUND probably waits for at first.
    fn of_compound(arguments: &Decoder<'r>) -> Option<Needs<'r>> {
        let mut reader = CompoundReader::new(arguments.clone()).ok()?;
        let (mut bytes, mut current, mut change) = (COMPOUND_BYTES, None, None);
        while let Some(Ok(number)) = reader.next_number() {
            // The most frequent operations need little. To decode them as what they are is several times faster.
            let operation = match number {
                OpNum4::Sequence => reader.arguments::<SequenceArgs>().map(|_| None),
                OpNum4::Getattr => reader.arguments::<GetattrArgs>().map(|_| None),
                OpNum4::Putfh => reader.arguments::<PutfhArgs<'_>>().map(|args| {
                    current = Some(args.object.as_bytes());
                    None
                }),
                number => reader.arguments_of(number).map(Some),
            };
            let Ok(operation) = operation else { break };
            if change.is_none()
                && let Some(limit) = operation.as_ref().and_then(AwaitedLimit::of_operation)
            {
                change = Some((current, limit));
            }
            let wanted = match operation {
                Some(ArgOp4::Read(args)) => args.count.min(TRANSFER_BYTES_MAX),
                Some(ArgOp4::ReadPlus(args)) => args.count.min(TRANSFER_BYTES_MAX),
                Some(ArgOp4::Readdir(args)) => args.maxcount.min(DIRECTORY_BYTES_MAX),
                Some(ArgOp4::Listxattrs(args)) => args.maxcount.min(DIRECTORY_BYTES_MAX),
                Some(ArgOp4::Getxattr(_)) => XATTR_BYTES,
                Some(ArgOp4::Readlink) => SYMLINK_BYTES,
                // The owner of the lock in the way.
                Some(ArgOp4::Lock(_) | ArgOp4::Lockt(_)) => OWNER_BYTES,
                Some(ArgOp4::TestStateid(args)) => {
                    u32::try_from(STATUS_BYTES * args.stateids.len()).unwrap_or(u32::MAX)
                }
                _ => 0,
            };
            bytes += SMALL_RESULT_BYTES + usize::try_from(wanted).unwrap_or(RECORD_BYTES_MAX);
        }
        let change = change.and_then(|(handle, limit)| Some((handle?, limit)));
        Some(Needs { reply_bytes_max: bytes.min(RECORD_BYTES_MAX), change })
    }
}

// The largest READ and READDIR, with all that surrounds the data, is a record.
const _: () = assert!(SMALL_REPLY_BYTES_MAX <= OVERHEAD_BYTES_MAX);

#[cfg(test)]
mod tests {
    use volume::handle::HANDLE_BYTES;
    use volume::ids::{Ino, SnapshotId};
    use wire::array::Array;
    use wire::nfs4::compound::CompoundArgsEncoder;
    use wire::nfs4::{
        ClientId4, LocktArgs, NfsLockType4, OwnerId4, StateOwner4, Stateid4, TestStateidArgs, Utf8Str4,
    };
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

    fn reply_bytes_max(record: &[u8]) -> usize {
        Needs::of(&IncomingRecord::decode(record)).reply_bytes_max
    }

    fn awaited(record: &[u8]) -> Option<(VolumeId, AwaitedLimit)> {
        Needs::of(&IncomingRecord::decode(record)).awaited()
    }

    fn handle() -> [u8; HANDLE_BYTES] {
        Handle::new(VolumeId(7), Ino(1), SnapshotId::LIVE, &[0; 16]).to_bytes()
    }

    #[test]
    fn reply_bounds_follow_the_counts_of_arguments() {
        let bytes = handle();
        let file = FileHandle3::new(&bytes).unwrap();
        let read = |count| {
            let args = ReadArgs { file, offset: 0, count };
            reply_bytes_max(&call(nfs3::PROGRAM, Procedure::Read as u32, |out| args.encode(out)))
        };
        assert_eq!(read(4096), 4096 + SMALL_RESULT_BYTES);
        assert_eq!(read(u32::MAX), (1 << 20) + SMALL_RESULT_BYTES);
        let list = ReaddirplusArgs {
            dir: file,
            cookie: 0,
            cookieverf: Default::default(),
            dircount: 1,
            maxcount: 9,
        };
        let list = call(nfs3::PROGRAM, Procedure::Readdirplus as u32, |out| list.encode(out));
        assert_eq!(reply_bytes_max(&list), 9 + SMALL_RESULT_BYTES);
        let attributes = call(nfs3::PROGRAM, Procedure::Getattr as u32, |out| file.encode(out));
        assert_eq!(reply_bytes_max(&attributes), 0);
        let dump = call(mount3::PROGRAM, mount3::Procedure::Dump as u32, |_| {});
        assert_eq!(reply_bytes_max(&dump), RECORD_BYTES_MAX);
        assert_eq!(reply_bytes_max(&[0; 3]), 0, "a record that is no call gets a short reply");
    }

    /// Returns the record of a COMPOUND.
    fn compound(operations: &[ArgOp4<'_>]) -> Vec<u8> {
        let mut record = call(nfs4::PROGRAM, 1, |out| {
            let mut compound = CompoundArgsEncoder::begin(out, Utf8Str4(b""), 2);
            operations.iter().for_each(|operation| compound.push(operation));
            compound.finish();
        });
        record[16..20].copy_from_slice(&nfs4::VERSION.to_be_bytes());
        record
    }

    #[test]
    fn a_compound_needs_no_more_than_its_operations_return() {
        let attributes = ArgOp4::Getattr(GetattrArgs { attr_request: nfs4::AttrMask::EMPTY });
        let read = |count| ArgOp4::Read(nfs4::ReadArgs { stateid: Stateid4::ANONYMOUS, offset: 0, count });
        let needed = |operations: &[ArgOp4<'_>]| reply_bytes_max(&compound(operations));
        assert!(needed(&[attributes, attributes]) <= SMALL_REPLY_BYTES_MAX / 2);
        assert!(needed(&[attributes, read(4096)]) <= SMALL_REPLY_BYTES_MAX);
        let many = [attributes; 100];
        assert!(needed(&many) >= 100 * SMALL_RESULT_BYTES);
        assert!((1 << 20..(1 << 20) + SMALL_REPLY_BYTES_MAX).contains(&needed(&[read(1 << 20)])));
    }

    #[test]
    fn results_that_are_longer_than_most_count_in_full() {
        let lock = LocktArgs {
            locktype: NfsLockType4::Write,
            offset: 0,
            length: 1,
            owner: StateOwner4 { clientid: ClientId4(1), owner: OwnerId4(b"owner") },
        };
        let stateids = [Stateid4::ANONYMOUS; 300];
        let test = TestStateidArgs { stateids: Array::new(&stateids).unwrap() };
        let cases =
            [(ArgOp4::Readlink, 4095), (ArgOp4::Lockt(lock), 1024), (ArgOp4::TestStateid(test), 4 * 300)];
        for (operation, result) in cases {
            let record = compound(&[operation; 100]);
            assert!(reply_bytes_max(&record) >= 100 * result, "{operation:?}");
        }
    }

    #[test]
    fn changes_wait_for_the_limit_that_applies_to_them() {
        let bytes = handle();
        let file = FileHandle3::new(&bytes).unwrap();
        let write = |stable, length| {
            let data = vec![0; length];
            let args = WriteArgs { file, offset: 0, count: 0, stable, data: (&data).into() };
            awaited(&call(nfs3::PROGRAM, Procedure::Write as u32, |out| args.encode(out)))
        };
        let volume = VolumeId(7);
        assert_eq!(write(StableHow::Unstable, 10), Some((volume, AwaitedLimit::Data)));
        assert_eq!(write(StableHow::FileSync, INLINE_WRITE_BYTES_MAX), Some((volume, AwaitedLimit::Journal)));
        assert_eq!(
            write(StableHow::FileSync, INLINE_WRITE_BYTES_MAX + 1),
            Some((volume, AwaitedLimit::Data))
        );
        let remove = call(nfs3::PROGRAM, Procedure::Remove as u32, |out| file.encode(out));
        assert_eq!(awaited(&remove), Some((volume, AwaitedLimit::Journal)));
        let attributes = call(nfs3::PROGRAM, Procedure::Getattr as u32, |out| file.encode(out));
        assert_eq!(awaited(&attributes), None);
    }
}
