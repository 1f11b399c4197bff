//! SECINFO_NO_NAME (RFC 8881 section 18.45): returns the security flavors for the current object, or for its parent.

use wire::nfs4::SecinfoStyle4;
use wire::xdr::Encoder;

use crate::v4::context::{Compound, Done};
use crate::v4::ops::{lookupp, secinfo};

pub(crate) fn run(compound: &mut Compound<'_>, style: SecinfoStyle4, out: &mut Encoder<'_>) -> Done {
    let target = match style {
        SecinfoStyle4::CurrentFh => *compound.named()?,
        SecinfoStyle4::Parent => lookupp::parent(compound)?,
    };
    secinfo::answer(compound, &target, out)
}
