//! Names, links, owners and modes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::world::{World, nothing};
use crate::api::attributes::{FileType, SetAttributes};
use crate::api::ids::{Cookie, Ino};
use crate::api::request::{Credentials, Error};
use crate::api::results::AccessMask;
use crate::background::Progress;
use crate::encoding::key::FIRST;

fn user(uid: u32, gid: u32) -> Credentials {
    Credentials { uid, gid, groups: Vec::new() }
}

/// Creates a directory with this mode in the root.
fn open_directory(world: &mut World, name: &str, mode: u32) -> Ino {
    let directory = world.mkdir(Ino::ROOT, name).unwrap();
    world.chmod(directory, mode);
    directory
}

#[test]
fn in_a_sticky_directory_only_owners_remove_and_rename() {
    let mut world = World::new();
    let tmp = open_directory(&mut world, "tmp", 0o1777);
    world.who = user(10, 10);
    world.create(tmp, "a").unwrap();
    world.who = user(11, 11);
    world.create(tmp, "b").unwrap();
    assert_eq!(world.remove(tmp, "a"), Err(Error::NotPermitted));
    assert_eq!(world.rename((tmp, "a"), (tmp, "c")), Err(Error::NotPermitted));
    assert_eq!(world.rename((tmp, "b"), (tmp, "a")), Err(Error::NotPermitted), "this removes the target");
    world.rename((tmp, "b"), (tmp, "c")).unwrap();
    world.who = user(10, 10);
    assert_eq!(world.remove(tmp, "c"), Err(Error::NotPermitted));
    world.remove(tmp, "a").unwrap();
    world.who = Credentials::root();
    world.remove(tmp, "c").unwrap();
    world.rmdir(Ino::ROOT, "tmp").unwrap();
    world.check();
}

#[test]
fn new_objects_inherit_the_group_of_a_setgid_directory() {
    let mut world = World::new();
    let shared = open_directory(&mut world, "shared", 0o777);
    let set = SetAttributes { gid: Some(50), mode: Some(0o2777), ..SetAttributes::default() };
    world.set(shared, &set).unwrap();
    world.who = user(10, 10);
    let file = world.create(shared, "f").unwrap();
    let below = world.mkdir(shared, "d").unwrap();
    let (file, below) = (world.attributes(file).unwrap(), world.attributes(below).unwrap());
    assert_eq!((file.uid, file.gid, file.mode & 0o2000), (10, 50, 0));
    assert_eq!((below.gid, below.mode & 0o2000), (50, 0o2000), "directories inherit the setgid bit");
    let plain = world.mkdir(shared, "e").unwrap();
    world.chmod(plain, 0o755);
    assert_eq!(world.attributes(plain).unwrap().mode & 0o2000, 0, "only members set setgid");
}

#[test]
fn privilege_bits_are_cleared_when_others_write_or_the_owner_changes() {
    let mut world = World::new();
    let directory = open_directory(&mut world, "d", 0o777);
    world.who = user(10, 10);
    let file = world.create(directory, "f").unwrap();
    let mode = |world: &mut World| world.attributes(file).unwrap().mode;
    for change in 0..4 {
        world.chmod(file, 0o6777);
        assert_eq!(mode(&mut world), 0o6777);
        world.who = user(11, 11);
        match change {
            0 => world.write(file, 0, b"x").unwrap(),
            1 => drop(world.write_unstable(file, 0, b"x")),
            2 => world.truncate(file, 0).unwrap(),
            _ => {
                world.who = Credentials::root();
                world.set(file, &SetAttributes { uid: Some(10), ..SetAttributes::default() }).unwrap();
            }
        }
        assert_eq!(mode(&mut world), 0o777, "change {change}");
        // The mode change is durable even if an unstable write caused it.
        world.commit();
        world.crash(change);
        assert_eq!(mode(&mut world), 0o777);
        world.who = user(10, 10);
    }
    // A write of the superuser clears nothing.
    world.chmod(file, 0o4755);
    world.who = Credentials::root();
    world.write(file, 0, b"x").unwrap();
    assert_eq!(mode(&mut world), 0o4755);
}

#[test]
fn only_the_superuser_changes_the_owner_of_a_file() {
    let mut world = World::new();
    let directory = open_directory(&mut world, "d", 0o777);
    world.who = Credentials { uid: 10, gid: 10, groups: vec![20] };
    let file = world.create(directory, "f").unwrap();
    let owner = |uid, gid| SetAttributes { uid, gid, ..SetAttributes::default() };
    assert_eq!(world.set(file, &owner(Some(11), None)), Err(Error::NotPermitted));
    assert_eq!(world.set(file, &owner(None, Some(30))), Err(Error::NotPermitted));
    world.set(file, &owner(Some(10), Some(20))).unwrap();
    world.write(file, 0, &[1; 100]).unwrap();
    world.who = user(12, 20);
    assert_eq!(world.set(file, &owner(None, Some(20))), Err(Error::NotPermitted));
    world.who = Credentials::root();
    world.set(file, &owner(Some(11), None)).unwrap();
    let of = |world: &World, uid| world.usage(crate::api::quotas::QuotaKind::User, uid);
    assert_eq!((of(&world, 10).bytes, of(&world, 10).inodes), (0, 0));
    assert_eq!((of(&world, 11).bytes, of(&world, 11).inodes), (100, 1), "usage moves to the new owner");
    world.reopen();
    assert_eq!((of(&world, 11).bytes, of(&world, 11).inodes), (100, 1));
}

#[test]
fn a_directory_cannot_be_moved_below_itself() {
    let mut world = World::new();
    let a = world.mkdir(Ino::ROOT, "a").unwrap();
    let b = world.mkdir(a, "b").unwrap();
    let c = world.mkdir(b, "c").unwrap();
    for target in [a, b, c] {
        assert_eq!(world.rename((Ino::ROOT, "a"), (target, "x")), Err(Error::Invalid));
    }
    assert_eq!(world.rename((a, "b"), (c, "x")), Err(Error::Invalid));
    // Moving a directory up is allowed, and its former ancestor can then move below it.
    world.rename((b, "c"), (Ino::ROOT, "c")).unwrap();
    world.rename((Ino::ROOT, "a"), (c, "a")).unwrap();
    assert_eq!(world.rename((Ino::ROOT, "c"), (b, "x")), Err(Error::Invalid));
    assert_eq!(world.lookup(b, ".."), Ok(a));
    assert_eq!(world.lookup(a, ".."), Ok(c));
    let links: Vec<u32> = [Ino::ROOT, a, b, c].map(|ino| world.attributes(ino).unwrap().links).to_vec();
    assert_eq!(links, [3, 3, 2, 3]);
    world.reopen();
    assert_eq!(world.lookup(a, ".."), Ok(c));
}

#[test]
fn concurrent_renames_create_no_cycle() {
    let mut world = World::new();
    for round in 0..40 {
        let [x, y] = ["x", "y"].map(|name| world.mkdir(Ino::ROOT, &format!("{name}{round}")).unwrap());
        let (volume, now) = (&world.volume, world.now.nanos());
        let moved = std::thread::scope(|scope| {
            let pairs = [(format!("x{round}"), y), (format!("y{round}"), x)];
            let threads = pairs.map(|(name, to)| {
                scope.spawn(move || {
                    let who = Credentials::root();
                    let request = crate::api::request::Request {
                        credentials: &who,
                        now: crate::api::time::Time::from_nanos(now),
                        access: crate::api::request::Access::Blocking,
                        key: None,
                    };
                    let from = (Ino::ROOT, name.as_bytes());
                    volume.rename(&request, from, (to, b"in"), &mut super::world::nothing).is_ok()
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(moved.iter().filter(|moved| **moved).count(), 1, "exactly one rename succeeds");
    }
    world.check();
}

#[test]
fn a_rename_replaces_only_compatible_targets() {
    let mut world = World::new();
    let [a, b] = ["a", "b"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    let file = world.create(a, "file").unwrap();
    let other = world.create(b, "other").unwrap();
    let full = world.mkdir(b, "full").unwrap();
    world.create(full, "x").unwrap();
    world.mkdir(b, "empty").unwrap();
    let moved = world.mkdir(a, "moved").unwrap();
    assert_eq!(world.rename((a, "file"), (b, "empty")), Err(Error::IsDirectory));
    assert_eq!(world.rename((a, "moved"), (b, "other")), Err(Error::NotDirectory));
    assert_eq!(world.rename((a, "moved"), (b, "full")), Err(Error::NotEmpty));
    assert_eq!(world.rename((a, "missing"), (b, "full")), Err(Error::NoEntry));
    assert_eq!(world.rename((a, "."), (b, "x")), Err(Error::Invalid));
    world.rename((a, "moved"), (b, "empty")).unwrap();
    world.rename((a, "file"), (b, "other")).unwrap();
    assert_eq!((world.lookup(b, "empty"), world.lookup(b, "other")), (Ok(moved), Ok(file)));
    assert_eq!(world.attributes(other), Err(Error::Stale));
    assert_eq!(world.lookup(moved, ".."), Ok(b));
    assert_eq!(world.attributes(a).unwrap().links, 2);
    assert_eq!(world.attributes(b).unwrap().links, 4);
    world.rename((b, "other"), (b, "other")).unwrap();
    world.check();
    world.crash(1);
    assert_eq!((world.lookup(b, "empty"), world.lookup(b, "other")), (Ok(moved), Ok(file)));
}

#[test]
fn hard_links_share_one_file_until_the_last_is_removed() {
    let mut world = World::new();
    let [a, b] = ["a", "b"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    let file = world.create(a, "one").unwrap();
    world.link(file, b, "two").unwrap();
    world.link(file, b, "three").unwrap();
    assert_eq!(world.link(file, b, "two"), Err(Error::Exists));
    assert_eq!(world.link(a, b, "directory"), Err(Error::NotPermitted));
    world.write(file, 0, b"shared").unwrap();
    let ctime = world.attributes(file).unwrap().ctime;
    world.rename((b, "two"), (b, "three")).unwrap();
    assert_eq!(world.list(b, Cookie(0), 100).0.len(), 4, "links of one file: no change");
    assert_eq!(world.attributes(file).unwrap().ctime, ctime);
    world.remove(a, "one").unwrap();
    world.remove(b, "two").unwrap();
    let shown = world.attributes(file).unwrap();
    assert_eq!(shown.links, 1);
    assert!(shown.ctime > ctime, "removing a link updates ctime");
    world.commit();
    world.crash(1);
    assert_eq!(world.read(file).unwrap(), b"shared");
    world.checkpoint();
    world.remove(b, "three").unwrap();
    assert_eq!(world.attributes(file), Err(Error::Stale));
    assert_eq!(world.link(file, a, "again"), Err(Error::Stale));
    world.checkpoint();
    assert_eq!(world.usage(crate::api::quotas::QuotaKind::Volume, 0).bytes, 0);
    world.reopen();
}

#[test]
fn invalid_names_and_wrong_types_are_refused() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    let file = world.file("f");
    let long = "n".repeat(256);
    for (name, error) in [
        ("", Error::Invalid),
        ("a/b", Error::Invalid),
        ("a\0b", Error::Invalid),
        (long.as_str(), Error::NameTooLong),
        (".", Error::Exists),
        ("..", Error::Exists),
        ("d", Error::Exists),
    ] {
        assert_eq!(world.create(Ino::ROOT, name), Err(error), "{name:?}");
        assert_eq!(world.link(file, Ino::ROOT, name), Err(error), "{name:?}");
    }
    world.create(directory, &long[1..]).unwrap();
    assert_eq!(world.create(file, "x"), Err(Error::NotDirectory));
    assert_eq!(world.remove(Ino::ROOT, "d"), Err(Error::IsDirectory));
    assert_eq!(world.rmdir(Ino::ROOT, "f"), Err(Error::NotDirectory));
    assert_eq!(world.rmdir(Ino::ROOT, "d"), Err(Error::NotEmpty));
    assert_eq!(world.rmdir(directory, ".."), Err(Error::NotEmpty));
    assert_eq!(world.rmdir(directory, "."), Err(Error::Invalid));
    world.check();
}

#[test]
fn access_follows_the_mode() {
    let mut world = World::new();
    let file = world.file("f");
    let directory = open_directory(&mut world, "d", 0o751);
    let all = AccessMask(0x3f);
    let granted = |world: &mut World, ino| world.run(|v, r| v.access(r, ino, all)).unwrap().granted.0;
    world.chmod(file, 0o640);
    let (read, modify) = (AccessMask::READ, AccessMask::MODIFY | AccessMask::EXTEND);
    assert_eq!(granted(&mut world, file), read | modify);
    assert_eq!(granted(&mut world, directory), read | modify | AccessMask::LOOKUP | AccessMask::DELETE);
    world.who = user(10, 0);
    assert_eq!(granted(&mut world, file), read);
    assert_eq!(granted(&mut world, directory), read | AccessMask::LOOKUP);
    world.who = user(10, 10);
    assert_eq!(granted(&mut world, file), 0);
    assert_eq!(granted(&mut world, directory), AccessMask::LOOKUP);
    assert_eq!(world.create(directory, "x"), Err(Error::AccessDenied));
    let listed = world.run(|v, r| v.read_directory(r, directory, Cookie(0), 10, false));
    assert_eq!(listed.map(drop), Err(Error::AccessDenied));
}

/// Looks a name up twice; the second lookup finds it in memory.
fn look(world: &mut World, directory: Ino, name: &str) -> Result<Ino, Error> {
    let found = world.lookup(directory, name);
    assert_eq!(world.lookup(directory, name), found, "{name}");
    found
}

#[test]
fn cached_names_follow_every_change() {
    let mut world = World::new();
    let long = "l".repeat(255);
    let between: [fn(&mut World); 4] =
        [|_| {}, World::background, |world| assert_eq!(world.checkpoint(), Progress::Worked), World::reopen];
    for between in between {
        let [here, there] = ["here", "there"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
        for name in ["n", &long] {
            let first = world.create(here, name).unwrap();
            between(&mut world);
            assert_eq!(look(&mut world, here, name), Ok(first));
            assert_eq!(look(&mut world, there, name), Err(Error::NoEntry));
            world.rename((here, name), (there, name)).unwrap();
            between(&mut world);
            assert_eq!(look(&mut world, here, name), Err(Error::NoEntry));
            assert_eq!(look(&mut world, there, name), Ok(first));
            let second = world.create(here, name).unwrap();
            assert_eq!(look(&mut world, here, name), Ok(second));
            world.rename((there, name), (here, name)).unwrap();
            between(&mut world);
            assert_eq!(look(&mut world, here, name), Ok(first), "the rename replaced the second file");
            world.link(first, there, name).unwrap();
            assert_eq!(look(&mut world, there, name), Ok(first));
            world.remove(here, name).unwrap();
            between(&mut world);
            assert_eq!(look(&mut world, here, name), Err(Error::NoEntry));
            assert_eq!(look(&mut world, there, name), Ok(first));
            world.remove(there, name).unwrap();
            assert_eq!(look(&mut world, there, name), Err(Error::NoEntry));
        }
        let inner = world.mkdir(here, "inner").unwrap();
        world.rename((Ino::ROOT, "there"), (here, "inner")).unwrap();
        between(&mut world);
        assert_eq!(look(&mut world, here, "inner"), Ok(there));
        assert_eq!(world.attributes(inner), Err(Error::Stale));
        world.rmdir(here, "inner").unwrap();
        world.rmdir(Ino::ROOT, "here").unwrap();
        assert_eq!(look(&mut world, Ino::ROOT, "here"), Err(Error::NoEntry));
    }
    world.check();
}

#[test]
fn a_cached_name_needs_no_lookup_in_the_read_view() {
    let mut world = World::new();
    let file = world.file("f");
    world.reopen();
    assert_eq!(world.lookup(Ino::ROOT, "f"), Ok(file));
    assert_eq!(world.volume.name_cache.len(), 1);
    // A planted cache entry is answered without reading the layers.
    let other = world.file("g");
    let record = world.volume.name_cache.get(FIRST.object(Ino::ROOT), b"g").unwrap();
    assert_eq!(record.ino, other);
    world.volume.name_cache.put(FIRST.object(Ino::ROOT), b"f", &record);
    assert_eq!(world.lookup(Ino::ROOT, "f"), Ok(other));
    world.volume.name_cache.remove(FIRST.object(Ino::ROOT), b"f");
    assert_eq!(world.lookup(Ino::ROOT, "f"), Ok(file));
}

#[test]
fn removals_and_renames_return_the_object() {
    let mut world = World::new();
    let [a, b] = ["a", "b"].map(|name| world.file(name));
    world.link(a, Ino::ROOT, "c").unwrap();
    let mut rename = |from: &[u8], to: &[u8]| {
        let renamed =
            world.run(|v, r| v.rename(r, (Ino::ROOT, from), (Ino::ROOT, to), &mut nothing)).unwrap();
        (renamed.object, renamed.replaced)
    };
    assert_eq!(rename(b"a", b"c"), (a, None), "two links of one file");
    assert_eq!(rename(b"a", b"d"), (a, None));
    assert_eq!(rename(b"d", b"b"), (a, Some(b)));
    let removed = world.run(|v, r| v.remove(r, Ino::ROOT, b"b", &mut nothing)).unwrap();
    assert_eq!(removed.object, a);
    let below = world.mkdir(Ino::ROOT, "e").unwrap();
    let removed = world.run(|v, r| v.remove_directory(r, Ino::ROOT, b"e", &mut nothing)).unwrap();
    assert_eq!(removed.object, below);
    world.check();
}

#[test]
fn objects_are_found_by_cached_names_or_by_reading_some() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "directory").unwrap();
    let (cached, removed) =
        (world.create(directory, "cached").unwrap(), world.create(directory, "removed").unwrap());
    let long = "too long for the cache, where names have 32 bytes";
    let read = world.create(directory, long).unwrap();
    world.remove(directory, "removed").unwrap();
    let wanted = BTreeSet::from([Ino::ROOT, directory, cached, removed, read, Ino(4711)]);
    let found = |world: &World, names_max| -> Vec<(Ino, FileType, Option<String>)> {
        let whereabouts = world.volume.whereabouts(&wanted, names_max);
        let path = |path: &Arc<[u8]>| String::from_utf8(path.to_vec()).unwrap();
        whereabouts
            .into_iter()
            .map(|(ino, found)| (ino, found.file_type.unwrap(), found.path.as_ref().map(path)))
            .collect()
    };
    let path = |text: &str| Some(text.to_owned());
    let mut expected = [
        (Ino::ROOT, FileType::Directory, path("/")),
        (directory, FileType::Directory, path("/directory")),
        (cached, FileType::Regular, path("/directory/cached")),
        (read, FileType::Regular, Some(format!("/directory/{long}"))),
    ];
    assert_eq!(found(&world, 1000), expected);
    // Names in the index are read, but no more than was asked for.
    world.background();
    assert_eq!(found(&world, 1000), expected);
    for number in 0..100 {
        world.create(directory, &format!("before the others {number}")).unwrap();
    }
    world.background();
    expected[3].2 = None;
    assert_eq!(found(&world, 10), expected);
    world.rename((Ino::ROOT, "directory"), (Ino::ROOT, "renamed")).unwrap();
    assert_eq!(found(&world, 1000)[2].2, path("/renamed/cached"));
}
