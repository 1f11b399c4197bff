//! POSIX permission checks, with the exceptions of NFS (RFC 1813 section 4.4): the owner of a file may READ and WRITE
//! it whatever its mode, as UNIX checks at open only and NFSv3 has no open; and execute permission permits READ, as a
//! client reads what it executes.

use crate::api::attributes::FileType;
use crate::api::request::{Credentials, Error};
use crate::encoding::record::InodeRecord;

/// Permission to read, or list.
pub const READ: u16 = 4;
/// Permission to write, or add and remove names.
pub const WRITE: u16 = 2;
/// Permission to execute, or search.
pub const EXECUTE: u16 = 1;

/// The setuid bit.
pub const SETUID: u16 = 0o4000;
/// The setgid bit.
pub const SETGID: u16 = 0o2000;
/// The sticky bit.
pub const STICKY: u16 = 0o1000;

/// Whether the mode bits grant all of `wanted`.
pub fn may(who: &Credentials, inode: &InodeRecord, wanted: u16) -> bool {
    if who.uid == 0 {
        // The superuser executes only files with some execute bit.
        let executable = inode.file_type == FileType::Directory || inode.mode & 0o111 != 0;
        return wanted & EXECUTE == 0 || executable;
    }
    let shift = if who.uid == inode.uid {
        6
    } else if who.in_group(inode.gid) {
        3
    } else {
        0
    };
    (inode.mode >> shift) & wanted == wanted
}

/// Fails with `AccessDenied` unless the mode bits grant all of `wanted`.
pub fn check(who: &Credentials, inode: &InodeRecord, wanted: u16) -> Result<(), Error> {
    if may(who, inode, wanted) { Ok(()) } else { Err(Error::AccessDenied) }
}

/// Whether the caller is the owner or the superuser.
pub fn owns(who: &Credentials, inode: &InodeRecord) -> bool {
    who.uid == 0 || who.uid == inode.uid
}

/// Checks a READ of a file's data.
pub fn check_read(who: &Credentials, inode: &InodeRecord) -> Result<(), Error> {
    let allowed = owns(who, inode) || may(who, inode, READ) || may(who, inode, EXECUTE);
    if allowed { Ok(()) } else { Err(Error::AccessDenied) }
}

/// Checks a WRITE of a file's data.
pub fn check_write(who: &Credentials, inode: &InodeRecord) -> Result<(), Error> {
    if owns(who, inode) || may(who, inode, WRITE) { Ok(()) } else { Err(Error::AccessDenied) }
}

/// Checks permission to change a directory's names.
pub fn check_change_names(who: &Credentials, directory: &InodeRecord) -> Result<(), Error> {
    check(who, directory, WRITE | EXECUTE)
}

/// Checks permission to remove or replace a name: in a sticky directory only for the owner of the directory or of the
/// object.
pub fn check_remove(who: &Credentials, directory: &InodeRecord, object: &InodeRecord) -> Result<(), Error> {
    check_change_names(who, directory)?;
    if directory.mode & STICKY != 0 && !owns(who, directory) && !owns(who, object) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Returns the mode after an unprivileged caller wrote data or changed the owner: without setuid, and without setgid
/// where it means execution as the group.
pub fn without_privilege_bits(inode: &InodeRecord) -> u16 {
    if inode.file_type == FileType::Directory {
        return inode.mode;
    }
    let setgid = if inode.mode & 0o010 != 0 { SETGID } else { 0 };
    inode.mode & !(SETUID | setgid)
}

#[cfg(test)]
mod tests;
