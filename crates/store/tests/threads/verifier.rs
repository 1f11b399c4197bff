//! A caller with files of its own, which knows their contents and records its operations.

use volume::attributes::SetAttributes;
use volume::ids::Ino;
use volume::request::Error;
use volume::results::{CreateHow, Piece, Stability};

use crate::history::{History, Name, Step, UNIT};
use crate::random::Random;
use crate::world::{Caller, encode};

/// The directories of a verifier.
const DIRECTORIES: u64 = 2;
/// The names in each.
const NAMES: u64 = 4;
/// Largest file in units. Some writes are far larger than inline writes may be.
const UNITS: u64 = 2048;

pub struct Verifier<'a> {
    pub caller: Caller,
    pub history: History,
    random: Random,
    record: &'a (dyn Fn(&Step) + Sync),
}

impl<'a> Verifier<'a> {
    /// Creates its directories in the root, with names that begin with `prefix`.
    pub fn new(caller: Caller, prefix: &str, seed: u64, record: &'a (dyn Fn(&Step) + Sync)) -> Verifier<'a> {
        let mut verifier =
            Verifier { caller, history: History::default(), random: Random::new(seed), record };
        for which in 0..DIRECTORIES {
            let name = format!("{prefix}-{which}");
            let made = verifier.caller.call("mkdir", |volume, request| {
                volume.make_directory(
                    request,
                    Ino::ROOT,
                    name.as_bytes(),
                    &SetAttributes::default(),
                    &mut encode,
                )
            });
            verifier.record(Step::Directory(which, made.unwrap().attributes.ino.0));
        }
        verifier
    }

    fn record(&mut self, step: Step) {
        (self.record)(&step);
        self.history.record(step);
    }

    /// Runs a random operation.
    pub fn step(&mut self) {
        let (name, other) = (self.any_name(), self.any_name());
        let Some(&ino) = self.history.names.get(&name) else { return self.create(name) };
        match self.random.below(20) {
            0 => self.remove(name),
            1 | 2 => self.rename(name, other),
            3 | 4 => self.truncate(ino),
            5..=7 => self.commit(ino),
            8..=10 => self.verify(ino),
            _ => self.write(ino),
        }
    }

    fn any_name(&mut self) -> Name {
        (self.random.below(DIRECTORIES), self.random.below(NAMES))
    }

    fn directory(&self, name: Name) -> Ino {
        Ino(self.history.directories[&name.0])
    }

    fn create(&mut self, name: Name) {
        self.record(Step::Create(name));
        let directory = self.directory(name);
        let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..SetAttributes::default() });
        let created = self.caller.call("create", |volume, request| {
            volume.create_file(request, directory, &text(name), &how, &mut encode)
        });
        self.record(Step::Done(created.unwrap().attributes.ino.0));
    }

    fn remove(&mut self, name: Name) {
        self.record(Step::Remove(name));
        let directory = self.directory(name);
        let removed = self
            .caller
            .call("remove", |volume, request| volume.remove(request, directory, &text(name), &mut encode));
        removed.unwrap();
        self.record(Step::Done(0));
    }

    fn rename(&mut self, from: Name, to: Name) {
        if from == to {
            return;
        }
        self.record(Step::Rename(from, to));
        let (source, target) = (self.directory(from), self.directory(to));
        let renamed = self.caller.call("rename", |volume, request| {
            volume.rename(request, (source, &text(from)), (target, &text(to)), &mut encode)
        });
        renamed.unwrap();
        self.record(Step::Done(0));
    }

    fn truncate(&mut self, ino: u64) {
        let size = self.random.below(UNITS);
        self.record(Step::Truncate(ino, size));
        let set = SetAttributes { size: Some(size * UNIT), ..SetAttributes::default() };
        let cut = self.caller.call("truncate", |volume, request| {
            volume.set_attributes(request, Ino(ino), &set, None, &mut encode)
        });
        assert_eq!(cut.unwrap().after.size, size * UNIT);
        self.record(Step::Done(0));
    }

    fn commit(&mut self, ino: u64) {
        self.record(Step::Commit(ino));
        self.caller.call("commit", |volume, request| volume.commit(request, Ino(ino), 0, 0)).unwrap();
        self.record(Step::Done(0));
    }

    fn write(&mut self, ino: u64) {
        let most = if self.random.one_in(4) { 512 } else { 16 };
        let (start, count) = (self.random.below(UNITS), 1 + self.random.below(most));
        let tag = self.random.next() | 1;
        let stability = *self.random.of(&[Stability::Unstable, Stability::Unstable, Stability::FileSync]);
        self.record(Step::Write(ino, start, count, tag, stability == Stability::FileSync));
        let mut data = Vec::new();
        (start..start + count).for_each(|unit| data.extend(content(ino, unit, tag)));
        let written = self
            .caller
            .call("write", |volume, request| volume.write(request, Ino(ino), start * UNIT, &data, stability));
        assert_eq!(u64::from(written.unwrap().count), count * UNIT);
        self.record(Step::Done(0));
    }

    /// Reads a whole file. Only this caller changes it, so its contents are known.
    fn verify(&self, ino: u64) {
        let file = &self.history.files[&ino];
        let bytes = read(&self.caller, ino);
        assert_eq!(bytes.len() as u64, file.size() * UNIT, "size of file {ino}");
        for (unit, found) in (0..).zip(bytes.chunks(512)) {
            let tag = tag_of(ino, unit, found);
            assert_eq!(tag, file.tag(unit), "file {ino}, unit {unit}");
        }
    }
}

/// Compares the volume with a history, after a crash or an orderly shutdown. Of several possible states, the one found is
/// recorded.
pub fn verify(caller: &Caller, history: &mut History) {
    let open = history.open.take();
    let mut found = Vec::new();
    for (which, directory) in &history.directories {
        for number in 0..NAMES {
            let name = (*which, number);
            let looked =
                caller.call("lookup", |volume, request| volume.lookup(request, Ino(*directory), &text(name)));
            match looked {
                Ok(entry) => found.push((name, entry.attributes.ino.0)),
                Err(error) => assert_eq!(error, Error::NoEntry),
            }
        }
    }
    let found: std::collections::BTreeMap<Name, u64> = found.into_iter().collect();
    if found != history.names {
        let mut done = history.clone();
        done.open = open;
        let created = match open {
            Some(Step::Create(name)) => found.get(&name).copied().unwrap_or(0),
            _ => 0,
        };
        assert!(open.is_some(), "names are {found:?}, recorded were {:?}", history.names);
        done.record(Step::Done(created));
        assert_eq!(found, done.names, "neither before nor after {open:?}: {:?}", history.names);
        *history = done;
    }
    for (ino, file) in &mut history.files {
        let bytes = read(caller, *ino);
        let size = bytes.len() as u64 / UNIT;
        assert!(file.sizes.contains(&size), "file {ino} has {size} units: {:?}; {open:?}", file.sizes);
        file.sizes = vec![size];
        for (unit, found) in (0..).zip(bytes.chunks(512)) {
            let tag = tag_of(*ino, unit, found);
            let tags = file.units.entry(unit).or_insert_with(|| vec![0]);
            assert!(tags.contains(&tag), "file {ino}, unit {unit} of {size} is {tag:x}: {tags:x?}; {open:?}");
            *tags = vec![tag];
        }
        file.units.retain(|unit, _| *unit < size);
    }
}

fn text(name: Name) -> Vec<u8> {
    format!("file-{}", name.1).into_bytes()
}

/// Returns the content of a unit, which identifies its file and position.
fn content(ino: u64, unit: u64, tag: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    for (number, word) in (0..).zip(bytes.chunks_mut(8)) {
        let value = match number % 3 {
            0 => ino,
            1 => unit,
            _ => tag,
        };
        word.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// Returns the tag of a unit, 0 for a hole. Fails for other content.
fn tag_of(ino: u64, unit: u64, bytes: &[u8]) -> u64 {
    if bytes.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let tag = u64::from_be_bytes(bytes[16..24].try_into().unwrap());
    assert!(bytes == content(ino, unit, tag), "file {ino}, unit {unit} is torn or misplaced: {bytes:x?}");
    tag
}

/// Reads a whole file.
fn read(caller: &Caller, ino: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let data = caller
            .call("read", |volume, request| volume.read(request, Ino(ino), offset, 256 << 10))
            .unwrap_or_else(|error| panic!("file {ino} cannot be read at {offset}: {error:?}"));
        for piece in &data.pieces {
            match piece {
                Piece::Data { bytes: from, start, end } => bytes.extend_from_slice(&from[*start..*end]),
                Piece::Zeros(count) => bytes.resize(bytes.len() + count, 0),
            }
        }
        assert!(data.eof || data.count > 0, "file {ino}: empty read at {offset}");
        if data.eof {
            return bytes;
        }
    }
}
