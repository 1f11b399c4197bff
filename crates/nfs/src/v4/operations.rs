//! The table of operations: which function executes one, and where in a COMPOUND it may stand.

use wire::nfs4::{NfsStat4, OpNum4};
use wire::xdr::{Decode, Encoder};

use crate::v4::context::{Compound, Done};
use crate::v4::ops::{
    access, backchannel_ctl, bind_conn_to_session, close, commit, create, create_session, delegpurge,
    delegreturn, destroy_clientid, destroy_session, exchange_id, free_stateid, getattr, getfh, link, lock,
    lockt, locku, lookup, lookupp, nverify, open, open_confirm, open_downgrade, putfh, putrootfh, read,
    readdir, readlink, reclaim_complete, release_lockowner, remove, rename, renew, restorefh, savefh,
    secinfo, secinfo_no_name, sequence, setattr, setclientid, setclientid_confirm, test_stateid, verify,
    write,
};
use crate::v4::ops::{
    allocate, clone, copy, deallocate, getxattr, io_advise, listxattrs, offload_cancel, offload_status,
    read_plus, removexattr, seek, setxattr,
};

/// The largest result of an operation that changes something, in bytes, without its number.
pub(super) const CHANGE_RESULT_BYTES_MAX: usize = 256;

/// Where an operation may stand, and whether it changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// SEQUENCE: only as the first operation.
    Sequence,
    /// Only as the single operation of its COMPOUND.
    Alone,
    /// After SEQUENCE; or without, as the single operation.
    Sessionless,
    /// It changes something, so it must not begin without room for its result.
    Change,
    /// Anywhere. It changes nothing or can be repeated, so it may begin without room for its result.
    Anywhere,
}

impl Placement {
    /// Returns the placement of an operation.
    pub(super) fn of(operation: OpNum4) -> Placement {
        match operation {
            OpNum4::Sequence => Placement::Sequence,
            OpNum4::BindConnToSession => Placement::Alone,
            OpNum4::ExchangeId | OpNum4::CreateSession | OpNum4::DestroySession | OpNum4::DestroyClientId => {
                Placement::Sessionless
            }
            OpNum4::Allocate
            | OpNum4::Clone
            | OpNum4::Copy
            | OpNum4::Deallocate
            | OpNum4::OffloadCancel
            | OpNum4::Removexattr
            | OpNum4::Setxattr
            | OpNum4::Create
            | OpNum4::Open
            | OpNum4::OpenConfirm
            | OpNum4::OpenDowngrade
            | OpNum4::Close
            | OpNum4::Lock
            | OpNum4::Locku
            | OpNum4::Delegreturn
            | OpNum4::Link
            | OpNum4::Remove
            | OpNum4::Rename
            | OpNum4::Setattr
            | OpNum4::Write => Placement::Change,
            _ => Placement::Anywhere,
        }
    }
}

/// Decodes the arguments of an operation and executes it.
#[inline(always)]
fn with<'c, T: Decode<'c>>(
    compound: &mut Compound<'c>,
    out: &mut Encoder<'_>,
    run: impl FnOnce(&mut Compound<'c>, &T, &mut Encoder<'_>) -> Done,
) -> Done {
    let args = compound.arguments()?;
    run(compound, &args, out)
}

/// Decodes and executes the operation of this number, and writes its whole result, after the number.
pub(super) fn execute(compound: &mut Compound<'_>, operation: OpNum4, out: &mut Encoder<'_>) -> Done {
    match operation {
        OpNum4::Access => with(compound, out, access::run),
        OpNum4::BackchannelCtl => with(compound, out, backchannel_ctl::run),
        OpNum4::BindConnToSession => with(compound, out, bind_conn_to_session::run),
        OpNum4::Close => with(compound, out, close::run),
        OpNum4::Commit => with(compound, out, commit::run),
        OpNum4::Create => with(compound, out, create::run),
        OpNum4::CreateSession => with(compound, out, create_session::run),
        OpNum4::Delegpurge => with(compound, out, |compound, args, _| delegpurge::run(compound, args)),
        OpNum4::Delegreturn => with(compound, out, delegreturn::run),
        OpNum4::DestroyClientId => with(compound, out, destroy_clientid::run),
        OpNum4::DestroySession => with(compound, out, destroy_session::run),
        OpNum4::ExchangeId => with(compound, out, exchange_id::run),
        OpNum4::FreeStateid => with(compound, out, free_stateid::run),
        OpNum4::Getattr => with(compound, out, getattr::run),
        OpNum4::Getfh => getfh::run(compound, out),
        OpNum4::Link => with(compound, out, link::run),
        OpNum4::Lock => with(compound, out, lock::run),
        OpNum4::Lockt => with(compound, out, lockt::run),
        OpNum4::Locku => with(compound, out, locku::run),
        OpNum4::Lookup => with(compound, out, lookup::run),
        OpNum4::Lookupp => lookupp::run(compound, out),
        OpNum4::Nverify => with(compound, out, nverify::run),
        OpNum4::Open => with(compound, out, open::run),
        OpNum4::OpenConfirm => with(compound, out, open_confirm::run),
        OpNum4::OpenDowngrade => with(compound, out, open_downgrade::run),
        OpNum4::Putfh => with(compound, out, putfh::run),
        // The public filehandle is the root.
        OpNum4::Putpubfh | OpNum4::Putrootfh => putrootfh::run(compound, out),
        OpNum4::Read => with(compound, out, read::run),
        OpNum4::Readdir => with(compound, out, readdir::run),
        OpNum4::Readlink => readlink::run(compound, out),
        OpNum4::ReclaimComplete => with(compound, out, reclaim_complete::run),
        OpNum4::ReleaseLockowner => with(compound, out, release_lockowner::run),
        OpNum4::Remove => with(compound, out, remove::run),
        OpNum4::Rename => with(compound, out, rename::run),
        OpNum4::Renew => with(compound, out, renew::run),
        OpNum4::Restorefh => restorefh::run(compound, out),
        OpNum4::Savefh => savefh::run(compound, out),
        OpNum4::Secinfo => with(compound, out, secinfo::run),
        OpNum4::SecinfoNoName => {
            with(compound, out, |compound, style, out| secinfo_no_name::run(compound, *style, out))
        }
        OpNum4::Sequence => with(compound, out, sequence::run),
        OpNum4::SetClientId => with(compound, out, setclientid::run),
        OpNum4::SetClientIdConfirm => with(compound, out, setclientid_confirm::run),
        OpNum4::Setattr => with(compound, out, setattr::run),
        OpNum4::TestStateid => with(compound, out, test_stateid::run),
        OpNum4::Verify => with(compound, out, verify::run),
        OpNum4::Write => with(compound, out, write::run),
        OpNum4::Allocate => with(compound, out, allocate::run),
        OpNum4::Clone => with(compound, out, clone::run),
        OpNum4::Copy => with(compound, out, copy::run),
        OpNum4::Deallocate => with(compound, out, deallocate::run),
        OpNum4::Getxattr => with(compound, out, getxattr::run),
        OpNum4::IoAdvise => with(compound, out, io_advise::run),
        OpNum4::Listxattrs => with(compound, out, listxattrs::run),
        OpNum4::OffloadCancel => with(compound, out, offload_cancel::run),
        OpNum4::OffloadStatus => with(compound, out, offload_status::run),
        OpNum4::ReadPlus => with(compound, out, read_plus::run),
        OpNum4::Removexattr => with(compound, out, removexattr::run),
        OpNum4::Seek => with(compound, out, seek::run),
        OpNum4::Setxattr => with(compound, out, setxattr::run),
        other => {
            compound.skip_arguments(other)?;
            Err(unavailable(other).into())
        }
    }
}

/// Returns the status of operations without an implementation: no file has layouts, no directory delegations.
fn unavailable(operation: OpNum4) -> NfsStat4 {
    match operation {
        OpNum4::Layoutget => NfsStat4::LayoutUnavailable,
        OpNum4::Getdeviceinfo => NfsStat4::NoEnt,
        OpNum4::Layoutcommit | OpNum4::Layoutreturn | OpNum4::Layouterror | OpNum4::Layoutstats => {
            NfsStat4::BadStateId
        }
        OpNum4::GetDirDelegation => NfsStat4::DirDelegUnavail,
        _ => NfsStat4::NotSupp,
    }
}

/// Returns whether an operation ignores the security flavor, because it does not use the current filehandle (RFC 8881
/// section 2.6.3.1).
pub(super) fn needs_no_security(operation: OpNum4) -> bool {
    matches!(
        operation,
        OpNum4::Secinfo
            | OpNum4::SecinfoNoName
            | OpNum4::Putfh
            | OpNum4::Putpubfh
            | OpNum4::Putrootfh
            | OpNum4::Restorefh
            | OpNum4::Savefh
    )
}
