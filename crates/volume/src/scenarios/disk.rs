//! Media in memory that can lose power, refuse writes and be full.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::ids::SegmentId;
use crate::media::memory::{MemoryFile, Random};
use crate::media::{Blob, Media, RandomFile, Space};

/// Whether things go wrong.
#[derive(Debug)]
struct Faults {
    refuse_appends: AtomicBool,
    lease_lost: AtomicBool,
    /// Most segments that there is room for.
    segments: AtomicUsize,
}

#[derive(Debug)]
struct DiskBlob {
    file: Arc<MemoryFile>,
    faults: Arc<Faults>,
}

impl Blob for DiskBlob {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.faults.refuse_appends.load(Ordering::Relaxed) {
            return Err(io::Error::other("the device is gone"));
        }
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The media of one volume.
#[derive(Debug)]
pub(crate) struct Disk {
    pub log: Arc<MemoryFile>,
    pub index: Arc<MemoryFile>,
    blobs: Mutex<BTreeMap<SegmentId, Arc<MemoryFile>>>,
    faults: Arc<Faults>,
}

impl Disk {
    /// An empty one, with a journal of 1 MiB.
    pub(crate) fn new() -> Arc<Disk> {
        Disk::with_log(1 << 20)
    }

    /// An empty one, with a journal of so many bytes.
    pub(crate) fn with_log(bytes: usize) -> Arc<Disk> {
        Disk::of(MemoryFile::holding(vec![0; bytes]), MemoryFile::holding(Vec::new()), BTreeMap::new())
    }

    fn of(
        log: Arc<MemoryFile>,
        index: Arc<MemoryFile>,
        blobs: BTreeMap<SegmentId, Arc<MemoryFile>>,
    ) -> Arc<Disk> {
        let faults = Faults {
            refuse_appends: AtomicBool::new(false),
            lease_lost: AtomicBool::new(false),
            segments: AtomicUsize::new(usize::MAX),
        };
        Arc::new(Disk { log, index, blobs: Mutex::new(blobs), faults: Arc::new(faults) })
    }

    /// What is left after power was lost now. Faults are gone.
    pub(crate) fn after_power_loss(&self, random: &mut Random) -> Arc<Disk> {
        let (log, index) = (self.log.after_power_loss(random), self.index.after_power_loss(random));
        let blobs = self.blobs.lock().iter().map(|(id, file)| (*id, file.after_power_loss(random))).collect();
        Disk::of(log, index, blobs)
    }

    /// What is left after the process was killed now.
    pub(crate) fn after_kill(&self) -> Arc<Disk> {
        let copy = |file: &Arc<MemoryFile>| MemoryFile::holding(file.bytes());
        let blobs = self.blobs.lock().iter().map(|(id, file)| (*id, copy(file))).collect();
        Disk::of(copy(&self.log), copy(&self.index), blobs)
    }

    /// One segment's file.
    pub(crate) fn blob(&self, id: SegmentId) -> Arc<MemoryFile> {
        Arc::clone(&self.blobs.lock()[&id])
    }

    /// Makes segments refuse to be written, or take writes again.
    pub(crate) fn refuse_appends(&self, refuses: bool) {
        self.faults.refuse_appends.store(refuses, Ordering::Relaxed);
    }

    /// Loses the lease.
    pub(crate) fn lose_lease(&self) {
        self.faults.lease_lost.store(true, Ordering::Relaxed);
    }

    /// Leaves room for no more segments than that.
    pub(crate) fn set_room_for_segments(&self, most: usize) {
        self.faults.segments.store(most, Ordering::Relaxed);
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        self.blobs.lock().len()
    }
}

impl Media for Disk {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.log) as Arc<dyn RandomFile>
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.index) as Arc<dyn RandomFile>
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let mut blobs = self.blobs.lock();
        if blobs.len() >= self.faults.segments.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if blobs.contains_key(&id) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = MemoryFile::holding(vec![0; usize::try_from(capacity).unwrap()]);
        blobs.insert(id, Arc::clone(&file));
        Ok(Arc::new(DiskBlob { file, faults: Arc::clone(&self.faults) }))
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let file = self.blobs.lock().get(&id).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(DiskBlob { file, faults: Arc::clone(&self.faults) }))
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.blobs.lock().remove(&id).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(self.blobs.lock().keys().copied().collect())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { total: 1 << 40, available: 1 << 39 })
    }

    fn lease_held(&self) -> bool {
        !self.faults.lease_lost.load(Ordering::Relaxed)
    }
}
