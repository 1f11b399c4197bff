//! LOCKT (RFC 8881 section 18.11): tests whether a range could be locked. A caller that may not use the file learns nothing
//! about it, and expires no silent client.

use volume::results::AccessMask;
use wire::nfs4::{LockFail, LocktArgs, LocktRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::locks::LockError;
use crate::state::locks::ranges::Range;
use crate::v4::context::{Compound, Done};
use crate::v4::ops::lock::{kind, lock_denied};
use crate::v4::regular;

pub(crate) fn run(compound: &mut Compound<'_>, args: &LocktArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let object = compound.file()?;
    let wanted = AccessMask(AccessMask::READ | AccessMask::EXECUTE | AccessMask::MODIFY);
    let access = object.volume.access(&object.request(), object.ino, wanted);
    let access = compound.answered(object.volume, access)?;
    regular::check_type(access.attributes.file_type, compound.minor)?;
    let range = Range::new(args.offset, args.length).ok_or(NfsStat4::Inval)?;
    let client = compound.client(args.owner.clientid)?;
    let owner = client.known_lock_owner(args.owner.owner.0);
    let (context, file) = (compound.state_context(), object.file_id());
    let owns = object.request().credentials.uid == access.attributes.uid;
    // The mode may have changed since it was opened.
    if access.granted.0 == 0 && !owns && !compound.state().has_open(&client, file) {
        return Err(NfsStat4::Access.into());
    }
    match compound.state().test_lock(&context, file, owner.as_ref(), range, kind(args.locktype)) {
        Ok(()) => LocktRes::Ok(()).encode(out),
        Err(LockError::Denied(denied)) => {
            LocktRes::Err(LockFail::Denied(lock_denied(&denied, client.id))).encode(out);
        }
        Err(LockError::Failed(error)) => return Err(error.into()),
    }
    Ok(())
}
