//! VERIFY (RFC 8881 section 18.31): fails if attributes differ.

use wire::nfs4::{NfsStat4, VerifyArgs, VerifyRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::attributes;
use crate::v4::attributes::shown;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::turns::COMPARED_BYTES_OF_WEIGHT_1;

pub(crate) fn run(compound: &mut Compound<'_>, args: &VerifyArgs<'_>, out: &mut Encoder<'_>) -> Done {
    if !is_same(compound, args)? {
        return Err(NfsStat4::NotSame.into());
    }
    VerifyRes::Ok(()).encode(out);
    Ok(())
}

/// Returns whether the current object has these attributes, comparing encoded bytes.
pub(crate) fn is_same(compound: &mut Compound<'_>, args: &VerifyArgs<'_>) -> Result<bool, OpStop> {
    let target = compound.target()?;
    compound.add_weight(compound.operation_bytes().len(), COMPARED_BYTES_OF_WEIGHT_1);
    let wanted = args.obj_attributes;
    attributes::check_comparison(wanted.attrmask, compound.minor)?;
    wanted.decode_values()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    shown::encode(compound, &target, wanted.attrmask, &mut Encoder::new(&mut ours))?;
    wanted.encode(&mut Encoder::new(&mut theirs));
    Ok(ours == theirs)
}
