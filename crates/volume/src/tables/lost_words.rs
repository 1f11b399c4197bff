//! What an index has lost, in words.

use std::fmt;

use crate::api::ids::VolumeNumber;
use crate::encoding::key;
use crate::encoding::key::{FIRST, POOL, Table};
use crate::tables::index::{LostRange, LostRanges};

/// Most parts that are named.
const NAMED_MAX: usize = 16;

/// Lost ranges in words.
pub(crate) struct Words<'l>(pub(crate) &'l LostRanges);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().flat_map(parts_of).collect();
        let named = parts.iter().take(NAMED_MAX).map(String::as_str);
        f.write_str(&named.collect::<Vec<_>>().join(", "))?;
        match parts.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

/// Describes the part of a range in each table.
fn parts_of(range: &LostRange) -> Vec<String> {
    let of_pool = Table::ALL.into_iter().filter(|table| key::is_of_pool(*table)).map(|table| (POOL, table));
    let mut parts: Vec<String> =
        of_pool.filter_map(|(volume, table)| part_of(range, volume, table)).collect();
    for volume in volumes_of(range).take(NAMED_MAX) {
        let of_volume = Table::ALL.into_iter().filter(|table| !key::is_of_pool(*table));
        let named = of_volume.filter_map(|table| part_of(range, volume, table));
        parts.extend(named.map(|part| match volume {
            FIRST => part,
            _ => format!("{part} of volume {volume}"),
        }));
    }
    parts
}

/// Returns the volumes whose records a range may hold.
fn volumes_of(range: &LostRange) -> impl Iterator<Item = VolumeNumber> {
    let number = |key: &[u8]| key.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let to = if range.to.first_chunk::<4>().is_some() { number(&range.to) } else { u32::MAX - 1 };
    (number(&range.from).max(1)..=to).map(VolumeNumber)
}

/// Describes the part of a range in a table.
fn part_of(range: &LostRange, volume: VolumeNumber, table: Table) -> Option<String> {
    let (start, end) = key::table_range(volume, table);
    let (from, to): (&[u8], &[u8]) = ((&*range.from).max(&*start), (&*range.to).min(&*end));
    if from >= to {
        return None;
    }
    let (what, numbered) = name_of(table);
    let number = |key: &[u8]| key.get(start.len()..).and_then(key::number);
    Some(match (number(from), number(to)) {
        (_, _) if !numbered => what.to_owned(),
        (Some(from), Some(to)) if from == to => format!("{what} {from}"),
        (Some(from), Some(to)) => format!("{what} {from} to {to}"),
        (Some(from), None) => format!("{what} from {from} on"),
        (None, Some(to)) => format!("{what} up to {to}"),
        (None, None) => format!("all {what}"),
    })
}

/// Returns what a table holds, and whether its keys begin with a number.
fn name_of(table: Table) -> (&'static str, bool) {
    match table {
        Table::Inode => ("attributes of inodes", true),
        Table::Name => ("names in directories (inodes)", true),
        Table::Cookie => ("listings of directories (inodes)", true),
        Table::Map => ("places of the data of files (inodes)", true),
        Table::Reap => ("removed files to be freed", false),
        Table::Usage => ("usage counters", false),
        Table::Quota => ("quotas", false),
        Table::Tree => ("quota trees (inodes)", true),
        Table::MapCount => ("the number of mappings", false),
        Table::Symlink => ("targets of symbolic links (inodes)", true),
        Table::Xattr => ("extended attributes of inodes", true),
        Table::State => ("opens, locks and other state of clients", false),
        Table::Orphan => ("files without a name (inodes)", true),
        Table::Extent => ("extents", true),
        Table::Segment => ("segments", true),
        Table::Reply => ("remembered replies", false),
        Table::Meta => ("the record about the pool", false),
        Table::Volume => ("the records about volumes", false),
    }
}
