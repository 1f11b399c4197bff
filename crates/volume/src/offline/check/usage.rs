//! Compares usage counters with the usage of all inodes.

use std::collections::BTreeSet;

use super::FaultKind;
use super::findings::Findings;
use super::inodes::Totals;
use super::view::View;
use crate::api::ids::VolumeNumber;
use crate::api::quotas::QuotaKind;
use crate::count::count;
use crate::encoding::entry::UsageDelta;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{MapCountRecord, UsageRecord};
use crate::tables::index::IndexError;

/// Compares the index's counters, with the journal's changes added, with `totals`.
pub(super) fn check_usage(
    view: &View,
    deltas: &[(VolumeNumber, UsageDelta)],
    totals: &Totals,
    findings: &mut Findings,
) -> Result<(), IndexError> {
    if lacks(view, Table::Inode) || lacks(view, Table::Usage) {
        findings.note("usage was not counted, as records that it is counted from are lost".to_owned());
        return Ok(());
    }
    let mut counters = Totals::new();
    view.each_of_index(view.volume, Table::Usage, &mut |fields, value| {
        let Some((kind, id)) = fields.split_first() else { return };
        if let (Some(kind), Some(id), Ok(record)) =
            (QuotaKind::from_byte(*kind), key::number(id), UsageRecord::decode(value))
        {
            counters.insert((kind, id), record);
        }
    })?;
    for (_, delta) in deltas.iter().filter(|(volume, _)| *volume == view.volume) {
        let counter = counters.entry((delta.kind, delta.id)).or_default();
        counter.bytes = counter.bytes.wrapping_add_signed(delta.bytes);
        counter.inodes = counter.inodes.wrapping_add_signed(delta.inodes);
    }
    let all: BTreeSet<(QuotaKind, u64)> = counters.keys().chain(totals.keys()).copied().collect();
    for of in all {
        let counted = counters.get(&of).copied().unwrap_or_default();
        let found = totals.get(&of).copied().unwrap_or_default();
        if counted != found {
            let whose = match of {
                (QuotaKind::Volume, _) => "the volume".to_owned(),
                (QuotaKind::Tree, id) => format!("quota tree {id}"),
                (QuotaKind::User, id) => format!("user {id}"),
                (QuotaKind::Group, id) => format!("group {id}"),
            };
            let what = format!(
                "the usage counter of {whose} says {}, but should say {}",
                usage(&counted),
                usage(&found)
            );
            findings.add(FaultKind::Usage, None, what);
        }
    }
    Ok(())
}

/// Compares the index's number of mappings with those that were found in it.
pub(super) fn check_map_count(view: &View, found: u64, findings: &mut Findings) -> Result<(), IndexError> {
    if lacks(view, Table::Map) || lacks(view, Table::MapCount) {
        return Ok(());
    }
    let mut counted = MapCountRecord::default();
    view.each_of_index(view.volume, Table::MapCount, &mut |_, value| {
        counted = MapCountRecord::decode(value).unwrap_or_default();
    })?;
    if counted.mappings != found {
        let what = format!(
            "the number of mappings of the volume is recorded as {}, but should be {found}",
            counted.mappings
        );
        findings.add(FaultKind::Usage, None, what);
    }
    Ok(())
}

/// Whether records of a table of the volume are lost.
fn lacks(view: &View, table: Table) -> bool {
    let (from, to) = key::table_range(view.volume, table);
    view.has_lost(&from, &to)
}

/// Describes what a counter says.
fn usage(counter: &UsageRecord) -> String {
    format!("{} in {}", count(counter.bytes, "byte"), count(counter.inodes, "object"))
}
