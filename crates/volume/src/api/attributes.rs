//! Attributes of files, as POSIX and NFS show them.

use crate::api::ids::Ino;
use crate::api::time::Time;
use crate::limits::{DIRECTORY_LINKS_MAX, LINKS_MAX};

/// The type of a file (RFC 1813 section 2.5 `ftype3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A block device node.
    Block,
    /// A character device node.
    Character,
    /// A symbolic link.
    Symlink,
    /// A UNIX-domain socket.
    Socket,
    /// A named pipe.
    Fifo,
}

impl FileType {
    /// Returns the most links that an object of this type may have.
    pub const fn links_max(self) -> u32 {
        match self {
            FileType::Directory => DIRECTORY_LINKS_MAX,
            _ => LINKS_MAX,
        }
    }
}

/// Device numbers of a block or character node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The attributes that GETATTR shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number in the volume.
    pub ino: Ino,
    /// Its type.
    pub file_type: FileType,
    /// Permission, setuid, setgid and sticky bits: the low 12 bits of POSIX `st_mode`.
    pub mode: u16,
    /// Number of names it has; a directory has 2 and one for each subdirectory.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of a symlink, the length of its target; of a directory, a figure that grows with its names.
    pub size: u64,
    /// Bytes of data, not counting holes.
    pub used: u64,
    /// Device numbers, zero unless it is a device node.
    pub device: Device,
    /// Last read; updated as `relatime` does.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
    /// Version: grows with every change of content or attributes, and never repeats (NFSv4 `change`).
    pub change: u64,
}

/// The attributes before a change that NFSv3 reports for weak cache consistency (RFC 1813 section 2.5 `wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Size in bytes.
    pub size: u64,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
    /// Version: the first half of NFSv4's `change_info4`.
    pub change: u64,
}

/// Both sides of a change, as `wcc_data` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wcc {
    /// Before the change.
    pub before: Before,
    /// After it.
    pub after: Attributes,
}

impl Attributes {
    /// Returns the part of these attributes that `wcc_attr` shows.
    pub fn before(&self) -> Before {
        Before { size: self.size, mtime: self.mtime, ctime: self.ctime, change: self.change }
    }

    /// Returns both sides of an operation that changed nothing.
    pub fn unchanged(self) -> Wcc {
        Wcc { before: self.before(), after: self }
    }
}

/// How SETATTR sets a time (RFC 1813 section 2.5 `set_atime`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    #[default]
    Keep,
    /// To the server's clock.
    Now,
    /// To this time.
    To(Time),
}

/// Attributes to set: by SETATTR, or on a new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Mode bits; bits above the low 12 are ignored.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes: truncates or extends with a hole.
    pub size: Option<u64>,
    /// Access time.
    pub atime: SetTime,
    /// Modification time.
    pub mtime: SetTime,
}

impl SetAttributes {
    /// Whether only the owner may set them, as with chmod(2), chown(2) and utimensat(2).
    pub fn need_owner(&self) -> bool {
        let sets_time = |time| matches!(time, SetTime::To(_));
        self.mode.is_some()
            || self.uid.is_some()
            || self.gid.is_some()
            || sets_time(self.atime)
            || sets_time(self.mtime)
    }
}
