//! Limits of the volume, of users and of groups in the model: what they leave room for, and what a call adds.
//!
//! What is used is counted from the objects each time. Unstable data counts as soon as its WRITE is answered: an engine that accepts
//! it without room must exceed the limit later, or lose it.

use std::collections::BTreeMap;
use std::rc::Rc;

use volume::quota::{Limits, Owner, QuotaKind};
use volume::request::{Credentials, Error};

use super::inode::Inode;
use super::judged::Expected;
use super::recovery::Tree;
use super::{End, Judged, Judgement, Model, Observed};

/// What owners use, or what a call adds to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of file data, without holes, and of extended attributes.
    pub bytes: u64,
    /// Objects.
    pub inodes: u64,
}

impl Usage {
    /// One more object.
    pub(super) const ONE_OBJECT: Usage = Usage { bytes: 0, inodes: 1 };

    /// More bytes.
    pub(super) fn of_bytes(bytes: u64) -> Usage {
        Usage { bytes, inodes: 0 }
    }
}

/// The owners that the workload limits; the users and groups are those of its callers.
pub const LIMITED: [Owner; 9] = [
    Owner::VOLUME,
    Owner { kind: QuotaKind::User, id: 1000 },
    Owner { kind: QuotaKind::User, id: 1001 },
    Owner { kind: QuotaKind::User, id: 1002 },
    Owner { kind: QuotaKind::Group, id: 100 },
    Owner { kind: QuotaKind::Group, id: 200 },
    Owner { kind: QuotaKind::Group, id: 300 },
    OTHER_USERS,
    OTHER_GROUPS,
];

/// All users and groups without limits of their own; the engine has the same numbers.
const OTHER_USERS: Owner = Owner { kind: QuotaKind::User, id: u64::MAX };
const OTHER_GROUPS: Owner = Owner { kind: QuotaKind::Group, id: u64::MAX };

/// Returns the owners of an object.
pub(super) fn owners(uid: u32, gid: u32) -> [Owner; 3] {
    [Owner::VOLUME, Owner::new(QuotaKind::User, u64::from(uid)), Owner::new(QuotaKind::Group, u64::from(gid))]
}

/// Adds what an object uses to the usage of its owners. Only the volume counts names beyond an object's first.
pub(crate) fn count(
    used: &mut BTreeMap<Owner, Usage>,
    (uid, gid): (u32, u32),
    bytes: u64,
    further_names: u64,
) {
    for owner in owners(uid, gid) {
        let usage = used.entry(owner).or_default();
        usage.bytes += bytes;
        usage.inodes += if owner == Owner::VOLUME { 1 + further_names } else { 1 };
    }
}

impl Model {
    /// Returns what all owners use.
    #[must_use]
    pub fn usage(&self) -> BTreeMap<Owner, Usage> {
        let mut used = BTreeMap::new();
        for inode in self.inodes.values() {
            count(&mut used, (inode.uid, inode.gid), inode.used(), inode.counted() - 1);
        }
        used
    }

    /// Returns the limits in force for an owner.
    pub(super) fn limits_in_force(&self, owner: Owner) -> Limits {
        let of_others = match owner.kind {
            QuotaKind::User => OTHER_USERS,
            QuotaKind::Group => OTHER_GROUPS,
            _ => owner,
        };
        if owner.kind != QuotaKind::Volume && owner.id == 0 {
            return Limits::default();
        }
        self.quotas.get(&owner).or_else(|| self.quotas.get(&of_others)).copied().unwrap_or_default()
    }

    /// Whether the limits of these owners leave room for this. Those of users and groups do not bind the superuser.
    pub(super) fn has_room(&self, who: &Credentials, owners: &[Owner], more: Usage) -> bool {
        let bound = |owner: &&Owner| owner.kind == QuotaKind::Volume || who.uid != 0;
        self.has_room_for_all(owners.iter().filter(bound), more)
    }

    fn has_room_for_all<'o>(&self, owners: impl Iterator<Item = &'o Owner>, more: Usage) -> bool {
        if self.quotas.is_empty() || more == Usage::default() {
            return true;
        }
        let used = self.usage();
        let fits = |limit: Option<u64>, used: u64, more: u64| {
            more == 0 || limit.is_none_or(|limit| used.saturating_add(more) <= limit)
        };
        let mut owners = owners;
        owners.all(|owner| {
            let (limits, used) = (self.limits_in_force(*owner), used.get(owner).copied().unwrap_or_default());
            fits(limits.bytes.hard, used.bytes, more.bytes)
                && fits(limits.inodes.hard, used.inodes, more.inodes)
        })
    }

    /// Whether a crash left open what is used.
    fn is_usage_open(&self) -> bool {
        self.inodes.values().any(|inode| inode.used_free)
    }

    /// Requires room within the limits of an object's owners: the call fails exactly if there is none.
    pub(super) fn require_room(
        &self,
        expected: &mut Expected,
        who: &Credentials,
        (uid, gid): (u32, u32),
        more: Usage,
    ) {
        self.require(expected, self.has_room(who, &owners(uid, gid), more));
    }

    fn require(&self, expected: &mut Expected, has_room: bool) {
        if self.is_usage_open() {
            expected.may(!self.quotas.is_empty(), Error::QuotaExceeded);
        } else {
            expected.must(!has_room, Error::QuotaExceeded);
        }
    }

    /// Requires room for a further name, which counts for the volume.
    pub(super) fn require_room_for_name(&self, expected: &mut Expected) {
        let has_room = self.has_room_for_all([Owner::VOLUME].iter(), Usage::ONE_OBJECT);
        self.require(expected, has_room);
    }

    /// Requires room for an object within the limits of its new owners, which bind those too to whom the superuser gives it.
    pub(super) fn require_room_for_new_owners(
        &self,
        expected: &mut Expected,
        inode: &Inode,
        (uid, gid): (Option<u32>, Option<u32>),
    ) {
        let (before, after) =
            (owners(inode.uid, inode.gid), owners(uid.unwrap_or(inode.uid), gid.unwrap_or(inode.gid)));
        let new = after.iter().filter(|owner| !before.contains(owner));
        let has_room = self.has_room_for_all(new, Usage { bytes: inode.used(), inodes: 1 });
        self.require(expected, has_room);
    }

    /// Judges a copy of some bytes: whether what it added fitted.
    pub(super) fn judge_room(&self, who: &Credentials, (uid, gid): (u32, u32), more: Usage) -> Judgement<()> {
        if self.is_usage_open() || self.has_room(who, &owners(uid, gid), more) {
            return Ok(());
        }
        Err(format!("a limit of {uid} or {gid} was exceeded by {more:?}"))
    }

    /// Judges the setting of a quota, and sets it.
    pub(super) fn set_quota(
        &mut self,
        call: &Judged<'_>,
        (owner, limits): (Owner, Option<Limits>),
    ) -> Result<Observed, End> {
        self.decide(call, Expected::of_growth())?;
        self.mutations += 1;
        let quotas = Rc::make_mut(&mut self.quotas);
        match limits {
            Some(limits) => drop(quotas.insert(owner, limits)),
            None => drop(quotas.remove(&owner)),
        }
        Ok(Observed { mutation: self.mutations, ..Observed::default() })
    }

    /// Compares the limits in force after a crash with those of this state. No owner uses more than in this state, which counts all
    /// unstable data that was accepted: so no limit is exceeded that was not before.
    pub(super) fn compare_quotas(&self, tree: &Tree) -> Judgement<()> {
        for owner in LIMITED {
            let expected = self.limits_in_force(owner);
            if tree.quotas.get(&owner) != Some(&expected) {
                return Err(format!(
                    "the limits of {owner:?} are {:?}, expected {expected:?}",
                    tree.quotas.get(&owner)
                ));
            }
        }
        if tree.set_limits != *self.quotas {
            return Err(format!("the limits {:?} are set, expected {:?}", tree.set_limits, self.quotas));
        }
        let known = self.usage();
        let is_more = |(owner, found): &(&Owner, &Usage)| {
            let known = known.get(owner).copied().unwrap_or_default();
            found.bytes > known.bytes || found.inodes != known.inodes
        };
        match tree.usage().iter().find(is_more) {
            Some((owner, found)) if !self.is_usage_open() => {
                Err(format!("{owner:?} uses {found:?}, expected at most {:?}", known.get(owner)))
            }
            _ => Ok(()),
        }
    }
}
