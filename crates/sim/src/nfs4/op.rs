//! The clients' operations, and how they are encoded.

use wire::nfs4::*;
use wire::xdr::decode_all;

use super::message;
use crate::compound::{channel, create_session, exchange_id, putfh, set_client_id};
use crate::rpc::encoded;

/// The number of regions of a file; each is written and read as a whole.
pub(super) const REGIONS: usize = 4;
/// The distance between two regions, bytes.
const REGION_STEP: u64 = 9000;
/// The length of a region, bytes.
pub(super) const REGION_BYTES: u32 = 32;

/// A locked range of bytes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockRange {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl LockRange {
    pub(super) fn overlaps(self, other: LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn length(self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.first + 1 }
    }
}

/// The createmode of an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CreateMode {
    Unchecked,
    Guarded,
    Exclusive,
}

/// A change of names that belong to one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameOp {
    Directory(String),
    Remove(String),
    Rename(String, String),
    Link(String, String),
}

/// An operation of a client.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Exchange,
    CreateSession,
    Complete,
    SetClient,
    ConfirmClient,
    Renew,
    Bind,
    Open {
        file: usize,
        name: String,
        access: u32,
        deny: u32,
        how: Option<CreateMode>,
        want: u32,
    },
    Confirm {
        stateid: Stateid4,
    },
    Close {
        file: usize,
        stateid: Stateid4,
    },
    /// `valid`: the client holds the stateid for this file.
    Read {
        file: usize,
        stateid: Stateid4,
        region: usize,
        valid: bool,
    },
    Write {
        file: usize,
        stateid: Stateid4,
        region: usize,
        value: u64,
        stable: StableHow4,
        valid: bool,
    },
    Commit {
        file: usize,
    },
    Truncate {
        file: usize,
        stateid: Stateid4,
    },
    Lock {
        file: usize,
        open: Stateid4,
        locks: Option<Stateid4>,
        range: LockRange,
        exclusive: bool,
    },
    Test {
        file: usize,
        range: LockRange,
        exclusive: bool,
    },
    Unlock {
        file: usize,
        stateid: Stateid4,
        range: LockRange,
    },
    Return {
        file: usize,
        stateid: Stateid4,
    },
    Name(NameOp),
}

impl Op {
    /// Returns the file that the operation concerns.
    pub(super) fn file(&self) -> Option<usize> {
        match self {
            Op::Open { file, .. }
            | Op::Close { file, .. }
            | Op::Read { file, .. }
            | Op::Write { file, .. }
            | Op::Commit { file }
            | Op::Truncate { file, .. }
            | Op::Lock { file, .. }
            | Op::Test { file, .. }
            | Op::Unlock { file, .. }
            | Op::Return { file, .. } => Some(*file),
            _ => None,
        }
    }

    /// Whether the reply need not be cached.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Op::Renew | Op::Read { .. } | Op::Test { .. })
    }

    /// Returns the stateid that the operation uses.
    pub(super) fn uses(&self) -> Option<Stateid4> {
        match self {
            Op::Confirm { stateid }
            | Op::Close { stateid, .. }
            | Op::Read { stateid, .. }
            | Op::Write { stateid, .. }
            | Op::Truncate { stateid, .. }
            | Op::Unlock { stateid, .. }
            | Op::Return { stateid, .. } => Some(*stateid),
            Op::Lock { open, locks, .. } => Some(locks.unwrap_or(*open)),
            _ => None,
        }
    }
}

/// Returns the offset of a region.
pub(super) fn region_offset(region: usize) -> u64 {
    region as u64 * REGION_STEP
}

/// Returns the bytes of a value in a region.
pub(super) fn region_bytes(value: u64) -> Vec<u8> {
    value.to_be_bytes().repeat(REGION_BYTES as usize / 8)
}

/// Returns the value of a region's bytes; bytes beyond the end of the file are zeros.
pub(super) fn region_value(bytes: &[u8]) -> Option<u64> {
    let mut whole = bytes.to_vec();
    whole.resize(REGION_BYTES as usize, 0);
    let (first, _) = whole.split_first_chunk::<8>()?;
    let value = u64::from_be_bytes(*first);
    (whole == region_bytes(value)).then_some(value)
}

/// The client and the slot that a request comes from.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) minor: u32,
    /// The client's name (co_ownerid), and the verifier of its current life.
    pub(super) name: String,
    pub(super) verifier: [u8; 8],
    pub(super) clientid: ClientId4,
    pub(super) sessionid: SessionId4,
    /// The verifier that SETCLIENTID returned, and the sequence for CREATE_SESSION.
    pub(super) confirm: Verifier4,
    pub(super) create_sequence: u32,
    pub(super) slots: u32,
    pub(super) slot: usize,
    pub(super) sequence: u32,
    pub(super) open_seqid: u32,
    pub(super) lock_seqid: u32,
    pub(super) cache: bool,
    pub(super) callback_address: String,
}

impl Requester {
    /// Returns the COMPOUND of an operation that is sent without SEQUENCE.
    fn without_session(&self, xid: u32, op: &Op) -> Option<Vec<u8>> {
        let name = self.name.as_bytes();
        let operation = match op {
            Op::Exchange => exchange_id(name, self.verifier),
            Op::CreateSession => {
                let flags = create_session_flag::PERSIST | create_session_flag::CONN_BACK_CHAN;
                let channels = (channel(1 << 16, self.slots), channel(1 << 16, 4));
                create_session(self.clientid, self.create_sequence, flags, channels)
            }
            Op::Bind => ArgOp4::BindConnToSession(BindConnToSessionArgs {
                sessid: self.sessionid,
                dir: ChannelDirFromClient4::ForeOrBoth,
                use_conn_in_rdma_mode: false,
            }),
            Op::SetClient => set_client_id(name, self.verifier, &self.callback_address),
            Op::ConfirmClient => ArgOp4::SetClientIdConfirm(SetClientIdConfirmArgs {
                clientid: self.clientid,
                setclientid_confirm: self.confirm,
            }),
            Op::Renew if self.minor == 0 => ArgOp4::Renew(RenewArgs { clientid: self.clientid }),
            _ => return None,
        };
        Some(message::compound(xid, self.minor, &[operation]))
    }

    /// Returns the record of a call. `handle` is the file's, `root` that of the directory of all names.
    pub(super) fn record(&self, xid: u32, op: &Op, handle: &[u8], root: &[u8]) -> Vec<u8> {
        if let Some(record) = self.without_session(xid, op) {
            return record;
        }
        let owners = (format!("o{}.{}", self.name, self.slot), format!("l{}.{}", self.name, self.slot));
        let mode = encoded(&Attributes4 { mode: Some(0o640), ..Attributes4::default() });
        let empty = encoded(&Attributes4 { size: Some(0), ..Attributes4::default() });
        let bytes = if let Op::Write { value, .. } = op { region_bytes(*value) } else { Vec::new() };
        let attributes = decode_all(if matches!(op, Op::Truncate { .. }) { &empty } else { &mode });
        let arguments = Arguments {
            xid,
            handle,
            root,
            owner: owner(self, &owners.0),
            locker: owner(self, &owners.1),
            attributes: attributes.expect("encoded just now"),
            bytes: &bytes,
        };
        let mut operations = Vec::new();
        if self.minor > 0 {
            operations.push(ArgOp4::Sequence(SequenceArgs {
                sessionid: self.sessionid,
                sequenceid: self.sequence,
                slotid: u32::try_from(self.slot).expect("a few slots"),
                highest_slotid: self.slots - 1,
                cachethis: self.cache,
            }));
        }
        self.push(op, &arguments, &mut operations);
        message::compound(xid, self.minor, &operations)
    }

    fn push<'a>(&self, op: &'a Op, arguments: &Arguments<'a>, out: &mut Vec<ArgOp4<'a>>) {
        match op {
            Op::Complete => out.push(ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })),
            Op::Open { name, .. } => {
                out.extend([putfh(arguments.root), self.open(op, name, arguments), ArgOp4::Getfh]);
            }
            Op::Name(name_op) => push_name_op(name_op, arguments, out),
            _ => {
                if op.file().is_some() || matches!(op, Op::Confirm { .. }) {
                    out.push(putfh(arguments.handle));
                }
                out.extend(self.on_file(op, arguments));
            }
        }
    }

    fn open<'a>(&self, op: &Op, name: &'a str, arguments: &Arguments<'a>) -> ArgOp4<'a> {
        let Op::Open { access, deny, how, want, .. } = op else { unreachable!("asked for an OPEN only") };
        let verf = u64::from(arguments.xid).to_be_bytes();
        let openhow = how.map(|how| match how {
            CreateMode::Unchecked => CreateHow4::Unchecked(arguments.attributes),
            CreateMode::Guarded => CreateHow4::Guarded(arguments.attributes),
            CreateMode::Exclusive if self.minor == 0 => CreateHow4::Exclusive(verf),
            CreateMode::Exclusive => {
                CreateHow4::Exclusive41(CreateVerfAttr { verf, attrs: arguments.attributes })
            }
        });
        ArgOp4::Open(OpenArgs {
            seqid: self.open_seqid,
            share_access: access | if self.minor > 0 { *want } else { 0 },
            share_deny: *deny,
            owner: arguments.owner,
            openhow,
            claim: OpenClaim4::Null(Component4(name.as_bytes())),
        })
    }

    fn on_file<'a>(&self, op: &Op, arguments: &Arguments<'a>) -> Option<ArgOp4<'a>> {
        let (seqid, lock_seqid) = (self.open_seqid, self.lock_seqid);
        let kind = |exclusive| if exclusive { NfsLockType4::Write } else { NfsLockType4::Read };
        Some(match *op {
            Op::Confirm { stateid } => ArgOp4::OpenConfirm(OpenConfirmArgs { open_stateid: stateid, seqid }),
            Op::Close { stateid, .. } => ArgOp4::Close(CloseArgs { seqid, open_stateid: stateid }),
            Op::Read { stateid, region, .. } => {
                ArgOp4::Read(ReadArgs { stateid, offset: region_offset(region), count: REGION_BYTES })
            }
            Op::Write { stateid, region, stable, .. } => ArgOp4::Write(WriteArgs {
                stateid,
                offset: region_offset(region),
                stable,
                data: arguments.bytes.into(),
            }),
            Op::Commit { .. } => ArgOp4::Commit(CommitArgs { offset: 0, count: 0 }),
            Op::Truncate { stateid, .. } => {
                ArgOp4::Setattr(SetattrArgs { stateid, obj_attributes: arguments.attributes })
            }
            Op::Lock { open, locks, range, exclusive, .. } => ArgOp4::Lock(LockArgs {
                locktype: kind(exclusive),
                reclaim: false,
                offset: range.first,
                length: range.length(),
                locker: match locks {
                    Some(lock_stateid) => Locker4::LockOwner(ExistLockOwner4 { lock_stateid, lock_seqid }),
                    None => Locker4::OpenOwner(OpenToLockOwner4 {
                        open_seqid: seqid,
                        open_stateid: open,
                        lock_seqid,
                        lock_owner: arguments.locker,
                    }),
                },
            }),
            Op::Test { range, exclusive, .. } => ArgOp4::Lockt(LocktArgs {
                locktype: kind(exclusive),
                offset: range.first,
                length: range.length(),
                owner: arguments.locker,
            }),
            Op::Unlock { stateid, range, .. } => ArgOp4::Locku(LockuArgs {
                locktype: NfsLockType4::Write,
                seqid: lock_seqid,
                lock_stateid: stateid,
                offset: range.first,
                length: range.length(),
            }),
            Op::Return { stateid, .. } => ArgOp4::Delegreturn(DelegreturnArgs { deleg_stateid: stateid }),
            _ => return None,
        })
    }
}

/// The arguments that operations are built from.
struct Arguments<'a> {
    xid: u32,
    handle: &'a [u8],
    root: &'a [u8],
    owner: StateOwner4<'a>,
    locker: StateOwner4<'a>,
    attributes: Fattr4<'a>,
    bytes: &'a [u8],
}

fn owner<'a>(requester: &Requester, name: &'a str) -> StateOwner4<'a> {
    StateOwner4 { clientid: requester.clientid, owner: OwnerId4(name.as_bytes()) }
}

fn push_name_op<'a>(name_op: &'a NameOp, arguments: &Arguments<'a>, out: &mut Vec<ArgOp4<'a>>) {
    let name = |name: &'a String| Component4(name.as_bytes());
    out.push(putfh(arguments.root));
    match name_op {
        NameOp::Directory(objname) => out.push(ArgOp4::Create(CreateArgs {
            objtype: CreateType4::Dir,
            objname: name(objname),
            createattrs: arguments.attributes,
        })),
        NameOp::Remove(target) => out.push(ArgOp4::Remove(RemoveArgs { target: name(target) })),
        NameOp::Rename(from, to) => {
            let (oldname, newname) = (name(from), name(to));
            out.extend([ArgOp4::Savefh, ArgOp4::Rename(RenameArgs { oldname, newname })]);
        }
        NameOp::Link(from, to) => out.extend([
            ArgOp4::Lookup(LookupArgs { objname: name(from) }),
            ArgOp4::Savefh,
            putfh(arguments.root),
            ArgOp4::Link(LinkArgs { newname: name(to) }),
        ]),
    }
}
