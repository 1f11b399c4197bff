//! Callers that apply random operations to the same few objects.

use std::sync::Mutex;

use volume::attributes::SetAttributes;
use volume::ids::{Cookie, Ino};
use volume::request::{Answer, Error, Request};
use volume::results::{CreateHow, SetXattr, SoughtContent, Stability};
use volume::{Volume, ids};

use crate::random::Random;
use crate::world::{Caller, encode};

/// Directories that callers use; removed ones are replaced.
const DIRECTORIES: usize = 8;
const NAMES: u64 = 6;
/// Largest file in bytes, except for rare large holes.
const BYTES: u64 = 2 << 20;

/// The objects that callers work on.
pub struct Arena {
    directories: Mutex<Vec<Ino>>,
}

impl Arena {
    pub fn new() -> Arena {
        Arena { directories: Mutex::new(vec![Ino::ROOT; DIRECTORIES]) }
    }

    fn any(&self, random: &mut Random) -> Ino {
        *random.of(&self.directories.lock().unwrap())
    }

    fn note(&self, random: &mut Random, ino: Ino) {
        let slot = usize::try_from(random.below(DIRECTORIES as u64)).unwrap();
        self.directories.lock().unwrap()[slot] = ino;
    }

    fn forget(&self, gone: Ino) {
        for slot in self.directories.lock().unwrap().iter_mut().filter(|slot| **slot == gone) {
            *slot = Ino::ROOT;
        }
    }
}

pub struct Chaos<'a> {
    pub caller: Caller,
    pub random: Random,
    pub arena: &'a Arena,
}

impl Chaos<'_> {
    /// Does a random operation. Failures that concurrent callers can cause are ignored.
    pub fn step(&mut self) {
        let directory = self.arena.any(&mut self.random);
        let other = self.arena.any(&mut self.random);
        let (name, new_name) = (self.name(), self.name());
        match self.random.below(24) {
            0..=2 => self.make_directory(directory, &name),
            3..=5 => self.create(directory, &name),
            6..=9 => self.call(directory, "rename", |volume, request| {
                volume.rename(request, (directory, &name), (other, &new_name), &mut encode)
            }),
            10 => self.link(directory, &name, other, &new_name),
            11 | 12 => self.call(directory, "remove", |volume, request| {
                volume.remove(request, directory, &name, &mut encode)
            }),
            13 => self.call(directory, "rmdir", |volume, request| {
                volume.remove_directory(request, directory, &name, &mut encode)
            }),
            14 => self.list(directory),
            15 => self.call(directory, "symlink", |volume, request| {
                volume.make_symlink(
                    request,
                    directory,
                    &name,
                    &new_name,
                    &SetAttributes::default(),
                    &mut encode,
                )
            }),
            16 => self.call(directory, "status", |volume, request| volume.status(request)),
            _ => self.on_file(directory, &name),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("n{}", self.random.below(NAMES)).into_bytes()
    }

    /// Calls, and waits for the answer most of the time.
    fn call<T>(
        &mut self,
        directory: Ino,
        what: &'static str,
        operation: impl FnMut(&Volume, &Request<'_>) -> Answer<T>,
    ) {
        let result = if self.random.one_in(3) {
            self.caller.start(what, operation).0
        } else {
            self.caller.call(what, operation)
        };
        match result {
            Ok(_) => {}
            Err(Error::Stale) => self.arena.forget(directory),
            Err(
                error @ (Error::Io | Error::ReadOnly | Error::NoSpace | Error::BadHandle | Error::BadCookie),
            ) => {
                panic!("{what} answers {error:?}")
            }
            Err(_) => {}
        }
    }

    fn make_directory(&mut self, directory: Ino, name: &[u8]) {
        let made = self.caller.call("mkdir", |volume, request| {
            volume.make_directory(request, directory, name, &SetAttributes::default(), &mut encode)
        });
        match made {
            Ok(made) => self.arena.note(&mut self.random, made.attributes.ino),
            Err(Error::Stale) => self.arena.forget(directory),
            Err(_) => {}
        }
    }

    fn create(&mut self, directory: Ino, name: &[u8]) {
        let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
        let how = *self.random.of(&[
            CreateHow::Unchecked(set),
            CreateHow::Guarded(SetAttributes::default()),
            CreateHow::Exclusive([5; 8]),
        ]);
        self.call(directory, "create", |volume, request| {
            volume.create_file(request, directory, name, &how, &mut encode)
        });
    }

    fn find(&mut self, directory: Ino, name: &[u8]) -> Option<Ino> {
        let found = self.caller.start("lookup", |volume, request| volume.lookup(request, directory, name)).0;
        found.ok().map(|found| found.attributes.ino)
    }

    fn link(&mut self, directory: Ino, name: &[u8], other: Ino, new_name: &[u8]) {
        let Some(ino) = self.find(directory, name) else { return };
        self.call(directory, "link", |volume, request| {
            volume.link(request, ino, other, new_name, &mut encode)
        });
    }

    /// Lists a directory in small parts: no name twice, cookies in order.
    fn list(&mut self, directory: Ino) {
        let plus = self.random.one_in(2);
        let mut cookie = Cookie(0);
        loop {
            let listed = self.caller.call("readdir", |volume, request| {
                volume.read_directory(request, directory, cookie, 3, plus)
            });
            match listed {
                Ok(listing) => {
                    for entry in &listing.entries {
                        assert!(entry.cookie > cookie, "cookies go up");
                        cookie = entry.cookie;
                    }
                    if listing.end {
                        return;
                    }
                }
                Err(Error::Stale) => return self.arena.forget(directory),
                Err(error) => panic!("readdir answers {error:?}"),
            }
        }
    }

    fn on_file(&mut self, directory: Ino, name: &[u8]) {
        let Some(ino) = self.find(directory, name) else { return };
        let offset = self.random.below(BYTES);
        match self.random.below(14) {
            8 => self.copy(directory, ino, offset),
            9..=11 => self.change_range(directory, ino, offset),
            12 => self.attribute(directory, ino),
            13 => self.hold(directory, ino, name),
            0 | 1 => {
                self.call(directory, "read", |volume, request| volume.read(request, ino, offset, 1 << 18))
            }
            2 => self.call(directory, "commit", |volume, request| volume.commit(request, ino, 0, 0)),
            3 => {
                let size = if self.random.one_in(8) { offset << 20 } else { offset };
                let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
                self.call(directory, "truncate", |volume, request| {
                    volume.set_attributes(request, ino, &set, None, &mut encode)
                });
            }
            4 => self.call(directory, "getattr", |volume, request| volume.attributes(request, ino)),
            _ => self.write(directory, ino, offset),
        }
    }

    /// COPY within a file or to another one, usually of the whole file in several calls.
    fn copy(&mut self, directory: Ino, ino: Ino, offset: u64) {
        let (other, name) = (self.arena.any(&mut self.random), self.name());
        let Some(to) = self.find(other, &name) else { return };
        let (from, at) = if self.random.one_in(2) { (0, 0) } else { (offset, self.random.below(BYTES)) };
        let count = if self.random.one_in(2) { 0 } else { 1 + self.random.below(BYTES / 2) };
        self.call(directory, "copy", |volume, request| {
            volume.copy_range(request, (ino, from), (to, at), count)
        });
    }

    fn change_range(&mut self, directory: Ino, ino: Ino, offset: u64) {
        let length = 1 + self.random.below(BYTES / 2);
        match self.random.below(4) {
            0 => self
                .call(directory, "allocate", |volume, request| volume.allocate(request, ino, offset, length)),
            1 => self.call(directory, "seek", |volume, request| {
                volume.seek(request, ino, offset, SoughtContent::Hole)
            }),
            _ => self.call(directory, "deallocate", |volume, request| {
                volume.deallocate(request, ino, offset, length)
            }),
        }
    }

    fn attribute(&mut self, directory: Ino, ino: Ino) {
        let (name, value) = (self.name(), vec![7; usize::try_from(self.random.below(9000)).unwrap()]);
        match self.random.below(4) {
            0 => self.call(directory, "remove an attribute", |volume, request| {
                volume.remove_xattr(request, ino, &name, &mut encode)
            }),
            1 => self.call(directory, "list attributes", |volume, request| {
                volume.list_xattrs(request, ino, 0, 100)
            }),
            _ => self.call(directory, "set an attribute", |volume, request| {
                volume.set_xattr(request, ino, &name, &value, SetXattr::Either, &mut encode)
            }),
        }
    }

    /// Removes a name of a held file, uses the file, and releases it.
    fn hold(&mut self, directory: Ino, ino: Ino, name: &[u8]) {
        self.caller.volume.hold(ino);
        self.call(directory, "remove", |volume, request| {
            volume.remove(request, directory, name, &mut encode)
        });
        self.write(directory, ino, 100);
        self.caller.volume.release(ino);
    }

    fn write(&mut self, directory: Ino, ino: ids::Ino, offset: u64) {
        let most = *self.random.of(&[100, 5000, 70_000, 300_000]);
        let data =
            vec![u8::try_from(offset % 251).unwrap(); usize::try_from(1 + self.random.below(most)).unwrap()];
        let stability = *self.random.of(&[
            Stability::Unstable,
            Stability::Unstable,
            Stability::DataSync,
            Stability::FileSync,
        ]);
        self.call(directory, "write", |volume, request| volume.write(request, ino, offset, &data, stability));
    }
}
