//! GETFH (RFC 8881 section 18.8): returns the current filehandle.

use wire::nfs4::{GetfhOk, GetfhRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Done {
    let handle = compound.target()?.handle();
    GetfhRes::Ok(GetfhOk { object: handle.as_handle() }).encode(out);
    Ok(())
}
