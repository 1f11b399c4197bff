//! The quotas of a volume by owner, with counts of what is set and of those that exceed soft limits: setting a quota takes the same
//! time however many there are, except that the quota of all others of a kind recounts that kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::quotas::{Exceeded, Limit, Limits, Owner, QuotaKind};
use crate::api::time::Time;
use crate::encoding::record::QuotaRecord;

use super::budget::Budget;

/// The quotas of a volume. One that stands for all others of a kind has their limits and the grace period, and the time from which on
/// notes count; one without limits and without a grace period is a *note* that an owner exceeds a soft limit of all others.
#[derive(Debug)]
pub(crate) struct Quotas {
    by_owner: BTreeMap<Owner, QuotaRecord>,
    notes: usize,
    /// Those with limits, by kind.
    limited: [usize; QuotaKind::ALL.len()],
    /// Those with a soft limit.
    soft: usize,
    /// Owners that exceed a soft limit, by kind.
    exceeding: [usize; QuotaKind::ALL.len()],
    /// Counts the notes of all volumes.
    budget: Arc<Budget>,
}

impl Drop for Quotas {
    fn drop(&mut self) {
        self.budget.notes_changed(self.notes, 0);
    }
}

impl Quotas {
    pub(super) fn new(records: BTreeMap<Owner, QuotaRecord>, budget: Arc<Budget>) -> Quotas {
        let mut quotas = Quotas {
            by_owner: BTreeMap::new(),
            notes: 0,
            limited: [0; QuotaKind::ALL.len()],
            soft: 0,
            exceeding: [0; QuotaKind::ALL.len()],
            budget,
        };
        for (owner, record) in records {
            quotas.put(owner, record);
        }
        quotas
    }

    /// Replaces all of them.
    pub(super) fn replace(&mut self, records: BTreeMap<Owner, QuotaRecord>) {
        *self = Quotas::new(records, Arc::clone(&self.budget));
    }

    pub(crate) fn by_owner(&self) -> &BTreeMap<Owner, QuotaRecord> {
        &self.by_owner
    }

    /// Returns the number of those that an administrator has set.
    pub(crate) fn set(&self) -> usize {
        self.by_owner.len() - self.notes
    }

    /// Whether there is room for one more note.
    pub(super) fn can_take_note(&self) -> bool {
        self.budget.can_take_note(self.notes)
    }

    /// Returns how many owners of each kind exceed a soft limit.
    pub(crate) fn exceeding(&self) -> [usize; QuotaKind::ALL.len()] {
        self.exceeding
    }

    pub(super) fn record(&self, owner: Owner) -> QuotaRecord {
        self.by_owner.get(&owner).copied().unwrap_or_default()
    }

    /// Whether an owner of this kind, or all others, have limits.
    pub(super) fn has_limits(&self, kind: QuotaKind) -> bool {
        self.limited[usize::from(kind.byte())] > 0
    }

    /// Whether there is a soft limit.
    pub(super) fn has_soft(&self) -> bool {
        self.soft > 0
    }

    /// Returns since when an owner exceeds soft limits that it has, according to its record.
    pub(super) fn exceeded(&self, owner: Owner) -> Exceeded {
        self.valid_exceeded(owner, self.record(owner).exceeded)
    }

    /// Returns which of these times say since when an owner exceeds soft limits that it has.
    pub(super) fn valid_exceeded(&self, owner: Owner, noted: Exceeded) -> Exceeded {
        let record = QuotaRecord { exceeded: noted, ..self.record(owner) };
        exceeded(&record, &self.record(Owner::others(owner.kind)))
    }

    /// Replaces the record of an owner; an empty one is not kept.
    pub(super) fn put(&mut self, owner: Owner, record: QuotaRecord) {
        let before = if record.is_empty() {
            self.by_owner.remove(&owner)
        } else {
            self.by_owner.insert(owner, record)
        };
        let before = before.unwrap_or_default();
        let kind = usize::from(owner.kind.byte());
        let step = |count: &mut usize, is_one: &dyn Fn(&QuotaRecord) -> bool| {
            *count = *count + usize::from(is_one(&record)) - usize::from(is_one(&before));
        };
        let notes = self.notes;
        step(&mut self.notes, &is_note);
        self.budget.notes_changed(notes, self.notes);
        step(&mut self.limited[kind], &|record| record.limits.is_some());
        step(&mut self.soft, &|record| record.limits.is_some_and(|limits| limits.has_soft()));
        let others = self.record(Owner::others(owner.kind));
        if !owner.is_others() {
            step(&mut self.exceeding[kind], &|record| exceeded(record, &others) != Exceeded::default());
        } else if (before.limits, before.exceeded) != (record.limits, record.exceeded) {
            let all = self.by_owner.range(Owner::new(owner.kind, 0)..owner);
            let exceeding = all.filter(|(_, record)| exceeded(record, &others) != Exceeded::default());
            self.exceeding[kind] = exceeding.count();
        }
    }
}

fn is_note(record: &QuotaRecord) -> bool {
    !record.is_empty() && record.limits.is_none() && record.grace.is_none()
}

/// Returns since when an owner exceeds soft limits that it has, where `others` is the record of all others. A note says nothing of a
/// time before their limits were set.
fn exceeded(record: &QuotaRecord, others: &QuotaRecord) -> Exceeded {
    let (limits, set) = match record.limits {
        Some(limits) => (limits, Exceeded::default()),
        None => (others.limits.unwrap_or_default(), others.exceeded),
    };
    let valid = |since: Option<Time>, set: Option<Time>, limit: Limit| {
        since.filter(|since| limit.soft.is_some() && set.is_none_or(|set| *since >= set))
    };
    let Limits { bytes, inodes } = limits;
    Exceeded {
        bytes: valid(record.exceeded.bytes, set.bytes, bytes),
        inodes: valid(record.exceeded.inodes, set.inodes, inodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::quotas::Grace;
    use crate::media::memory::Random;

    const KIND: QuotaKind = QuotaKind::User;

    fn user(id: u64) -> Owner {
        Owner::new(KIND, id)
    }

    fn none() -> Quotas {
        Quotas::new(BTreeMap::new(), Arc::new(Budget::new(1 << 20)))
    }

    fn soft(bytes: u64) -> Option<Limits> {
        let bytes = Limit { soft: Some(bytes), hard: None };
        Some(Limits { bytes, ..Limits::default() })
    }

    fn since(nanos: i64) -> Exceeded {
        Exceeded { bytes: Some(Time::from_nanos(nanos)), inodes: None }
    }

    #[test]
    fn notes_and_owners_over_soft_limits_are_counted() {
        let mut quotas = none();
        let note = QuotaRecord { exceeded: since(1), ..QuotaRecord::default() };
        let grace = Some(Grace::default());
        quotas.put(Owner::others(KIND), QuotaRecord { grace, limits: soft(1), ..QuotaRecord::default() });
        quotas.put(user(1), note);
        quotas.put(user(2), QuotaRecord { limits: soft(1), ..note });
        assert_eq!((quotas.set(), quotas.notes, quotas.exceeding()), (2, 1, [0, 0, 2, 0]));
        quotas.put(user(1), note);
        quotas.put(user(2), QuotaRecord { limits: soft(1), ..QuotaRecord::default() });
        assert_eq!((quotas.set(), quotas.notes, quotas.exceeding()), (2, 1, [0, 0, 1, 0]));
        quotas.put(user(1), QuotaRecord::default());
        quotas.put(user(2), QuotaRecord::default());
        assert_eq!((quotas.set(), quotas.notes, quotas.exceeding()), (1, 0, [0; 4]));
    }

    #[test]
    fn a_note_takes_as_much_as_is_counted_for_it() {
        // In a tree whose nodes are half full, as owners in the order of their numbers leave them.
        let bytes = size_of::<(Owner, QuotaRecord)>();
        assert!(2 * bytes as u64 <= crate::limits::QUOTA_NOTE_BYTES, "{bytes}");
    }

    #[test]
    fn notes_count_as_long_as_the_limit_that_they_are_about() {
        let mut quotas = none();
        let others = |quotas: &mut Quotas, limits, exceeded| {
            quotas.put(Owner::others(KIND), QuotaRecord { limits, exceeded, grace: None });
            quotas.exceeding()[2]
        };
        others(&mut quotas, soft(1), since(3));
        for (id, nanos) in [(1, 2), (2, 3), (3, 4)] {
            quotas.put(user(id), QuotaRecord { exceeded: since(nanos), ..QuotaRecord::default() });
        }
        assert_eq!(quotas.exceeding()[2], 2, "one note is of an earlier limit");
        assert_eq!(others(&mut quotas, soft(1), since(4)), 1);
        assert_eq!(others(&mut quotas, Some(Limits::default()), Exceeded::default()), 0);
        assert_eq!(others(&mut quotas, None, Exceeded::default()), 0);
        assert_eq!(others(&mut quotas, soft(1), since(5)), 0);
    }

    #[test]
    fn counts_are_those_of_all_records_whatever_changes() {
        let mut random = Random::new(7);
        let mut quotas = none();
        for step in 0..5000 {
            let owner = if random.below(8) == 0 { Owner::others(KIND) } else { user(1 + random.below(9)) };
            let limits = [None, None, soft(1), Some(Limits::default())][random.index(4)];
            let exceeded = [Exceeded::default(), since(i64::from(step)), since(9)][random.index(3)];
            quotas.put(owner, QuotaRecord { limits, exceeded, grace: None });
            let again = Quotas::new(quotas.by_owner().clone(), Arc::clone(&quotas.budget));
            assert_eq!(
                (quotas.notes, quotas.limited, quotas.soft, quotas.exceeding),
                (again.notes, again.limited, again.soft, again.exceeding),
                "step {step}"
            );
            let is_exceeding =
                |owner: &&Owner| !owner.is_others() && quotas.exceeded(**owner) != Exceeded::default();
            assert_eq!(quotas.exceeding[2], quotas.by_owner().keys().filter(is_exceeding).count());
            assert_eq!(
                quotas.has_limits(KIND),
                quotas.by_owner().values().any(|record| record.limits.is_some())
            );
        }
    }
}
