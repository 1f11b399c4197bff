//! What administrators set: a tier, limits besides it, and a burst.

use std::collections::BTreeMap;
use std::time::Duration;

use qos::tiers::{TierError, Tiers};
use qos::{Dimension, Limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::names;
use crate::volumes::present;

/// What is limited, in bytes or operations a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bytes of file data that are read.
    ReadBytes,
    /// Bytes of file data that are written.
    WriteBytes,
    /// Bytes of file data that are read or written.
    TotalBytes,
    /// READs.
    ReadOps,
    /// WRITEs.
    WriteOps,
    /// Operations that move no file data.
    MetadataOps,
    /// All operations.
    TotalOps,
}

/// Limits in bytes or operations a second.
pub type RateLimits = BTreeMap<Rate, u64>;

impl Rate {
    /// All rates.
    pub const ALL: [Rate; Dimension::COUNT] = [
        Rate::ReadBytes,
        Rate::WriteBytes,
        Rate::TotalBytes,
        Rate::ReadOps,
        Rate::WriteOps,
        Rate::MetadataOps,
        Rate::TotalOps,
    ];

    pub(crate) fn dimension(self) -> Dimension {
        Dimension::ALL[self as usize]
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.dimension().name()
    }

    /// Whether it counts bytes; else it counts operations.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        self.dimension().is_bytes()
    }
}

/// Returns the rates that are limited.
pub(crate) fn rates_of(limits: &Limits) -> RateLimits {
    let limited = Rate::ALL.into_iter().filter_map(|rate| Some((rate, limits.rate(rate.dimension())?)));
    limited.collect()
}

/// What is set for a target, a pool, a volume or a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// The tier; null for none.
    pub tier: Option<String>,
    /// Limits that hold besides those of the tier, or in place of them.
    pub limits: RateLimits,
    /// What may pass at once: as much as the limits allow in this time; null for the tier's, or 100.
    pub burst_milliseconds: Option<u64>,
}

impl Setting {
    pub(super) fn is_empty(&self) -> bool {
        *self == Setting::default()
    }

    /// Returns the limits that follow, for a volume of this size in bytes.
    ///
    /// # Errors
    /// There is no such tier, it is for volumes, or a limit is out of bounds.
    pub(super) fn in_force(&self, tiers: &Tiers, size: Option<u64>) -> Result<Limits, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::usage(error.to_string());
        let of_tier = self.tier.as_ref().map(|name| {
            tiers.limits(name, size).map_err(|error| {
                let known: Vec<&str> = tiers.iter().map(|(known, _)| known).collect();
                let is_unknown = matches!(error, TierError::Unknown(_));
                let advice = if is_unknown { names::others(&known, name) } else { String::new() };
                wrong(&format!("{error}{advice}"))
            })
        });
        let mut limits = of_tier.transpose()?.unwrap_or_default();
        for (rate, most) in &self.limits {
            limits = limits.with(rate.dimension(), *most).map_err(|error| wrong(&error))?;
        }
        match self.burst_milliseconds {
            None => Ok(limits),
            Some(burst) => limits.with_burst(Duration::from_millis(burst)).map_err(|error| wrong(&error)),
        }
    }
}

/// What to change of a setting. What is missing stays; null removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettingChange {
    /// Removes all that is set first.
    pub reset: bool,
    /// The tier.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub tier: Option<Option<String>>,
    /// Limits: at least 1048576 bytes or 10 operations a second.
    pub limits: BTreeMap<Rate, Option<u64>>,
    /// The burst, 20 to 10000 milliseconds.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    pub burst_milliseconds: Option<Option<u64>>,
}

impl SettingChange {
    /// Returns the setting that `before` becomes.
    ///
    /// # Errors
    /// Nothing is to be changed.
    pub(super) fn apply(&self, before: Setting) -> Result<Setting, Error> {
        if *self == SettingChange::default() {
            return Err(Error::usage("nothing to change: give a tier, a limit, a burst or `reset`"));
        }
        let mut setting = if self.reset { Setting::default() } else { before };
        if let Some(tier) = &self.tier {
            setting.tier.clone_from(tier);
        }
        for (rate, most) in &self.limits {
            match most {
                Some(most) => setting.limits.insert(*rate, *most),
                None => setting.limits.remove(rate),
            };
        }
        setting.burst_milliseconds = self.burst_milliseconds.unwrap_or(setting.burst_milliseconds);
        Ok(setting)
    }
}
