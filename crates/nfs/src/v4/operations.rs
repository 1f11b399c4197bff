//! The table of operations: which function executes one, and where in a COMPOUND it may stand.

use wire::nfs4::{ArgOp4, NfsStat4, OpNum4};
use wire::xdr::Encoder;

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

/// Executes an operation and writes its whole result, after its number.
pub(super) fn execute<'c>(
    compound: &mut Compound<'c>,
    operation: &ArgOp4<'c>,
    out: &mut Encoder<'_>,
) -> Done {
    match operation {
        ArgOp4::Access(args) => access::run(compound, args, out),
        ArgOp4::BackchannelCtl(args) => backchannel_ctl::run(compound, args, out),
        ArgOp4::BindConnToSession(args) => bind_conn_to_session::run(compound, args, out),
        ArgOp4::Close(args) => close::run(compound, args, out),
        ArgOp4::Commit(args) => commit::run(compound, args, out),
        ArgOp4::Create(args) => create::run(compound, args, out),
        ArgOp4::CreateSession(args) => create_session::run(compound, args, out),
        ArgOp4::Delegpurge(args) => delegpurge::run(compound, args),
        ArgOp4::Delegreturn(args) => delegreturn::run(compound, args, out),
        ArgOp4::DestroyClientId(args) => destroy_clientid::run(compound, args, out),
        ArgOp4::DestroySession(args) => destroy_session::run(compound, args, out),
        ArgOp4::ExchangeId(args) => exchange_id::run(compound, args, out),
        ArgOp4::FreeStateid(args) => free_stateid::run(compound, args, out),
        ArgOp4::Getattr(args) => getattr::run(compound, args, out),
        ArgOp4::Getfh => getfh::run(compound, out),
        ArgOp4::Link(args) => link::run(compound, args, out),
        ArgOp4::Lock(args) => lock::run(compound, args, out),
        ArgOp4::Lockt(args) => lockt::run(compound, args, out),
        ArgOp4::Locku(args) => locku::run(compound, args, out),
        ArgOp4::Lookup(args) => lookup::run(compound, args, out),
        ArgOp4::Lookupp => lookupp::run(compound, out),
        ArgOp4::Nverify(args) => nverify::run(compound, args, out),
        ArgOp4::Open(args) => open::run(compound, args, out),
        ArgOp4::OpenConfirm(args) => open_confirm::run(compound, args, out),
        ArgOp4::OpenDowngrade(args) => open_downgrade::run(compound, args, out),
        ArgOp4::Putfh(args) => putfh::run(compound, args, out),
        // The public filehandle is the root.
        ArgOp4::Putpubfh | ArgOp4::Putrootfh => putrootfh::run(compound, out),
        ArgOp4::Read(args) => read::run(compound, args, out),
        ArgOp4::Readdir(args) => readdir::run(compound, args, out),
        ArgOp4::Readlink => readlink::run(compound, out),
        ArgOp4::ReclaimComplete(args) => reclaim_complete::run(compound, args, out),
        ArgOp4::ReleaseLockowner(args) => release_lockowner::run(compound, args, out),
        ArgOp4::Remove(args) => remove::run(compound, args, out),
        ArgOp4::Rename(args) => rename::run(compound, args, out),
        ArgOp4::Renew(args) => renew::run(compound, args, out),
        ArgOp4::Restorefh => restorefh::run(compound, out),
        ArgOp4::Savefh => savefh::run(compound, out),
        ArgOp4::Secinfo(args) => secinfo::run(compound, args, out),
        ArgOp4::SecinfoNoName(style) => secinfo_no_name::run(compound, *style, out),
        ArgOp4::Sequence(args) => sequence::run(compound, args, out),
        ArgOp4::SetClientId(args) => setclientid::run(compound, args, out),
        ArgOp4::SetClientIdConfirm(args) => setclientid_confirm::run(compound, args, out),
        ArgOp4::Setattr(args) => setattr::run(compound, args, out),
        ArgOp4::TestStateid(args) => test_stateid::run(compound, args, out),
        ArgOp4::Verify(args) => verify::run(compound, args, out),
        ArgOp4::Write(args) => write::run(compound, args, out),
        ArgOp4::Allocate(args) => allocate::run(compound, args, out),
        ArgOp4::Clone(args) => clone::run(compound, args, out),
        ArgOp4::Copy(args) => copy::run(compound, args, out),
        ArgOp4::Deallocate(args) => deallocate::run(compound, args, out),
        ArgOp4::Getxattr(args) => getxattr::run(compound, args, out),
        ArgOp4::IoAdvise(args) => io_advise::run(compound, args, out),
        ArgOp4::Listxattrs(args) => listxattrs::run(compound, args, out),
        ArgOp4::OffloadCancel(args) => offload_cancel::run(compound, args, out),
        ArgOp4::OffloadStatus(args) => offload_status::run(compound, args, out),
        ArgOp4::ReadPlus(args) => read_plus::run(compound, args, out),
        ArgOp4::Removexattr(args) => removexattr::run(compound, args, out),
        ArgOp4::Seek(args) => seek::run(compound, args, out),
        ArgOp4::Setxattr(args) => setxattr::run(compound, args, out),
        operation => Err(unavailable(operation.num()).into()),
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
