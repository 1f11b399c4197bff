//! What virtual clients ask and what they are told, apart from how either is encoded.
//!
//! Objects are named by the operation that created them, so that a list of operations stays meaningful when some of
//! them are taken out (see [`crate::shrink`]).

use volume::attributes::{Attributes, Before, Device, FileType, SetAttributes};
use volume::request::{Credentials, Error};
pub use volume::results::{CreateHow, NodeKind};
use volume::results::{SetXattr, Sought, SoughtContent, Stability};

/// Number of an operation in its run; the first is 1.
pub type OperationId = u32;

/// The object that this operation created; zero is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obj(pub OperationId);

/// A name out of a small pool, so that operations conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub u8);

impl Name {
    /// Names of ordinary looks; those with larger numbers are odd.
    pub const ORDINARY: u8 = 10;
    /// All names.
    pub const ALL: u8 = 18;

    /// Its bytes.
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

/// One of the users of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(pub u8);

impl User {
    /// The superuser.
    pub const ROOT: User = User(0);
    /// CreateHow many there are.
    pub const ALL: u8 = 4;

    /// Who that is.
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
    /// None.
    No,
    /// The object's ctime.
    Right,
    /// Another ctime.
    Wrong,
}

/// Where a READDIR begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the start.
    Start,
    /// Where the last READDIR of this directory ended, whoever made it.
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
    ReadDirectory { directory: Obj, from: From, entries_max: u8, plus: bool },
    Status,
    Limits { object: Obj },
    Configuration { object: Obj },
    Nothing,
    Nfs4(Nfs4Op),
}

/// A call that NFSv3 does not have, so that all clients ask the engine for it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the arguments of the engine's operations")]
pub enum Nfs4Op {
    /// Puts a record of protocol state, or deletes it.
    ChangeState {
        key: u8,
        length: Option<u16>,
    },
    /// Keeps a file from going with its last name; and lets go of it.
    Hold {
        object: Obj,
    },
    Release {
        object: Obj,
    },
    /// Removes one file without a name that nobody holds.
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
    /// Offset and target's offset are multiples of 4096 for CLONE; any for COPY.
    Clone {
        object: Obj,
        offset: u64,
        to: Obj,
        at: u64,
        count: u64,
        copy: bool,
    },
}

impl Nfs4Op {
    /// Whether a retransmission must not be executed again.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        matches!(self, Nfs4Op::CreateExclusive { .. } | Nfs4Op::SetXattr { .. } | Nfs4Op::RemoveXattr { .. })
    }

    /// The objects that it names, the root if it names none.
    #[must_use]
    pub fn objects(&self) -> (Obj, Obj) {
        let object = match *self {
            Nfs4Op::Clone { object, to, .. } => return (object, to),
            Nfs4Op::Hold { object }
            | Nfs4Op::Release { object }
            | Nfs4Op::Seek { object, .. }
            | Nfs4Op::GetXattr { object, .. }
            | Nfs4Op::SetXattr { object, .. }
            | Nfs4Op::RemoveXattr { object, .. }
            | Nfs4Op::ListXattrs { object }
            | Nfs4Op::Allocate { object, .. }
            | Nfs4Op::Deallocate { object, .. } => object,
            Nfs4Op::LookupParent { directory } | Nfs4Op::CreateExclusive { directory, .. } => directory,
            Nfs4Op::ChangeState { .. } | Nfs4Op::ReapOrphan => Obj(0),
        };
        (object, object)
    }

    /// Whether it is a change that shows in the times of something.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !matches!(self, Nfs4Op::ChangeState { .. } | Nfs4Op::ReapOrphan)
    }
}

impl Call {
    /// Whether a retransmission must not be executed again.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        matches!(self, Call::Nfs4(op) if op.is_remembered())
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

/// A call of a client in the name of a user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Its number; also its xid.
    pub id: OperationId,
    /// The client's number, which stands for its address.
    pub client: u8,
    /// Who calls.
    pub user: User,
    /// The call.
    pub call: Call,
}

/// The bytes that the WRITE with this number carries; hardly any two agree anywhere.
#[must_use]
pub fn payload(id: OperationId, length: u32) -> Vec<u8> {
    if id.is_multiple_of(16) {
        return vec![0; length as usize];
    }
    let words = (0..)
        .map(|word: u64| (word + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(id % 61) ^ u64::from(id));
    words.flat_map(u64::to_le_bytes).take(length as usize).collect()
}

/// The target of the symlink that this operation makes.
#[must_use]
pub fn target(id: OperationId, length: u16) -> Vec<u8> {
    (0..length).map(|at| b'a' + (u32::from(at) + id).to_le_bytes()[0] % 26).collect()
}

/// The name of an extended attribute.
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
    /// Not shown by NFSv3.
    pub change: Option<u64>,
}

impl std::convert::From<&Attributes> for Attrs {
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

/// Both sides of a change, as far as they were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Size, mtime and ctime before it.
    pub before: Option<(u64, i64, i64)>,
    /// After it.
    pub after: Option<Attrs>,
}

impl std::convert::From<&volume::attributes::Wcc> for Wcc {
    fn from(wcc: &volume::attributes::Wcc) -> Wcc {
        let Before { size, mtime, ctime, .. } = wcc.before;
        Wcc { before: Some((size, mtime.nanos(), ctime.nanos())), after: Some(Attrs::from(&wcc.after)) }
    }
}

/// One name of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of entryplus3")]
pub struct Listed {
    pub ino: u64,
    pub cookie: u64,
    pub name: Vec<u8>,
    pub attributes: Option<Attrs>,
}

/// What a successful call tells.
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
    /// So many files without a name went.
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

/// What a call tells.
pub type CallResult = Result<Success, Error>;
