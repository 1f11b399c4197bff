//! DELEGPURGE (RFC 8881 section 18.5): delegations do not survive a restart of their client, so there is nothing to
//! purge. CLAIM_DELEGATE_PREV is not supported either.

use wire::nfs4::{DelegpurgeArgs, NfsStat4};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(_: &mut Compound<'_>, _: &DelegpurgeArgs) -> Done {
    Err(NfsStat4::NotSupp.into())
}
