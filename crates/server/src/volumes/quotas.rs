//! Sets and reports quotas of volumes of open pools.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use volume::Volume;
use volume::quota;
use volume::quota::{Grace, Limits, Owner, QuotaSetting};
use volume::request::{Durability, Error as EngineError};
use volume::time::Time;

use crate::clock::now;
use crate::error::{Error, ErrorKind};

use super::root::check_id;
use super::{failed, with_room};

/// The largest limit: on media, the number above it stands for none.
const LIMIT_MAX: u64 = u64::MAX - 1;

/// What a quota is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaKind {
    /// All files of the volume.
    Volume,
    /// What is beneath the directory of a quota tree.
    Tree,
    /// The files of a user.
    User,
    /// The files of a group.
    Group,
}

impl QuotaKind {
    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<QuotaKind> {
        [QuotaKind::Volume, QuotaKind::Tree, QuotaKind::User, QuotaKind::Group]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.of_engine().name()
    }

    fn of_engine(self) -> quota::QuotaKind {
        match self {
            QuotaKind::Volume => quota::QuotaKind::Volume,
            QuotaKind::Tree => quota::QuotaKind::Tree,
            QuotaKind::User => quota::QuotaKind::User,
            QuotaKind::Group => quota::QuotaKind::Group,
        }
    }
}

/// Two limits on one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limit {
    /// May be exceeded for the grace period; null for no such limit.
    pub soft: Option<u64>,
    /// Is never exceeded; null for no such limit.
    pub hard: Option<u64>,
}

/// How long soft limits may be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GracePeriods {
    /// That on bytes, in seconds.
    pub bytes_seconds: u64,
    /// That on inodes, in seconds.
    pub inodes_seconds: u64,
}

/// What to change of a quota. What is missing stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaChange {
    /// What it is of.
    pub kind: QuotaKind,
    /// The number of the tree, user or group; without it, all trees, users or groups that have no limits of their own.
    #[serde(default)]
    pub id: Option<u64>,
    /// The limits on bytes of file data and extended attributes.
    #[serde(default)]
    pub bytes: Option<Limit>,
    /// The limits on inodes.
    #[serde(default)]
    pub inodes: Option<Limit>,
    /// Removes the limits of this tree, user, group or volume first: a tree, user or group then has those of all others.
    #[serde(default)]
    pub reset: bool,
    /// How long soft limits may be exceeded, of all quotas of this kind: without `id`.
    #[serde(default)]
    pub grace: Option<GracePeriods>,
}

/// A quota, and what is used of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaInfo {
    /// What it is of.
    pub kind: QuotaKind,
    /// The number of the tree, user or group; null for the volume, and for all others of the kind.
    pub id: Option<u64>,
    /// The limits on bytes.
    pub bytes: Limit,
    /// The limits on inodes.
    pub inodes: Limit,
    /// Whether these are the limits of all trees, users or groups that have none of their own.
    pub is_default: bool,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Seconds until the soft limit on bytes, which is exceeded, holds; 0 if it does, null if it is not exceeded.
    pub bytes_grace_left: Option<u64>,
    /// The same of the soft limit on inodes.
    pub inodes_grace_left: Option<u64>,
    /// How long soft limits of this kind may be exceeded.
    pub grace: GracePeriods,
}

/// A page of quotas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaList {
    /// The quotas, in the order of their numbers.
    pub quotas: Vec<QuotaInfo>,
    /// Where the next page begins; null after the last one.
    pub next: Option<u64>,
}

impl Limit {
    fn of(limit: quota::Limit) -> Limit {
        Limit { soft: limit.soft, hard: limit.hard }
    }

    fn of_engine(self) -> quota::Limit {
        quota::Limit { soft: self.soft, hard: self.hard }
    }

    /// Refuses a number that would be kept as no limit.
    fn check(self, what: &str) -> Result<(), Error> {
        match self.soft.max(self.hard) {
            Some(limit) if limit > LIMIT_MAX => Err(Error::usage(format!(
                "{limit} {what} cannot be a limit: the largest is {LIMIT_MAX}; write `none` for no limit, in JSON null"
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns whom a quota of the interface is of.
fn owner_of(kind: QuotaKind, id: Option<u64>) -> Result<Owner, Error> {
    match (kind, id) {
        (QuotaKind::Volume, None) => Ok(Owner::VOLUME),
        (QuotaKind::Volume, Some(_)) => Err(Error::usage("the quota of a volume has no id: omit it")),
        (QuotaKind::Tree, Some(0)) => Err(Error::usage("no tree has the id 0")),
        (_, Some(0)) => Err(Error::usage(format!(
            "the {} 0 has no limits: the superuser is bound by those of trees and volumes only",
            kind.name()
        ))),
        (QuotaKind::Tree, Some(u64::MAX)) => Err(Error::usage(format!("no tree has the id {}", u64::MAX))),
        (QuotaKind::User | QuotaKind::Group, Some(id)) => {
            check_id(kind.name(), id)?;
            Ok(Owner::new(kind.of_engine(), id))
        }
        (QuotaKind::Tree, Some(id)) => Ok(Owner::new(kind.of_engine(), id)),
        (_, None) => Ok(Owner::others(kind.of_engine())),
    }
}

/// Changes a quota. Returns what must be durable before anybody is told.
///
/// # Errors
/// The change makes no sense, or the pool takes no changes.
pub fn set_quota(volume: &Volume, change: &QuotaChange) -> Result<Vec<Durability>, Error> {
    let owner = owner_of(change.kind, change.id)?;
    if change.grace.is_some() && change.id.is_some() {
        return Err(Error::usage("grace periods are those of all quotas of a kind: omit the id"));
    }
    let mut after = Vec::new();
    if change.reset || change.bytes.is_some() || change.inodes.is_some() {
        let limits = changed_limits(volume, owner, change)?;
        after.push(
            with_room(|| volume.set_quota(owner, limits, now())).map_err(|error| cannot(volume, error))?,
        );
    }
    if let Some(grace) = change.grace {
        let seconds = Duration::from_secs;
        let grace = Grace { bytes: seconds(grace.bytes_seconds), inodes: seconds(grace.inodes_seconds) };
        let kind = change.kind.of_engine();
        after.push(
            with_room(|| volume.set_grace(kind, Some(grace), now()))
                .map_err(|error| cannot(volume, error))?,
        );
    }
    if after.is_empty() {
        return Err(Error::usage("nothing to change: give limits, `reset` or grace periods"));
    }
    Ok(after)
}

/// Returns the limits that an owner is to have; none for those of all others.
fn changed_limits(volume: &Volume, owner: Owner, change: &QuotaChange) -> Result<Option<Limits>, Error> {
    for (what, limit) in [("bytes", change.bytes), ("inodes", change.inodes)] {
        limit.unwrap_or_default().check(what)?;
    }
    let quota = volume.quota(owner).map_err(|error| cannot(volume, error))?;
    let before = if change.reset || quota.is_default { Limits::default() } else { quota.limits };
    let new = |limit: Option<Limit>, before| limit.map_or(before, Limit::of_engine);
    let limits = Limits { bytes: new(change.bytes, before.bytes), inodes: new(change.inodes, before.inodes) };
    for (what, limit) in [("bytes", limits.bytes), ("inodes", limits.inodes)] {
        if let (Some(soft), Some(hard)) = (limit.soft, limit.hard)
            && soft > hard
        {
            return Err(Error::usage(format!(
                "the soft limit of {soft} {what} is above the hard one of {hard}"
            )));
        }
    }
    let is_reset = change.reset && change.bytes.is_none() && change.inodes.is_none();
    Ok((!is_reset).then_some(limits))
}

/// Returns a quota.
///
/// # Errors
/// There can be none of this id, or what is used cannot be read.
pub fn quota(volume: &Volume, kind: QuotaKind, id: Option<u64>) -> Result<QuotaInfo, Error> {
    let owner = owner_of(kind, id)?;
    volume.quota(owner).map(|quota| describe(&quota, kind)).map_err(|error| cannot(volume, error))
}

/// Returns up to `max` quotas of trees, users or groups, from a number on, or that of the volume. The first page begins with that of all others.
///
/// # Errors
/// What is used cannot be read.
pub fn quotas(volume: &Volume, kind: QuotaKind, from: Option<u64>, max: usize) -> Result<QuotaList, Error> {
    if kind == QuotaKind::Volume {
        return Ok(QuotaList { quotas: vec![quota(volume, kind, None)?], next: None });
    }
    let first = from.unwrap_or(0);
    let found = volume.quotas(kind.of_engine(), first, max + 1).map_err(|error| cannot(volume, error))?;
    let mut infos: Vec<QuotaInfo> = found.iter().map(|quota| describe(quota, kind)).collect();
    let next = infos.get(max).and_then(|info| info.id);
    infos.truncate(max);
    if from.is_none() {
        infos.insert(0, quota(volume, kind, None)?);
    }
    Ok(QuotaList { quotas: infos, next })
}

/// Quotas whose settings are read at once, while no operation can reserve room.
const SETTINGS_AT_ONCE_MAX: usize = 1000;

/// The kind and the number of an owner, its limits on bytes and on inodes, and grace periods.
pub(crate) type Settings = (&'static str, u64, Option<(Limit, Limit)>, Option<(u64, u64)>);

/// Returns what is set of quotas, in the order of owners.
pub(crate) fn settings(volume: Volume) -> impl Iterator<Item = Settings> {
    let mut last: Option<Owner> = None;
    let pages = std::iter::from_fn(move || {
        let page = volume.quota_settings(last, SETTINGS_AT_ONCE_MAX);
        last = page.last()?.owner.into();
        Some(page)
    });
    let set = pages.flatten().filter(|setting| setting.limits.is_some() || setting.grace.is_some());
    set.map(|QuotaSetting { owner, limits, grace }| {
        let limits = limits.map(|limits| (Limit::of(limits.bytes), Limit::of(limits.inodes)));
        let grace = grace.map(|grace| (grace.bytes.as_secs(), grace.inodes.as_secs()));
        (owner.kind.name(), owner.id, limits, grace)
    })
}

fn describe(quota: &quota::Quota, kind: QuotaKind) -> QuotaInfo {
    let now = now();
    let left = |since: Option<Time>, grace: Duration| {
        let end = since?.plus(grace);
        Some(u64::try_from(end.nanos().saturating_sub(now.nanos())).unwrap_or(0).div_ceil(1_000_000_000))
    };
    let has_id = kind != QuotaKind::Volume && !quota.owner.is_others();
    QuotaInfo {
        kind,
        id: Some(quota.owner.id).filter(|_| has_id),
        bytes: Limit::of(quota.limits.bytes),
        inodes: Limit::of(quota.limits.inodes),
        is_default: quota.is_default,
        used_bytes: quota.bytes_used,
        used_inodes: quota.inodes_used,
        bytes_grace_left: left(quota.exceeded.bytes, quota.grace.bytes),
        inodes_grace_left: left(quota.exceeded.inodes, quota.grace.inodes),
        grace: GracePeriods {
            bytes_seconds: quota.grace.bytes.as_secs(),
            inodes_seconds: quota.grace.inodes.as_secs(),
        },
    }
}

fn cannot(volume: &Volume, error: EngineError) -> Error {
    if error == EngineError::NoEntry {
        let sentence = format!("the volume {:?} has no quota tree of this number", volume.name());
        return Error { kind: ErrorKind::NotFound, sentence };
    }
    if error == EngineError::TooManyQuotas {
        let sentence = format!(
            "the volume {:?} takes no more quotas: {error}; `reset` those of some first",
            volume.name()
        );
        return Error { kind: ErrorKind::Conflict, sentence };
    }
    failed("change the quotas of", &volume.name(), volume.pool(), error)
}
