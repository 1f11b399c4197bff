//! Identifiers, each a distinct type so that one cannot be mistaken for another.

use std::fmt;
use std::hash::{Hash, Hasher};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        id! { $(#[$doc])* $name($inner), "{}" }
    };
    ($(#[$doc:meta])* $name:ident($inner:ty), $shown:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $shown, self.0)
            }
        }
    };
}

id! {
    /// Number of a file, directory or other object in its volume; never reused. POSIX `st_ino`, NFS `fileid`.
    Ino(u64)
}
id! {
    /// Identity of a volume among all volumes of all servers; random, never zero. NFS `fsid`. Shown as sixteen
    /// hexadecimal digits.
    VolumeId(u64), "{:016x}"
}
id! {
    /// Identity of a pool among all pools of all servers; random, never zero. Shown as sixteen hexadecimal digits.
    PoolId(u64), "{:016x}"
}
id! {
    /// Number of a volume in its pool; never reused. The first is 1; 0 stands for the pool itself.
    VolumeNumber(u32)
}
id! {
    /// A snapshot of a volume; zero is the live volume.
    SnapshotId(u64)
}
id! {
    /// Position of a name in the order in which READDIR lists a directory; handed out once, never reused.
    Cookie(u64)
}
id! {
    /// Identity of an immutable piece of file data; the extent table says where it lies.
    ExtentId(u64)
}
id! {
    /// A segment: one append-only file of extents. Shown as its file is named: sixteen hexadecimal digits.
    SegmentId(u64), "{:016x}"
}
id! {
    /// Sequence number of a journal entry; the first is 1, zero is "before any".
    Seq(u64)
}
id! {
    /// How many times the volume was opened; the first open is 1.
    Generation(u32)
}
id! {
    /// Number of a memtable, from birth to its checkpoint; a larger one is newer.
    Layer(u64)
}
impl Ino {
    /// The root directory of every volume.
    pub const ROOT: Ino = Ino(1);
}

/// An object of a volume in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The volume.
    pub volume: VolumeNumber,
    /// The object in it.
    pub ino: Ino,
}

impl VolumeNumber {
    /// Returns the object with this number in the volume.
    pub const fn object(self, ino: Ino) -> ObjectId {
        ObjectId { volume: self, ino }
    }
}

impl ObjectId {
    /// Returns another object of the same volume.
    #[must_use]
    pub const fn sibling(self, ino: Ino) -> ObjectId {
        ObjectId { volume: self.volume, ino }
    }

    /// Returns the object with the next number.
    #[must_use]
    pub const fn next(self) -> ObjectId {
        self.sibling(Ino(self.ino.0.saturating_add(1)))
    }
}

/// Hashes both numbers as one word. Volumes meet only beyond 2^40 objects.
impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.ino.0 ^ u64::from(self.volume.0) << 40);
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of volume {}", self.ino, self.volume)
    }
}

impl Cookie {
    /// The first cookie that is handed out: 1 and 2 are `.` and `..`.
    pub const FIRST: Cookie = Cookie(3);
}

impl SnapshotId {
    /// The live volume, not a snapshot.
    pub const LIVE: SnapshotId = SnapshotId(0);
}
