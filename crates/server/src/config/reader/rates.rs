//! Reads the names of targets, and tiers.

use std::net::SocketAddr;
use std::time::Duration;

use qos::tiers::{Tier, Tiers};
use qos::{BURST_DEFAULT, Dimension, Limits};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Reader;
use crate::config::convert::{number, size, text};
use crate::config::{keys, values};
use crate::limits::RATE_OPS_MAX;

impl Reader {
    /// Returns the names of listen addresses, below `[targets]`.
    pub(super) fn targets(&mut self, root: &DeTable<'_>) -> Vec<(String, SocketAddr)> {
        let Some(value) = root.get("targets") else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(
                value.span(),
                "targets is a table: write [targets], and below it NAME = \"ADDRESS:PORT\"",
            );
            return Vec::new();
        };
        let mut targets: Vec<(String, SocketAddr)> = Vec::new();
        for (key, value) in table {
            let name: &str = key.get_ref();
            if let Err(error) = store::check_name(name) {
                self.wrong(key.span(), error.to_string());
            }
            let Some(address) = self.value(table, name, |key, value| values::listen(text(key, value)?))
            else {
                continue;
            };
            if let Some((other, _)) = targets.iter().find(|(_, known)| *known == address) {
                self.wrong(value.span(), format!("{address} is the target {other:?} already"));
            }
            targets.push((name.to_owned(), address));
        }
        targets
    }

    /// Returns the built-in tiers, and those below `[tiers]`.
    pub(super) fn tiers(&mut self, root: &DeTable<'_>) -> Tiers {
        let mut tiers = Tiers::default();
        let Some(value) = root.get("tiers") else { return tiers };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(
                value.span(),
                "tiers is a table: write [tiers.NAME], and below it limits such as `total_bytes`",
            );
            return tiers;
        };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let Some(tier) = self.tier(name, value) else { continue };
            if let Err(error) = tiers.define(name, tier) {
                self.wrong(key.span(), error.to_string());
            }
        }
        tiers
    }

    fn tier(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Tier> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(
                value.span(),
                format!("a tier is a table: write [tiers.{name}], and below it its limits"),
            );
            return None;
        };
        self.refuse_unknown("tiers", table, keys::TIER);
        if table.contains_key("total_bytes_per_tib") {
            if table.len() > 1 {
                self.wrong(
                    value.span(),
                    "a tier by size has no other limits: leave `total_bytes_per_tib` alone",
                );
            }
            let rate = self.value(table, "total_bytes_per_tib", size)?;
            return Some(Tier::PerTib(rate.0));
        }
        if table.is_empty() {
            self.wrong(
                value.span(),
                "this tier limits nothing: add a limit, such as total_bytes = \"100 MiB\"",
            );
        }
        let mut limits = Limits::NONE;
        for dimension in Dimension::ALL {
            let rate = if dimension.is_bytes() {
                self.value(table, dimension.name(), size).map(|size| size.0)
            } else {
                let operations = |key: &str, value: &DeValue<'_>| number(key, value, 1..=RATE_OPS_MAX, 1000);
                self.value(table, dimension.name(), operations).map(|count| count as u64)
            };
            let Some(rate) = rate else { continue };
            match limits.with(dimension, rate) {
                Ok(with) => limits = with,
                Err(error) => self.wrong_key(table, dimension.name(), &error),
            }
        }
        let usual = usize::try_from(BURST_DEFAULT.as_millis()).unwrap_or(0);
        if let Some(burst) = self.value(table, "burst", |key, value| number(key, value, 1..=10_000, usual)) {
            match limits.with_burst(Duration::from_millis(burst as u64)) {
                Ok(with) => limits = with,
                Err(error) => self.wrong_key(table, "burst", &error),
            }
        }
        Some(Tier::Fixed(limits))
    }

    fn wrong_key(&mut self, table: &DeTable<'_>, key: &str, error: &dyn std::fmt::Display) {
        if let Some(value) = table.get(key) {
            self.wrong(value.span(), error.to_string());
        }
    }
}
