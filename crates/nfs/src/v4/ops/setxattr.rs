//! SETXATTR (RFC 8276 section 8.4.2): sets an extended attribute.

use volume::attributes::Wcc;
use volume::request::Request;
use volume::results::SetXattr;
use wire::nfs4::{SetxattrArgs, SetxattrOption4, SetxattrRes};
use wire::xdr::{Encode as _, Encoder};

use crate::recall::Right;
use crate::rpc_cache::ToJournal;
use crate::state::delegations::ConflictKind;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::once::{Once4, change_info, once};
use crate::v4::ops::getxattr::named;

pub(crate) fn run(compound: &mut Compound<'_>, args: &SetxattrArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let object = compound.changeable()?;
    let _in_flight = compound.recaller().object(&object, ConflictKind::Modify, Right::Write)?;
    let how = match args.option {
        SetxattrOption4::Either => SetXattr::Either,
        SetxattrOption4::Create => SetXattr::Create,
        SetxattrOption4::Replace => SetXattr::Replace,
    };
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            object.volume.set_xattr(request, object.ino, args.key.0, args.value.0, how, encode)
        },
        succeed: |changed: &Wcc, out: &mut Encoder<'_>| SetxattrRes::Ok(change_info(changed)).encode(out),
        current: |_: &Wcc| None,
    };
    once(compound, &object, out, once_only).map_err(missing)?;
    compound.note_written(object.volume, args.value.0.len() as u64);
    Ok(())
}

/// Only the attribute can be missing: the object exists.
pub(crate) fn missing(stop: OpStop) -> OpStop {
    let missing = matches!(stop, OpStop::Status(wire::nfs4::NfsStat4::NoEnt));
    named(stop, missing)
}
