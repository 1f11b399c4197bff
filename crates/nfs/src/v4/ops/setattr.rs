//! SETATTR (RFC 8881 section 18.30): sets attributes. Setting the size respects the opens and locks of others.

use volume::attributes::Wcc;
use volume::request::Request;
use wire::nfs4::{NfsStat4, SetattrArgs, SetattrRes};
use wire::xdr::{Encode as _, Encoder};

use crate::recall::Right;
use crate::rpc_cache::ToJournal;
use crate::state::delegations::ConflictKind;
use crate::state::stateids::IoMode;
use crate::v4::context::{Compound, Done};
use crate::v4::once::{Once4, once};
use crate::v4::state::check_io;
use crate::v4::{attributes, regular};

pub(crate) fn run(compound: &mut Compound<'_>, args: &SetattrArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let object = compound.changeable()?;
    let found = compound.answered(object.volume, object.volume.attributes(&object.request(), object.ino))?;
    let set = attributes::to_set(&args.obj_attributes, compound.minor, &found)?;
    if set.size.is_some() {
        regular::check_type(found.file_type, compound.minor)?;
        let stateid = compound.stateid(args.stateid)?;
        drop(check_io(compound, stateid, &object, IoMode::Write)?);
    }
    let _in_flight = compound.recaller().object(&object, ConflictKind::Modify, Right::to_set(&set))?;
    let attrsset = args.obj_attributes.attrmask;
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            object.volume.set_attributes(request, object.ino, &set, None, encode)
        },
        succeed: |_: &Wcc, out: &mut Encoder<'_>| {
            SetattrRes { status: NfsStat4::Ok, attrsset }.encode(out);
        },
        current: |_: &Wcc| None,
    };
    once(compound, &object, out, once_only)
}
