//! The delegation in the result of OPEN.

use wire::nfs4::{
    NfsSpaceLimit4, Nfsace4, OpenDelegation4, OpenNoneDelegation4, OpenReadDelegation4, OpenWriteDelegation4,
    Utf8Str4,
};

use crate::state::delegations::{Delegated, NoDelegationReason};

/// Grants nothing, so that the client asks with ACCESS: modes decide who may do what.
const NOBODY: Nfsace4<'static> =
    Nfsace4 { ace_type: 0, flag: 0, access_mask: 0, who: Utf8Str4(b"EVERYONE@") };

/// Encodes the delegation. The reason for none is reported since NFSv4.1.
pub(super) fn shown(delegated: Delegated, minor: u32) -> OpenDelegation4<'static> {
    match delegated {
        Delegated::None(_) if minor == 0 => OpenDelegation4::None,
        Delegated::None(why) => OpenDelegation4::NoneExt(match why {
            NoDelegationReason::NotWanted => OpenNoneDelegation4::NotWanted,
            NoDelegationReason::Cancelled => OpenNoneDelegation4::Cancelled,
            NoDelegationReason::Contention => {
                OpenNoneDelegation4::Contention { server_will_push_deleg: false }
            }
            NoDelegationReason::Resource => OpenNoneDelegation4::Resource { server_will_signal_avail: false },
        }),
        Delegated::Read(stateid) => OpenDelegation4::Read(OpenReadDelegation4 {
            stateid: stateid.into(),
            recall: false,
            permissions: NOBODY,
        }),
        Delegated::Write(stateid) => OpenDelegation4::Write(OpenWriteDelegation4 {
            stateid: stateid.into(),
            recall: false,
            // Space is not reserved: WRITE reports a full volume.
            space_limit: NfsSpaceLimit4::Filesize(u64::MAX),
            permissions: NOBODY,
        }),
    }
}
