//! SAVEFH (RFC 8881 section 18.28): saves the current filehandle and its stateid.

use wire::nfs4::SavefhRes;
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Done {
    compound.saved = Some(*compound.named()?);
    compound.saved_stateid = compound.current_stateid;
    SavefhRes::Ok(()).encode(out);
    Ok(())
}
