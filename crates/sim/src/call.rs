//! Calls of virtual clients and their results, apart from any encoding.
//!
//! An object is named by the operation that created it, so that a list of operations stays meaningful when shrinking
//! removes some of them.

use volume::attributes::{Attributes, Before, Device, FileType, SetAttributes};
use volume::quota::{Limits, Owner};
use volume::request::{Credentials, Error};
pub use volume::results::{CreateHow, NodeKind};
use volume::results::{SetXattr, Sought, SoughtContent, Stability};

/// The number of an operation in its run; the first is 1.
pub type OperationId = u32;

/// The object that this operation created; 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obj(pub OperationId);

/// A name from a small pool, so that operations conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub u8);

impl Name {
    /// The number of ordinary names. Those with larger numbers are unusual or invalid.
    pub const ORDINARY: u8 = 10;
    /// The number of names.
    pub const ALL: u8 = 18;

    /// Returns the bytes of the name.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        match self.0 {
            10 => b".".to_vec(),
            11 => b"..".to_vec(),
            12 => Vec::new(),
            13 => b"a/b".to_vec(),
            14 => b"a\0b".to_vec(),
            15 => vec![b'n'; 255],
            16 => vec![b'n'; 256],
            17 => vec![0xFF, 0xFE, b' '],
            plain => vec![b'a' + plain],
        }
    }
}

/// A user of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(pub u8);

impl User {
    /// The superuser.
    pub const ROOT: User = User(0);
    /// The number of users.
    pub const ALL: u8 = 4;

    /// Returns the user's credentials.
    #[must_use]
    pub fn credentials(self) -> Credentials {
        let (uid, gid, groups) = match self.0 {
            0 => (0, 0, vec![]),
            1 => (1000, 100, vec![200]),
            2 => (1001, 100, vec![]),
            _ => (1002, 200, vec![300]),
        };
        Credentials { uid, gid, groups }
    }
}

/// The guard of a SETATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No guard.
    No,
    /// The object's ctime.
    Right,
    /// Another ctime.
    Wrong,
}

/// Where a READDIR starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingStart {
    /// At the first entry.
    Start,
    /// Where the last READDIR of this directory ended, whichever client made it.
    Last,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the arguments of RFC 1813")]
pub enum Call {
    GetAttributes { object: Obj },
    SetAttributes { object: Obj, set: SetAttributes, guard: Guard },
    Lookup { directory: Obj, name: Name },
    Access { object: Obj, mask: u32 },
    ReadLink { object: Obj },
    Read { object: Obj, offset: u64, count: u32 },
    Write { object: Obj, offset: u64, length: u32, stability: Stability },
    Commit { object: Obj, offset: u64, count: u32 },
    Create { directory: Obj, name: Name, how: CreateHow },
    MakeDirectory { directory: Obj, name: Name, set: SetAttributes },
    MakeSymlink { directory: Obj, name: Name, length: u16, set: SetAttributes },
    MakeNode { directory: Obj, name: Name, kind: NodeKind, set: SetAttributes },
    Remove { directory: Obj, name: Name },
    RemoveDirectory { directory: Obj, name: Name },
    Rename { from: Obj, name: Name, to: Obj, as_name: Name },
    Link { object: Obj, directory: Obj, name: Name },
    ReadDirectory { directory: Obj, from: ListingStart, entries_max: u8, plus: bool },
    Status,
    Limits { object: Obj },
    Configuration { object: Obj },
    Nothing,
    EngineOnly(EngineOnlyOp),
}

/// A call that NFSv3 lacks: every client makes it by calling the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the arguments of the engine's operations")]
pub enum EngineOnlyOp {
    /// Puts or deletes a record of protocol state.
    ChangeState {
        key: u8,
        length: Option<u16>,
    },
    /// Keeps a file after its last name is removed, and stops keeping it.
    Hold {
        object: Obj,
    },
    Release {
        object: Obj,
    },
    /// Removes one file that has neither a name nor a holder.
    ReapOrphan,
    LookupParent {
        directory: Obj,
    },
    CreateExclusive {
        directory: Obj,
        name: Name,
        verifier: [u8; 8],
        set: SetAttributes,
    },
    Seek {
        object: Obj,
        offset: u64,
        content: SoughtContent,
    },
    Allocate {
        object: Obj,
        offset: u64,
        length: u64,
    },
    Deallocate {
        object: Obj,
        offset: u64,
        length: u64,
    },
    GetXattr {
        object: Obj,
        key: u8,
    },
    SetXattr {
        object: Obj,
        key: u8,
        length: u16,
        how: SetXattr,
    },
    RemoveXattr {
        object: Obj,
        key: u8,
    },
    ListXattrs {
        object: Obj,
    },
    /// Both offsets are multiples of 4096 for CLONE; COPY takes any.
    Clone {
        object: Obj,
        offset: u64,
        to: Obj,
        at: u64,
        count: u64,
        copy: bool,
    },
    /// Limits what an owner uses, as administrators do.
    SetQuota {
        owner: Owner,
        limits: Option<Limits>,
    },
}

impl EngineOnlyOp {
    /// Whether a retransmission must not be executed again.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        matches!(
            self,
            EngineOnlyOp::CreateExclusive { .. }
                | EngineOnlyOp::SetXattr { .. }
                | EngineOnlyOp::RemoveXattr { .. }
        )
    }

    /// Returns the objects that the call names; the root if it names none.
    #[must_use]
    pub fn objects(&self) -> (Obj, Obj) {
        let object = match *self {
            EngineOnlyOp::Clone { object, to, .. } => return (object, to),
            EngineOnlyOp::Hold { object }
            | EngineOnlyOp::Release { object }
            | EngineOnlyOp::Seek { object, .. }
            | EngineOnlyOp::GetXattr { object, .. }
            | EngineOnlyOp::SetXattr { object, .. }
            | EngineOnlyOp::RemoveXattr { object, .. }
            | EngineOnlyOp::ListXattrs { object }
            | EngineOnlyOp::Allocate { object, .. }
            | EngineOnlyOp::Deallocate { object, .. } => object,
            EngineOnlyOp::LookupParent { directory } | EngineOnlyOp::CreateExclusive { directory, .. } => {
                directory
            }
            EngineOnlyOp::ChangeState { .. } | EngineOnlyOp::ReapOrphan | EngineOnlyOp::SetQuota { .. } => {
                Obj(0)
            }
        };
        (object, object)
    }

    /// Whether the call changes the times of an object.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !matches!(
            self,
            EngineOnlyOp::ChangeState { .. } | EngineOnlyOp::ReapOrphan | EngineOnlyOp::SetQuota { .. }
        )
    }
}

impl Call {
    /// Whether a retransmission must not be executed again.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        matches!(self, Call::EngineOnly(op) if op.is_remembered())
            || matches!(
                self,
                Call::SetAttributes { .. }
                    | Call::Create { .. }
                    | Call::MakeDirectory { .. }
                    | Call::MakeSymlink { .. }
                    | Call::MakeNode { .. }
                    | Call::Remove { .. }
                    | Call::RemoveDirectory { .. }
                    | Call::Rename { .. }
                    | Call::Link { .. }
            )
    }
}

/// A call that a client makes for a user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// The operation's number; also its xid.
    pub id: OperationId,
    /// The client's number, which determines its address.
    pub client: u8,
    /// The caller.
    pub user: User,
    /// The call.
    pub call: Call,
}

/// Returns the bytes that the WRITE with this number carries. Two of them rarely agree anywhere.
#[must_use]
pub fn payload(id: OperationId, length: u32) -> Vec<u8> {
    if id.is_multiple_of(16) {
        return vec![0; length as usize];
    }
    let words = (0..)
        .map(|word: u64| (word + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(id % 61) ^ u64::from(id));
    words.flat_map(u64::to_le_bytes).take(length as usize).collect()
}

/// Returns the target of the symlink that this operation creates.
#[must_use]
pub fn target(id: OperationId, length: u16) -> Vec<u8> {
    (0..length).map(|at| b'a' + (u32::from(at) + id).to_le_bytes()[0] % 26).collect()
}

/// Returns the name of an extended attribute.
#[must_use]
pub fn xattr_name(key: u8) -> Vec<u8> {
    if key == 0 { vec![b'x'; 255] } else { vec![b'x', key] }
}

/// Attributes as a client sees them; times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of fattr3")]
pub struct Attrs {
    pub ino: u64,
    pub kind: FileType,
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub used: u64,
    pub device: Device,
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
    /// `None` over NFSv3.
    pub change: Option<u64>,
}

impl From<&Attributes> for Attrs {
    fn from(seen: &Attributes) -> Attrs {
        Attrs {
            ino: seen.ino.0,
            kind: seen.file_type,
            mode: u32::from(seen.mode),
            links: seen.links,
            uid: seen.uid,
            gid: seen.gid,
            size: seen.size,
            used: seen.used,
            device: seen.device,
            atime: seen.atime.nanos(),
            mtime: seen.mtime.nanos(),
            ctime: seen.ctime.nanos(),
            change: Some(seen.change),
        }
    }
}

/// Attributes before and after a change, as far as the reply shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Size, mtime and ctime before the change.
    pub before: Option<(u64, i64, i64)>,
    /// Attributes after the change.
    pub after: Option<Attrs>,
}

impl From<&volume::attributes::Wcc> for Wcc {
    fn from(wcc: &volume::attributes::Wcc) -> Wcc {
        let Before { size, mtime, ctime, .. } = wcc.before;
        Wcc { before: Some((size, mtime.nanos(), ctime.nanos())), after: Some(Attrs::from(&wcc.after)) }
    }
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of entryplus3")]
pub struct Listed {
    pub ino: u64,
    pub cookie: u64,
    pub name: Vec<u8>,
    pub attributes: Option<Attrs>,
}

/// The result of a successful call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the results of RFC 1813")]
pub enum Success {
    Attributes(Attrs),
    Set {
        object: Wcc,
    },
    Found {
        object: Attrs,
        directory: Option<Attrs>,
    },
    Accessible {
        granted: u32,
        object: Option<Attrs>,
    },
    Target {
        target: Vec<u8>,
        object: Option<Attrs>,
    },
    Data {
        bytes: Vec<u8>,
        eof: bool,
        object: Option<Attrs>,
    },
    Written {
        count: u32,
        committed: Stability,
        verifier: [u8; 8],
        object: Wcc,
    },
    Committed {
        verifier: [u8; 8],
        object: Wcc,
    },
    Created {
        object: Attrs,
        directory: Wcc,
    },
    Removed {
        directory: Wcc,
    },
    Renamed {
        from: Wcc,
        to: Wcc,
    },
    Linked {
        object: Option<Attrs>,
        directory: Wcc,
    },
    Listing {
        entries: Vec<Listed>,
        end: bool,
        directory: Option<Attrs>,
    },
    Status {
        bytes_used: Option<u64>,
        inodes_used: u64,
    },
    /// The number of orphans that were removed.
    Reaped(usize),
    Sought(Sought),
    Cloned {
        count: u64,
        object: Wcc,
    },
    Xattr(Vec<u8>),
    Xattrs(Vec<Vec<u8>>),
    Limits {
        object: Attrs,
        transfer: [u32; 2],
        file_bytes: u64,
        properties: u32,
    },
    Configuration {
        object: Attrs,
        name_bytes: u32,
        posix: [bool; 4],
    },
    Nothing,
}

/// The result of a call.
pub type CallResult = Result<Success, Error>;
