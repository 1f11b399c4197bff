//! Statuses of operations on regular files for other objects (RFC 8881 sections 18.22.3 and 18.32.3).

use volume::attributes::{Attributes, FileType};
use wire::nfs4::NfsStat4;

use crate::call::Object;
use crate::v4::context::{Compound, OpStop};

/// Returns the attributes of a regular file.
///
/// # Errors
/// NFS4ERR_ISDIR and NFS4ERR_SYMLINK; for other types NFS4ERR_WRONG_TYPE, which NFSv4.0 does not have.
pub(super) fn check<'c>(compound: &mut Compound<'c>, object: &Object<'c>) -> Result<Attributes, OpStop> {
    let found = compound.answered(object.volume, object.volume.attributes(&object.request(), object.ino))?;
    check_type(found.file_type, compound.minor)?;
    Ok(found)
}

/// Checks that an object of this type is a regular file.
///
/// # Errors
/// Those of [`check`].
pub(super) fn check_type(file_type: FileType, minor: u32) -> Result<(), OpStop> {
    Err(OpStop::Status(match file_type {
        FileType::Regular => return Ok(()),
        FileType::Directory => NfsStat4::IsDir,
        FileType::Symlink if minor > 0 => NfsStat4::Symlink,
        _ if minor > 0 => NfsStat4::WrongType,
        _ => NfsStat4::Inval,
    }))
}
