//! Media in memory, for tests and measurements: they can be copied, damaged, full, and made to fail or lose power.

mod file;
mod random;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::api::ids::SegmentId;
use crate::media::{Blob, DAMAGED_INDEXES_MAX, Media, RandomFile, Space, Tenure, oldest_with};

pub use file::MemoryFile;
pub use random::Random;

/// The journal's bytes, if a test does not say.
const LOG_BYTES: usize = 1 << 20;
/// The device's bytes, if a test does not say.
const DEVICE_BYTES: u64 = 1 << 40;

/// What goes wrong.
#[derive(Debug)]
struct Faults {
    refuses_appends: AtomicBool,
    tenure_lost: AtomicBool,
    segments_max: AtomicUsize,
    /// Greatest length of a file that may become the index.
    created_index_max: AtomicUsize,
    /// Most bytes that are said to be available.
    available_max: AtomicU64,
}

#[derive(Debug)]
struct MemoryBlob {
    file: Arc<MemoryFile>,
    faults: Arc<Faults>,
}

impl Blob for MemoryBlob {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        if self.faults.refuses_appends.load(Ordering::Relaxed) {
            return Err(io::Error::other("the device is gone"));
        }
        self.file.write_at(offset, &super::concat(parts))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The index, the file that may replace it, and those that it replaced.
#[derive(Debug)]
struct IndexFiles {
    current: Arc<MemoryFile>,
    created: Option<Arc<MemoryFile>>,
    damaged: VecDeque<Arc<MemoryFile>>,
}

impl IndexFiles {
    fn only(current: Arc<MemoryFile>) -> Mutex<IndexFiles> {
        Mutex::new(IndexFiles { current, created: None, damaged: VecDeque::new() })
    }
}

type Blobs = BTreeMap<SegmentId, Arc<MemoryFile>>;

/// The media of one volume.
#[derive(Debug)]
pub struct MemoryMedia {
    /// The log.
    pub log: Arc<MemoryFile>,
    index: Mutex<IndexFiles>,
    blobs: Mutex<Blobs>,
    faults: Arc<Faults>,
    device_bytes: u64,
    /// Makes the file of a blob.
    new_file: fn(Vec<u8>) -> Arc<MemoryFile>,
}

impl MemoryMedia {
    /// Returns empty media with a journal of 1 MiB.
    #[must_use]
    pub fn new() -> Arc<MemoryMedia> {
        MemoryMedia::with_log(LOG_BYTES)
    }

    /// Returns empty media with a journal of `log_bytes`.
    #[must_use]
    pub fn with_log(log_bytes: usize) -> Arc<MemoryMedia> {
        let new_file = MemoryFile::holding;
        MemoryMedia::of(new_file(vec![0; log_bytes]), new_file(Vec::new()), Blobs::new())
    }

    /// Returns empty media that cannot lose power: they cost little more than the copying of bytes.
    #[must_use]
    pub fn always_powered(log_bytes: usize, device_bytes: u64) -> Arc<MemoryMedia> {
        let new_file = MemoryFile::always_powered;
        let (log, index) = (new_file(vec![0; log_bytes]), new_file(Vec::new()));
        Arc::new(MemoryMedia {
            log,
            index: IndexFiles::only(index),
            blobs: Mutex::default(),
            faults: Faults::none(),
            device_bytes,
            new_file,
        })
    }

    /// Returns media that hold these bytes: the inverse of [`MemoryMedia::bytes`].
    #[must_use]
    pub fn holding(log: Vec<u8>, index: Vec<u8>, blobs: BTreeMap<SegmentId, Vec<u8>>) -> Arc<MemoryMedia> {
        let blobs = blobs.into_iter().map(|(id, bytes)| (id, MemoryFile::holding(bytes))).collect();
        MemoryMedia::of(MemoryFile::holding(log), MemoryFile::holding(index), blobs)
    }

    fn of(log: Arc<MemoryFile>, index: Arc<MemoryFile>, blobs: Blobs) -> Arc<MemoryMedia> {
        Arc::new(MemoryMedia {
            log,
            index: IndexFiles::only(index),
            blobs: Mutex::new(blobs),
            faults: Faults::none(),
            device_bytes: DEVICE_BYTES,
            new_file: MemoryFile::holding,
        })
    }

    /// Returns what media hold after power was lost now, without faults.
    #[must_use]
    pub fn after_power_loss(&self, random: &mut Random) -> Arc<MemoryMedia> {
        let (log, index) = (self.log.after_power_loss(random), self.index_file().after_power_loss(random));
        let blobs = self.blobs.lock().iter().map(|(id, file)| (*id, file.after_power_loss(random))).collect();
        MemoryMedia::of(log, index, blobs)
    }

    /// Returns what media hold after the process was killed now, without faults.
    #[must_use]
    pub fn after_kill(&self) -> Arc<MemoryMedia> {
        let (log, index, blobs) = self.bytes();
        MemoryMedia::holding(log, index, blobs)
    }

    /// Returns the bytes of the log, of the index and of each segment.
    #[must_use]
    pub fn bytes(&self) -> (Vec<u8>, Vec<u8>, BTreeMap<SegmentId, Vec<u8>>) {
        let blobs = self.blobs.lock().iter().map(|(id, file)| (*id, file.bytes())).collect();
        (self.log.bytes(), self.index_file().bytes(), blobs)
    }

    /// Returns the index file.
    #[must_use]
    pub fn index_file(&self) -> Arc<MemoryFile> {
        Arc::clone(&self.index.lock().current)
    }

    /// Returns the indexes that were replaced, oldest first.
    #[must_use]
    pub fn damaged_indexes(&self) -> Vec<Arc<MemoryFile>> {
        self.index.lock().damaged.iter().cloned().collect()
    }

    /// Returns a segment's file.
    ///
    /// # Panics
    /// The segment does not exist.
    #[must_use]
    pub fn blob(&self, id: SegmentId) -> Arc<MemoryFile> {
        Arc::clone(&self.blobs.lock()[&id])
    }

    /// Returns the number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.blobs.lock().len()
    }

    /// Makes every later write and sync fail.
    pub fn fail(&self) {
        self.refuse_appends(true);
        for file in [&self.log, &self.index_file()].into_iter().chain(self.blobs.lock().values()) {
            file.fail_from(Some(0));
        }
    }

    /// Makes segments refuse writes, or take them again.
    pub fn refuse_appends(&self, refuses: bool) {
        self.faults.refuses_appends.store(refuses, Ordering::Relaxed);
    }

    /// Loses the lease.
    pub fn lose_tenure(&self) {
        self.faults.tenure_lost.store(true, Ordering::Relaxed);
    }

    /// Bounds the number of segments.
    pub fn set_room_for_segments(&self, segments_max: usize) {
        self.faults.segments_max.store(segments_max, Ordering::Relaxed);
    }

    /// Bounds the bytes that are said to be available.
    pub fn set_available(&self, bytes_max: u64) {
        self.faults.available_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bounds the length of a file that may become the index, from the next one on.
    pub fn set_room_for_new_index(&self, bytes_max: usize) {
        self.faults.created_index_max.store(bytes_max, Ordering::Relaxed);
    }
}

impl Faults {
    fn none() -> Arc<Faults> {
        Arc::new(Faults {
            refuses_appends: AtomicBool::new(false),
            tenure_lost: AtomicBool::new(false),
            segments_max: AtomicUsize::new(usize::MAX),
            created_index_max: AtomicUsize::new(usize::MAX),
            available_max: AtomicU64::new(u64::MAX),
        })
    }
}

impl Media for MemoryMedia {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.log) as Arc<dyn RandomFile>
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        self.index_file()
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        let file = (self.new_file)(Vec::new());
        file.set_room(Some(self.faults.created_index_max.load(Ordering::Relaxed)));
        self.index.lock().created = Some(Arc::clone(&file));
        Ok(file)
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        let mut files = self.index.lock();
        let created = files.created.take().ok_or(io::ErrorKind::NotFound)?;
        let old = std::mem::replace(&mut files.current, created);
        files.damaged.push_back(old);
        if files.damaged.len() > DAMAGED_INDEXES_MAX {
            files.damaged.pop_front();
        }
        Ok(None)
    }

    fn discard_index(&self) -> io::Result<()> {
        self.index.lock().created = None;
        Ok(())
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        let mut files = self.index.lock();
        let sizes = files.damaged.iter().map(|file| file.bytes().len() as u64).collect::<Vec<_>>();
        let Some(count) = oldest_with(&sizes, bytes) else { return Ok(0) };
        files.damaged.drain(..count);
        let freed = sizes[..count].iter().sum();
        self.faults
            .available_max
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |max| Some(max.saturating_add(freed)))
            .ok();
        Ok(freed)
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let mut blobs = self.blobs.lock();
        if blobs.len() >= self.faults.segments_max.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if blobs.contains_key(&id) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = (self.new_file)(vec![0; file::in_memory(capacity)?]);
        blobs.insert(id, Arc::clone(&file));
        Ok(Arc::new(MemoryBlob { file, faults: Arc::clone(&self.faults) }))
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let file = self.blobs.lock().get(&id).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryBlob { file, faults: Arc::clone(&self.faults) }))
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.blobs.lock().remove(&id).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(self.blobs.lock().keys().copied().collect())
    }

    fn space(&self) -> io::Result<Space> {
        let available_max = self.faults.available_max.load(Ordering::Relaxed);
        Ok(Space { total: self.device_bytes, available: (self.device_bytes / 2).min(available_max) })
    }

    fn tenure(&self) -> Tenure {
        if self.faults.tenure_lost.load(Ordering::Relaxed) { Tenure::Lost } else { Tenure::Held }
    }
}
