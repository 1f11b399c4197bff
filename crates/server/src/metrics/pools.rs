//! What volumes and the pools beneath them say of themselves.

use std::collections::HashMap;
use std::sync::Arc;

use volume::quota::{QuotaCounts, QuotaKind};
use volume::request::{Access, Credentials, Request};
use volume::results::VolumeStatus;
use volume::{Pool, Volume};

use crate::clock::now;
use crate::counters::histogram::Snapshot;
use crate::counters::tallied::{DURATION_BUCKETS, DURATION_UNIT};
use crate::metrics::Source;
use crate::metrics::registry::{
    BLOCK_CACHE, CHECKPOINT, CHECKPOINTS, DURABLE_SEQ, Family, INDEX_COLD_READS, INDEX_FILE_READS,
    INODE_NOTES, INODES_IN_MEMORY, JOURNAL_CAPACITY, JOURNAL_SYNC, JOURNAL_USED, MAP_WINDOW, MEMTABLE,
    MEMTABLE_FROZEN, NAMES_CACHED, NAMES_KNOWN, ORPHANS, QUEUED_SEQ, QUOTA_REFUSED, QUOTA_VIOLATIONS,
    RECORD_CACHE, REPLIES_REMEMBERED, SEGMENT_LIVE_RATIO, SEGMENTS, SEGMENTS_CLEANED, SEGMENTS_SPARE,
    SPACE_RESERVED, UNREADABLE_OBJECTS, UNSTABLE, UP_VOLUMES, VERIFIER_CHANGES, VOLUME_FREE, VOLUME_INODES,
    VOLUME_MAPPINGS, VOLUME_SIZE, VOLUME_UP, VOLUME_USED, WRITE_BACKS,
};
use crate::metrics::series::{Buckets, Scrape, Value};
use crate::pools::OpenPool;

/// The gauges of the engine, by the names that it gives them.
pub(super) static GAUGES: &[(&str, &Family)] = &[
    ("journal_used_bytes", &JOURNAL_USED),
    ("journal_capacity_bytes", &JOURNAL_CAPACITY),
    ("durable_seq", &DURABLE_SEQ),
    ("queued_seq", &QUEUED_SEQ),
    ("memtable_bytes", &MEMTABLE),
    ("frozen_memtable_bytes", &MEMTABLE_FROZEN),
    ("unstable_bytes", &UNSTABLE),
    ("write_back_rounds", &WRITE_BACKS),
    ("checkpoints", &CHECKPOINTS),
    ("inodes_in_memory", &INODES_IN_MEMORY),
    ("map_window_bytes", &MAP_WINDOW),
    ("inode_note_bytes", &INODE_NOTES),
    ("block_cache_bytes", &BLOCK_CACHE),
    ("record_cache_bytes", &RECORD_CACHE),
    ("names_known", &NAMES_KNOWN),
    ("names_cached", &NAMES_CACHED),
    ("replies_remembered", &REPLIES_REMEMBERED),
    ("index_cold_reads", &INDEX_COLD_READS),
    ("index_file_reads", &INDEX_FILE_READS),
    ("orphans", &ORPHANS),
    ("segments", &SEGMENTS),
    ("segments_spare", &SEGMENTS_SPARE),
    ("segments_cleaned", &SEGMENTS_CLEANED),
    ("space_reserved_bytes", &SPACE_RESERVED),
    ("unreadable_objects", &UNREADABLE_OBJECTS),
    ("verifier_changes", &VERIFIER_CHANGES),
];

/// Adds what each volume and each pool says.
pub(super) fn add(source: &Source, scrape: &mut Scrape) {
    let is_up = |volume: &Volume| volume.refuses_changes().is_none();
    let volumes = source.volumes();
    let up = volumes.iter().filter(|volume| is_up(volume)).count();
    scrape.number(&UP_VOLUMES, [], up as u64);
    for volume in &volumes {
        let name = &volume.name();
        scrape.number(&VOLUME_UP, [name.into()], u64::from(is_up(volume)));
        scrape.number(&VOLUME_MAPPINGS, [name.into()], volume.mappings().0);
        add_quotas(volume, scrape);
        if let Some(status) = status(volume) {
            add_space(name, &status, scrape);
        }
    }
    for (OpenPool { name, pool }, commits) in source.pools.iter().zip(&source.protocol.commits) {
        add_gauges(name, pool, scrape);
        let durations = commits.durations();
        add_durations(&JOURNAL_SYNC, name, &durations.syncs.read(), scrape);
        add_durations(&CHECKPOINT, name, &durations.checkpoints.read(), scrape);
    }
}

fn status(volume: &Volume) -> Option<VolumeStatus> {
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Cached, key: None };
    Some(volume.status(&request).ok()?.value)
}

fn add_space(name: &Arc<str>, status: &VolumeStatus, scrape: &mut Scrape) {
    for (family, value) in [
        (&VOLUME_SIZE, status.bytes_total),
        (&VOLUME_USED, status.bytes_used),
        (&VOLUME_FREE, status.bytes_free),
    ] {
        scrape.number(family, [name.into()], value);
    }
    scrape.number(&VOLUME_INODES, [name.into(), "used".into()], status.inodes_used);
    scrape.number(&VOLUME_INODES, [name.into(), "free".into()], status.inodes_free);
}

/// Adds what quotas of a volume did, of the kinds that did something.
fn add_quotas(volume: &Volume, scrape: &mut Scrape) {
    let name = &volume.name();
    for (kind, counts) in QuotaKind::ALL.into_iter().zip(volume.quota_counts()) {
        if counts != QuotaCounts::default() {
            let labels = |limit: &'static str| [name.into(), kind.name().into(), limit.into()];
            scrape.number(&QUOTA_VIOLATIONS, labels("soft"), counts.exceeding);
            scrape.number(&QUOTA_REFUSED, labels("soft"), counts.refused_by_soft);
            scrape.number(&QUOTA_REFUSED, labels("hard"), counts.refused_by_hard);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more")]
fn add_gauges(pool: &Arc<str>, of: &Pool, scrape: &mut Scrape) {
    let gauges: HashMap<&str, u64> = of.gauges().into_iter().collect();
    for (name, family) in GAUGES {
        if let Some(value) = gauges.get(name) {
            scrape.number(family, [pool.into()], *value);
        }
    }
    if let (Some(live), Some(written)) = (gauges.get(LIVE), gauges.get(WRITTEN).filter(|bytes| **bytes > 0)) {
        let ratio = Value::Real(*live as f64 / *written as f64);
        scrape.push(&SEGMENT_LIVE_RATIO, [pool.into()], ratio);
    }
}

/// The engine's gauges from which the ratio is computed.
pub(super) const LIVE: &str = "segment_bytes_live";
pub(super) const WRITTEN: &str = "segment_bytes_written";

#[expect(clippy::cast_precision_loss, reason = "sums are shown as floating point numbers")]
fn add_durations(
    family: &'static Family,
    pool: &Arc<str>,
    found: &Snapshot<DURATION_BUCKETS>,
    scrape: &mut Scrape,
) {
    let buckets = Buckets::doubling(&found.buckets, DURATION_UNIT as f64 / 1e9, found.sum as f64 / 1e9);
    scrape.push(family, [pool.into()], Value::Histogram(buckets));
}
