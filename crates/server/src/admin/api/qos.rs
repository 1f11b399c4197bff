//! Rate limits: of targets, pools, volumes and clients.

use std::collections::BTreeMap;
use std::time::Duration;

use qos::tiers;

use crate::http::Response;
use crate::rates::setting::{Rate, rates_of};
use crate::rates::{Kind, Limited};

use super::problem::Problem;
use super::types::{QosChange, QosInfo, TierInfo};
use super::{Api, Asked, json, revision};

/// Lists what has limits, or shows one.
pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let rates = &api.source.reloader.rates;
    let kind = match asked.request.parameter("kind") {
        None => None,
        Some(name) => Some(Kind::from_name(name).ok_or_else(|| {
            Problem::new(422, "`kind` is `target`, `pool`, `volume` or `client`".to_owned())
        })?),
    };
    let found = match (kind, asked.request.parameter("name")) {
        (Some(kind), Some(name)) => vec![rates.show(kind, name)?],
        (None, Some(_)) => {
            return Err(Problem::new(422, "a `name` needs its `kind`: add that parameter".to_owned()));
        }
        (kind, None) => {
            let is_wanted = |one: &Limited| kind.is_none_or(|kind| one.kind == kind);
            rates.list().into_iter().filter(is_wanted).collect()
        }
    };
    // Whatever part is shown, the revision is that of all that is set: how long calls waited changes by itself.
    let all = rates.list();
    let settled: Vec<_> = all.iter().map(|one| (one.kind, &one.name, &one.setting)).collect();
    revision::named(json(200, &found.iter().map(describe).collect::<Vec<_>>())?, &settled)
}

pub(super) fn change(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let QosChange { kind, name, set } = asked.content()?;
    let changed = api.source.reloader.rates.change(kind, &name, &set)?;
    tracing::info!(kind = kind.name(), name, "rate limits changed");
    json(200, &describe(&changed))
}

/// Lists the tiers.
pub(super) fn tiers(api: &Api, _asked: &Asked<'_>) -> Result<Response, Problem> {
    let tiers = api.source.reloader.rates.tiers();
    let list: Vec<TierInfo> = tiers.iter().map(|(name, tier)| describe_tier(name, tier)).collect();
    json(200, &list)
}

fn describe_tier(name: &str, tier: &tiers::Tier) -> TierInfo {
    let (limits, burst, per_tib) = match tier {
        tiers::Tier::Fixed(limits) => (rates_of(limits), limits.burst(), None),
        tiers::Tier::PerTib(rate) => (BTreeMap::new(), qos::BURST_DEFAULT, Some(*rate)),
    };
    TierInfo {
        name: name.to_owned(),
        limits,
        total_bytes_per_tib: per_tib,
        burst_milliseconds: milliseconds(burst),
    }
}

fn describe(limited: &Limited) -> QosInfo {
    let in_force = &limited.in_force;
    let by_rate = |of: &dyn Fn(Rate) -> u64| -> BTreeMap<Rate, u64> {
        let all = Rate::ALL.into_iter().map(|rate| (rate, of(rate)));
        all.filter(|(rate, value)| *value > 0 || in_force.limits.rate(rate.dimension()).is_some()).collect()
    };
    let counters = &in_force.counters;
    QosInfo {
        kind: limited.kind,
        name: limited.name.clone(),
        set: limited.setting.clone(),
        is_unused: limited.is_unused,
        in_force: rates_of(&in_force.limits),
        burst_milliseconds: milliseconds(in_force.limits.burst()),
        throttled_milliseconds: by_rate(&|rate| milliseconds(counters.throttled[rate as usize])),
        waiting: by_rate(&|rate| counters.held[rate as usize]),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
