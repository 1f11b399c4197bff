//! Checks that every record decodes and belongs to a table, and that no number can be handed out twice.
//!
//! Later checks skip records that do not decode, as they were reported here.

use std::collections::BTreeSet;

use super::FaultKind;
use super::findings::Findings;
use super::view::View;
use crate::api::ids::{Ino, Seq, VolumeNumber};
use crate::encoding::codec::Malformed;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, POOL, Table};
use crate::encoding::record;
use crate::limits::{NAME_BYTES_MAX, REQUEST_KEY_BYTES_MAX, STATE_KEY_BYTES_MAX};
use crate::tables::index::{IndexError, LostRanges};
use crate::tables::lost_words::Words;
use crate::transaction::apply;

/// What is said of an index that was copied from a damaged one.
const REBUILT: &str = "a server found the index damaged and replaced it by a copy of what could be read; the damaged \
                       index is kept in the pool's directory, as index.damaged (.2, .3 and so on for later ones)";

/// What is said if nothing is missing in an index but state of clients.
const CLIENTS_LOST: &str =
    "records of opens and locks are lost: at the next start, all clients lose what they held";

/// Reads the whole index, once, and reports what of it is lost.
pub(super) fn check_index(view: &mut View, findings: &mut Findings) -> Result<(), IndexError> {
    let volumes: BTreeSet<VolumeNumber> = view.volumes.keys().copied().collect();
    let mut is_any_astray = false;
    view.survey(&mut |key, value| {
        let known = key::parse(key).filter(|(volume, table, _)| key::is_of_pool(*table) == (*volume == POOL));
        let Some((_, table, _)) = known else {
            let what = format!("the index holds an unknown record, key {}", hex(key));
            return findings.add(FaultKind::Record, None, what);
        };
        if let Some(volume) = volume_of(key).filter(|volume| *volume != POOL && !volumes.contains(volume)) {
            let what = format!(
                "a record of table {table:?}, key {}, is of volume {volume}, which does not exist",
                hex(key)
            );
            is_any_astray = true;
            findings.add(FaultKind::Record, None, what);
        }
        if let Err(error) = check_record(table, key, value) {
            let what = format!("a record of table {table:?}, key {}, does not decode: {error}", hex(key));
            findings.add_to(FaultKind::Record, key::object(key), what);
        }
    })?;
    let of_clients: Vec<(Key, Key)> =
        volumes.iter().map(|volume| key::table_range(*volume, Table::State)).collect();
    let (of_clients, lost): (Vec<_>, Vec<_>) = view.lost().iter().partition(|lost| {
        lost.is_recorded && of_clients.iter().any(|(from, to)| **from <= *lost.from && *lost.to <= **to)
    });
    if !of_clients.is_empty() {
        findings.note(CLIENTS_LOST.to_owned());
    }
    for lost in &lost {
        let mut range = LostRanges::default();
        range.add(&lost.from, &lost.to);
        findings.add(FaultKind::Index, None, format!("{}; it may have held {}", lost.why, Words(&range)));
    }
    if lost.iter().any(|lost| lost.is_recorded) {
        findings.note(REBUILT.to_owned());
    }
    let (first, end) = key::table_range(POOL, Table::Volume);
    let has_volumes = !volumes.is_empty() || !is_any_astray && !view.has_lost(&first, &end);
    if view.meta.is_none() || !has_volumes {
        let what = "the record with the volume's identity, the key of its file handles and its place in the journal \
                    is lost: the volume cannot be served";
        findings.add(FaultKind::Index, None, what.to_owned());
    }
    Ok(())
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
        let known =
            key::parse(&key).filter(|(volume, table, _)| key::is_of_pool(*table) == (*volume == POOL));
        let Some((_, table, fields)) = known else {
            let what = format!("journal entry {seq} holds an unknown record, key {}", hex(&key));
            findings.add(FaultKind::Journal, None, what);
            continue;
        };
        match check_key(table, fields).and_then(|()| apply::check_record(&key, &slot)) {
            Ok(()) => sound.push((key, slot)),
            Err(error) => {
                let what =
                    format!("journal entry {seq}: a record of table {table:?}, key {}: {error}", hex(&key));
                findings.add_to(FaultKind::Journal, key::object(&key), what);
            }
        }
    }
    sound
}

/// Returns the volume that a record belongs to.
pub(in crate::offline) fn volume_of(key: &[u8]) -> Option<VolumeNumber> {
    match key::parse(key)? {
        (_, Table::Reply, fields) => key::replied(fields).map(|(volume, _)| volume),
        (volume, _, _) => Some(volume),
    }
}

/// Whether a record of the index belongs to a table, and decodes.
pub(in crate::offline) fn is_sound(key: &[u8], value: &[u8]) -> bool {
    let known = key::parse(key).filter(|(volume, table, _)| key::is_of_pool(*table) == (*volume == POOL));
    known.is_some_and(|(_, table, _)| check_record(table, key, value).is_ok())
}

fn check_record(table: Table, key: &[u8], value: &[u8]) -> Result<(), Malformed> {
    let fields = key::parse(key).map_or(&[][..], |(_, _, fields)| fields);
    check_key(table, fields)?;
    record::check(table, value)
}

/// Checks the length of a key's fields.
pub(in crate::offline) fn check_key(table: Table, fields: &[u8]) -> Result<(), Malformed> {
    let fits = match table {
        Table::Inode | Table::Symlink | Table::Orphan | Table::Tree | Table::Extent | Table::Segment => {
            fields.len() == 8
        }
        Table::Reap => fields.len() == 12,
        Table::Name => fields.len() > 8,
        Table::Xattr => (9..=8 + NAME_BYTES_MAX).contains(&fields.len()),
        Table::Cookie | Table::Map => fields.len() == 16,
        Table::Usage | Table::Quota => key::owner(fields).is_some(),
        Table::Reply => (4..=4 + REQUEST_KEY_BYTES_MAX).contains(&fields.len()),
        Table::State => fields.len() <= STATE_KEY_BYTES_MAX,
        Table::Volume => fields.len() == 4,
        Table::Meta | Table::MapCount => fields.is_empty(),
    };
    if fits { Ok(()) } else { Err(Malformed("key")) }
}

/// Checks that no number in the index would be handed out again. Replay advances the counters beyond those in the
/// journal.
pub(super) fn check_numbers(view: &View, findings: &mut Findings) -> Result<(), IndexError> {
    let Some(meta) = &view.meta else { return Ok(()) };
    let inodes = view.volumes.iter().filter(|(_, record)| !record.is_deleted);
    let inodes = inodes.map(|(volume, record)| (*volume, Table::Inode, "inode", record.next_ino.0));
    let of_pool = [
        (POOL, Table::Extent, "extent", meta.next_extent.0),
        (POOL, Table::Segment, "segment", meta.next_segment.0),
    ];
    for (volume, table, what, next) in inodes.chain(of_pool) {
        let (from, to) = key::table_range(volume, table);
        let last = match view.index().last_before(&from, &to) {
            // What cannot be read was reported.
            Err(IndexError::Corrupt(_)) => continue,
            last => last?,
        };
        let highest = last.and_then(|(key, _)| key::number(key::parse(&key)?.2));
        if let Some(highest) = highest.filter(|highest| *highest >= next) {
            let object = (table == Table::Inode).then_some(volume.object(Ino(highest)));
            let what = format!("{what} {highest} exists, but the next {what} would be given number {next}");
            findings.add_to(FaultKind::Number, object, what);
        }
    }
    let last = view.volumes.last_key_value().filter(|(volume, _)| **volume >= meta.next_volume);
    if let Some((volume, _)) = last.filter(|(volume, _)| view.recent(&key::volume(**volume)).is_none()) {
        let what = format!("volume {volume} exists, but the next volume would be given a lower number");
        findings.add(FaultKind::Number, None, what);
    }
    Ok(())
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
