//! TEST_STATEID (RFC 8881 section 18.48): tests whether stateids are valid.

use wire::array::Array;
use wire::nfs4::{NfsStat4, TestStateidArgs, TestStateidOk, TestStateidRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};
use crate::v4::turns::STATEIDS_OF_WEIGHT_1;

pub(crate) fn run(compound: &mut Compound<'_>, args: &TestStateidArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let client = compound.session_client().ok_or(NfsStat4::OpNotInSession)?;
    compound.add_weight(args.stateids.len(), STATEIDS_OF_WEIGHT_1);
    let tested = |stateid: wire::nfs4::Stateid4| {
        compound.state().test_stateid(&client, stateid.into()).err().map_or(NfsStat4::Ok, NfsStat4::from)
    };
    let codes: Vec<NfsStat4> = args.stateids.iter().map(tested).collect();
    let status_codes = Array::new(&codes).ok_or(NfsStat4::ServerFault)?;
    TestStateidRes::Ok(TestStateidOk { status_codes }).encode(out);
    Ok(())
}
