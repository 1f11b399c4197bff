//! The record about a quota.

use std::time::Duration;

use crate::api::quotas::{Exceeded, Grace, Limit, Limits};
use crate::api::time::Time;
use crate::encoding::codec::{Malformed, Reader, Write};

/// The quota of one owner, or what is common to all owners of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaRecord {
    /// Its limits; `None` for those of all others of its kind.
    pub limits: Option<Limits>,
    /// Since when soft limits are exceeded. Of all others of a kind: when their soft limits were set, or lowered last. Notes about
    /// owners of an earlier time say nothing.
    pub exceeded: Exceeded,
    /// Of all others of a kind: how long soft limits may be exceeded, unless that is the usual time.
    pub grace: Option<Grace>,
}

/// Stands for no limit.
const UNLIMITED: u64 = u64::MAX;

const HAS_LIMITS: u8 = 1;
const BYTES_EXCEEDED: u8 = 2;
const INODES_EXCEEDED: u8 = 4;
const HAS_GRACE: u8 = 8;

impl QuotaRecord {
    /// Whether it says nothing, so that it need not be kept.
    pub fn is_empty(&self) -> bool {
        *self == QuotaRecord::default()
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(65);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.u8(flag(self.limits.is_some(), HAS_LIMITS)
            | flag(self.exceeded.bytes.is_some(), BYTES_EXCEEDED)
            | flag(self.exceeded.inodes.is_some(), INODES_EXCEEDED)
            | flag(self.grace.is_some(), HAS_GRACE));
        if let Some(limits) = &self.limits {
            for limit in [limits.bytes, limits.inodes] {
                out.u64(limit.soft.unwrap_or(UNLIMITED));
                out.u64(limit.hard.unwrap_or(UNLIMITED));
            }
        }
        for since in [self.exceeded.bytes, self.exceeded.inodes].into_iter().flatten() {
            out.i64(since.nanos());
        }
        if let Some(grace) = &self.grace {
            out.u64(grace.bytes.as_secs());
            out.u64(grace.inodes.as_secs());
        }
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<QuotaRecord, Malformed> {
        let mut r = Reader::new(bytes, "quota record");
        let flags = r.u8()?;
        if flags & !(HAS_LIMITS | BYTES_EXCEEDED | INODES_EXCEEDED | HAS_GRACE) != 0 {
            return Err(r.malformed());
        }
        let has = |flag| flags & flag != 0;
        let limits = if has(HAS_LIMITS) {
            Some(Limits { bytes: limit(&mut r)?, inodes: limit(&mut r)? })
        } else {
            None
        };
        let mut since =
            |flag| if has(flag) { r.i64().map(|nanos| Some(Time::from_nanos(nanos))) } else { Ok(None) };
        let exceeded = Exceeded { bytes: since(BYTES_EXCEEDED)?, inodes: since(INODES_EXCEEDED)? };
        let mut seconds = || r.u64().map(Duration::from_secs);
        let grace = if has(HAS_GRACE) { Some(Grace { bytes: seconds()?, inodes: seconds()? }) } else { None };
        r.finish()?;
        Ok(QuotaRecord { limits, exceeded, grace })
    }
}

fn limit(r: &mut Reader<'_>) -> Result<Limit, Malformed> {
    let mut one = || r.u64().map(|limit| Some(limit).filter(|limit| *limit != UNLIMITED));
    Ok(Limit { soft: one()?, hard: one()? })
}
