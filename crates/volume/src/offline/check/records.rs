//! Checks that every record decodes and belongs to a table, and that no number can be handed out twice.
//!
//! Later checks skip records that do not decode, as they were reported here.

use std::ops::ControlFlow;

use super::FaultKind;
use super::findings::Findings;
use super::view::View;
use crate::api::ids::{Ino, Member, Seq};
use crate::encoding::codec::Malformed;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{FAMILY, FIRST, Key, Table};
use crate::encoding::record;
use crate::encoding::record::UsageKind;
use crate::limits::{NAME_BYTES_MAX, REQUEST_KEY_BYTES_MAX, STATE_KEY_BYTES_MAX};
use crate::tables::index::IndexError;
use crate::transaction::apply;

/// Returns the member of a table: the volume or the family.
pub(crate) fn member_of(table: Table) -> Member {
    match table {
        Table::Inode
        | Table::Name
        | Table::Cookie
        | Table::Map
        | Table::Reap
        | Table::Usage
        | Table::Symlink
        | Table::Xattr
        | Table::State
        | Table::Orphan => FIRST,
        Table::Extent | Table::Segment | Table::Reply | Table::Meta => FAMILY,
    }
}

/// Reads the whole index, once. Returns whether that was possible.
pub(super) fn check_index(view: &mut View, findings: &mut Findings) -> bool {
    // The ranges of all tables in key order, and the gaps between them.
    let mut ranges: Vec<(Key, Key, Option<Table>)> = Vec::new();
    let mut tables: Vec<(Key, Key, Table)> = Table::ALL
        .map(|table| (key::table_range(member_of(table), table), table))
        .map(|((a, b), t)| (a, b, t))
        .into();
    tables.sort();
    let mut behind: Key = Key::from(&[][..]);
    for (from, to, table) in tables {
        ranges.push((std::mem::replace(&mut behind, to.clone()), from.clone(), None));
        ranges.push((from, to, Some(table)));
    }
    // No key is longer than a name's.
    ranges.push((behind, Key::from(&[0xff; NAME_BYTES_MAX + 32][..]), None));
    let mut readable = true;
    for (from, to, table) in &ranges {
        if let Err(error) = check_range(view, from, to, *table, findings) {
            readable = false;
            let place = table.map_or("between its tables".to_owned(), |table| format!("in table {table:?}"));
            findings.add(
                FaultKind::Index,
                None,
                format!("{error} ({place}); restore the index from a backup"),
            );
            if let Err(error) = view.reopen() {
                findings.add(FaultKind::Index, None, format!("the index cannot be opened again: {error}"));
                return false;
            }
        }
    }
    readable
}

fn check_range(
    view: &View,
    from: &[u8],
    to: &[u8],
    table: Option<Table>,
    findings: &mut Findings,
) -> Result<(), IndexError> {
    view.index()?.scan(from, to, &mut |key, value| {
        match table {
            None => findings.add(
                FaultKind::Record,
                None,
                format!("the index holds an unknown record, key {}", hex(key)),
            ),
            Some(table) => {
                if let Err(error) = check_record(table, key, value) {
                    let what =
                        format!("a record of table {table:?}, key {}, does not decode: {error}", hex(key));
                    findings.add(FaultKind::Record, subject(table, key), what);
                }
            }
        }
        ControlFlow::Continue(())
    })
}

/// Returns the records of a journal entry that can be replayed; the others are faults, for which the next opening
/// would refuse the journal.
pub(super) fn sound_records(
    seq: Seq,
    records: Vec<(Key, Slot)>,
    findings: &mut Findings,
) -> Vec<(Key, Slot)> {
    let mut sound = Vec::with_capacity(records.len());
    for (key, slot) in records {
        let known = key::parse(&key).filter(|(member, table, _)| *member == member_of(*table));
        let Some((_, table, fields)) = known else {
            let what = format!("journal entry {seq} holds an unknown record, key {}", hex(&key));
            findings.add(FaultKind::Record, None, what);
            continue;
        };
        match check_key(table, fields).and_then(|()| apply::check_record(&key, &slot)) {
            Ok(()) => sound.push((key, slot)),
            Err(error) => {
                let what =
                    format!("journal entry {seq}: a record of table {table:?}, key {}: {error}", hex(&key));
                findings.add(FaultKind::Record, subject(table, &key), what);
            }
        }
    }
    sound
}

/// Returns the object that a record belongs to.
fn subject(table: Table, key: &[u8]) -> Option<Ino> {
    let (_, _, fields) = key::parse(key)?;
    let of_object = !matches!(table, Table::Usage | Table::Reap | Table::State) && member_of(table) == FIRST;
    key::number(fields).filter(|_| of_object).map(Ino)
}

fn check_record(table: Table, key: &[u8], value: &[u8]) -> Result<(), Malformed> {
    let fields = key::parse(key).map_or(&[][..], |(_, _, fields)| fields);
    check_key(table, fields)?;
    record::check(table, value)
}

/// Checks the length of a key's fields.
fn check_key(table: Table, fields: &[u8]) -> Result<(), Malformed> {
    let fits = match table {
        Table::Inode | Table::Reap | Table::Symlink | Table::Orphan | Table::Extent | Table::Segment => {
            fields.len() == 8
        }
        Table::Name => fields.len() > 8,
        Table::Xattr => (9..=8 + NAME_BYTES_MAX).contains(&fields.len()),
        Table::Cookie | Table::Map => fields.len() == 16,
        Table::Usage => fields.len() == 9 && UsageKind::from_byte(fields[0]).is_some(),
        Table::Reply => fields.len() <= REQUEST_KEY_BYTES_MAX,
        Table::State => fields.len() <= STATE_KEY_BYTES_MAX,
        Table::Meta => fields.is_empty(),
    };
    if fits { Ok(()) } else { Err(Malformed("key")) }
}

/// Checks that no number in the index would be handed out again. Replay advances the counters beyond those in the
/// journal.
pub(super) fn check_numbers(view: &View, findings: &mut Findings) -> Result<(), IndexError> {
    let meta = &view.meta;
    let counters = [
        (Table::Inode, "inode", meta.next_ino.0),
        (Table::Extent, "extent", meta.next_extent.0),
        (Table::Segment, "segment", meta.next_segment.0),
    ];
    for (table, what, next) in counters {
        let (from, to) = key::table_range(member_of(table), table);
        let last = view.index()?.last_before(&from, &to)?;
        let highest = last.and_then(|(key, _)| key::number(key::parse(&key)?.2));
        if let Some(highest) = highest.filter(|highest| *highest >= next) {
            let object = (table == Table::Inode).then_some(Ino(highest));
            let what = format!("{what} {highest} exists, but the next {what} would be given number {next}");
            findings.add(FaultKind::Number, object, what);
        }
    }
    Ok(())
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
