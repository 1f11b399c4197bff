//! The quotas of a volume by owner, with counts of those that exceed soft limits.

use std::collections::BTreeMap;

use crate::api::quotas::{Exceeded, Owner, QuotaKind};
use crate::encoding::record::QuotaRecord;

/// The quotas of a volume. One that stands for all others of a kind has their limits and the grace period, and the time from which on
/// notes count; one without limits and without a grace period is a *note* that an owner exceeds a soft limit of all others.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    by_owner: BTreeMap<Owner, QuotaRecord>,
    notes: usize,
    /// Owners that exceed a soft limit, by kind.
    exceeding: [usize; QuotaKind::ALL.len()],
}

impl Quotas {
    pub(super) fn new(records: BTreeMap<Owner, QuotaRecord>) -> Quotas {
        let mut quotas = Quotas::default();
        for (owner, record) in records {
            quotas.put(owner, record);
        }
        quotas
    }

    pub(crate) fn by_owner(&self) -> &BTreeMap<Owner, QuotaRecord> {
        &self.by_owner
    }

    /// Returns the number of those that an administrator has set.
    pub(crate) fn set(&self) -> usize {
        self.by_owner.len() - self.notes
    }

    pub(super) fn notes(&self) -> usize {
        self.notes
    }

    /// Returns how many owners of each kind exceed a soft limit.
    pub(crate) fn exceeding(&self) -> [usize; QuotaKind::ALL.len()] {
        self.exceeding
    }

    pub(super) fn record(&self, owner: Owner) -> QuotaRecord {
        self.by_owner.get(&owner).copied().unwrap_or_default()
    }

    /// Replaces the record of an owner; an empty one is not kept.
    pub(super) fn put(&mut self, owner: Owner, record: QuotaRecord) {
        let before = if record.is_empty() {
            self.by_owner.remove(&owner)
        } else {
            self.by_owner.insert(owner, record)
        };
        let exceeding = &mut self.exceeding[usize::from(owner.kind.byte())];
        for (record, counts) in [(before.unwrap_or_default(), false), (record, true)] {
            let step = |count: &mut usize, is_one: bool| {
                *count = if counts { *count + usize::from(is_one) } else { *count - usize::from(is_one) };
            };
            step(&mut self.notes, is_note(&record));
            step(exceeding, record.exceeded != Exceeded::default() && !owner.is_others());
        }
    }
}

fn is_note(record: &QuotaRecord) -> bool {
    !record.is_empty() && record.limits.is_none() && record.grace.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::quotas::{Grace, Limits};
    use crate::api::time::Time;

    #[test]
    fn notes_and_owners_over_soft_limits_are_counted() {
        let mut quotas = Quotas::default();
        let user = |id| Owner::new(QuotaKind::User, id);
        let exceeded = Exceeded { bytes: Some(Time::from_nanos(1)), inodes: None };
        let note = QuotaRecord { exceeded, ..QuotaRecord::default() };
        quotas.put(user(1), note);
        quotas.put(user(2), QuotaRecord { limits: Some(Limits::default()), ..note });
        quotas.put(
            Owner::others(QuotaKind::User),
            QuotaRecord { grace: Some(Grace::default()), ..QuotaRecord::default() },
        );
        assert_eq!((quotas.set(), quotas.notes(), quotas.exceeding()), (2, 1, [0, 0, 2, 0]));
        quotas.put(user(1), note);
        quotas.put(user(2), QuotaRecord { limits: Some(Limits::default()), ..QuotaRecord::default() });
        assert_eq!((quotas.set(), quotas.notes(), quotas.exceeding()), (2, 1, [0, 0, 1, 0]));
        quotas.put(user(1), QuotaRecord::default());
        quotas.put(user(2), QuotaRecord::default());
        assert_eq!((quotas.set(), quotas.notes(), quotas.exceeding()), (1, 0, [0; 4]));
    }
}
