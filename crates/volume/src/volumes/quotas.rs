//! Quotas are set, removed and reported while volumes are served.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::api::quotas::{
    Exceeded, Grace, Limits, Owner, Quota, QuotaCounts, QuotaKind, QuotaNotice, QuotaSetting,
};
use crate::api::request::{Durability, Error};
use crate::api::time::Time;
use crate::encoding::codec::Malformed;
use crate::encoding::key;
use crate::encoding::record::{QuotaRecord, UsageRecord};
use crate::limits::QUOTAS_MAX;
use crate::pool::Subject;
use crate::quotas::account::still_exceeded;
use crate::tables::usage;
use crate::transaction::change::NewQuota;
use crate::volume::Volume;

impl Volume {
    /// Limits what an owner uses; `None` has it have the limits of all others of its kind again, and without any limit it has none, other
    /// than they. Those of all others are set for [`Owner::others`]. A limit below what is used refuses growth only. Unstable data that
    /// is accepted at the same moment may exceed a limit where there was none. Reads media.
    ///
    /// # Errors
    /// `Invalid` for the superuser, his group and tree 0, which have no limits, for others than the volume itself, and for a soft
    /// limit above the hard one; `NoEntry` for a tree that there is not; `TooManyQuotas` beyond [`QUOTAS_MAX`]; and those of every change.
    pub fn set_quota(&self, owner: Owner, limits: Option<Limits>, now: Time) -> Result<Durability, Error> {
        let is_of_all_volumes = owner.kind == QuotaKind::Volume && owner != Owner::VOLUME;
        if !owner.may_be_limited() || is_of_all_volumes || !limits.is_none_or(|limits| is_valid(&limits)) {
            return Err(Error::Invalid);
        }
        let _one_at_a_time = self.volume_changes.lock();
        let before = self.quota_record(owner)?;
        let exceeded = match limits.filter(Limits::has_soft) {
            None => Exceeded::default(),
            Some(limits) if owner.is_others() => begun_anew(&before, &limits, now),
            Some(_) => before.exceeded,
        };
        self.put_quota(owner, QuotaRecord { limits, exceeded, ..before }, now)
    }

    /// Sets how long the owners of a kind may exceed soft limits; `None` for the usual time, a week.
    ///
    /// # Errors
    /// Those of every change.
    pub fn set_grace(&self, kind: QuotaKind, grace: Option<Grace>, now: Time) -> Result<Durability, Error> {
        let _one_at_a_time = self.volume_changes.lock();
        let owner = Owner::others(kind);
        let before = self.quota_record(owner)?;
        self.put_quota(owner, QuotaRecord { grace, ..before }, now)
    }

    /// Returns what quotas have done, for each kind in the order of [`QuotaKind::ALL`].
    #[must_use]
    pub fn quota_counts(&self) -> [QuotaCounts; QuotaKind::ALL.len()] {
        self.own.ledger.lock().counts()
    }

    /// Returns what happened to quotas since this was called before, and how much happened besides: an owner is named for the same
    /// at most once an hour, and sixteen are kept.
    #[must_use]
    pub fn take_quota_notices(&self) -> (Vec<(Owner, QuotaNotice)>, u64) {
        self.own.ledger.lock().take_notices()
    }

    fn quota_record(&self, owner: Owner) -> Result<QuotaRecord, Error> {
        let accounts = self.own.ledger.lock();
        let is_one_more = !accounts.quotas().by_owner().contains_key(&owner);
        if is_one_more && accounts.quotas().set() >= QUOTAS_MAX {
            Err(Error::TooManyQuotas)
        } else {
            Ok(accounts.record(owner))
        }
    }

    fn put_quota(&self, owner: Owner, record: QuotaRecord, now: Time) -> Result<Durability, Error> {
        self.expect_accounts(&self.own.ledger);
        // What the owner uses is compared with soft limits at once.
        if !owner.is_others() {
            self.open_account(self.number(), owner)?;
        }
        let is_of_tree = owner.kind == QuotaKind::Tree && !owner.is_others();
        let _tree_stays = is_of_tree.then(|| self.lock_tree(owner)).transpose()?;
        let mut change = self.begin_freeing()?;
        change.set_quota(NewQuota { owner, record, flush: self.write_back.pace(), now });
        Ok(Durability::of(change.commit()))
    }

    /// Returns the quota of an owner, and what it uses. Reads media.
    ///
    /// # Errors
    /// `Io` if a record is lost.
    pub fn quota(&self, owner: Owner) -> Result<Quota, Error> {
        let (view, counter) = (self.view(), (self.number(), owner.kind, owner.id));
        Ok(self.describe(owner, view.usage(counter, self.stored_usage(&view, counter)?)))
    }

    /// Returns up to `max` owners of a kind with an id of at least `from` that use something or have limits of their own, in the order
    /// of their ids. Reads media. Transactions go on meanwhile, so that the sum over many may fit no moment.
    ///
    /// # Errors
    /// `Io` if a record is lost.
    pub fn quotas(&self, kind: QuotaKind, from: u64, max: usize) -> Result<Vec<Quota>, Error> {
        let mut used = self.counters(kind, from, max)?;
        // Beyond the last counter there may be more.
        let last = used.last_key_value().filter(|_| used.len() >= max).map_or(u64::MAX, |(id, _)| *id);
        let limited: Vec<u64> = {
            let accounts = self.own.ledger.lock();
            let range = Owner::new(kind, from)..=Owner::new(kind, last);
            let owners = accounts.quotas().by_owner().range(range).map(|(owner, _)| *owner);
            owners.filter(|owner| !owner.is_others()).map(|owner| owner.id).take(max).collect()
        };
        for id in limited {
            used.entry(id).or_default();
        }
        Ok(used.into_iter().take(max).map(|(id, used)| self.describe(Owner::new(kind, id), used)).collect())
    }

    /// Returns what is kept of up to `max` owners, in their order: those that come after `after`. With [`Owner::others`] it is what all
    /// others of the kind have.
    #[must_use]
    pub fn quota_settings(&self, after: Option<Owner>, max: usize) -> Vec<QuotaSetting> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let accounts = self.own.ledger.lock();
        let records = accounts.quotas().by_owner().range((from, Bound::Unbounded)).take(max);
        records
            .map(|(owner, record)| QuotaSetting { owner: *owner, limits: record.limits, grace: record.grace })
            .collect()
    }

    fn describe(&self, owner: Owner, used: UsageRecord) -> Quota {
        let accounts = self.own.ledger.lock();
        let (limits, is_default) = accounts.quota_of(owner).unwrap_or_default();
        Quota {
            owner,
            limits,
            is_default,
            grace: accounts.grace(owner.kind),
            exceeded: still_exceeded(&limits, used, accounts.exceeded(owner)),
            bytes_used: used.bytes,
            inodes_used: used.inodes,
        }
    }

    /// Returns what owners of a kind use, from an id on, and at most `max` of them; those that use nothing are left out.
    fn counters(&self, kind: QuotaKind, from: u64, max: usize) -> Result<BTreeMap<u64, UsageRecord>, Error> {
        let view = self.view();
        let mut used: BTreeMap<u64, UsageRecord> = BTreeMap::new();
        let key = |id| usage::key_of((self.number(), kind, id));
        let mut damaged = None;
        let scanned = view.index.scan(&key(from), &key(u64::MAX).successor(), &mut |key, value| {
            let id = key::parse(key).and_then(|(_, _, fields)| key::owner(fields)).map(|owner| owner.id);
            match (id, UsageRecord::decode(value)) {
                (Some(id), Ok(record)) => drop(used.insert(id, record)),
                (_, decoded) => damaged = Some(decoded.err().unwrap_or(Malformed("usage key"))),
            }
            if used.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(|error| self.index_failed(Subject::Pool, &error))?;
        if let Some(malformed) = damaged {
            return Err(self.report(Subject::Pool, &malformed));
        }
        let to = used.last_key_value().filter(|_| used.len() >= max).map_or(u64::MAX, |(id, _)| *id);
        for layer in view.frozen.iter().chain([&view.active]) {
            for ((volume, of, id), change) in layer.usage.sorted() {
                if (volume, of) == (self.number(), kind) && (from..=to).contains(&id) {
                    let record = used.entry(id).or_default();
                    *record = change.of(*record);
                }
            }
        }
        used.retain(|_, record| *record != UsageRecord::default());
        while used.len() > max {
            used.pop_last();
        }
        Ok(used)
    }
}

/// Returns the times before which notes of owners say nothing, when all others of their kind get these limits. A soft limit that is
/// new, or lower than before, gives everybody a new grace period: who has exceeded one that is gone may have been within the limits
/// meanwhile, of which nothing is noted.
fn begun_anew(before: &QuotaRecord, limits: &Limits, now: Time) -> Exceeded {
    let old = before.limits.unwrap_or_default();
    let since = |old: Option<u64>, new: Option<u64>, since: Option<Time>| {
        let is_stricter = new.unwrap_or(u64::MAX) < old.unwrap_or(u64::MAX);
        if is_stricter { Some(now) } else { since.filter(|_| new.is_some()) }
    };
    Exceeded {
        bytes: since(old.bytes.soft, limits.bytes.soft, before.exceeded.bytes),
        inodes: since(old.inodes.soft, limits.inodes.soft, before.exceeded.inodes),
    }
}

/// Whether no soft limit is above the hard one.
fn is_valid(limits: &Limits) -> bool {
    [limits.bytes, limits.inodes]
        .iter()
        .all(|limit| limit.soft.zip(limit.hard).is_none_or(|(soft, hard)| soft <= hard))
}
