//! GETATTR (RFC 8881 section 18.7): the attributes of the current object.

use wire::nfs4::{GetattrArgs, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::recall::Right;
use crate::state::delegations::ConflictKind;
use crate::v4::attributes;
use crate::v4::attributes::shown;
use crate::v4::context::{Compound, Done, Target};

pub(crate) fn run(compound: &mut Compound<'_>, args: &GetattrArgs, out: &mut Encoder<'_>) -> Done {
    let target = compound.target()?;
    attributes::check_request(args.attr_request)?;
    if let Target::Stored(object) = &target {
        // The holder of a write delegation knows size and change better.
        drop(compound.recaller().object(object, ConflictKind::Read, Right::None)?);
    }
    NfsStat4::Ok.encode(out);
    shown::encode(compound, &target, args.attr_request, out)
}
