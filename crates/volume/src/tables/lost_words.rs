//! What an index has lost, in words.

use std::fmt;

use crate::encoding::key;
use crate::encoding::key::Table;
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
    let mut parts = Vec::new();
    for table in Table::ALL {
        let (start, end) = key::table_range(key::member_of(table), table);
        let (from, to): (&[u8], &[u8]) = ((&*range.from).max(&*start), (&*range.to).min(&*end));
        if from >= to {
            continue;
        }
        let (what, numbered) = name_of(table);
        let number = |key: &[u8]| key.get(start.len()..).and_then(key::number);
        parts.push(match (number(from), number(to)) {
            (_, _) if !numbered => what.to_owned(),
            (Some(from), Some(to)) if from == to => format!("{what} {from}"),
            (Some(from), Some(to)) => format!("{what} {from} to {to}"),
            (Some(from), None) => format!("{what} from {from} on"),
            (None, Some(to)) => format!("{what} up to {to}"),
            (None, None) => format!("all {what}"),
        });
    }
    parts
}

/// Returns what a table holds, and whether its keys begin with a number.
fn name_of(table: Table) -> (&'static str, bool) {
    match table {
        Table::Inode => ("attributes of inodes", true),
        Table::Name => ("names in directories (inodes)", true),
        Table::Cookie => ("listings of directories (inodes)", true),
        Table::Map => ("places of the data of files (inodes)", true),
        Table::Reap => ("removed files to be freed (inodes)", true),
        Table::Usage => ("usage counters", false),
        Table::Symlink => ("targets of symbolic links (inodes)", true),
        Table::Xattr => ("extended attributes of inodes", true),
        Table::State => ("opens, locks and other state of clients", false),
        Table::Orphan => ("files without a name (inodes)", true),
        Table::Extent => ("extents", true),
        Table::Segment => ("segments", true),
        Table::Reply => ("remembered replies", false),
        Table::Meta => ("the record about the volume", false),
    }
}
