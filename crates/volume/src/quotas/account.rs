//! What one owner uses, what is reserved for it, and what it may use.
//!
//! Data that fills holes counts when it is accepted, so that writing it back never exceeds a limit. What is reserved for unstable
//! data may be more than it fills; before a caller is refused for that, a flush finds out.

use crate::api::quotas::{Bound, Exceeded, Grace, Limit, Limits};
use crate::api::time::Time;
use crate::encoding::record::UsageRecord;

/// Stands for no limit.
const UNLIMITED: u64 = u64::MAX;

/// After so many flushes, a caller is refused whom others overtook during each of them, though a further flush might make room.
const FLUSHES_MAX: u32 = 8;

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// What is used takes all that this limit allows.
    Full(Bound),
    /// A flush may leave less reserved.
    Unflushed,
}

/// What callers wait for who do not fit with what is reserved.
#[derive(Clone, Copy, Debug)]
struct Short {
    /// The most bytes that one of them needs. Until that one is answered or fits, smaller reservations that succeed do not end this:
    /// they would have it wait for ever.
    bytes: u64,
    /// The flush after which they are refused.
    flush: u64,
    /// Flushes that they have waited for, this one included.
    flushes: u32,
    /// Whether less was reserved since, so that another flush may make room.
    is_stale: bool,
    /// Whether a caller who needs the most was refused.
    is_answered: bool,
}

/// The account of an owner.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// What the usage counter says.
    used: UsageRecord,
    /// What unstable data, and transactions being made, may add to that.
    reserved: UsageRecord,
    limits: Limits,
    grace: Grace,
    exceeded: Exceeded,
    /// Whether there was no room for a note of what is exceeded.
    is_unnoted: bool,
    /// Set while callers do not fit with what is reserved.
    short: Option<Short>,
    /// So many objects can be made before a limit matters: before one is refused, or a soft limit begins to be exceeded.
    inodes_left: u64,
}

impl Account {
    pub(super) fn new(used: UsageRecord) -> Account {
        Account { used, ..Account::default() }
    }

    /// Sets the limits. Whoever waits for room begins anew.
    pub(super) fn limit(&mut self, limits: Limits, grace: Grace, exceeded: Exceeded) {
        (self.limits, self.grace) = (limits, grace);
        self.exceeded = still_exceeded(&limits, self.used, exceeded);
        self.is_unnoted &= self.exceeded != Exceeded::default();
        self.short = None;
        self.changed();
    }

    /// Finds out anew from where on limits on objects matter, after something changed that this depends on.
    fn changed(&mut self) {
        let Limit { soft, hard } = self.limits.inodes;
        let least = soft.unwrap_or(UNLIMITED).min(hard.unwrap_or(UNLIMITED));
        let taken = sum([self.used.inodes, self.reserved.inodes]);
        self.inodes_left = if self.exceeded.inodes.is_some() { 0 } else { least.saturating_sub(taken) };
    }

    /// Counts a new object, if no limit matters to it. Returns whether that is so.
    #[inline]
    pub(super) fn count_object(&mut self) -> bool {
        let is_room = self.inodes_left > 0;
        if is_room {
            self.inodes_left -= 1;
            self.used.inodes += 1;
        }
        is_room
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn used(&self) -> UsageRecord {
        self.used
    }

    pub(super) fn reserved(&self) -> UsageRecord {
        self.reserved
    }

    /// Returns since when soft limits are exceeded, if only this account knows.
    pub(super) fn unnoted(&self) -> Option<Exceeded> {
        self.is_unnoted.then_some(self.exceeded)
    }

    /// Notes whether there is no room for a note of what is exceeded.
    pub(super) fn set_unnoted(&mut self, is_unnoted: bool) {
        self.is_unnoted = is_unnoted;
    }

    /// Whether nothing is reserved, so that it can be closed, and opened again at its next use.
    pub(super) fn is_idle(&self) -> bool {
        self.reserved == UsageRecord::default()
    }

    /// Whether something is forgotten when it is closed: a time that is not noted, or that callers wait.
    pub(super) fn is_remembering(&self) -> bool {
        self.is_unnoted || self.short.is_some()
    }

    /// Checks whether so much fits with what is used and reserved; `flushed` is the last flush done.
    pub(super) fn check(&mut self, more: UsageRecord, flushed: u64, now: Time) -> Result<(), Shortage> {
        let most = in_force(self.limits.inodes, self.exceeded.inodes, self.grace.inodes, now);
        let wanted = sum([self.used.inodes, self.reserved.inodes, more.inodes]);
        if more.inodes > 0 && wanted > most {
            return Err(Shortage::Full(bound(self.limits.inodes, wanted)));
        }
        let most = in_force(self.limits.bytes, self.exceeded.bytes, self.grace.bytes, now);
        if more.bytes == 0 || sum([self.used.bytes, self.reserved.bytes, more.bytes]) <= most {
            return Ok(());
        }
        if sum([self.used.bytes, more.bytes]) > most {
            return Err(self.refuse(more.bytes));
        }
        let is_overtaken = |short: Short| more.bytes >= short.bytes && short.flushes >= FLUSHES_MAX;
        let has_waited = |short: Short| flushed >= short.flush && (!short.is_stale || is_overtaken(short));
        Err(if self.short.is_some_and(has_waited) { self.refuse(more.bytes) } else { Shortage::Unflushed })
    }

    /// Notes that a caller who needs so many bytes is refused.
    fn refuse(&mut self, bytes: u64) -> Shortage {
        self.short.iter_mut().for_each(|short| short.is_answered |= bytes >= short.bytes);
        Shortage::Full(bound(self.limits.bytes, sum([self.used.bytes, self.reserved.bytes, bytes])))
    }

    /// Reserves what was checked.
    pub(super) fn reserve(&mut self, more: UsageRecord) {
        self.reserved = plus(self.reserved, more);
        if let Some(short) = &mut self.short {
            let taken = sum([self.used.bytes, self.reserved.bytes]);
            let left = self.limits.bytes.hard.unwrap_or(UNLIMITED).saturating_sub(taken);
            short.is_stale = true;
            if short.bytes <= left.max(more.bytes) || short.is_answered {
                self.short = None;
            }
        }
        self.changed();
    }

    pub(super) fn release(&mut self, less: UsageRecord) {
        self.reserved.bytes = self.reserved.bytes.saturating_sub(less.bytes);
        self.reserved.inodes = self.reserved.inodes.saturating_sub(less.inodes);
        self.changed();
    }

    /// Notes that a caller who needs so many bytes waits for the flush that `request` requests, or for the one that others wait for;
    /// `flushed` is the last flush done.
    pub(super) fn wait_for(&mut self, bytes: u64, flushed: u64, request: impl FnOnce() -> u64) {
        let before = self.short.filter(|short| !short.is_answered);
        let bytes = before.map_or(bytes, |short| short.bytes.max(bytes));
        self.short = Some(match before.filter(|short| flushed < short.flush) {
            Some(short) => Short { bytes, ..short },
            None => {
                let flushes = 1 + before.map_or(0, |short| short.flushes);
                Short { bytes, flush: request(), flushes, is_stale: false, is_answered: false }
            }
        });
    }

    /// Adds to the usage.
    pub(super) fn change(&mut self, bytes: i64, inodes: i64) {
        self.used = self.used.changed(bytes, inodes);
        self.changed();
    }

    /// Notes which soft limits are exceeded `now`. Returns since when, if that changed or is not noted elsewhere.
    pub(super) fn note_exceeded(&mut self, now: Time) -> Option<Exceeded> {
        let since = |limit: Limit, used: u64, before: Option<Time>| {
            is_exceeded(limit, used).then(|| before.unwrap_or(now))
        };
        let exceeded = Exceeded {
            bytes: since(self.limits.bytes, self.used.bytes, self.exceeded.bytes),
            inodes: since(self.limits.inodes, self.used.inodes, self.exceeded.inodes),
        };
        (exceeded != self.exceeded || self.is_unnoted).then(|| {
            self.exceeded = exceeded;
            self.changed();
            exceeded
        })
    }
}

/// Returns which soft limits are exceeded still. What is removed while an account is not open is noted when it is opened.
pub(crate) fn still_exceeded(limits: &Limits, used: UsageRecord, exceeded: Exceeded) -> Exceeded {
    Exceeded {
        bytes: exceeded.bytes.filter(|_| is_exceeded(limits.bytes, used.bytes)),
        inodes: exceeded.inodes.filter(|_| is_exceeded(limits.inodes, used.inodes)),
    }
}

/// Whether more is used than the soft limit allows.
fn is_exceeded(limit: Limit, used: u64) -> bool {
    limit.soft.is_some_and(|soft| used > soft)
}

/// Returns the limit in force: the soft one if it is exceeded since longer than the grace period.
fn in_force(limit: Limit, exceeded: Option<Time>, grace: std::time::Duration, now: Time) -> u64 {
    let hard = limit.hard.unwrap_or(UNLIMITED);
    match (limit.soft, exceeded) {
        (Some(soft), Some(since)) if now >= since.plus(grace) => hard.min(soft),
        _ => hard,
    }
}

/// Returns which limit refuses somebody because of whom so much would be used.
fn bound(limit: Limit, wanted: u64) -> Bound {
    if limit.hard.is_some_and(|hard| wanted > hard) { Bound::Hard } else { Bound::Soft }
}

fn sum<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

/// Adds two amounts.
pub(super) fn plus(a: UsageRecord, b: UsageRecord) -> UsageRecord {
    UsageRecord { bytes: a.bytes.saturating_add(b.bytes), inodes: a.inodes.saturating_add(b.inodes) }
}

#[cfg(test)]
mod tests;
