//! PUTFH (RFC 8881 section 18.19): makes the object of a filehandle current.

use wire::nfs4::{PutfhArgs, PutfhRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &PutfhArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let target = compound.resolve(args.object.as_bytes())?;
    compound.set_current(target)?;
    PutfhRes::Ok(()).encode(out);
    Ok(())
}
