//! Arguments of `holdfast quota`: whose quota, limits and times.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use server::admin::api::types::{Limit, QuotaKind};
use server::config::size::Size;
use server::error::Error;

use crate::commands::accounts::number;

/// Whose quota.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Owner {
    /// A user, by number or by name on this machine
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// A group, by number or by name on this machine
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// All users that have no limits of their own
    #[arg(long)]
    all_users: bool,
    /// All groups that have no limits of their own
    #[arg(long)]
    all_groups: bool,
    /// A quota tree: the path of its directory in the volume, or its number
    #[arg(long, value_name = "TREE")]
    tree: Option<String>,
    /// All quota trees that have no limits of their own
    #[arg(long)]
    all_trees: bool,
    /// All files of the volume
    #[arg(long)]
    whole_volume: bool,
}

impl Owner {
    /// Resolves names, those of trees with `tree`.
    pub(super) fn resolve(
        &self,
        tree: impl FnOnce(&str) -> Result<u64, Error>,
    ) -> Result<(QuotaKind, Option<u64>), Error> {
        let one = |name: &str, kind, database| match number(name, kind, database)? {
            Some(number) => Ok(u64::from(number)),
            None => Err(Error::usage(format!("--{kind} needs a {kind}, by number or by name"))),
        };
        Ok(match self {
            Owner { user: Some(name), .. } => (QuotaKind::User, Some(one(name, "user", "passwd")?)),
            Owner { group: Some(name), .. } => (QuotaKind::Group, Some(one(name, "group", "group")?)),
            Owner { all_users: true, .. } => (QuotaKind::User, None),
            Owner { all_groups: true, .. } => (QuotaKind::Group, None),
            Owner { tree: Some(name), .. } => (QuotaKind::Tree, Some(tree(name)?)),
            Owner { all_trees: true, .. } => (QuotaKind::Tree, None),
            Owner { .. } => (QuotaKind::Volume, None),
        })
    }
}

/// Which quotas.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct OneKind {
    /// Those of users (the default)
    #[arg(long)]
    users: bool,
    /// Those of groups
    #[arg(long)]
    groups: bool,
    /// Those of quota trees
    #[arg(long)]
    trees: bool,
    /// That of the volume
    #[arg(long)]
    whole_volume: bool,
}

impl OneKind {
    pub(super) fn kind(&self) -> QuotaKind {
        match self {
            OneKind { groups: true, .. } => QuotaKind::Group,
            OneKind { trees: true, .. } => QuotaKind::Tree,
            OneKind { whole_volume: true, .. } => QuotaKind::Volume,
            OneKind { .. } => QuotaKind::User,
        }
    }
}

/// Limits on one resource: HARD, SOFT:HARD, SOFT:, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limited<N> {
    soft: Option<N>,
    hard: Option<N>,
}

/// A number of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inodes(u64);

impl FromStr for Inodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Inodes, String> {
        let wrong = |_| format!("{text:?} is not a number of inodes: write a whole number, such as 100000");
        text.trim().parse().map(Inodes).map_err(wrong)
    }
}

impl<N: FromStr<Err = String>> FromStr for Limited<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Limited<N>, String> {
        let one = |text: &str| match text.trim() {
            "" | "none" => Ok(None),
            number => number.parse().map(Some),
        };
        match text.split_once(':') {
            None if text.trim().is_empty() => Err("write a limit, or `none`".to_owned()),
            None => Ok(Limited { soft: None, hard: one(text)? }),
            Some((soft, hard)) => Ok(Limited { soft: one(soft)?, hard: one(hard)? }),
        }
    }
}

/// A number that a limit is.
pub(super) trait Number: Copy {
    fn number(self) -> u64;
}

impl Number for Size {
    fn number(self) -> u64 {
        self.0
    }
}

impl Number for Inodes {
    fn number(self) -> u64 {
        self.0
    }
}

impl<N: Number> Limited<N> {
    pub(super) fn limit(self) -> Limit {
        Limit { soft: self.soft.map(N::number), hard: self.hard.map(N::number) }
    }
}

/// A time with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period(pub(super) Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Period, String> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let factor = match unit.trim() {
            "s" => Some(1),
            "min" => Some(60),
            "h" => Some(3600),
            "d" => Some(86_400),
            _ => None,
        };
        let seconds = factor.and_then(|factor: u64| number.parse::<u64>().ok()?.checked_mul(factor));
        let wrong = || {
            format!("{text:?} is not a time: write a whole number and a unit, such as 7d, 36h, 30min or 90s")
        };
        seconds.map(|seconds| Period(Duration::from_secs(seconds))).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_hard_or_soft_and_hard() {
        let limit = |text: &str| text.parse::<Limited<Size>>().map(Limited::limit);
        let gib = 1_u64 << 30;
        for (text, soft, hard) in [
            ("10GiB", None, Some(10 * gib)),
            ("8GiB:10GiB", Some(8 * gib), Some(10 * gib)),
            ("8 GiB:", Some(8 * gib), None),
            (":1", None, Some(1)),
            ("none", None, None),
        ] {
            assert_eq!(limit(text), Ok(Limit { soft, hard }), "{text}");
        }
        for wrong in ["", "ten", "1:2:3", "-1"] {
            assert!(limit(wrong).is_err(), "{wrong:?} is accepted");
        }
        let inodes: Limited<Inodes> = "5:10".parse().unwrap();
        assert_eq!(inodes.limit(), Limit { soft: Some(5), hard: Some(10) });
        assert!("5k".parse::<Limited<Inodes>>().is_err());
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("7d", 604_800), ("36 h", 129_600), ("30min", 1800), ("90s", 90)] {
            assert_eq!(text.parse(), Ok(Period(Duration::from_secs(seconds))), "{text}");
        }
        for wrong in ["", "7", "d", "7w", "99999999999999999999d"] {
            assert!(wrong.parse::<Period>().is_err(), "{wrong:?} is accepted");
        }
    }
}
