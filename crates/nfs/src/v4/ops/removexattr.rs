//! REMOVEXATTR (RFC 8276 section 8.4.4): removes an extended attribute.

use volume::attributes::Wcc;
use volume::request::Request;
use wire::nfs4::{RemovexattrArgs, RemovexattrRes};
use wire::xdr::{Encode as _, Encoder};

use crate::recall::Right;
use crate::rpc_cache::ToJournal;
use crate::state::delegations::ConflictKind;
use crate::v4::context::{Compound, Done};
use crate::v4::once::{Once4, change_info, once};
use crate::v4::ops::setxattr::missing;

pub(crate) fn run(compound: &mut Compound<'_>, args: &RemovexattrArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let object = compound.changeable()?;
    let _in_flight = compound.recaller().object(&object, ConflictKind::Modify, Right::Write)?;
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            object.volume.remove_xattr(request, object.ino, args.name.0, encode)
        },
        succeed: |changed: &Wcc, out: &mut Encoder<'_>| RemovexattrRes::Ok(change_info(changed)).encode(out),
        current: |_: &Wcc| None,
    };
    once(compound, &object, out, once_only).map_err(missing)
}
