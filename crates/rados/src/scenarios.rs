//! Whole pools on objects in memory: one owner after another, while the earlier ones go on.

mod takeovers;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use fastrand::Rng;
use volume::attributes::SetAttributes;
use volume::check::{CheckOptions, check};
use volume::copy::Source;
use volume::ids::{Ino, PoolId, VolumeId};
use volume::media::{Media, Tenure};
use volume::request::{Access, Credentials, Durable, Error, Journaled, Request};
use volume::results::{CreateHow, Piece, Stability};
use volume::time::Time;
use volume::{CreateOptions, OpenError, Options, Pool, Progress, Volume, VolumeOptions};

use crate::fence::{Fence, OnLost, Owned};
use crate::media::{Place, RadosMedia, seal};
use crate::memory::{MemoryObjects, seed, windows};
use crate::names::{OBJECT_USIZE, PoolNames};
use crate::objects::Objects;
use crate::space::Room;

const OPTIONS: Options = Options { memory: 16 << 20, segment_bytes: 8 << 20, cache_seed: Some(0) };

const NAMES: PoolNames = PoolNames { id: 7 };

/// Returns the pool as an owner of `epoch` uses it. Losing it is not the end of the test.
fn place(objects: &Arc<MemoryObjects>, epoch: u64) -> Place {
    let objects: Arc<dyn Objects> = Arc::<MemoryObjects>::clone(objects);
    place_of(objects, epoch, Arc::new(|_| ()))
}

fn place_of(objects: Arc<dyn Objects>, epoch: u64, on_lost: OnLost) -> Place {
    let fence = Fence::new(epoch, on_lost);
    let owned = Owned::new(objects, fence, windows(16 << 20));
    let room = Room::new("test");
    room.set(1 << 50, 1 << 50);
    Place {
        names: NAMES,
        journal_objects: 4,
        ring: owned.clone(),
        data: owned.clone(),
        owned,
        data_room: Arc::clone(&room),
        room,
        tenure: Arc::new(|| Tenure::Held),
    }
}

fn seal_pool(place: &Place) -> io::Result<()> {
    seal(&place.owned, NAMES, place.journal_objects)
}

/// Takes the pool over.
fn take(objects: &Arc<MemoryObjects>, epoch: u64) -> Arc<RadosMedia> {
    let place = place(objects, epoch);
    seal_pool(&place).unwrap();
    Arc::new(RadosMedia::open(&place).unwrap())
}

fn new_pool() -> Arc<MemoryObjects> {
    let objects = MemoryObjects::new();
    let place = place(&objects, 1);
    place.create().unwrap();
    let options = CreateOptions {
        pool: PoolId(1),
        journal_id: [2; 16],
        volume: VolumeOptions {
            id: VolumeId(7),
            name: "main".to_owned(),
            size: None,
            handle_secret: [1; 16],
            root_mode: 0o755,
            root_owner: (0, 0),
        },
        now: Time::from_parts(1_000, 0),
    };
    Pool::create(&RadosMedia::open(&place).unwrap(), &options).unwrap();
    objects
}

/// An owner with its volume.
struct Owner {
    volume: Volume,
    media: Arc<RadosMedia>,
    who: Credentials,
    now: Time,
}

impl Owner {
    fn new(objects: &Arc<MemoryObjects>, epoch: u64) -> Owner {
        Owner::open(take(objects, epoch), epoch).unwrap()
    }

    fn open(media: Arc<RadosMedia>, epoch: u64) -> Result<Owner, OpenError> {
        let now = Time::from_parts(1_000 + i64::try_from(epoch).unwrap(), 0);
        let volume = Volume::open(Arc::<RadosMedia>::clone(&media), &OPTIONS, now)?;
        Ok(Owner { volume, media, who: Credentials::root(), now })
    }

    fn request(&self) -> Request<'_> {
        Request { credentials: &self.who, now: self.now, access: Access::Blocking, key: None }
    }

    /// Makes a file with this content. Returns whether all of it is durable.
    fn write(&self, name: &str, content: &[u8]) -> bool {
        self.write_some(name, content) == content.len()
    }

    /// The same, but returns how many bytes are durable.
    fn write_some(&self, name: &str, content: &[u8]) -> usize {
        let how = CreateHow::Guarded(SetAttributes::default());
        let created = self
            .volume
            .create_file(&self.request(), Ino::ROOT, name.as_bytes(), &how, &mut |_| Journaled::default());
        let Ok(created) = created else { return 0 };
        let ino = created.value.attributes.ino;
        let mut durable = 0;
        for part in content.chunks(32 << 10) {
            let offset = durable as u64;
            let written = self.volume.write(&self.request(), ino, offset, part, Stability::FileSync);
            while self.volume.step_commit(self.now) == Progress::Worked {}
            if !written.is_ok_and(|written| self.volume.durability(written.after) == Durable::Yes) {
                break;
            }
            durable += part.len();
        }
        durable
    }

    /// Removes a file. Returns whether that is durable.
    fn remove(&self, name: &str) -> bool {
        let mut encode = |_: &_| Journaled::default();
        let removed = self.volume.remove(&self.request(), Ino::ROOT, name.as_bytes(), &mut encode);
        while self.volume.step_commit(self.now) == Progress::Worked {}
        removed.is_ok_and(|removed| self.volume.durability(removed.after) == Durable::Yes)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.find(name).unwrap().unwrap()
    }

    /// Returns the content of a file, or `None` if the file does not exist.
    fn find(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let found = match self.volume.lookup(&self.request(), Ino::ROOT, name.as_bytes()) {
            Err(failure) if failure.error == Error::NoEntry => return Ok(None),
            found => found.map_err(|failure| failure.error)?.value,
        };
        let mut bytes = Vec::new();
        loop {
            let at = bytes.len() as u64;
            let data = self.volume.read(&self.request(), found.attributes.ino, at, 1 << 20);
            let data = data.map_err(|failure| failure.error)?.value;
            if data.count == 0 {
                return Ok(Some(bytes));
            }
            for piece in data.pieces {
                match piece {
                    Piece::Data { bytes: from, start, end } => bytes.extend_from_slice(&from[start..end]),
                    Piece::Zeros(count) => bytes.resize(bytes.len() + count, 0),
                }
            }
        }
    }

    fn background(&self) {
        for _ in 0..3 {
            self.volume.step_write_back(self.now, true, true);
            while self.volume.step_commit(self.now) == Progress::Worked {}
            self.volume.step_checkpoint(self.now, true);
            self.volume.step_clean(self.now, true);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_earlier_owners_change_nothing() {
    let mut rng = Rng::with_seed(seed());
    let objects = new_pool();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut owners: Vec<Owner> = Vec::new();
    for epoch in 2..7 {
        let owner = Owner::new(&objects, epoch);
        for number in 0..12 {
            for earlier in &owners {
                // It believes that it is the owner, and is told nothing.
                assert!(!earlier.write(&format!("late-{epoch}-{number}"), &[9; 5000]));
                earlier.background();
                assert_eq!(earlier.media.tenure(), Tenure::Lost);
            }
            let (name, length) = (format!("file-{epoch}-{number}"), rng.usize(1..300_000));
            let content = vec![rng.u8(..); length];
            assert!(owner.write(&name, &content), "{name}");
            files.push((name, content));
            if rng.u8(0..3) == 0 {
                owner.background();
            }
        }
        for (name, content) in &files {
            assert!(owner.read(name) == *content, "{name} in epoch {epoch}");
        }
        owners.push(owner);
    }
    drop(owners);
    let report = check(&(take(&objects, 9) as Arc<dyn Media>), &CheckOptions::default()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.faults);
}

#[test]
fn a_pool_is_removed_without_a_trace() {
    let objects = new_pool();
    let owner = Owner::new(&objects, 2);
    for number in 0..5 {
        assert!(owner.write(&format!("file-{number}"), &vec![1; 2 << 20]));
        owner.background();
    }
    assert!(objects.names("0000000000000007/segment/").len() > 1);
    drop(owner);
    take(&objects, 3);
    place(&objects, 3).remove().unwrap();
    assert_eq!(objects.names(""), Vec::<String>::new());
}

/// Copies a pool to these objects.
fn copy_to(objects: &Arc<MemoryObjects>, source: &Source) -> Result<(), String> {
    let place = place(objects, 1);
    let created = place.create().and_then(|()| RadosMedia::open(&place));
    let media = created.map_err(|error| error.to_string())?;
    let copied = source.copy_to(&media, &mut |_, _| ControlFlow::Continue(()));
    copied.map_err(|error| error.0)
}

#[test]
fn a_copy_that_ends_at_any_change_is_removed_without_a_trace_and_a_whole_one_is_the_same_pool() {
    let objects = new_pool();
    let owner = Owner::new(&objects, 2);
    let files = ["one", "two", "three"].map(|name| (name, name.repeat(100_000).into_bytes()));
    for (name, content) in &files {
        assert!(owner.write(name, content));
        if *name == "two" {
            owner.background();
        }
    }
    drop(owner);
    let source = Source::open(take(&objects, 3)).unwrap();
    assert!(source.segments() > 0 && source.summary().journal_entries > 0);
    for left in 0.. {
        let copy = MemoryObjects::new();
        copy.set_changes_left(Some(left));
        let copied = copy_to(&copy, &source);
        copy.set_changes_left(None);
        let Err(error) = copied else {
            let copied = Owner::new(&copy, 2);
            for (name, content) in &files {
                assert!(copied.read(name) == *content, "{name}");
            }
            assert!(left > 30, "{left}");
            break;
        };
        assert!(error.contains("killed"), "{error}");
        // As a namespace does with a pool that is incomplete.
        let next = place(&copy, 2);
        seal_pool(&next).unwrap();
        next.remove().unwrap();
        assert_eq!(copy.names(""), Vec::<String>::new(), "after {left} changes");
    }
    let report = check(&(take(&objects, 4) as Arc<dyn Media>), &CheckOptions::default()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.faults);
}

#[test]
fn segments_span_objects_and_vanish_with_their_last_reader() {
    let objects = new_pool();
    let media = take(&objects, 2);
    let id = volume::ids::SegmentId(0xabc);
    let blob = media.create_blob(id, 8 << 20).unwrap();
    assert_eq!(media.create_blob(id, 8 << 20).err().unwrap().kind(), std::io::ErrorKind::AlreadyExists);
    let bytes: Vec<u8> = (0..6 << 20).map(|i: u32| u8::try_from(i % 251).unwrap()).collect();
    let (first, rest) = bytes.split_at(3 << 20);
    blob.append(0, &[std::io::IoSlice::new(first)]).unwrap();
    let parts: Vec<std::io::IoSlice<'_>> = rest.chunks(700_001).map(std::io::IoSlice::new).collect();
    blob.append(3 << 20, &parts).unwrap();
    blob.sync().unwrap();
    let mut back = vec![1; (2 << 20) + 5000];
    blob.read_at((OBJECT_USIZE as u64) - 100, &mut back).unwrap();
    assert!(back[..(2 << 20) + 100] == bytes[OBJECT_USIZE - 100..] && back[(2 << 20) + 100..] == [0; 4900]);
    assert!(blob.read_at(8 << 20, &mut [0]).is_err());

    media.delete_blob(id).unwrap();
    assert_eq!(media.list_blobs().unwrap(), []);
    assert_eq!(media.open_blob(id).err().unwrap().kind(), std::io::ErrorKind::NotFound);
    blob.read_at(0, &mut back[..100]).unwrap();
    assert!(back[..100] == bytes[..100], "open readers keep reading");
    drop(blob);
    assert_eq!(objects.names("0000000000000007/segment/").len(), 0);
    // The next opening forgets it.
    let media = take(&objects, 3);
    drop(media.create_blob(id, 4 << 20).unwrap());
    assert_eq!(media.list_blobs().unwrap(), [id]);
    media.delete_blob(id).unwrap();
    assert_eq!(media.delete_blob(id).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
