//! Statuses of operations on regular files for other objects (RFC 8881 sections 18.22.3 and 18.32.3).

use volume::attributes::{Attributes, FileType};
use wire::nfs4::{NfsStat4, Stateid4};

use crate::call::Object;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::ids::StateId;
use crate::state::stateids::IoMode;
use crate::v4::context::{Compound, OpStop};
use crate::v4::state;

/// Returns the attributes of a regular file.
///
/// # Errors
/// NFS4ERR_ISDIR and NFS4ERR_SYMLINK; for other types NFS4ERR_WRONG_TYPE, which NFSv4.0 does not have.
pub(super) fn check<'c>(compound: &mut Compound<'c>, object: &Object<'c>) -> Result<Attributes, OpStop> {
    let found = compound.answered(object.volume, object.volume.attributes(&object.request(), object.ino))?;
    check_type(found.file_type, compound.minor)?;
    Ok(found)
}

/// Checks that a file is regular, and that a stateid allows this I/O. Hold the guard until the I/O is done.
///
/// Only regular files have state, so the type is looked up if there is none, or to give the reason of a failure.
///
/// # Errors
/// Those of [`check`] and [`check_io`](state::check_io).
pub(super) fn check_io<'c>(
    compound: &mut Compound<'c>,
    file: &Object<'c>,
    stateid: Stateid4,
    wanted: IoMode,
) -> Result<InFlightModification<'c>, OpStop> {
    let meant = compound.stateid(stateid);
    let has_state = meant.as_ref().is_ok_and(|meant| !StateId::from(*meant).is_without_state());
    let allowed = meant.and_then(|meant| state::check_io(compound, meant, file, wanted));
    if allowed.is_err() || !has_state {
        check(compound, file)?;
    }
    allowed
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
