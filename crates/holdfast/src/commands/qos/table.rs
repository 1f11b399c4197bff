//! Rate limits as text.

use std::time::Duration;

use server::admin::api::types::{QosInfo, Rate, RateLimits, TierInfo};
use server::config::size::Size;

use crate::report::{Align, columns, duration, table};

/// Writes limits: `read 100 MiB/s, 5000 operations/s`; a dash for none.
fn limits(rates: &RateLimits) -> String {
    let text: Vec<String> = rates.iter().map(|(rate, most)| limit(*rate, *most)).collect();
    if text.is_empty() { "-".to_owned() } else { text.join(", ") }
}

fn limit(rate: Rate, most: u64) -> String {
    let of = match rate {
        Rate::ReadBytes => return format!("read {}/s", Size(most)),
        Rate::WriteBytes => return format!("write {}/s", Size(most)),
        Rate::TotalBytes => return format!("{}/s", Size(most)),
        Rate::ReadOps => "READs",
        Rate::WriteOps => "WRITEs",
        Rate::MetadataOps => "operations on metadata",
        Rate::TotalOps => "operations",
    };
    format!("{most} {of}/s")
}

/// Writes the limits of an object.
fn in_force(info: &QosInfo) -> String {
    if info.is_unused {
        return format!("none: there is no such {}", info.kind.name());
    }
    limits(&info.in_force)
}

fn name(info: &QosInfo) -> String {
    match info.name.as_str() {
        "*" => "each other client".to_owned(),
        name => format!("{} {name}", info.kind.name()),
    }
}

fn throttled(info: &QosInfo) -> u64 {
    // Calls wait for one limit at a time, but several may be met at once.
    info.throttled_milliseconds.values().copied().max().unwrap_or(0)
}

/// Writes one object in rows.
pub(super) fn rows(info: &QosInfo) -> String {
    let waited: Vec<String> = info
        .throttled_milliseconds
        .iter()
        .filter(|(_, milliseconds)| **milliseconds > 0)
        .map(|(rate, milliseconds)| {
            format!("{} for {}", rate.name(), duration(Duration::from_millis(*milliseconds)))
        })
        .collect();
    table(&[
        ("of", name(info)),
        ("tier", info.set.tier.clone().unwrap_or_else(|| "-".to_owned())),
        ("limits", in_force(info)),
        ("burst", format!("{} ms", info.burst_milliseconds)),
        ("throttled", if waited.is_empty() { "never".to_owned() } else { waited.join(", ") }),
        ("waiting", info.waiting.values().sum::<u64>().to_string()),
    ])
}

/// Writes a line for each object.
pub(super) fn list(infos: &[QosInfo]) -> String {
    let mut lines = vec![["", "tier", "limits", "throttled", "waiting"].map(str::to_owned)];
    for info in infos {
        lines.push([
            name(info),
            info.set.tier.clone().unwrap_or_else(|| "-".to_owned()),
            in_force(info),
            duration(Duration::from_millis(throttled(info))),
            info.waiting.values().sum::<u64>().to_string(),
        ]);
    }
    columns([Align::Left, Align::Left, Align::Left, Align::Right, Align::Right], &lines)
}

/// Writes a line for each tier.
pub(super) fn tiers(tiers: &[TierInfo]) -> String {
    let mut lines = vec![["tier", "limits", "burst"].map(str::to_owned)];
    for tier in tiers {
        let text = match tier.total_bytes_per_tib {
            Some(rate) => format!("{}/s for each TiB of a volume's size", Size(rate)),
            None => limits(&tier.limits),
        };
        lines.push([tier.name.clone(), text, format!("{} ms", tier.burst_milliseconds)]);
    }
    columns([Align::Left, Align::Left, Align::Right], &lines)
}
