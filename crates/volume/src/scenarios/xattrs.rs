//! Extended attributes.

use std::sync::Arc;

use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::quotas::QuotaKind;
use crate::api::request::{Access, Credentials, Error, Journaled, Request, RequestKey};
use crate::api::results::SetXattr;
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::limits::{XATTR_BYTES_PER_FILE_MAX, XATTR_OVERHEAD_BYTES, XATTR_VALUE_BYTES_MAX};
use crate::media::memory::{MemoryMedia, Random};
use crate::volume::Volume;

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

    fn chown(&mut self, ino: Ino, uid: u32, gid: u32) {
        let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
        self.set(ino, &owner).unwrap();
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
            .scan(
                &key::xattr(FIRST.object(ino), b""),
                &key::xattr(FIRST.object(Ino(ino.0 + 1)), b""),
                &mut |_, _| {
                    rows += 1;
                    std::ops::ControlFlow::Continue(())
                },
            )
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
    let key = RequestKey::new([[1; 16], [3; 16]].concat());
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
fn only_the_owner_changes_attributes_of_a_sticky_directory() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "shared").unwrap();
    world.set_xattr(directory, "a", b"1", SetXattr::Either).unwrap();
    for (mode, allowed) in [(0o777, Ok(())), (0o1777, Err(Error::NotPermitted))] {
        world.who = Credentials::root();
        world.chmod(directory, mode);
        world.who = Credentials { uid: 5, gid: 5, groups: vec![] };
        assert_eq!(world.set_xattr(directory, "b", b"2", SetXattr::Either).map(drop), allowed, "{mode:o}");
        assert_eq!(world.xattr(directory, "a").unwrap(), b"1");
    }
    assert_eq!(world.remove_xattr(directory, "a").map(drop), Err(Error::NotPermitted));
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

/// The usage counters of the volume, of user 0 and of user 5.
fn usage(world: &World) -> [u64; 3] {
    let of = |kind, id| world.usage(kind, id).bytes;
    [of(QuotaKind::Volume, 0), of(QuotaKind::User, 0), of(QuotaKind::User, 5)]
}

#[test]
fn attributes_count_as_bytes_of_their_file() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    let names = world.attributes(directory).unwrap().used;
    let file = world.file("file");
    world.write(file, 0, &[7; 5000]).unwrap();
    let one = |value: usize| 1 + value as u64 + XATTR_OVERHEAD_BYTES as u64;
    world.set_xattr(file, "a", &[1; 100], SetXattr::Create).unwrap();
    world.set_xattr(directory, "a", &[1; 70], SetXattr::Create).unwrap();
    assert_eq!(usage(&world), [5000 + one(100) + one(70), 5000 + one(100) + one(70), 0]);
    assert_eq!(world.attributes(file).unwrap().used, 5000 + one(100));
    assert_eq!(world.attributes(directory).unwrap().used, names + one(70));
    world.set_xattr(file, "a", &[1; 300], SetXattr::Replace).unwrap();
    world.set_xattr(file, "b", &[1; 200], SetXattr::Create).unwrap();
    let of_file = 5000 + one(300) + one(200);
    // They move with the file to its new owner.
    world.chown(file, 5, 5);
    assert_eq!(usage(&world), [of_file + one(70), one(70), of_file]);
    world.commit();
    for seed in 0..2 {
        world.crash(seed);
        assert_eq!(usage(&world), [of_file + one(70), one(70), of_file]);
        world.check();
        world.background();
    }
    world.remove_xattr(file, "b").unwrap();
    assert_eq!(usage(&world), [of_file - one(200) + one(70), one(70), of_file - one(200)]);
    world.write_unstable(file, 5000, &[7; 100]);
    assert_eq!(world.attributes(file).unwrap().used, 5100 + one(300));
    world.remove(Ino::ROOT, "file").unwrap();
    world.rmdir(Ino::ROOT, "d").unwrap();
    assert_eq!(usage(&world), [0; 3]);
    world.reopen();
    assert_eq!(usage(&world), [0; 3]);
}

#[test]
fn attributes_that_fill_the_disk_are_refused_and_can_be_removed() {
    const VALUE: usize = 60_000;
    let name = |number: u32| number.to_string();
    let mut world = World::on(MemoryMedia::with_log(8 << 20));
    world.disk.index_file().set_room(Some(48 << 20));
    let mut files = Vec::new();
    let set = |world: &mut World, file, value: u8| {
        world.patiently(|world| world.set_xattr(file, "a", &[value; VALUE], SetXattr::Either))
    };
    let refusal = loop {
        let number = u32::try_from(files.len()).unwrap();
        let file = match world.patiently(|world| world.create(Ino::ROOT, &name(number))) {
            Ok(file) => file,
            Err(error) => break error,
        };
        if let Err(error) = set(&mut world, file, 1) {
            world.remove(Ino::ROOT, &name(number)).unwrap();
            break error;
        }
        files.push(file);
        if number % 20 == 0 {
            world.background();
        }
    };
    assert_eq!(refusal, Error::NoSpace);
    let count = files.len();
    assert!(count * VALUE > 8 << 20, "{count} values fill the disk");
    assert_eq!(world.volume.refuses_changes(), None);
    assert!(usage(&world)[0] > (count * VALUE) as u64);
    // Nothing is lost, and removals work.
    for file in &files {
        assert!(world.xattr(*file, "a").unwrap() == [1; VALUE]);
    }
    for (number, file) in (0..).zip(&files) {
        let removed = match number % 2 {
            0 => world.patiently(|world| world.remove_xattr(*file, "a")),
            _ => world.patiently(|world| world.remove(Ino::ROOT, &name(number))),
        };
        removed.unwrap_or_else(|error| panic!("removal {number} of {count}: {error:?}"));
    }
    // Much of the space is available again within seconds.
    for _ in 0..4 {
        world.background();
        world.set_clock(Time::from_nanos(world.now.nanos() + 4_000_000_000));
    }
    assert_eq!(usage(&world), [0; 3]);
    for (number, file) in files.iter().step_by(4).enumerate() {
        set(&mut world, *file, 2).unwrap_or_else(|error| panic!("{error:?} for value {number} of {count}"));
        if number % 20 == 0 {
            world.background();
        }
    }
    world.check();
}

#[test]
fn names_set_and_removed_leave_nothing_that_a_listing_passes_over() {
    let mut world = World::roomy();
    let file = world.file("f");
    world.set_xattr(file, "older", b"1", SetXattr::Create).unwrap();
    world.checkpoint();
    world.remove_xattr(file, "older").unwrap();
    for number in 0..1000 {
        let name = format!("name {number}");
        world.set_xattr(file, &name, b"1", SetXattr::Create).unwrap();
        world.set_xattr(file, &name, b"2", SetXattr::Replace).unwrap();
        world.remove_xattr(file, &name).unwrap();
    }
    let (from, to) = (key::xattr(FIRST.object(file), b""), key::xattr(FIRST.object(file).next(), b""));
    let mut records = 0;
    world.volume.view().active.scan(&from, &to, &mut |_, _| {
        records += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(records, 1, "only what hides a record of the index");
    assert!(world.xattrs(file).is_empty());
    world.set_xattr(file, "older", b"3", SetXattr::Create).unwrap();
    world.checkpoint();
    world.remove_xattr(file, "older").unwrap();
    world.checkpoint();
    assert_eq!((world.xattrs(file).len(), world.xattr_rows(file)), (0, 0));
    world.check();
}

#[test]
fn all_names_are_listed_however_many_are_asked_for() {
    let mut world = World::roomy();
    let file = world.file("f");
    for number in 0..700 {
        world.set_xattr(file, &format!("{number:03}"), b"", SetXattr::Create).unwrap();
        if number == 350 {
            world.checkpoint();
        }
    }
    for number in (0..700).filter(|number| number % 7 > 1) {
        world.remove_xattr(file, &format!("{number:03}")).unwrap();
    }
    for (cookie, max) in [(0, usize::MAX), (150, usize::MAX), (150, 50), (0, 200), (u64::MAX, usize::MAX)] {
        let some = world.run(|v, r| v.list_xattrs(r, file, cookie, max)).unwrap();
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        let expected = (0..700).filter(|number| number % 7 <= 1).skip(skip).take(max);
        let expected: Vec<String> = expected.map(|number| format!("{number:03}")).collect();
        let names: Vec<_> =
            some.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        assert_eq!(names, expected, "cookie {cookie}, {max} names");
        assert_eq!(some.end, skip.saturating_add(max) >= 200);
    }
}

#[test]
fn values_that_are_replaced_all_the_time_hardly_take_more_of_the_index() {
    let mut world = World::roomy();
    let file = world.file("f");
    for turn in 0..1500 {
        let value = [u8::try_from(turn % 200).unwrap(); 60_000];
        world.patiently(|world| world.set_xattr(file, "a", &value, SetXattr::Either)).unwrap();
        world.commit();
    }
    for turn in 0..10_000 {
        let target = vec![b'a' + u8::try_from(turn % 26).unwrap(); 4000];
        let set = SetAttributes::default();
        let make =
            |v: &Volume, r: &Request<'_>| v.make_symlink(r, Ino::ROOT, b"link", &target, &set, &mut nothing);
        world.patiently(|world| world.run(make)).unwrap();
        world.patiently(|world| world.remove(Ino::ROOT, "link")).unwrap();
    }
    world.background();
    let index = world.disk.index_file().bytes().len();
    assert!(index < 16 << 20, "{index} bytes for a value of 60,000");
}
