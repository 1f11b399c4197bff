//! A pool: one journal, one index, segments, caches and background steps, which its volumes share. `open.rs` opens and
//! closes it, `background/` holds its steps.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::api::ids::{ExtentId, ObjectId, PoolId, VolumeNumber};
use crate::api::request::{Durability, Durable, Error, FlushWait};
use crate::bytes::{Bytes, Value};
use crate::cache::blocks::{BlockCache, GROUP_BLOCKS, RecordCache, WHOLE_EXTENT};
use crate::cache::duplicate_requests::DuplicateRequestCache;
use crate::cache::names::NameCache;
use crate::cache::negative_lookups::NegativeLookupFilter;
use crate::encoding::codec::Malformed;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{ExtentMapping, ExtentRecord, MetaRecord, Source};
use crate::file::inodes::{IndexMapping, Inodes, MapWindow};
use crate::journal::group_commit::Committer;
use crate::limits::INTERNAL_NAME;
use crate::media::Media;
use crate::options::MemoryLimits;
use crate::quotas::Budget;
use crate::schedule::checkpoints::Checkpoints;
use crate::schedule::deferred_state::DeferredState;
use crate::schedule::orphans::Orphans;
use crate::schedule::trees::TreeJobs;
use crate::schedule::write_back::under_way::UnderWay;
use crate::schedule::write_back::{GENERATIONS_PER_FLUSH, WriteBack};
use crate::segments::Segments;
use crate::segments::space::SpaceLedger;
use crate::tables::index::{Found, Index, IndexError};
use crate::tables::lost_words::Words;
use crate::tables::read_view::ReadView;
use crate::tables::usage::VolumeUsage;
use crate::volume::{Volume, VolumeState};

mod damage;
mod deletions;
mod identity;

pub(crate) use damage::{DamagedObjects, Subject};
pub(crate) use deletions::Deletions;
pub(crate) use identity::Identity;

/// An open pool, with its volumes.
///
/// Lock order: `under_way`, `volume_changes`, the step of `trees`, `directory_moves`, inodes by number, `checkpoints`, `view`, `deferred_state`, the
/// queue of `committer`, then the locks of single tables. None of them is held across I/O. `index` and the streams belong to the
/// background steps.
pub struct Pool {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) identity: Identity,
    pub(crate) limits: MemoryLimits,
    pub(crate) view: RwLock<Arc<ReadView>>,
    pub(crate) index: Mutex<Index>,
    /// The record about the pool that the index holds.
    pub(crate) index_meta: Mutex<MetaRecord>,
    pub(crate) committer: Committer,
    pub(crate) inodes: Inodes,
    pub(crate) records: RecordCache,
    pub(crate) negative_lookups: NegativeLookupFilter,
    pub(crate) name_cache: NameCache,
    pub(crate) blocks: BlockCache,
    pub(crate) segments: Segments,
    pub(crate) space: SpaceLedger,
    pub(crate) usage: VolumeUsage,
    /// Whether a volume was limited since the pool was opened.
    pub(crate) has_limits: AtomicBool,
    /// What the ledgers of all volumes may have in memory.
    pub(crate) quota_budget: Arc<Budget>,
    pub(crate) duplicate_requests: DuplicateRequestCache,
    pub(crate) deferred_state: DeferredState,
    pub(crate) orphans: Orphans,
    pub(crate) trees: TreeJobs,
    pub(crate) write_back: WriteBack,
    /// Held by the step that writes back, also across I/O.
    pub(crate) under_way: Mutex<UnderWay>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) cleaner: crate::schedule::cleaner::Cleaner,
    /// Its volumes.
    pub(crate) volumes: RwLock<BTreeMap<VolumeNumber, Arc<VolumeState>>>,
    /// Number of the next volume.
    pub(crate) next_volume: AtomicU32,
    /// Held while a volume is made, renamed, resized or deleted.
    pub(crate) volume_changes: Mutex<()>,
    /// Volumes that were deleted, and whose records remain.
    pub(crate) deletions: Deletions,
    pub(crate) damaged: DamagedObjects,
    /// The span in which the pool was opened: it names the pool in reports of threads that serve several.
    pub(crate) span: tracing::Span,
    /// Number of times unstable data was lost since the pool was opened.
    pub(crate) losses: AtomicU64,
    #[cfg(test)]
    pub(crate) hooks: crate::hooks::Hooks,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("id", &self.pool_id()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Returns the pool's identity.
    pub fn pool_id(&self) -> PoolId {
        self.identity.id()
    }

    /// Returns the volumes of users, in the order of their numbers: those whose names do not begin with [`INTERNAL_NAME`].
    pub fn volumes(self: &Arc<Pool>) -> Vec<Volume> {
        let mut volumes = self.all_volumes();
        volumes.retain(|volume| !volume.name().starts_with(INTERNAL_NAME));
        volumes
    }

    /// Returns the volume with this name, which may be internal.
    pub fn volume(self: &Arc<Pool>, name: &str) -> Option<Volume> {
        self.all_volumes().into_iter().find(|volume| *volume.name() == *name)
    }

    fn all_volumes(self: &Arc<Pool>) -> Vec<Volume> {
        let volumes = self.volumes.read();
        volumes.values().map(|own| Volume::new(Arc::clone(self), Arc::clone(own))).collect()
    }

    /// Returns why the pool refuses changes, if it does: its journal failed, or its lease is lost.
    pub fn refuses_changes(&self) -> Option<String> {
        self.committer.has_failed().then(|| self.committer.failure().unwrap_or_default())
    }

    /// Returns what is damaged and what to do, if damage of the index was found.
    pub fn damage(&self) -> Option<String> {
        let index = Arc::clone(&self.view().index);
        if index.is_damaged() {
            return Some(
                "blocks of the index cannot be read; the next checkpoint replaces it by a copy of the others, for \
                 which its device needs room"
                    .to_owned(),
            );
        }
        let lost = index.lost();
        (!lost.is_empty()).then(|| {
            format!(
                "the index has lost {}; reads of what is lost fail; stop the server, run `holdfast check` to see \
                 which files are affected, save the others, and run `holdfast check --repair` (docs/damage.md)",
                Words(lost)
            )
        })
    }

    /// Checks whether a reply may be sent.
    pub fn durability(&self, wanted: Durability) -> Durable {
        // In this order: a flush that fails is noted as failed before it is done.
        let is_journaled = self.committer.durable() >= wanted.seq;
        let is_done = is_journaled && self.flushed_generation() >= wanted.flush.generation;
        if self.write_back.has_failed(wanted.flush) {
            return Durable::Failed;
        }
        if is_done || is_journaled && self.write_back.has_saved(wanted.flush) {
            return Durable::Yes;
        }
        if self.committer.has_failed() { Durable::Failed } else { Durable::NotYet }
    }

    /// Returns what remains to be waited for: without a flush that has saved what it was wanted for.
    pub fn outstanding(&self, wanted: Durability) -> Durability {
        let FlushWait { generation, .. } = wanted.flush;
        let is_saved = || self.flushed_generation() >= generation || self.write_back.has_saved(wanted.flush);
        if generation == 0 || self.write_back.has_failed(wanted.flush) || !is_saved() {
            return wanted;
        }
        Durability::of(wanted.seq)
    }

    /// Returns a count that grows whenever a flush may have saved what a reply waits for.
    pub fn flush_advances(&self) -> u64 {
        self.write_back.advances()
    }

    /// Returns how many times the pool was opened; each opening increases it.
    pub fn generation(&self) -> u32 {
        self.committer.generation().0
    }

    /// Registers a callback for when durability advances or fails, and when a Busy condition may have eased. It must
    /// not block.
    pub fn on_progress(&self, notify: Box<dyn Fn() + Send + Sync>) {
        self.committer.on_progress(notify);
    }

    /// Returns how long to delay the reply of a change, so that the journal and the memtables fill no faster than
    /// checkpoints empty them. The delay begins when 40 % of the ring is used and grows with the square of the
    /// excess, to 32 ms at 80 %, where callers have to retry. The same holds for a memtable that fills while another
    /// is checkpointed.
    pub fn throttle(&self) -> Duration {
        let (used, capacity) = (self.committer.used_bytes(), self.committer.capacity_bytes().max(1));
        let view = self.view.read();
        let filling =
            view.frozen.as_ref().map_or(0, |_| view.active.bytes() * 80 / self.limits.memtable_bytes);
        drop(view);
        let over = (used * 100 / capacity).max(filling.min(100)).saturating_sub(40);
        Duration::from_micros(over * over * 20)
    }

    /// Returns gauges for operators: name and value.
    pub fn gauges(&self) -> Vec<(&'static str, u64)> {
        let view = self.view();
        let (cold, segments) = (view.index.cold_reads(), self.segments.infos());
        vec![
            ("journal_used_bytes", self.committer.used_bytes()),
            ("journal_capacity_bytes", self.committer.capacity_bytes()),
            ("durable_seq", self.committer.durable().0),
            ("queued_seq", self.committer.last_queued().0),
            ("memtable_bytes", view.active.bytes()),
            ("frozen_memtable_bytes", view.frozen.as_ref().map_or(0, |frozen| frozen.bytes())),
            ("unstable_bytes", self.write_back.dirty_bytes()),
            ("write_back_rounds", self.flushed_generation() / GENERATIONS_PER_FLUSH),
            ("checkpoints", self.checkpoints.done()),
            ("inodes_in_memory", self.inodes.len() as u64),
            ("map_window_bytes", self.inodes.window_bytes()),
            ("inode_note_bytes", self.inodes.note_bytes()),
            ("block_cache_bytes", self.blocks.weight()),
            ("record_cache_bytes", self.records.weight()),
            ("names_known", self.negative_lookups.len() as u64),
            ("names_cached", self.name_cache.len() as u64),
            ("replies_remembered", self.duplicate_requests.len() as u64),
            ("index_cold_reads", cold.reads),
            ("index_file_reads", cold.file_reads),
            ("orphans", self.orphans.len() as u64),
            ("segments", segments.len() as u64),
            ("segment_bytes_written", segments.iter().map(|(_, info)| info.written).sum()),
            ("segment_bytes_live", segments.iter().map(|(_, info)| info.live).sum()),
            ("segments_spare", self.segments.spares() as u64),
            ("segments_cleaned", self.cleaner.cleaned()),
            ("space_reserved_bytes", self.space.reserved()),
            ("unreadable_objects", self.damaged.count() as u64),
            ("verifier_changes", self.losses.load(Ordering::Relaxed)),
        ]
    }

    /// Returns the current read view.
    pub(crate) fn view(&self) -> Arc<ReadView> {
        Arc::clone(&self.view.read())
    }

    /// Returns the last flush generation that is done.
    pub(crate) fn flushed_generation(&self) -> u64 {
        self.write_back.done()
    }

    /// Returns the durability of a reply that depends on everything queued so far.
    pub(crate) fn everything_so_far(&self) -> Durability {
        Durability::of(self.committer.last_queued())
    }

    /// Caches a record read from the index of `view`, unless the index was replaced since or a memtable holds a newer
    /// value. The checkpoint that moves a memtable into the index removes its keys from the cache before it switches
    /// the view.
    pub(crate) fn remember_record(&self, view: &ReadView, key: &Key, slot: &Slot) {
        let now = self.view.read();
        if now.version == view.version && now.recent(key).is_none() {
            self.records.insert(key.clone(), slot.clone());
        }
    }

    /// Reads mappings of a file in the index: those that touch `[offset, wanted)`, but no more than `max`, one at least.
    pub(crate) fn read_window(
        &self,
        view: &ReadView,
        id: ObjectId,
        (offset, wanted): (u64, u64),
        max: usize,
    ) -> Result<MapWindow, Error> {
        let mut mappings = Vec::new();
        let (from, to) = (key::map(id, offset.saturating_add(1)), key::map(id, u64::MAX));
        let (mut damaged, mut is_lost, mut reached, mut is_partial) = (None, false, offset, false);
        let scanned = view.index.scan_around(&from, &to, &mut |found| match found {
            Found::Lost => {
                is_lost = true;
                ControlFlow::Continue(())
            }
            Found::Record(key, value) => match index_mapping(key, value) {
                Ok(mapping) => {
                    // Mappings do not overlap, so none is lost where this one is.
                    if is_lost && reached < mapping.start {
                        mappings.push(IndexMapping::lost(reached, mapping.start));
                    }
                    (is_lost, reached) = (false, mapping.end);
                    mappings.push(mapping);
                    is_partial = mappings.len() >= max || reached >= wanted;
                    if is_partial { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                }
                Err(error) => {
                    damaged = Some(error);
                    ControlFlow::Break(())
                }
            },
        });
        let to = match scanned {
            // What lies before a block that cannot be read is known.
            Err(IndexError::Corrupt(_)) if reached > offset => reached,
            Err(error) => return Err(self.index_failed(Subject::Object(id), &error)),
            Ok(()) if is_partial => reached,
            Ok(()) => u64::MAX,
        };
        if let Some(error) = damaged {
            return Err(self.report(Subject::Object(id), &error));
        }
        if is_lost && reached < to {
            mappings.push(IndexMapping::lost(reached, to));
        }
        Ok(MapWindow { version: view.version, from: offset, to, mappings: Arc::new(mappings) })
    }

    /// Reads and verifies a group of blocks of an extent, or the whole extent ([`WHOLE_EXTENT`]), into the cache.
    /// Returns `None` if the extent was freed: the map that named it is out of date. Damage is reported as that of `of`.
    pub(crate) fn read_block(
        &self,
        view: &ReadView,
        (extent, group): (ExtentId, u32),
        of: Subject,
    ) -> Result<Option<Bytes>, Error> {
        if let Some(bytes) = self.blocks.get(&(extent, group)) {
            return Ok(Some(bytes));
        }
        let Some((value, record)) = self.extent_record(view, extent, of)? else { return Ok(None) };
        let (first, last) = match group {
            WHOLE_EXTENT => (0, u32::MAX),
            _ => (group * GROUP_BLOCKS, group * GROUP_BLOCKS + GROUP_BLOCKS - 1),
        };
        let read = self.segments.read(&record, first, last);
        self.keep_block((extent, group), of, (&value, read))
    }

    /// Does the same for several, and reads successive whole extents in the same segment at once. The result has each that was not freed.
    pub(crate) fn read_blocks(
        &self,
        view: &ReadView,
        wanted: &[((ExtentId, u32), Subject)],
    ) -> Result<Vec<((ExtentId, u32), Bytes)>, Error> {
        let mut all = Vec::new();
        let mut whole: Vec<((ExtentId, u32), Subject, Value, ExtentRecord)> = Vec::new();
        for (block, of) in wanted {
            if block.1 != WHOLE_EXTENT || self.blocks.get(block).is_some() {
                all.extend(self.read_block(view, *block, *of)?.map(|bytes| (*block, bytes)));
            } else if whole.iter().all(|(known, ..)| known != block) {
                // Several mappings of a file may lead to one extent.
                let found = self.extent_record(view, block.0, *of)?;
                whole.extend(found.map(|(value, record)| (*block, *of, value, record)));
            }
        }
        let records: Vec<&ExtentRecord> = whole.iter().map(|(.., record)| record).collect();
        for ((block, of, value, _), read) in whole.iter().zip(self.segments.read_whole(&records)) {
            all.extend(self.keep_block(*block, *of, (value, read))?.map(|bytes| (*block, bytes)));
        }
        Ok(all)
    }

    /// Returns the record of an extent, encoded and decoded; `None` if it was freed.
    fn extent_record(
        &self,
        view: &ReadView,
        extent: ExtentId,
        of: Subject,
    ) -> Result<Option<(Value, ExtentRecord)>, Error> {
        let slot = view.get(&key::extent(extent)).map_err(|error| self.index_failed(of, &error))?;
        let Some(value) = slot else { return Ok(None) };
        let record = self.decode(of, ExtentRecord::decode(&value))?;
        Ok(Some((value, record)))
    }

    /// Keeps what was read of an extent, whose record was `value`, in the cache.
    fn keep_block(
        &self,
        block: (ExtentId, u32),
        of: Subject,
        (value, read): (&Value, io::Result<Bytes>),
    ) -> Result<Option<Bytes>, Error> {
        match read {
            Ok(bytes) => {
                self.blocks.insert(block, bytes.clone());
                Ok(Some(bytes))
            }
            // The cleaner may have moved the extent since its record was read.
            Err(error) => match self.view().get(&key::extent(block.0)) {
                Ok(Some(now)) if now == *value => Err(self.report(of, &error)),
                Err(error) => Err(self.index_failed(of, &error)),
                Ok(_) => Ok(None),
            },
        }
    }

    /// Returns an object's next change value: the open-generation above a counter. It never repeats, even after a
    /// crash took back unstable writes.
    pub(crate) fn next_change(&self, previous: u64) -> u64 {
        const COUNTER_BITS: u32 = 40;
        (previous + 1).max(u64::from(self.committer.generation().0) << COUNTER_BITS)
    }
}

/// Decodes a mapping of the index, which is never inline.
fn index_mapping(key: &[u8], value: &[u8]) -> Result<IndexMapping, Malformed> {
    let end =
        key::parse(key).and_then(|(_, _, fields)| key::second_number(fields)).ok_or(Malformed("map key"))?;
    let record = ExtentMapping::decode(value)?;
    match record.source {
        Source::Lost if record.start < end => {
            Ok(IndexMapping { birth: record.birth, ..IndexMapping::lost(record.start, end) })
        }
        Source::Extent { id, offset } if record.start < end => {
            Ok(IndexMapping { start: record.start, end, birth: record.birth, extent: id, offset })
        }
        _ => Err(Malformed("map piece")),
    }
}

impl From<IndexError> for Error {
    fn from(_: IndexError) -> Error {
        Error::Io
    }
}
