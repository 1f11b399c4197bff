//! GETXATTR (RFC 8276 section 8.4.1): the value of an extended attribute.

use volume::request::{Error, Failure};
use wire::nfs4::{GetxattrArgs, GetxattrRes, NfsStat4, Xattrvalue4};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done, OpStop};

pub(crate) fn run(compound: &mut Compound<'_>, args: &GetxattrArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let object = compound.object_or(NfsStat4::NoXattr)?;
    let found = object.volume.get_xattr(&object.request(), object.ino, args.name.0);
    let missing = matches!(found, Err(Failure { error: Error::NoEntry, .. }));
    let value = compound.answered(object.volume, found).map_err(|stop| named(stop, missing))?;
    // Without room, a repetition would read all of it again.
    if value.len() + 8 > compound.room(out.position()) {
        return Err(NfsStat4::TooSmall.into());
    }
    compound.note_read(object.volume, value.len());
    GetxattrRes::Ok(Xattrvalue4(&value)).encode(out);
    Ok(())
}

/// A missing extended attribute has a status of its own.
pub(crate) fn named(stop: OpStop, missing: bool) -> OpStop {
    match stop {
        OpStop::Status(_) if missing => NfsStat4::NoXattr.into(),
        OpStop::Status(NfsStat4::Fbig) => NfsStat4::Xattr2Big.into(),
        other => other,
    }
}
