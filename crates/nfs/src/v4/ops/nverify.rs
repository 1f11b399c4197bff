//! NVERIFY (RFC 8881 section 18.15): fails if attributes are equal.

use wire::nfs4::{NfsStat4, NverifyRes, VerifyArgs};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};
use crate::v4::ops::verify::is_same;

pub(crate) fn run(compound: &mut Compound<'_>, args: &VerifyArgs<'_>, out: &mut Encoder<'_>) -> Done {
    if is_same(compound, args)? {
        return Err(NfsStat4::Same.into());
    }
    NverifyRes::Ok(()).encode(out);
    Ok(())
}
