//! Creating, opening and closing a pool.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use parking_lot::{Mutex, RwLock};

use crate::api::attributes::{Device, FileType};
use crate::api::ids::{Cookie, ExtentId, Generation, Ino, PoolId, SegmentId, VolumeId, VolumeNumber};
use crate::api::quotas::QuotaKind;
use crate::api::time::Time;
use crate::background::Progress;
use crate::background::rebuild::rebuild;
use crate::cache::blocks;
use crate::cache::names::NameCache;
use crate::cache::negative_lookups::NegativeLookupFilter;
use crate::encoding::codec::Malformed;
use crate::encoding::entry::Entry;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::encoding::record::{InodeRecord, MetaRecord, UsageRecord, VolumeRecord};
use crate::file::inodes::Inodes;
use crate::journal::group_commit::Committer;
use crate::journal::{RecoverError, Recovered, Ring};
use crate::limits::{ENTRY_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::media::{BLOCK_BYTES, Media};
use crate::options::{MemoryLimits, Options};
use crate::pool::{DamagedObjects, Deletions, Identity, Pool};
use crate::quotas::{Budget, size_limit};
use crate::schedule::checkpoints::Checkpoints;
use crate::schedule::cleaner::Cleaner;
use crate::schedule::deferred_state::DeferredState;
use crate::schedule::orphans::Orphans;
use crate::schedule::trees::TreeJobs;
use crate::schedule::write_back::WriteBack;
use crate::segments::Segments;
use crate::segments::space::SpaceLedger;
use crate::tables::index::{Index, IndexError, LostRanges, Salvage, Snapshot};
use crate::tables::read_view::ReadView;
use crate::volume::{Volume, VolumeState};

mod loaded;
mod salvage;

use loaded::{Loaded, Unlisted};

/// Overhead of an entry in a batch, bytes.
const ENTRY_LENGTH_BYTES: u64 = 4;

/// Memory of the index library while a volume is created, bytes.
const CREATE_CACHE_BYTES: usize = 1 << 20;

/// Options of a new pool, and of its first volume.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Identity of the pool: random, not zero.
    pub pool: PoolId,
    /// Identity of its journal: random, so that another pool's journal is not mistaken for this one's.
    pub journal_id: [u8; 16],
    /// The first volume.
    pub volume: VolumeOptions,
    /// Wall clock.
    pub now: Time,
}

#[cfg(test)]
impl CreateOptions {
    /// Returns options of a pool with a volume `main` without a size, for tests.
    pub(crate) fn of_test(now: Time) -> CreateOptions {
        CreateOptions {
            pool: PoolId(1),
            journal_id: [9; 16],
            volume: VolumeOptions {
                id: VolumeId(77),
                name: "main".to_owned(),
                size: None,
                handle_secret: [7; 16],
                root_mode: 0o755,
                root_owner: (0, 0),
            },
            now,
        }
    }
}

/// Options of a new volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Its identity: random, not zero.
    pub id: VolumeId,
    /// Its name, unique in the pool.
    pub name: String,
    /// Most bytes that its files may use; `None`, zero or 2^64 - 1 for as many as the pool has.
    pub size: Option<u64>,
    /// Key of its file handles: random.
    pub handle_secret: [u8; 16],
    /// Mode of the root directory.
    pub root_mode: u16,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
}

/// Why a pool could not be created, opened or closed: a sentence that says what is wrong and what to do.
#[derive(Debug)]
pub struct OpenError(pub String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

impl From<IndexError> for OpenError {
    fn from(error: IndexError) -> OpenError {
        let advice = match &error {
            IndexError::Full => "free some space, then try again",
            _ => "run `holdfast check` on the data directory",
        };
        OpenError(format!("the index cannot be used: {error}; {advice}"))
    }
}

impl From<RecoverError> for OpenError {
    fn from(error: RecoverError) -> OpenError {
        OpenError(format!("the journal cannot be used: {error}"))
    }
}

impl From<Malformed> for OpenError {
    fn from(error: Malformed) -> OpenError {
        OpenError(format!("the index holds a {error}; run `holdfast check` on the data directory"))
    }
}

impl From<std::io::Error> for OpenError {
    fn from(error: std::io::Error) -> OpenError {
        OpenError(format!("the pool's files cannot be used: {error}"))
    }
}

impl Pool {
    /// Creates a pool with an empty volume. A crash before this returns leaves a pool that does not open; create it
    /// again.
    ///
    /// # Errors
    /// Media failed, or are full.
    pub fn create(media: &dyn Media, options: &CreateOptions) -> Result<(), OpenError> {
        let log = media.log();
        check_log(log.len()?)?;
        let anchor = Ring::format(log.as_ref(), options.journal_id)?;
        let index = Index::create(media.index(), CREATE_CACHE_BYTES)?;
        let volume = VolumeRecord {
            id: options.volume.id,
            handle_secret: options.volume.handle_secret,
            next_ino: Ino(Ino::ROOT.0 + 1),
            size: size_limit(options.volume.size),
            is_deleted: false,
            name: options.volume.name.clone(),
        };
        let meta = MetaRecord {
            pool: options.pool,
            generation: Generation(0),
            next_volume: VolumeNumber(FIRST.0 + 1),
            next_extent: ExtentId(1),
            next_segment: SegmentId(1),
            time_ceiling: options.now,
            anchor,
        };
        let root = root_record(&options.volume, options.now);
        let update = index.begin()?;
        let mut records = update.records()?;
        records.put(&key::inode(FIRST.object(Ino::ROOT)), &root.encode())?;
        let one = UsageRecord { bytes: 0, inodes: 1 };
        let (uid, gid) = options.volume.root_owner;
        for (kind, id) in
            [(QuotaKind::Volume, 0), (QuotaKind::User, uid.into()), (QuotaKind::Group, gid.into())]
        {
            records.put(&key::usage(FIRST, kind.byte(), id), &one.encode())?;
        }
        records.put(&key::volume(FIRST), &volume.encode())?;
        records.put(&key::meta(), &meta.encode())?;
        drop(records);
        Ok(update.commit()?)
    }

    /// Opens a pool: replays its journal, and makes the start of a new generation durable.
    ///
    /// # Errors
    /// The index or the journal is damaged, missing or of another pool or format; or media failed.
    pub fn open(media: Arc<dyn Media>, options: &Options, now: Time) -> Result<Arc<Pool>, OpenError> {
        let log = media.log();
        check_log(log.len()?)?;
        check_segments(options.segment_bytes)?;
        let limits = MemoryLimits::of(options.memory, log.len()?);
        let cache_bytes = usize::try_from(limits.index_cache_bytes).unwrap_or(usize::MAX);
        let (index, snapshot, mut loaded) = load_or_rebuild(media.as_ref(), cache_bytes)?;
        let anchor = loaded.meta.anchor;
        let (ring, recovered) = Ring::recover(log, &anchor, &mut |seq, _, bytes| {
            loaded.replay(seq, bytes).map_err(|error| error.to_string())
        })?;
        let generation = Generation(recovered.generation.max(loaded.meta.generation).0 + 1);
        tracing::info!(
            event = "recovery",
            pool_id = %loaded.meta.pool,
            volumes = loaded.volumes.len(),
            generation = generation.0,
            entries = recovered.entries,
            bytes = recovered.bytes,
            cut_bytes = recovered.cut_bytes,
            "pool recovered"
        );
        let hasher = blocks::hasher(options.cache_seed);
        let segments =
            load_segments(&media, options, &loaded, snapshot.lost())?.with_pool(limits.pool_bytes());
        let pool = assemble(
            media,
            (limits, hasher),
            index,
            snapshot,
            loaded,
            segments,
            (ring, &recovered, generation, now),
        );
        pool.maintain_space();
        if pool.view().active.is_empty() {
            pool.segments.note_used(pool.usage.bytes());
        }
        pool.begin_generation(now)?;
        Ok(Arc::new(pool))
    }

    /// Makes the start of a new generation durable. If the journal is so full that it may lack room for that, what was
    /// replayed, which is durable, goes to the index first.
    fn begin_generation(&self, now: Time) -> Result<(), OpenError> {
        let mut trouble = None;
        if self.committer.is_busy() || self.committer.is_full() {
            trouble = self.try_checkpoint(now).err();
        }
        let seq = self.committer.push(Entry::default().encode());
        if self.committer.wait_durable(seq, true) {
            return Ok(());
        }
        let reason = self.committer.failure().unwrap_or_else(|| {
            let why = trouble.map(|error| format!(", and no checkpoint can empty it: {error}"));
            format!("the journal is full{}", why.unwrap_or_default())
        });
        Err(OpenError(format!("the pool cannot begin a new generation: {reason}")))
    }

    /// Writes all unstable data back and checkpoints, so that the next open replays nothing.
    ///
    /// # Errors
    /// The volume refuses changes, or media failed; what was acknowledged is on media nonetheless.
    pub fn close(&self, now: Time) -> Result<(), OpenError> {
        self.journal_deferred_state();
        while self.step_write_back(now, true, true) == Progress::Worked {}
        while self.committer.step() {}
        // If an earlier checkpoint failed, the first one only finishes it.
        while self.step_checkpoint(now, true) == Progress::Worked && !self.view().active.is_empty() {}
        self.segments.drop_spares();
        if let Some(reason) = self.refuses_changes() {
            return Err(OpenError(reason));
        }
        if self.write_back.dirty_bytes() > 0 {
            return Err(OpenError(
                "unstable data could not be written back and is lost; clients that hold it send it again"
                    .to_owned(),
            ));
        }
        if self.view().active.is_empty() && self.view().frozen.is_none() {
            Ok(())
        } else {
            Err(OpenError(
                "the last checkpoint could not be made; the next start replays the journal".to_owned(),
            ))
        }
    }

    /// Writes and syncs one batch of queued journal entries.
    pub fn step_commit(&self, _now: Time) -> Progress {
        if self.committer.step() { Progress::Worked } else { Progress::Idle }
    }

    /// Like [`Pool::step_commit`], but idle if another thread is writing a batch, or if a large one is queued.
    pub fn try_step_commit(&self, _now: Time) -> Progress {
        if self.committer.try_step() { Progress::Worked } else { Progress::Idle }
    }

    /// Whether anything is queued for a commit.
    pub fn awaits_commit(&self) -> bool {
        self.committer.queued_bytes() > 0
    }

    /// Wakes the thread in [`Pool::wait_commit`], if anything is queued. Callers of operations or steps that change
    /// something call this, once for many of them.
    pub fn wake_commit(&self) {
        self.committer.wake();
    }

    /// Blocks until entries are queued and the thread is woken, at most for `max`.
    pub fn wait_commit(&self, max: std::time::Duration) {
        self.committer.wait_for_work(max);
    }
}

impl Volume {
    /// Opens a pool, and returns its first volume: for pools that have one only.
    ///
    /// # Errors
    /// Those of [`Pool::open`], or it has no volume.
    pub fn open(media: Arc<dyn Media>, options: &Options, now: Time) -> Result<Volume, OpenError> {
        let pool = Pool::open(media, options, now)?;
        let first = pool.volumes().into_iter().next();
        first.ok_or_else(|| OpenError("the pool has no volume".to_owned()))
    }
}

/// Decodes the record about the whole, and refuses another format.
pub(crate) fn read_meta(bytes: &[u8]) -> Result<MetaRecord, OpenError> {
    match MetaRecord::format_of(bytes) {
        Some(format) if format != MetaRecord::FORMAT => Err(OpenError(format!(
            "the volume has format {format}, and this release reads only format {}: copy the files with the release \
             that wrote them",
            MetaRecord::FORMAT
        ))),
        _ => Ok(MetaRecord::decode(bytes)?),
    }
}

/// Checks that a ring takes the largest entry.
fn check_log(bytes: u64) -> Result<(), OpenError> {
    let largest = Ring::largest_batch_of(bytes);
    if largest > ENTRY_BYTES_MAX + ENTRY_LENGTH_BYTES {
        return Ok(());
    }
    Err(OpenError(format!(
        "a journal of {bytes} bytes is too small: one change takes up to {ENTRY_BYTES_MAX} bytes, and a batch in it {largest}"
    )))
}

/// Checks the size of segments.
fn check_segments(bytes: u64) -> Result<(), OpenError> {
    if bytes >= SEGMENT_BYTES_MIN && bytes.is_multiple_of(BLOCK_BYTES) {
        return Ok(());
    }
    Err(OpenError(format!(
        "segments of {bytes} bytes are not possible: it must be a multiple of {BLOCK_BYTES}, at least {SEGMENT_BYTES_MIN}"
    )))
}

pub(crate) fn root_record(options: &VolumeOptions, now: Time) -> InodeRecord {
    InodeRecord {
        file_type: FileType::Directory,
        mode: options.root_mode & 0o7777,
        links: 2,
        uid: options.root_owner.0,
        gid: options.root_owner.1,
        size: 0,
        used: 0,
        mapped_end: 0,
        device: Device::default(),
        atime: now,
        mtime: now,
        ctime: now,
        change: 1,
        parent: Ino::ROOT,
        next_cookie: Cookie::FIRST,
        entries: 0,
        tree: 0,
        create_verifier: None,
        truncations: 0,
        pending_truncations: Vec::new(),
        xattrs: 0,
        xattr_bytes: 0,
    }
}

fn assemble(
    media: Arc<dyn Media>,
    (limits, hasher): (MemoryLimits, blocks::Hasher),
    index: Index,
    snapshot: Snapshot,
    loaded: Loaded,
    segments: Segments,
    (ring, recovered, generation, now): (Ring, &Recovered, Generation, Time),
) -> Pool {
    // Unless the clock was set back, all times handed out, up to the ceiling, are in the past.
    let ceiling = recovered.time_ceiling.max(loaded.meta.time_ceiling);
    let floor = if now <= ceiling { ceiling.next() } else { Time::from_nanos(i64::MIN) };
    // Inline data in the journal reserves room in segments, as it did when it was accepted.
    let space = SpaceLedger::default();
    space.extend(loaded.memtable.inline_bytes());
    loaded.duplicate_requests.bound(limits.duplicate_requests);
    let view = ReadView {
        active: Arc::new(loaded.memtable),
        frozen: None,
        index: Arc::new(snapshot),
        version: 1,
        recent_versions: VecDeque::new(),
    };
    let (deleted, live): (Vec<_>, Vec<_>) = loaded.volumes.iter().partition(|(_, record)| record.is_deleted);
    let deleting: BTreeMap<VolumeNumber, VolumeRecord> =
        deleted.into_iter().map(|(number, record)| (*number, record.clone())).collect();
    // Replay counted what the journal says about them.
    for number in deleting.keys() {
        loaded.usage.clear(*number);
        loaded.duplicate_requests.forget_volume(*number);
    }
    let mut quotas = loaded.quotas;
    let quota_budget = Arc::new(Budget::new(limits.quota_bytes));
    let volumes = live.into_iter().map(|(number, record)| {
        let quotas = quotas.remove(number).unwrap_or_default();
        let mappings = loaded.mappings.get(number).copied().unwrap_or_default();
        (*number, Arc::new(VolumeState::new(*number, record, quotas, mappings, &quota_budget)))
    });
    let volumes: BTreeMap<_, Arc<VolumeState>> = volumes.collect();
    let has_limits = volumes.values().any(|own| own.ledger.is_limited());
    Pool {
        identity: Identity::new(&loaded.meta, loaded.next_extent),
        volumes: RwLock::new(volumes),
        volume_changes: Mutex::new(()),
        next_volume: AtomicU32::new(loaded.next_volume),
        limits,
        view: RwLock::new(Arc::new(view)),
        index: Mutex::new(index),
        index_meta: Mutex::new(loaded.meta),
        committer: Committer::new(Arc::clone(&media), ring, recovered.last_seq, generation, floor),
        inodes: Inodes::new(limits.inode_bytes, limits.window_bytes, limits.note_bytes),
        records: blocks::records(limits.record_cache_bytes, hasher.clone()),
        negative_lookups: NegativeLookupFilter::new(limits.negative_lookup_bytes, hasher.clone()),
        name_cache: NameCache::new(limits.name_cache_bytes, hasher.clone()),
        blocks: blocks::blocks(limits.block_cache_bytes - limits.pool_bytes(), hasher),
        segments,
        space,
        usage: loaded.usage,
        has_limits: AtomicBool::new(has_limits),
        quota_budget,
        duplicate_requests: loaded.duplicate_requests,
        deferred_state: DeferredState::default(),
        orphans: Orphans::new(loaded.orphans),
        trees: TreeJobs::default(),
        write_back: WriteBack::default(),
        under_way: Mutex::default(),
        checkpoints: Checkpoints::new(loaded.more_to_reap || !deleting.is_empty()),
        cleaner: Cleaner::default(),
        damaged: DamagedObjects::default(),
        span: tracing::Span::current(),
        deletions: Deletions::new(deleting),
        losses: AtomicU64::new(0),
        #[cfg(test)]
        hooks: crate::hooks::Hooks::default(),
        media,
    }
}

/// Opens the index and loads what must be in memory. If blocks of the index cannot be read, it is first replaced by a
/// copy of the others. Without room for that, what can be read is served, and the next checkpoint tries again.
fn load_or_rebuild(media: &dyn Media, cache_bytes: usize) -> Result<(Index, Snapshot, Loaded), OpenError> {
    let (loaded, salvage) = match Index::open(media.index(), cache_bytes) {
        Ok(mut index) => match Loaded::from_index(&mut index) {
            Ok((loaded, snapshot)) if !index.is_damaged() => return Ok((index, snapshot, loaded)),
            Err(error) if !index.is_damaged() => return Err(error),
            result => {
                let salvage = index.salvage();
                (result.map(|(loaded, snapshot)| (index, snapshot, loaded)), salvage)
            }
        },
        Err(error @ IndexError::Corrupt(_)) => {
            let salvage = Salvage::open(media.index(), cache_bytes).map_err(unreadable)?;
            (Err(error.into()), salvage)
        }
        Err(error) => return Err(error.into()),
    };
    match rebuild(media, &salvage, cache_bytes, None) {
        Ok(rebuilt) => {
            // The library destroys a file that it has open twice.
            drop((rebuilt, loaded));
            let mut index = Index::open(media.index(), cache_bytes)?;
            let (loaded, snapshot) = Loaded::from_index(&mut index)?;
            Ok((index, snapshot, loaded))
        }
        Err(IndexError::Full) => loaded.map_err(|error| {
            let needed = salvage.bytes_needed();
            OpenError(format!(
                "{error}; or free {needed} bytes on its device for a copy of what can be read, and start again"
            ))
        }),
        Err(error @ IndexError::Corrupt(_)) => Err(beyond_repair(&error)),
        Err(error) => Err(OpenError(format!(
            "the index is damaged, and could not be replaced by a copy of what can be read: {error}; start \
             again once its device works"
        ))),
    }
}

/// Returns why nothing of an index can be read.
pub(crate) fn unreadable(error: IndexError) -> OpenError {
    OpenError(match error {
        IndexError::Corrupt(what) => {
            format!(
                "nothing in the index can be read: {what}; restore the pool from a backup (docs/damage.md)"
            )
        }
        // Media say what to do.
        error => format!("the index cannot be read: {error}"),
    })
}

/// Returns why a pool cannot be opened whose index holds no record about it.
pub(crate) fn unfinished() -> OpenError {
    OpenError("the index holds no volume: its creation was interrupted; create it again".to_owned())
}

/// Returns why a pool cannot be opened that has lost a record about a volume.
pub(crate) fn volume_lost() -> OpenError {
    let lost = "it has lost a record about a volume, with the key of its file handles";
    beyond_repair(&IndexError::Corrupt(lost.to_owned()))
}

/// Returns why a pool cannot be opened of whose index something can be read.
fn beyond_repair(error: &IndexError) -> OpenError {
    OpenError(format!(
        "the index cannot be used: {error}; `holdfast check` finds what is lost, and `holdfast dump --files` \
         copies what can be read; else restore a backup (docs/damage.md)"
    ))
}

/// Loads the segments that the index and the journal know. Other files of segments were being created when the server
/// stopped; no entry names them, so they are deleted, unless the index may have named them in a record that is lost.
fn load_segments(
    media: &Arc<dyn Media>,
    options: &Options,
    loaded: &Loaded,
    lost: &LostRanges,
) -> Result<Segments, OpenError> {
    let present = media.list_blobs()?;
    let after_present = present.iter().map(|id| id.0 + 1).max().unwrap_or(0);
    let segments =
        Segments::new(Arc::clone(media), options.segment_bytes, loaded.next_segment.max(after_present));
    for id in present.iter().filter(|id| !loaded.segments.contains_key(id)) {
        match loaded.unlisted {
            Unlisted::Unused if !lost.covers(&key::segment(*id)) => media.delete_blob(*id)?,
            Unlisted::Unused => {}
            Unlisted::Unknown(info) => segments.load(*id, info),
        }
    }
    for (id, info) in &loaded.segments {
        if !present.contains(id) && info.live > 0 {
            tracing::error!(segment = id.0, "a segment is missing: the files that lie in it cannot be read");
        }
        segments.load(*id, *info);
    }
    Ok(segments)
}
