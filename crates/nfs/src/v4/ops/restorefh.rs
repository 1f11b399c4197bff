//! RESTOREFH (RFC 8881 section 18.27): makes the saved filehandle and its stateid current.

use wire::nfs4::{NfsStat4, RestorefhRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done, OpStop};

pub(crate) fn run(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Done {
    let missing = if compound.minor == 0 { NfsStat4::RestoreFh } else { NfsStat4::NoFileHandle };
    let saved = compound.saved.ok_or(OpStop::Status(missing))?;
    compound.set_current(saved)?;
    compound.current_stateid = compound.saved_stateid;
    RestorefhRes::Ok(()).encode(out);
    Ok(())
}
