//! RQUOTA, versions 1 and 2: shows users of clients what they use, and what they may use. Nothing can be set by it.
//!
//! A caller sees his own quotas and those of his groups, after squashing; a superuser who is not squashed sees all quotas. The
//! quotas of a volume are the same at each of its directories, so that the rest of a path beneath an export does not matter.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use volume::quota::{Owner, Quota, QuotaKind};
use volume::request::{Access, Credentials, Durability};
use volume::time::Time;
use volume::volume::Volume;
use wire::rquota::{
    self, GetQuotaArgs1, GetQuotaArgs2, KIND_GROUP, KIND_USER, Path, Procedure, QuotaRes, SetQuotaArgs1,
    SetQuotaArgs2, VERSION_USERS,
};
use wire::xdr::{Encode as _, Encoder};

use crate::call::{After, Call, Handled, Operation, Stop};
use crate::v3::null;
use crate::{credentials, status};

/// The procedures of both versions, in the order of their numbers ([`wire::rquota::Procedure`]).
pub(crate) static OPERATIONS: [Operation; 5] = [
    null::OPERATION,
    Operation { run: get, failed: None, changes: false },
    Operation { run: get, failed: None, changes: false },
    Operation { run: set, failed: None, changes: false },
    Operation { run: set, failed: None, changes: false },
];

/// The smallest block has 1 KiB, in which quota tools count. Larger ones are powers of two.
const BLOCK_SHIFT_MIN: u32 = 10;
/// The size of a block is a signed number of 32 bits.
const BLOCK_SHIFT_MAX: u32 = 30;

/// GETQUOTA and GETACTIVEQUOTA. The reply waits for nothing: what it shows only informs.
fn get<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let (path, kind, id) = if call.header.version == VERSION_USERS {
        let args: GetQuotaArgs1<'_> = call.arguments()?;
        (args.path, KIND_USER, args.uid)
    } else {
        let args: GetQuotaArgs2<'_> = call.arguments()?;
        (args.path, args.kind, args.id)
    };
    let owner = match kind {
        KIND_USER => Some(Owner::new(QuotaKind::User, id.into())),
        KIND_GROUP => Some(Owner::new(QuotaKind::Group, id.into())),
        _ => None,
    };
    let (volume, caller) = match volume_at(call, path) {
        Ok(found) => found,
        Err(refused) => {
            refused.encode(out);
            return Ok(After::NOW);
        }
    };
    let result = match owner {
        None => QuotaRes::NoQuota,
        Some(owner) if !may_see(&caller, owner) => QuotaRes::Perm,
        Some(owner) => quota(call, volume, owner)?,
    };
    result.encode(out);
    Ok(After(Some((volume, Durability::NOW))))
}

/// SETQUOTA and SETACTIVEQUOTA: AUTH_SYS does not prove that an administrator of the server calls.
fn set<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    if call.header.version == VERSION_USERS {
        call.arguments::<SetQuotaArgs1<'_>>()?;
    } else {
        call.arguments::<SetQuotaArgs2<'_>>()?;
    }
    QuotaRes::Perm.encode(out);
    Ok(After::NOW)
}

/// Finds the volume that a client mounted at `path`, and the caller as the client's export of it squashes him.
///
/// # Errors
/// The result that says why there is none.
fn volume_at<'a>(call: &Call<'a>, path: Path<'_>) -> Result<(&'a Arc<Volume>, Credentials), QuotaRes> {
    let (service, peer) = (call.service, call.connection.peer);
    let path = match path.0 {
        absolute @ [b'/', ..] => Cow::Borrowed(absolute),
        relative => Cow::Owned([b"/", relative].concat()),
    };
    let (mut exports, _) = service.exports.at(&path).ok_or(QuotaRes::NoQuota)?;
    let id = exports.find(|export| export.admits(peer)).ok_or(QuotaRes::Perm)?.volume;
    // The rules of a volume do not depend on the path that was mounted, see `exports`.
    let export = service.exports.admitting(id, peer).ok_or(QuotaRes::Perm)?;
    if !export.accepts_credential(&call.header.credential) {
        return Err(QuotaRes::Perm);
    }
    let volume = service.volume(id).ok_or(QuotaRes::NoQuota)?;
    Ok((volume, credentials::credentials(&call.header.credential, export)))
}

/// Whether the caller may see the quota of `owner`.
fn may_see(caller: &Credentials, owner: Owner) -> bool {
    let is = |id: &u32| u64::from(*id) == owner.id;
    let is_own = match owner.kind {
        QuotaKind::User => is(&caller.uid),
        QuotaKind::Group => is(&caller.gid) || caller.groups.iter().any(is),
        QuotaKind::Volume | QuotaKind::Tree => false,
    };
    is_own || caller.uid == 0
}

/// Reads a quota. That of an owner without limits shows what is used, but is not active.
fn quota(call: &Call<'_>, volume: &Volume, owner: Owner) -> Result<QuotaRes, Stop> {
    // What is used may have to be read from media.
    if call.access != Access::Blocking {
        return Err(Stop::WouldBlock);
    }
    let quota = volume.quota(owner).map_err(|error| match status::nfs3(error) {
        Err(retry) => retry.into(),
        Ok(_) => Stop::Failed,
    })?;
    let is_active_only = call.header.procedure == Procedure::GetActiveQuota.code();
    if is_active_only && quota.limits.is_none() {
        return Ok(QuotaRes::NoQuota);
    }
    Ok(QuotaRes::Quota(described(&quota, call.now.wall)))
}

/// Describes a quota in numbers of 32 bits, in the smallest blocks for which these suffice. Usage and
/// limits are both rounded up to blocks, so that nobody who is within his limit seems to exceed it, and no limit becomes 0, which means none.
fn described(quota: &Quota, now: Time) -> rquota::Quota {
    let Quota { limits, exceeded, grace, .. } = *quota;
    let most = limits.bytes.hard.max(limits.bytes.soft).unwrap_or(0).max(quota.bytes_used);
    let fits = |shift: &u32| most.div_ceil(1 << shift) <= u64::from(u32::MAX);
    let shift = (BLOCK_SHIFT_MIN..BLOCK_SHIFT_MAX).find(fits).unwrap_or(BLOCK_SHIFT_MAX);
    let files = |inodes: u64| u32::try_from(inodes).unwrap_or(u32::MAX);
    let blocks = |bytes: u64| files(bytes.div_ceil(1 << shift));
    let block_limit = |limit: Option<u64>| limit.map_or(0, |bytes| blocks(bytes).max(1));
    let file_limit = |limit: Option<u64>| limit.map_or(0, |inodes| files(inodes).max(1));
    rquota::Quota {
        block_bytes: 1 << shift,
        is_active: !limits.is_none(),
        block_hard_limit: block_limit(limits.bytes.hard),
        block_soft_limit: block_limit(limits.bytes.soft),
        blocks: blocks(quota.bytes_used),
        file_hard_limit: file_limit(limits.inodes.hard),
        file_soft_limit: file_limit(limits.inodes.soft),
        files: files(quota.inodes_used),
        block_time_left: seconds_left(exceeded.bytes, grace.bytes, now),
        file_time_left: seconds_left(exceeded.inodes, grace.inodes, now),
    }
}

/// Returns the seconds until a soft limit holds that is exceeded since a time; negative if it does, never 0.
fn seconds_left(since: Option<Time>, grace: Duration, now: Time) -> i32 {
    const NANOS: i64 = 1_000_000_000;
    let Some(since) = since else { return 0 };
    let left = since.plus(grace).nanos().saturating_sub(now.nanos());
    let begun = left.div_euclid(NANOS).saturating_add(i64::from(left.rem_euclid(NANOS) > 0));
    let seconds = if left > 0 { begun } else { begun.min(-1) };
    i32::try_from(seconds).unwrap_or(if seconds > 0 { i32::MAX } else { i32::MIN })
}

#[cfg(test)]
mod tests {
    use volume::quota::{Exceeded, Grace, Limit, Limits};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn quota_of(hard: u64, used: u64) -> Quota {
        let bytes = Limit { soft: None, hard: Some(hard) };
        Quota {
            owner: Owner::new(QuotaKind::User, 7),
            limits: Limits { bytes, inodes: Limit::default() },
            is_default: false,
            grace: Grace { bytes: 7 * SECOND, inodes: 7 * SECOND },
            exceeded: Exceeded::default(),
            bytes_used: used,
            inodes_used: 3,
        }
    }

    fn shown(hard: u64, used: u64) -> (u32, u32, u32) {
        let shown = described(&quota_of(hard, used), Time::EPOCH);
        (shown.block_bytes, shown.block_hard_limit, shown.blocks)
    }

    #[test]
    fn blocks_grow_with_what_is_shown() {
        assert_eq!(shown(10 << 10, 1), (1024, 10, 1));
        assert_eq!(shown(1025, 1024), (1024, 2, 1));
        assert_eq!(shown(0, 0), (1024, 1, 0), "a limit of nothing is not none");
        let largest = u64::from(u32::MAX) << 10;
        assert_eq!(shown(largest, 0), (1024, u32::MAX, 0));
        assert_eq!(shown(largest + 1, 5), (2048, 1 << 31, 1));
        assert_eq!(shown(1, 1 << 50), (1 << 19, 1, 1 << 31));
        assert_eq!(shown(u64::MAX, 0), (1 << 30, u32::MAX, 0));
    }

    #[test]
    fn files_beyond_32_bits_are_shown_as_the_most() {
        let mut quota = quota_of(1, 0);
        quota.limits.inodes = Limit { soft: Some(0), hard: Some(1 << 40) };
        quota.inodes_used = u64::MAX;
        let shown = described(&quota, Time::EPOCH);
        assert_eq!((shown.file_soft_limit, shown.file_hard_limit, shown.files), (1, u32::MAX, u32::MAX));
        assert!(shown.is_active);
    }

    #[test]
    fn the_grace_period_runs_out() {
        let left = |nanos: i64| {
            let mut quota = quota_of(1, 2);
            quota.exceeded.bytes = Some(Time::from_parts(100, 0));
            let shown = described(&quota, Time::from_nanos(100_000_000_000 + nanos));
            assert_eq!(shown.file_time_left, 0, "that limit is not exceeded");
            shown.block_time_left
        };
        assert_eq!((left(0), left(1), left(6_999_999_999)), (7, 7, 1));
        assert_eq!((left(7_000_000_000), left(7_000_000_001), left(9_500_000_000)), (-1, -1, -2));
        let ever = Duration::from_secs(1 << 40);
        assert_eq!(seconds_left(Some(Time::EPOCH), ever, Time::EPOCH), i32::MAX);
    }
}
