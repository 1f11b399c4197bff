//! Media in memory that lose, tear, reorder and refuse writes, the same way for each seed.
//!
//! # Fault model
//! - A change of a file is *unsynced* until a sync of that file returns `Ok`. A crash keeps any subset of the 512-byte
//!   sectors of unsynced writes; a sector written twice may hold either version. Length changes survive in order.
//! - Blobs created or deleted since the last sync of a new blob may or may not exist after a crash.
//! - The replacement of the index is durable once its call returned `Ok`; after a crash before that, either file is the
//!   index.
//! - A failed sync writes a random part of the dirty sectors and discards the rest: the next sync succeeds without
//!   them, as on Linux.
//! - A failed write may have changed some of its sectors.
//! - One capacity covers the log, the index and all blobs; it can change while the volume runs.
//! - A sync takes time: [`Halted`] lets other changes be made while a background step is inside one.
//! - A *boundary* is the moment after a call that changed something. [`SimMedia::record`] keeps the device at each
//!   boundary, so that one run can be crashed at all of them.

mod disk;
mod faults;
mod gate;
mod image;

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space, Tenure, concat};

pub use disk::{BitFlip, Disk, Survival};
pub use faults::{Action, Effect, Fault, MediaPart};
pub use gate::Halted;

use crate::random::Random;
use disk::{FileId, LOG};
use faults::FaultPlan;

/// The device at one boundary.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Its content.
    pub disk: Disk,
    /// The mark set by [`SimMedia::set_mark`].
    pub mark: u64,
}

#[derive(Debug)]
struct Device {
    disk: Disk,
    plan: FaultPlan,
    random: Random,
    capacity: u64,
    mark: u64,
    count: u64,
    dies_at: u64,
    boundaries: Option<Vec<Boundary>>,
}

/// Simulated media. Clones share the device.
#[derive(Clone, Debug)]
pub struct SimMedia {
    state: Arc<Mutex<Device>>,
}

fn broken(why: &str) -> io::Error {
    io::Error::other(why)
}

impl Device {
    /// Admits a call, or returns how it fails. Returns true for a sync that must lie.
    fn admit(&mut self, part: MediaPart, action: Action) -> Result<bool, Effect> {
        if self.count >= self.dies_at {
            return Err(Effect::Fail);
        }
        match self.plan.strike(part, action) {
            Some(Effect::Lie) => Ok(true),
            Some(effect) => Err(effect),
            None => Ok(false),
        }
    }

    /// Counts a completed change, and records the boundary.
    fn complete_change(&mut self) {
        self.count += 1;
        let (disk, mark) = (&self.disk, self.mark);
        if let Some(boundaries) = &mut self.boundaries {
            boundaries.push(Boundary { disk: disk.clone(), mark });
        }
    }

    fn is_dead(&self) -> bool {
        self.count >= self.dies_at
    }

    fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.disk.allocated())
    }

    fn write(&mut self, part: MediaPart, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        if end > self.disk.file(file).current.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a write beyond the file's length"));
        }
        match self.admit(part, Action::Write) {
            Ok(_) => self.disk.file(file).write(offset, bytes),
            Err(Effect::Full) => return Err(io::ErrorKind::StorageFull.into()),
            Err(_) => {
                if !self.is_dead() {
                    let reached = self.random.index(bytes.len() + 1) / 512 * 512;
                    self.disk.file(file).write(offset, &bytes[..reached]);
                    self.complete_change();
                }
                return Err(broken("simulated EIO of a write"));
            }
        }
        self.complete_change();
        Ok(())
    }

    fn sync(&mut self, part: MediaPart, file: FileId, lies: bool) -> io::Result<()> {
        match self.admit(part, Action::Sync) {
            Ok(false) if !lies => self.disk.sync(file),
            Ok(_) => {}
            Err(_) => {
                if !self.is_dead() {
                    let mut random = self.random.fork();
                    self.disk.file(file).drop_dirty(&mut random);
                    self.complete_change();
                }
                return Err(broken("simulated EIO of a sync"));
            }
        }
        self.complete_change();
        Ok(())
    }

    fn read(&mut self, part: MediaPart, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.admit(part, Action::Read).is_err() {
            return Err(broken("simulated EIO of a read"));
        }
        match self.disk.file(file).current.read(offset, buffer) {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Checks that `more` bytes can be allocated.
    fn allocate(&mut self, part: MediaPart, more: u64) -> io::Result<()> {
        match self.admit(part, Action::Allocate) {
            Ok(_) if more <= self.available() => Ok(()),
            Ok(_) | Err(Effect::Full) => Err(io::ErrorKind::StorageFull.into()),
            Err(_) => Err(broken("simulated EIO of an allocation")),
        }
    }

    fn set_len(&mut self, part: MediaPart, id: FileId, length: u64) -> io::Result<()> {
        let file = self.disk.file(id);
        let more = length.saturating_sub(file.allocated());
        self.allocate(part, more)?;
        self.disk.file(id).set_len(length);
        self.complete_change();
        Ok(())
    }

    fn reserve(&mut self, part: MediaPart, id: FileId, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.disk.file(id).reserved);
        self.allocate(part, more)?;
        let file = self.disk.file(id);
        file.reserved = file.reserved.max(bytes);
        Ok(())
    }
}

impl SimMedia {
    /// Returns new media: a log of `log_bytes` zeros, an empty index, no blobs, `capacity` bytes in total.
    #[must_use]
    pub fn new(log_bytes: u64, capacity: u64, random: Random) -> SimMedia {
        SimMedia::of(Disk::new(log_bytes), capacity, random)
    }

    /// Returns media on an existing device.
    #[must_use]
    pub fn of(disk: Disk, capacity: u64, random: Random) -> SimMedia {
        let plan = FaultPlan::default();
        let (count, mark, dies_at, boundaries) = (0, 0, u64::MAX, None);
        let state = Device { disk, plan, random, capacity, mark, count, dies_at, boundaries };
        SimMedia { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, Device> {
        self.state.lock().expect("no call panics while it holds the device")
    }

    /// Records the device at every boundary from now on; discards earlier records.
    pub fn record(&self) {
        self.lock().boundaries = Some(Vec::new());
    }

    /// Stops recording, and returns the boundaries.
    #[must_use]
    pub fn recorded(&self) -> Vec<Boundary> {
        self.lock().boundaries.take().unwrap_or_default()
    }

    /// Sets the mark of later boundaries.
    pub fn set_mark(&self, mark: u64) {
        self.lock().mark = mark;
    }

    /// Returns the number of boundaries so far.
    #[must_use]
    pub fn boundaries_passed(&self) -> u64 {
        self.lock().count
    }

    /// Makes every call fail and change nothing from the boundary with this number on.
    pub fn die_at(&self, boundary: u64) {
        self.lock().dies_at = boundary;
    }

    /// Plans a fault.
    pub fn plan(&self, fault: Fault) {
        self.lock().plan.add(fault);
    }

    /// Returns how many planned faults took effect.
    #[must_use]
    pub fn faults_struck(&self) -> u64 {
        self.lock().plan.struck
    }

    /// Sets the total capacity, in bytes.
    pub fn set_capacity(&self, capacity: u64) {
        self.lock().capacity = capacity;
    }

    /// Returns the device as its process sees it, unsynced changes included.
    #[must_use]
    pub fn disk(&self) -> Disk {
        self.lock().disk.clone()
    }

    fn sync(&self, part: MediaPart, file: FileId) -> io::Result<()> {
        let lies = gate::reach(part);
        self.lock().sync(part, file, lies)
    }

    fn file(&self, part: MediaPart, file: FileId) -> Arc<SimFile> {
        Arc::new(SimFile { media: self.clone(), part, file })
    }
}

/// A file or blob of [`SimMedia`].
#[derive(Debug)]
struct SimFile {
    media: SimMedia,
    part: MediaPart,
    file: FileId,
}

impl RandomFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.media.lock().disk.file(self.file).current.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.media.lock().set_len(self.part, self.file, len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.media.lock().read(self.part, self.file, offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.media.lock().write(self.part, self.file, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.media.sync(self.part, self.file)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.media.lock().reserve(self.part, self.file, bytes)
    }
}

impl Blob for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.media.lock().read(self.part, self.file, offset, buffer)
    }

    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let block = volume::media::BLOCK_BYTES;
        let is_whole = |part: &IoSlice<'_>| (part.len() as u64).is_multiple_of(block);
        if !offset.is_multiple_of(block) || !parts.iter().all(is_whole) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an append that is not made of whole blocks",
            ));
        }
        self.media.lock().write(self.part, self.file, offset, &concat(parts))
    }

    fn sync(&self) -> io::Result<()> {
        self.media.sync(self.part, self.file)
    }
}

impl Media for SimMedia {
    fn log(&self) -> Arc<dyn RandomFile> {
        self.file(MediaPart::Log, LOG)
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        let index = self.lock().disk.index;
        self.file(MediaPart::Index, index)
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        let mut state = self.lock();
        state.allocate(MediaPart::Index, 0)?;
        let file = state.disk.create_index();
        state.complete_change();
        drop(state);
        Ok(self.file(MediaPart::Index, file))
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        let mut state = self.lock();
        state.allocate(MediaPart::Index, 0)?;
        if !state.disk.replace_index() {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.complete_change();
        match state.admit(MediaPart::Index, Action::Sync) {
            Ok(false) => state.disk.sync_index_name(),
            Ok(true) => {}
            Err(_) => return Err(broken("simulated EIO of a sync")),
        }
        state.complete_change();
        Ok(None)
    }

    fn discard_index(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_dead() {
            return Err(broken("simulated EIO of a deletion"));
        }
        state.disk.discard_index();
        state.complete_change();
        Ok(())
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        let mut state = self.lock();
        if state.is_dead() {
            return Err(broken("simulated EIO of a deletion"));
        }
        let freed = state.disk.free_damaged_indexes(bytes);
        state.complete_change();
        Ok(freed)
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let mut state = self.lock();
        if state.disk.names.contains_key(&id) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.allocate(MediaPart::Blob, capacity)?;
        let file = state.disk.create(id, capacity);
        state.complete_change();
        drop(state);
        Ok(self.file(MediaPart::Blob, file))
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let file = *self.lock().disk.names.get(&id).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(MediaPart::Blob, file))
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        let mut state = self.lock();
        if !state.disk.names.contains_key(&id) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.admit(MediaPart::Blob, Action::Delete).is_err() {
            return Err(broken("simulated EIO of a deletion"));
        }
        state.disk.delete(id);
        state.complete_change();
        Ok(())
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(self.lock().disk.names.keys().copied().collect())
    }

    fn space(&self) -> io::Result<Space> {
        let state = self.lock();
        Ok(Space { total: state.capacity, available: state.available() })
    }

    fn tenure(&self) -> Tenure {
        Tenure::Held
    }
}
