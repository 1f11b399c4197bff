//! A volume in memory, its clock and its clients.

use std::sync::Arc;

use crate::api::attributes::{Attributes, SetAttributes};
use crate::api::ids::{Cookie, Ino};
use crate::api::quotas::QuotaKind;
use crate::api::request::{
    Access, Answer, Credentials, Durability, Durable, Error, Journaled, Promised, Request, RequestKey,
};
use crate::api::results::{CreateHow, Created, Entry, Piece, Stability, WriteVerifier, Written};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key::FIRST;
use crate::encoding::record::UsageRecord;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::{CheckOptions, check};
use crate::open::CreateOptions;
use crate::options::Options;
use crate::pool::Pool;
use crate::tables::usage;
use crate::volume::Volume;

pub(super) const OPTIONS: Options = Options { memory: 8 << 20, segment_bytes: 1 << 20, cache_seed: Some(0) };

/// Encodes an answer whose content does not matter.
pub(super) fn nothing<T>(_: &T) -> Journaled {
    Journaled::default()
}

/// The volume, clock and caller of one test. Each reading of the clock advances it.
pub(super) struct World {
    pub disk: Arc<MemoryMedia>,
    pub volume: Arc<Volume>,
    pub who: Credentials,
    pub key: Option<RequestKey>,
    /// The current time.
    pub now: Time,
    /// Nanoseconds by which each operation advances the clock.
    pub tick: i64,
}

impl World {
    pub(super) fn new() -> World {
        World::on(MemoryMedia::new())
    }

    /// Creates a volume with room for very many changes between two checkpoints.
    pub(super) fn roomy() -> World {
        let World { disk, volume, now, .. } = World::on(MemoryMedia::always_powered(64 << 20, 4 << 30));
        drop(volume);
        let options = Options { memory: 256 << 20, ..OPTIONS };
        let volume = Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &options, now).unwrap();
        World::with(disk, volume, now)
    }

    /// Creates a volume on `disk`.
    pub(super) fn on(disk: Arc<MemoryMedia>) -> World {
        let create = CreateOptions::of_test(Time::from_parts(1_000, 0));
        Pool::create(disk.as_ref(), &create).unwrap();
        World::open(disk, Time::from_parts(1_001, 0))
    }

    pub(super) fn open(disk: Arc<MemoryMedia>, now: Time) -> World {
        let volume = Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &OPTIONS, now).unwrap();
        World::with(disk, volume, now)
    }

    pub(super) fn with(disk: Arc<MemoryMedia>, volume: Volume, now: Time) -> World {
        World { disk, volume: Arc::new(volume), who: Credentials::root(), key: None, now, tick: 1_000_000 }
    }

    /// Loses power and reopens the volume. Commit acknowledged changes before.
    pub(super) fn crash(&mut self, seed: u64) {
        let disk = self.disk.after_power_loss(&mut Random::new(seed));
        let now = self.now();
        *self = World { who: self.who.clone(), tick: self.tick, ..World::open(disk, now) };
    }

    /// Closes, checks and reopens the volume.
    pub(super) fn reopen(&mut self) {
        let now = self.now();
        self.volume.close(now).unwrap();
        self.check();
        let disk = self.disk.after_kill();
        *self = World { who: self.who.clone(), tick: self.tick, ..World::open(disk, now) };
    }

    /// Commits everything, and runs the offline checker on the state that a crash would leave.
    #[track_caller]
    pub(super) fn check(&self) {
        while self.volume.step_commit(self.now) == Progress::Worked {}
        let disk = self.disk.after_kill();
        let report = check(&(disk as Arc<dyn Media>), &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{:#?}", report.faults);
    }

    pub(super) fn now(&mut self) -> Time {
        self.now = Time::from_nanos(self.now.nanos() + self.tick);
        self.now
    }

    pub(super) fn set_clock(&mut self, now: Time) {
        self.now = now;
    }

    /// Runs an operation and returns its whole answer.
    pub(super) fn answer<T>(&mut self, work: impl FnOnce(&Volume, &Request<'_>) -> Answer<T>) -> Answer<T> {
        let now = self.now();
        let key = self.key.take();
        let request = Request { credentials: &self.who, now, access: Access::Blocking, key: key.as_ref() };
        work(&self.volume, &request)
    }

    /// Runs an operation and returns its result.
    pub(super) fn run<T>(
        &mut self,
        work: impl FnOnce(&Volume, &Request<'_>) -> Answer<T>,
    ) -> Result<T, Error> {
        self.answer(work).map(|promised| promised.value).map_err(|failure| failure.error)
    }

    pub(super) fn create_how(&mut self, directory: Ino, name: &str, how: &CreateHow) -> Answer<Created> {
        self.answer(|v, r| v.create_file(r, directory, name.as_bytes(), how, &mut nothing))
    }

    pub(super) fn create(&mut self, directory: Ino, name: &str) -> Result<Ino, Error> {
        let how = CreateHow::Guarded(SetAttributes::default());
        let directory_created = self.create_how(directory, name, &how).map_err(|failure| failure.error)?;
        Ok(directory_created.value.attributes.ino)
    }

    pub(super) fn file(&mut self, name: &str) -> Ino {
        self.create(Ino::ROOT, name).unwrap()
    }

    pub(super) fn mkdir(&mut self, directory: Ino, name: &str) -> Result<Ino, Error> {
        let set = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        let directory_created =
            self.run(|v, r| v.make_directory(r, directory, name.as_bytes(), &set, &mut nothing))?;
        Ok(directory_created.attributes.ino)
    }

    pub(super) fn lookup(&mut self, directory: Ino, name: &str) -> Result<Ino, Error> {
        Ok(self.run(|v, r| v.lookup(r, directory, name.as_bytes()))?.attributes.ino)
    }

    pub(super) fn link(&mut self, ino: Ino, directory: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.link(r, ino, directory, name.as_bytes(), &mut nothing)).map(drop)
    }

    pub(super) fn remove(&mut self, directory: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.remove(r, directory, name.as_bytes(), &mut nothing)).map(drop)
    }

    pub(super) fn rmdir(&mut self, directory: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.remove_directory(r, directory, name.as_bytes(), &mut nothing)).map(drop)
    }

    pub(super) fn rename(&mut self, from: (Ino, &str), to: (Ino, &str)) -> Result<(), Error> {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        self.run(|v, r| v.rename(r, from, to, &mut nothing)).map(drop)
    }

    pub(super) fn write_how(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        how: Stability,
    ) -> Result<Promised<Written>, Error> {
        self.answer(|v, r| v.write(r, ino, offset, data, how)).map_err(|failure| failure.error)
    }

    /// Writes stable data.
    pub(super) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.write_how(ino, offset, data, Stability::FileSync).map(drop)
    }

    pub(super) fn write_unstable(&mut self, ino: Ino, offset: u64, data: &[u8]) -> WriteVerifier {
        self.write_how(ino, offset, data, Stability::Unstable).unwrap().value.verifier
    }

    pub(super) fn set(&mut self, ino: Ino, set: &SetAttributes) -> Result<(), Error> {
        loop {
            match self.run(|v, r| v.set_attributes(r, ino, set, None, &mut nothing)) {
                // A long call gave its turn up.
                Err(Error::WouldBlock) => {}
                set => return set.map(drop),
            }
        }
    }

    pub(super) fn truncate(&mut self, ino: Ino, size: u64) -> Result<(), Error> {
        self.set(ino, &SetAttributes { size: Some(size), ..SetAttributes::default() })
    }

    pub(super) fn chmod(&mut self, ino: Ino, mode: u32) {
        self.set(ino, &SetAttributes { mode: Some(mode), ..SetAttributes::default() }).unwrap();
    }

    pub(super) fn attributes(&mut self, ino: Ino) -> Result<Attributes, Error> {
        self.run(|v, r| v.attributes(r, ino))
    }

    pub(super) fn read_at(&mut self, ino: Ino, offset: u64, count: u32) -> Result<Vec<u8>, Error> {
        let data = self.run(|v, r| v.read(r, ino, offset, count))?;
        let mut bytes = Vec::new();
        for piece in data.pieces {
            match piece {
                Piece::Data { bytes: from, start, end } => bytes.extend_from_slice(&from[start..end]),
                Piece::Zeros(count) => bytes.resize(bytes.len() + count, 0),
            }
        }
        assert_eq!(bytes.len(), data.count);
        Ok(bytes)
    }

    pub(super) fn read(&mut self, ino: Ino) -> Result<Vec<u8>, Error> {
        let mut bytes = self.read_at(ino, 0, 1 << 20)?;
        // A file of many mappings is read in parts.
        while bytes.len() < 1 << 20 {
            let more =
                self.read_at(ino, bytes.len() as u64, (1 << 20) - u32::try_from(bytes.len()).unwrap())?;
            if more.is_empty() {
                break;
            }
            bytes.extend(more);
        }
        Ok(bytes)
    }

    pub(super) fn list(&mut self, directory: Ino, after: Cookie, max: usize) -> (Vec<Entry>, bool) {
        let listing = self.run(|v, r| v.read_directory(r, directory, after, max, true)).unwrap();
        (listing.entries, listing.end)
    }

    /// Returns a usage counter.
    pub(super) fn usage(&self, kind: QuotaKind, id: u64) -> UsageRecord {
        let view = self.volume.view();
        let counter = (FIRST, kind, id);
        let stored = view.index.get(&usage::key_of(counter)).unwrap();
        let stored = stored.and_then(|value| UsageRecord::decode(&value).ok()).unwrap_or_default();
        let record = view.usage(counter, stored);
        assert!(kind != QuotaKind::Volume || self.volume.usage.of(FIRST) == record, "that of the volume");
        record
    }

    /// Repeats an operation that is to wait, with background work in between.
    pub(super) fn patiently<T>(
        &mut self,
        mut operation: impl FnMut(&mut World) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for _ in 0..1000 {
            match operation(self) {
                Err(error) if error.is_busy() => self.background(),
                result => return result,
            }
        }
        panic!("it stays busy");
    }

    pub(super) fn durable(&self, after: Durability) -> Durable {
        self.volume.durability(after)
    }

    pub(super) fn commit(&mut self) {
        let now = self.now();
        while self.volume.step_commit(now) == Progress::Worked {}
    }

    pub(super) fn write_back(&mut self) -> Progress {
        let now = self.now();
        let progress = self.volume.step_write_back(now, true, true);
        self.commit();
        progress
    }

    pub(super) fn checkpoint(&mut self) -> Progress {
        let now = self.now();
        self.volume.step_checkpoint(now, true)
    }

    pub(super) fn clean(&mut self) -> Progress {
        let now = self.now();
        self.volume.step_clean(now, true)
    }

    /// Runs all background work a few times, as a server does in about a second.
    pub(super) fn background(&mut self) {
        for _ in 0..4 {
            self.write_back();
            self.checkpoint();
            self.clean();
        }
    }
}
