//! A small volume for the tests of the checker.

use std::sync::Arc;

use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::{Access, Answer, Credentials, Error, Journaled, Request};
use crate::api::results::{CreateHow, SetXattr, Stability};
use crate::api::time::Time;
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::offline::check::{CheckOptions, Report, check};
use crate::open::CreateOptions;
use crate::options::Options;
use crate::pool::Pool;
use crate::volume::Volume;

pub(crate) const OPTIONS: Options = Options { memory: 8 << 20, segment_bytes: 1 << 20, cache_seed: Some(0) };

pub(crate) struct World {
    pub media: Arc<MemoryMedia>,
    pub volume: Volume,
    pub who: Credentials,
    now: i64,
}

/// Encodes an empty reply, since these tests repeat no requests.
fn nothing<T>(_: &T) -> Journaled {
    Journaled::default()
}

impl World {
    pub(crate) fn new() -> World {
        let media = MemoryMedia::new();
        let options = CreateOptions::of_test(Time::from_nanos(1_000));
        Pool::create(media.as_ref(), &options).unwrap();
        World::open(media)
    }

    pub(crate) fn open(media: Arc<MemoryMedia>) -> World {
        World::open_with(media, OPTIONS.memory)
    }

    pub(crate) fn open_with(media: Arc<MemoryMedia>, memory: u64) -> World {
        let now = Time::from_nanos(2_000_000_000);
        let options = Options { memory, ..OPTIONS };
        let volume = Volume::open(Arc::clone(&media) as Arc<dyn Media>, &options, now).unwrap();
        World { media, volume, who: Credentials::root(), now: now.nanos() }
    }

    pub(crate) fn now(&mut self) -> Time {
        self.now += 1_000_000_000;
        Time::from_nanos(self.now)
    }

    fn run<T>(&mut self, work: impl Fn(&Volume, &Request<'_>) -> Answer<T>) -> Result<T, Error> {
        let now = self.now();
        let request = Request { credentials: &self.who, now, access: Access::Blocking, key: None };
        work(&self.volume, &request).map(|promised| promised.value).map_err(|failure| failure.error)
    }

    pub(crate) fn create(&mut self, directory: Ino, name: &str) -> Result<Ino, Error> {
        let how = CreateHow::Guarded(SetAttributes::default());
        let created = self.run(|v, r| v.create_file(r, directory, name.as_bytes(), &how, &mut nothing))?;
        Ok(created.attributes.ino)
    }

    pub(crate) fn mkdir(&mut self, directory: Ino, name: &str) -> Result<Ino, Error> {
        let set = SetAttributes::default();
        let created = self.run(|v, r| v.make_directory(r, directory, name.as_bytes(), &set, &mut nothing))?;
        Ok(created.attributes.ino)
    }

    pub(crate) fn symlink(&mut self, directory: Ino, name: &str, target: &str) -> Result<Ino, Error> {
        let set = SetAttributes::default();
        let created = self.run(|v, r| {
            v.make_symlink(r, directory, name.as_bytes(), target.as_bytes(), &set, &mut nothing)
        })?;
        Ok(created.attributes.ino)
    }

    pub(crate) fn link(&mut self, ino: Ino, directory: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.link(r, ino, directory, name.as_bytes(), &mut nothing)).map(drop)
    }

    pub(crate) fn remove(&mut self, directory: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.remove(r, directory, name.as_bytes(), &mut nothing)).map(drop)
    }

    pub(crate) fn rmdir(&mut self, directory: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.remove_directory(r, directory, name.as_bytes(), &mut nothing)).map(drop)
    }

    pub(crate) fn rename(&mut self, from: (Ino, &str), to: (Ino, &str)) -> Result<(), Error> {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        self.run(|v, r| v.rename(r, from, to, &mut nothing)).map(drop)
    }

    pub(crate) fn write(&mut self, ino: Ino, offset: u64, data: &[u8], how: Stability) -> Result<(), Error> {
        self.run(|v, r| v.write(r, ino, offset, data, how)).map(drop)
    }

    pub(crate) fn punch(&mut self, ino: Ino, offset: u64, length: u64) -> Result<(), Error> {
        self.run(|v, r| v.deallocate(r, ino, offset, length)).map(drop)
    }

    pub(crate) fn set(&mut self, ino: Ino, set: &SetAttributes) -> Result<(), Error> {
        self.run(|v, r| v.set_attributes(r, ino, set, None, &mut nothing)).map(drop)
    }

    pub(crate) fn set_xattr(&mut self, ino: Ino, name: &str, value: &[u8]) -> Result<(), Error> {
        self.run(|v, r| v.set_xattr(r, ino, name.as_bytes(), value, SetXattr::Either, &mut nothing)).map(drop)
    }

    pub(crate) fn clone_range(&mut self, from: (Ino, u64), to: (Ino, u64), count: u64) -> Result<(), Error> {
        self.run(|v, r| v.clone_range(r, from, to, count)).map(drop)
    }

    pub(crate) fn read(&mut self, ino: Ino) -> Result<Vec<u8>, Error> {
        self.read_from(ino, 0)
    }

    pub(crate) fn read_from(&mut self, ino: Ino, offset: u64) -> Result<Vec<u8>, Error> {
        let data = self.run(|v, r| v.read(r, ino, offset, 1 << 20))?;
        let mut bytes = Vec::new();
        for piece in data.pieces {
            match piece {
                crate::api::results::Piece::Data { bytes: from, start, end } => {
                    bytes.extend_from_slice(&from[start..end])
                }
                crate::api::results::Piece::Zeros(count) => bytes.resize(bytes.len() + count, 0),
            }
        }
        Ok(bytes)
    }

    pub(crate) fn commit(&mut self) {
        let now = self.now();
        while self.volume.step_commit(now) == crate::background::Progress::Worked {}
    }

    pub(crate) fn write_back(&mut self) {
        let now = self.now();
        self.volume.step_write_back(now, true, true);
        self.commit();
    }

    pub(crate) fn checkpoint(&mut self) {
        let now = self.now();
        self.volume.step_checkpoint(now, true);
    }

    pub(crate) fn clean(&mut self) {
        let now = self.now();
        self.volume.step_clean(now, true);
    }

    pub(crate) fn close(mut self) -> Arc<MemoryMedia> {
        let now = self.now();
        self.volume.close(now).unwrap();
        self.media
    }

    /// Drops the volume without closing it.
    pub(crate) fn kill(mut self) -> Arc<MemoryMedia> {
        self.commit();
        self.media.after_kill()
    }
}

/// Checks media including all data, and that the check changes nothing.
pub(crate) fn report(media: &Arc<MemoryMedia>) -> Report {
    let before = media.bytes();
    let report = check(&(Arc::clone(media) as Arc<dyn Media>), &CheckOptions::default()).unwrap();
    assert!(before == media.bytes(), "a check changes nothing");
    report
}

/// Checks that media have no faults.
#[track_caller]
pub(crate) fn assert_clean(media: &Arc<MemoryMedia>) -> Report {
    let report = report(media);
    assert!(report.is_clean(), "{:#?}", report.faults);
    report
}
