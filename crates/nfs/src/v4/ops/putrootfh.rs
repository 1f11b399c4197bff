//! PUTROOTFH (RFC 8881 section 18.21): makes the root of the pseudo file system current.

use wire::nfs4::PutrootfhRes;
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Done {
    let root = compound.entered(compound.service.pseudo.root())?;
    compound.set_current(root)?;
    compound.note_mount();
    PutrootfhRes::Ok(()).encode(out);
    Ok(())
}
