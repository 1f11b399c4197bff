//! Quotas as text.

use std::collections::BTreeMap;
use std::time::Duration;

use server::admin::api::types::{Limit, QuotaInfo, QuotaKind};
use server::config::size::Size;

use crate::report::{Align, columns, duration, table};

/// Whose quota. Trees are named by the paths of their directories.
fn name(quota: &QuotaInfo, paths: &BTreeMap<u64, String>) -> String {
    match (quota.kind, quota.id) {
        (QuotaKind::Volume, _) => "the volume".to_owned(),
        (_, Some(id)) => paths.get(&id).cloned().unwrap_or_else(|| id.to_string()),
        (kind, None) => format!("other {}s", kind.name()),
    }
}

/// Writes a limit; a dash for none.
fn limited(limit: Option<u64>, write: impl Fn(u64) -> String) -> String {
    limit.map_or_else(|| "-".to_owned(), write)
}

fn bytes(count: u64) -> String {
    Size(count).to_string()
}

/// Writes how long a soft limit may still be exceeded; nothing if it is not.
fn grace(left: Option<u64>) -> String {
    match left {
        None => String::new(),
        Some(0) => "over".to_owned(),
        Some(seconds) => duration(Duration::from_secs(seconds)),
    }
}

/// Writes a quota in rows.
pub(super) fn rows(quota: &QuotaInfo, paths: &BTreeMap<u64, String>) -> String {
    let one = |used: String, limit: Limit, write: &dyn Fn(u64) -> String, left: Option<u64>| {
        let (soft, hard) = (limited(limit.soft, write), limited(limit.hard, write));
        let grace = match left {
            None => String::new(),
            Some(0) => "; the soft limit is exceeded, and is now enforced".to_owned(),
            Some(_) => format!("; the soft limit is exceeded, and will be enforced in {}", grace(left)),
        };
        format!("{used} used, soft limit {soft}, hard limit {hard}{grace}")
    };
    let of = match quota.kind {
        QuotaKind::Volume => name(quota, paths),
        kind if quota.id.is_some() => format!("{} {}", kind.name(), name(quota, paths)),
        _ => name(quota, paths),
    };
    let limits = if quota.is_default {
        format!("those of all other {}s", quota.kind.name())
    } else {
        "its own".to_owned()
    };
    let has_used = quota.id.is_some() || quota.kind == QuotaKind::Volume;
    let used = |used: String| if has_used { used } else { "-".to_owned() };
    table(&[
        ("of", of),
        ("limits", limits),
        ("bytes", one(used(bytes(quota.used_bytes)), quota.bytes, &bytes, quota.bytes_grace_left)),
        (
            "inodes",
            one(
                used(quota.used_inodes.to_string()),
                quota.inodes,
                &|count| count.to_string(),
                quota.inodes_grace_left,
            ),
        ),
    ])
}

/// Writes a table of quotas, with a line for each.
pub(super) fn page(quotas: &[QuotaInfo], paths: &BTreeMap<u64, String>) -> String {
    let head = ["", "bytes used", "soft", "hard", "grace", "inodes used", "soft", "hard", "grace"];
    let mut lines = vec![head.map(str::to_owned)];
    for quota in quotas {
        let count = |count: u64| count.to_string();
        let has_used = quota.id.is_some() || quota.kind == QuotaKind::Volume;
        let used = |text: String| if has_used { text } else { "-".to_owned() };
        lines.push([
            name(quota, paths),
            used(bytes(quota.used_bytes)),
            limited(quota.bytes.soft, bytes),
            limited(quota.bytes.hard, bytes),
            grace(quota.bytes_grace_left),
            used(count(quota.used_inodes)),
            limited(quota.inodes.soft, count),
            limited(quota.inodes.hard, count),
            grace(quota.inodes_grace_left),
        ]);
    }
    let mut aligns = [Align::Right; 9];
    aligns[0] = Align::Left;
    columns(aligns, &lines)
}

#[cfg(test)]
mod tests {
    use server::admin::api::types::GracePeriods;

    use super::*;

    #[test]
    fn a_report_has_a_line_for_each() {
        let quota = QuotaInfo {
            kind: QuotaKind::User,
            id: Some(1001),
            bytes: Limit { soft: Some(1 << 30), hard: None },
            inodes: Limit::default(),
            is_default: false,
            used_bytes: 3 << 29,
            used_inodes: 12,
            bytes_grace_left: Some(7200),
            inodes_grace_left: None,
            grace: GracePeriods { bytes_seconds: 604_800, inodes_seconds: 604_800 },
        };
        let others = QuotaInfo { id: None, bytes: Limit::default(), bytes_grace_left: None, ..quota };
        let text = page(&[others, quota], &BTreeMap::new());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect())
            .collect();
        assert_eq!(lines[0], ["bytes used", "soft", "hard", "grace", "inodes used", "soft", "hard", "grace"]);
        assert_eq!(lines[1], ["other users", "-", "-", "-", "-", "-", "-"]);
        assert_eq!(lines[2], ["1001", "1.5 GiB", "1 GiB", "-", "2 h 0 min", "12", "-", "-"]);
        assert!(
            rows(&quota, &BTreeMap::new())
                .contains("the soft limit is exceeded, and will be enforced in 2 h 0 min"),
            "{}",
            rows(&quota, &BTreeMap::new())
        );
    }
}
