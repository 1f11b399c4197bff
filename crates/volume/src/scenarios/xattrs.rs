//! Extended attributes.

use std::sync::Arc;

use super::world::{World, nothing};
use crate::api::ids::Ino;
use crate::api::request::{Access, Credentials, Error, Journaled, Request, RequestKey};
use crate::api::results::SetXattr;
use crate::encoding::key;
use crate::limits::{XATTR_BYTES_PER_FILE_MAX, XATTR_OVERHEAD_BYTES, XATTR_VALUE_BYTES_MAX};
use crate::media::memory::Random;

impl World {
    fn set_xattr(&mut self, ino: Ino, name: &str, value: &[u8], how: SetXattr) -> Result<(), Error> {
        self.run(|v, r| v.set_xattr(r, ino, name.as_bytes(), value, how, &mut nothing)).map(drop)
    }

    fn xattr(&mut self, ino: Ino, name: &str) -> Result<Vec<u8>, Error> {
        self.run(|v, r| v.get_xattr(r, ino, name.as_bytes())).map(|value| value.to_vec())
    }

    fn remove_xattr(&mut self, ino: Ino, name: &str) -> Result<(), Error> {
        self.run(|v, r| v.remove_xattr(r, ino, name.as_bytes(), &mut nothing)).map(drop)
    }

    fn xattrs(&mut self, ino: Ino) -> Vec<String> {
        let (mut names, mut end) = (Vec::new(), false);
        while !end {
            let some = self.run(|v, r| v.list_xattrs(r, ino, names.len() as u64, 2)).unwrap();
            names.extend(some.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()));
            end = some.end;
        }
        names
    }

    /// Returns the number of rows of extended attributes in the index.
    fn xattr_rows(&self, ino: Ino) -> usize {
        let view = self.volume.view();
        let mut rows = 0;
        view.index
            .scan(&key::xattr(ino, b""), &key::xattr(Ino(ino.0 + 1), b""), &mut |_, _| {
                rows += 1;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        rows
    }
}

#[test]
fn attributes_survive_crashes_in_every_layer_until_removed() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    for ino in [world.file("file"), directory] {
        assert_eq!((world.xattr(ino, "a"), world.xattrs(ino)), (Err(Error::NoEntry), vec![]));
        world.set_xattr(ino, "b", b"first", SetXattr::Create).unwrap();
        assert_eq!(world.set_xattr(ino, "b", b"", SetXattr::Create), Err(Error::Exists));
        assert_eq!(world.set_xattr(ino, "a", b"", SetXattr::Replace), Err(Error::NoEntry));
        world.background();
        world.set_xattr(ino, "a", b"", SetXattr::Either).unwrap();
        world.set_xattr(ino, "b", b"second", SetXattr::Replace).unwrap();
        world.set_xattr(ino, "c d", &[7; XATTR_VALUE_BYTES_MAX], SetXattr::Either).unwrap();
        world.commit();
        for seed in 0..2 {
            world.crash(seed);
            assert_eq!(world.xattrs(ino), ["a", "b", "c d"]);
            assert_eq!(world.xattr(ino, "a").unwrap(), b"");
            assert_eq!(world.xattr(ino, "b").unwrap(), b"second");
            assert!(world.xattr(ino, "c d").unwrap() == [7; XATTR_VALUE_BYTES_MAX]);
            world.check();
            world.background();
        }
        assert_eq!(world.remove_xattr(ino, "x"), Err(Error::NoEntry));
        for name in ["b", "a", "c d"] {
            world.remove_xattr(ino, name).unwrap();
            assert_eq!(world.xattr(ino, name), Err(Error::NoEntry));
        }
        assert_eq!(world.xattrs(ino), [""; 0]);
        world.background();
        assert_eq!(world.xattr_rows(ino), 0);
    }
    world.reopen();
}

#[test]
fn attributes_are_removed_with_their_object() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    let file = world.file("file");
    world.write_unstable(file, 0, &[7; 100_000]);
    for ino in [file, directory] {
        world.set_xattr(ino, "old", &[1; 100], SetXattr::Either).unwrap();
    }
    world.background();
    for ino in [file, directory] {
        world.set_xattr(ino, "new", &[1; 100], SetXattr::Either).unwrap();
    }
    // A rename replaces the file, and the directory is removed.
    let other = world.file("other");
    world.set_xattr(other, "kept", b"value", SetXattr::Either).unwrap();
    world.rename((Ino::ROOT, "other"), (Ino::ROOT, "file")).unwrap();
    world.rmdir(Ino::ROOT, "d").unwrap();
    world.commit();
    world.check();
    world.crash(1);
    world.background();
    assert_eq!((world.xattr_rows(file), world.xattr_rows(directory)), (0, 0));
    assert_eq!(world.xattr(file, "old"), Err(Error::Stale));
    assert_eq!(world.xattr(other, "kept").unwrap(), b"value");
    world.reopen();
}

#[test]
fn setting_an_attribute_updates_ctime_and_change_and_keeps_its_reply() {
    let mut world = World::new();
    let file = world.file("file");
    let before = world.attributes(file).unwrap();
    let key = RequestKey([[1; 16], [3; 16]].concat().into());
    world.key = Some(key.clone());
    let mut encode = |_: &_| Journaled::from(Arc::<[u8]>::from(&b"set"[..]));
    let wcc = world.run(|v, r| v.set_xattr(r, file, b"a", b"1", SetXattr::Either, &mut encode)).unwrap();
    assert_eq!((wcc.before.change, wcc.before.ctime), (before.change, before.ctime));
    assert!(wcc.after.change > before.change && wcc.after.ctime > before.ctime);
    assert_eq!(wcc.after.mtime, before.mtime);
    world.commit();
    world.crash(1);
    let (answer, _) = world.volume.lookup_request(&key).expect("it was answered");
    assert_eq!(*answer, *b"set");
}

#[test]
fn attributes_are_bounded_and_guarded_by_the_mode() {
    let mut world = World::new();
    let file = world.file("file");
    let set = |world: &mut World, name: &str, bytes: usize| {
        world.set_xattr(file, name, &vec![0; bytes], SetXattr::Either)
    };
    assert_eq!(set(&mut world, "a", XATTR_VALUE_BYTES_MAX + 1), Err(Error::FileTooLarge));
    let rest = XATTR_BYTES_PER_FILE_MAX as usize - XATTR_VALUE_BYTES_MAX - 2 * (XATTR_OVERHEAD_BYTES + 1);
    set(&mut world, "a", XATTR_VALUE_BYTES_MAX).unwrap();
    assert_eq!(set(&mut world, "b", rest + 1), Err(Error::NoSpace));
    set(&mut world, "b", rest).unwrap();
    assert_eq!(set(&mut world, "c", 0), Err(Error::NoSpace));
    set(&mut world, "b", rest - XATTR_OVERHEAD_BYTES - 1).unwrap();
    set(&mut world, "c", 0).unwrap();
    assert_eq!(set(&mut world, &"n".repeat(256), 0), Err(Error::NameTooLong));
    for name in ["", "a\0b"] {
        assert_eq!(set(&mut world, name, 0), Err(Error::Invalid));
    }
    world.chmod(file, 0o640);
    world.who = Credentials { uid: 5, gid: 5, groups: vec![] };
    assert_eq!(world.xattr(file, "c"), Err(Error::AccessDenied));
    assert_eq!(set(&mut world, "c", 0), Err(Error::AccessDenied));
    assert_eq!(world.remove_xattr(file, "c"), Err(Error::AccessDenied));
    assert_eq!(world.run(|v, r| v.list_xattrs(r, file, 0, 9)).unwrap_err(), Error::AccessDenied);
    world.who = Credentials { uid: 5, gid: 0, groups: vec![] };
    assert_eq!(world.xattr(file, "c").unwrap(), b"");
    assert_eq!(set(&mut world, "c", 0), Err(Error::AccessDenied));
    world.who = Credentials::root();
    world.check();
}

#[test]
fn cached_access_blocks_only_for_attributes_not_in_memory() {
    let mut world = World::new();
    let (bare, file) = (world.file("bare"), world.file("file"));
    world.set_xattr(file, "a", b"1", SetXattr::Either).unwrap();
    world.reopen();
    for ino in [bare, file] {
        world.attributes(ino).unwrap();
    }
    let who = Credentials::root();
    let request = Request { credentials: &who, now: world.now(), access: Access::Cached, key: None };
    let error = |result: Result<(), crate::api::request::Failure>| result.map_err(|failure| failure.error);
    assert_eq!(error(world.volume.get_xattr(&request, bare, b"a").map(drop)), Err(Error::NoEntry));
    assert_eq!(error(world.volume.get_xattr(&request, file, b"a").map(drop)), Err(Error::WouldBlock));
    assert!(world.volume.list_xattrs(&request, bare, 0, 9).unwrap().value.end);
    assert_eq!(error(world.volume.list_xattrs(&request, file, 0, 9).map(drop)), Err(Error::WouldBlock));
    world.xattr(file, "a").unwrap();
    let request = Request { credentials: &who, now: world.now(), access: Access::Cached, key: None };
    assert_eq!(*world.volume.get_xattr(&request, file, b"a").unwrap().value, *b"1");
}

#[test]
fn random_attributes_agree_with_a_map() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        let file = world.file("file");
        let mut expected = std::collections::BTreeMap::new();
        for turn in 0..150_u8 {
            let name = format!("n{}", random.below(6));
            match random.below(6) {
                0..=2 => {
                    let value = vec![turn; usize::try_from(random.below(3000)).unwrap()];
                    world.set_xattr(file, &name, &value, SetXattr::Either).unwrap();
                    expected.insert(name, value);
                }
                3 | 4 => {
                    let removed = world.remove_xattr(file, &name).is_ok();
                    assert_eq!(removed, expected.remove(&name).is_some(), "seed {seed}, turn {turn}");
                }
                _ => drop(world.checkpoint()),
            }
            if random.below(10) == 0 {
                world.commit();
                world.crash(turn.into());
            }
            let names: Vec<String> = expected.keys().cloned().collect();
            assert_eq!(world.xattrs(file), names, "seed {seed}, turn {turn}");
            for (name, value) in &expected {
                assert!(world.xattr(file, name).unwrap() == *value, "seed {seed}, turn {turn}: {name}");
            }
        }
        world.check();
    }
}
