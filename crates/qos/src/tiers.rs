//! Limits by name: tiers as published services have them, and tiers that the configuration defines.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{BYTES_PER_S_MIN, Dimension, Limits, LimitsError, RATE_MAX};

/// The longest name of a tier, bytes.
pub const TIER_NAME_BYTES_MAX: usize = 64;

/// Bytes a second of one gigabit a second.
const GBPS: u64 = 1_000_000_000 / 8;

const MIB: u64 = 1 << 20;
const TIB: u128 = 1 << 40;

/// The tiers of OCI File Storage's mount targets, gigabits a second. Writes have the half.
const TARGET_TIERS: [(&str, u64); 4] = [("oci-1", 1), ("oci-20", 20), ("oci-40", 40), ("oci-80", 80)];

/// The service levels of Azure NetApp Files, MiB a second per TiB of a volume's size, reads and writes together.
const SERVICE_LEVELS: [(&str, u64); 3] = [("standard", 16), ("premium", 64), ("ultra", 128)];

/// How a tier limits a target, a volume or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// By the same limits, whatever the size.
    Fixed(Limits),
    /// By bytes a second, read and written, for each TiB of a volume's size; at least [`BYTES_PER_S_MIN`].
    PerTib(u64),
}

impl Tier {
    /// Returns the limits of a volume of this size, bytes. A target or a client has no size: `None`.
    ///
    /// # Errors
    /// The tier depends on a size, and there is none.
    pub fn limits(&self, size_bytes: Option<u64>) -> Result<Limits, TierError> {
        match (self, size_bytes) {
            (Tier::Fixed(limits), _) => Ok(*limits),
            (Tier::PerTib(_), None) => Err(TierError::NoSize),
            (Tier::PerTib(rate), Some(size)) => {
                let rate = u128::from(size) * u128::from(*rate) / TIB;
                let rate = u64::try_from(rate).unwrap_or(RATE_MAX).clamp(BYTES_PER_S_MIN, RATE_MAX);
                Limits::NONE.with(Dimension::TotalBytes, rate).map_err(TierError::Limits)
            }
        }
    }
}

/// The tiers that a server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiers {
    by_name: BTreeMap<String, Tier>,
}

impl Default for Tiers {
    /// The published tiers: `oci-1`, `oci-20`, `oci-40` and `oci-80`; `standard`, `premium` and `ultra`.
    fn default() -> Tiers {
        let targets = TARGET_TIERS.map(|(name, gbps)| (name.to_owned(), target_tier(gbps * GBPS)));
        let levels = SERVICE_LEVELS.map(|(name, mib)| (name.to_owned(), Tier::PerTib(mib * MIB)));
        Tiers { by_name: targets.into_iter().chain(levels).collect() }
    }
}

fn target_tier(rate: u64) -> Tier {
    let limits = Limits::NONE
        .with(Dimension::ReadBytes, rate)
        .and_then(|limits| limits.with(Dimension::WriteBytes, rate / 2));
    Tier::Fixed(limits.expect("published tiers are within the bounds of limits"))
}

impl Tiers {
    /// Defines a tier, or replaces one of that name.
    ///
    /// # Errors
    /// The name is empty, longer than [`TIER_NAME_BYTES_MAX`], or has other characters than letters, digits, `-`, `_` and `.`;
    /// or a rate per TiB is zero or above [`RATE_MAX`].
    pub fn define(&mut self, name: &str, tier: Tier) -> Result<(), TierError> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.len() > TIER_NAME_BYTES_MAX || !name.chars().all(is_allowed) {
            return Err(TierError::Name(name.to_owned()));
        }
        match tier {
            Tier::PerTib(rate) if rate == 0 || rate > RATE_MAX => return Err(TierError::PerTib(rate)),
            Tier::PerTib(_) | Tier::Fixed(_) => {}
        }
        self.by_name.insert(name.to_owned(), tier);
        Ok(())
    }

    /// Returns the tiers with their names, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tier)> {
        self.by_name.iter().map(|(name, tier)| (name.as_str(), tier))
    }

    /// Returns the limits that a tier means for a volume of this size, bytes; `None` for a target or a client.
    ///
    /// # Errors
    /// There is no such tier, or it depends on a size and there is none.
    pub fn limits(&self, name: &str, size_bytes: Option<u64>) -> Result<Limits, TierError> {
        let tier = self.by_name.get(name).ok_or_else(|| TierError::Unknown(name.to_owned()))?;
        tier.limits(size_bytes)
    }
}

/// The limits of a pool, and those of its volumes, which administrators divide among them.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Those of the pool.
    pub pool: Limits,
    /// Those of each volume. Volumes without a limit share what the others leave.
    pub volumes: Vec<Limits>,
}

impl Shares {
    /// Checks that in each dimension that the pool limits, those of the volumes are together at most those of the pool.
    ///
    /// # Errors
    /// A sum is higher.
    pub fn check(&self) -> Result<(), TierError> {
        self.check_after(&Shares::default())
    }

    /// Does the same for shares that have changed. Where they did not suffice `before`, because a volume or its pool has other
    /// sizes than when they were set, any change that does not make it worse is allowed.
    ///
    /// # Errors
    /// A sum is higher, and exceeds the pool's limit by more than before.
    pub fn check_after(&self, before: &Shares) -> Result<(), TierError> {
        for dimension in Dimension::ALL {
            let Some((sum, most)) = self.of(dimension) else { continue };
            let excess = sum.saturating_sub(most);
            let excess_before = before.of(dimension).map_or(0, |(sum, most)| sum.saturating_sub(most));
            if excess > excess_before {
                return Err(TierError::Shares { dimension, sum, most });
            }
        }
        Ok(())
    }

    /// Returns the sum of the volumes' limits in a dimension, and the limit of the pool if it has one.
    fn of(&self, dimension: Dimension) -> Option<(u64, u64)> {
        let most = self.pool.rate(dimension)?;
        let rates = self.volumes.iter().filter_map(|volume| volume.rate(dimension));
        Some((rates.fold(0, u64::saturating_add), most))
    }
}

/// Why a tier is refused, or gives no limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierError {
    /// No tier has this name.
    Unknown(String),
    /// A name that tiers cannot have.
    Name(String),
    /// A rate per TiB that is zero or too high.
    PerTib(u64),
    /// The tier depends on the size of a volume, and is used for something else.
    NoSize,
    /// The limits that follow are out of bounds.
    Limits(LimitsError),
    /// The limits of volumes exceed that of their pool.
    Shares {
        /// The dimension.
        dimension: Dimension,
        /// The sum of the volumes' limits, bytes or operations a second.
        sum: u64,
        /// The limit of the pool, bytes or operations a second.
        most: u64,
    },
}

impl fmt::Display for TierError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TierError::Unknown(name) => write!(out, "there is no tier {name:?}"),
            TierError::Name(name) => write!(
                out,
                "{name:?} cannot be the name of a tier: it takes 1 to {TIER_NAME_BYTES_MAX} letters, digits, '-', '_' or '.'"
            ),
            TierError::PerTib(rate) => {
                write!(out, "{rate} bytes a second per TiB is not between 1 and {RATE_MAX}")
            }
            TierError::NoSize => {
                write!(out, "this tier depends on the size of a volume, and can limit only volumes")
            }
            TierError::Limits(error) => error.fmt(out),
            TierError::Shares { dimension, sum, most } => {
                let name = dimension.name();
                write!(out, "{name}: the volumes have {sum} a second together, the pool {most}")
            }
        }
    }
}

impl std::error::Error for TierError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    #[test]
    fn target_tiers_write_at_half() {
        let limits = Tiers::default().limits("oci-20", None).unwrap();
        assert_eq!(limits.rate(Dimension::ReadBytes), Some(2_500_000_000));
        assert_eq!(limits.rate(Dimension::WriteBytes), Some(1_250_000_000));
        assert_eq!(limits.rate(Dimension::TotalBytes), None);
    }

    #[test]
    fn service_levels_follow_the_size() {
        let rate = |name, size| {
            let limits = Tiers::default().limits(name, Some(size)).unwrap();
            limits.rate(Dimension::TotalBytes).unwrap()
        };
        assert_eq!(rate("standard", TIB), 16 * MIB);
        assert_eq!(rate("premium", TIB + TIB / 2), 96 * MIB);
        assert_eq!(rate("ultra", 100 * TIB), 12_800 * MIB);
        assert_eq!(rate("standard", 0), BYTES_PER_S_MIN);
        assert_eq!(rate("ultra", u64::MAX), RATE_MAX);
    }

    #[test]
    fn service_levels_need_a_size() {
        assert_eq!(Tiers::default().limits("ultra", None), Err(TierError::NoSize));
    }

    #[test]
    fn own_tiers_are_found_by_name() {
        let mut tiers = Tiers::default();
        let bronze = Limits::NONE.with(Dimension::TotalOps, 500).unwrap();
        tiers.define("bronze", Tier::Fixed(bronze)).unwrap();
        assert_eq!(tiers.limits("bronze", None), Ok(bronze));
        assert_eq!(tiers.limits("bronce", None), Err(TierError::Unknown("bronce".to_owned())));
        assert!(tiers.define("two words", Tier::Fixed(bronze)).is_err());
        assert!(tiers.define("free", Tier::PerTib(0)).is_err());
    }

    fn shares(pool: u64, volumes: &[u64]) -> Shares {
        let limits = |rate| Limits::NONE.with(Dimension::TotalBytes, rate * MIB).unwrap();
        Shares { pool: limits(pool), volumes: volumes.iter().map(|rate| limits(*rate)).collect() }
    }

    #[test]
    fn volumes_share_no_more_than_the_pool_has() {
        assert_eq!(shares(30, &[10, 20]).check(), Ok(()));
        let error = shares(30, &[11, 20]).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "total_bytes: the volumes have 32505856 a second together, the pool 31457280"
        );
        let mut unlimited = shares(30, &[30]);
        unlimited.volumes.push(Limits::NONE);
        assert_eq!(unlimited.check(), Ok(()));
        unlimited.pool = Limits::NONE;
        assert_eq!(unlimited.check(), Ok(()));
    }

    #[test]
    fn shares_that_have_grown_can_be_lowered_step_by_step() {
        let grown = shares(30, &[20, 40]);
        assert!(grown.check().is_err());
        for better in [shares(30, &[20, 30]), shares(40, &[20, 40]), shares(30, &[20, 40])] {
            assert_eq!(better.check_after(&grown), Ok(()));
        }
        for worse in [shares(30, &[21, 40]), shares(29, &[20, 40])] {
            assert!(worse.check_after(&grown).is_err());
        }
    }
}
