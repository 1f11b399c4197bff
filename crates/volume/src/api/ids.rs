//! Identifiers, each a distinct type so that one cannot be mistaken for another.

use std::fmt;

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
    /// Number of a volume among the clones that share one journal, index and segments; the first is 1.
    Member(u32)
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
id! {
    /// Snapshot epoch: raised by one with each snapshot.
    Epoch(u32)
}

impl Ino {
    /// The root directory of every volume.
    pub const ROOT: Ino = Ino(1);
}

impl Cookie {
    /// The first cookie that is handed out: 1 and 2 are `.` and `..`.
    pub const FIRST: Cookie = Cookie(3);
}

impl SnapshotId {
    /// The live volume, not a snapshot.
    pub const LIVE: SnapshotId = SnapshotId(0);
}
