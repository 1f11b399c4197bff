//! Held files, orphans, and creation for NFSv4.

use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::{Durable, Error};
use crate::api::results::{AccessMask, CreateHow};
use crate::background::Progress;
use crate::encoding::key::FIRST;
use crate::media::Media;
use crate::offline::check::{CheckOptions, FaultKind, check};

fn step(world: &mut World) -> Progress {
    let now = world.now();
    world.volume.step_orphans(now)
}

#[test]
fn a_held_file_outlives_its_last_name_until_it_is_released() {
    let mut world = World::new();
    let file = world.file("file");
    world.write(file, 0, &[7; 5000]).unwrap();
    world.volume.hold(file);
    world.volume.hold(file);
    world.remove(Ino::ROOT, "file").unwrap();
    assert_eq!(world.lookup(Ino::ROOT, "file"), Err(Error::NoEntry));
    assert_eq!(world.attributes(file).unwrap().links, 0);
    world.write(file, 5000, &[8; 100]).unwrap();
    assert_eq!(world.link(file, Ino::ROOT, "again"), Err(Error::NoEntry));
    world.background();
    world.check();
    world.volume.release(file);
    assert_eq!(step(&mut world), Progress::Idle, "it is still held");
    assert_eq!(world.read(file).unwrap(), [vec![7; 5000], vec![8; 100]].concat());
    world.volume.release(file);
    assert_eq!((step(&mut world), step(&mut world)), (Progress::Worked, Progress::Idle));
    assert_eq!(world.attributes(file), Err(Error::Stale));
    assert_eq!(world.volume.orphans(), []);
    world.background();
    let status = world.run(|v, r| v.status(r)).unwrap();
    assert_eq!((status.inodes_used, status.bytes_used), (1, 0));
    world.reopen();
}

#[test]
fn a_lookup_that_holds_keeps_the_file_of_the_name() {
    let mut world = World::new();
    let file = world.file("file");
    world.write(file, 0, b"data").unwrap();
    let wanted = AccessMask(AccessMask::READ | AccessMask::MODIFY);
    let found = world.run(|v, r| v.lookup_and_hold(r, Ino::ROOT, b"file", wanted)).unwrap();
    assert_eq!((found.object.attributes.ino, found.object.granted), (file, wanted));
    assert_eq!(found.directory.ino, Ino::ROOT);
    world.remove(Ino::ROOT, "file").unwrap();
    assert_eq!(step(&mut world), Progress::Idle, "it is held");
    assert_eq!(world.read(file).unwrap(), b"data");
    let missing = world.run(|v, r| v.lookup_and_hold(r, Ino::ROOT, b"file", wanted));
    assert_eq!(missing, Err(Error::NoEntry));
    world.volume.release(file);
    assert_eq!(step(&mut world), Progress::Worked);
    assert_eq!(world.attributes(file), Err(Error::Stale));
}

#[test]
fn orphans_survive_crashes_until_they_are_reaped() {
    let mut world = World::new();
    let files = ["kept", "left"].map(|name| {
        let file = world.file(name);
        world.write(file, 0, name.as_bytes()).unwrap();
        world.volume.hold(file);
        world.remove(Ino::ROOT, name).unwrap();
        file
    });
    world.commit();
    for seed in 0..3 {
        world.crash(seed);
        assert_eq!(world.volume.orphans(), files);
        assert_eq!(step(&mut world), Progress::Idle);
        assert_eq!(world.read(files[1]).unwrap(), b"left");
        world.checkpoint();
        world.check();
    }
    world.volume.hold(files[0]);
    world.volume.reap_orphans();
    assert_eq!((step(&mut world), step(&mut world)), (Progress::Worked, Progress::Idle));
    assert_eq!(world.volume.orphans(), [files[0]]);
    world.commit();
    world.crash(9);
    assert_eq!(world.volume.orphans(), [files[0]]);
    world.volume.reap_orphans();
    assert_eq!(step(&mut world), Progress::Worked);
    world.reopen();
    assert_eq!(world.volume.orphans(), []);
}

#[test]
fn a_rename_over_a_held_file_leaves_it_to_its_holder() {
    let mut world = World::new();
    let (old, new) = (world.file("old"), world.file("new"));
    world.volume.hold(old);
    world.rename((Ino::ROOT, "new"), (Ino::ROOT, "old")).unwrap();
    assert_eq!(world.lookup(Ino::ROOT, "old"), Ok(new));
    assert_eq!(world.attributes(old).unwrap().links, 0);
    world.volume.release(old);
    assert_eq!(step(&mut world), Progress::Worked);
    assert_eq!(world.attributes(old), Err(Error::Stale));
    world.check();
}

#[test]
fn holding_again_in_time_keeps_an_orphan() {
    let mut world = World::new();
    let (file, other) = (world.file("file"), world.file("other"));
    world.volume.hold(file);
    world.remove(Ino::ROOT, "file").unwrap();
    world.volume.release(file);
    world.volume.hold(file);
    assert_eq!(step(&mut world), Progress::Idle);
    world.volume.reap_orphans();
    assert_eq!(step(&mut world), Progress::Idle);
    world.volume.release(other);
    world.remove(Ino::ROOT, "other").unwrap();
    assert_eq!(world.attributes(other), Err(Error::Stale));
    assert_eq!(world.volume.orphans(), [file]);
}

#[test]
fn a_nameless_file_without_an_orphan_record_is_a_fault() {
    let mut world = World::new();
    let file = world.file("file");
    world.volume.hold(file);
    world.remove(Ino::ROOT, "file").unwrap();
    // The state that a program without orphan support would leave.
    let mut change = world.volume.begin().unwrap();
    change.delete(crate::encoding::key::orphan(FIRST.object(file)));
    change.put(crate::encoding::key::orphan(FIRST.object(Ino(77))), Vec::new());
    change.commit();
    world.commit();
    let disk = std::sync::Arc::clone(&world.disk) as std::sync::Arc<dyn Media>;
    let report = check(&disk, &CheckOptions::default()).unwrap();
    let kinds: Vec<FaultKind> = report.faults.iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds, [FaultKind::Tree, FaultKind::Tree], "{:#?}", report.faults);
}

#[test]
fn an_exclusive_create_with_attributes_is_idempotent() {
    let mut world = World::new();
    let set =
        |mode| SetAttributes { mode: Some(mode), uid: Some(5), size: Some(10), ..SetAttributes::default() };
    let how = CreateHow::ExclusiveWith([1; 8], set(0o640));
    let directory_created = world.create_how(Ino::ROOT, "file", &how).unwrap();
    let attributes = directory_created.value.attributes;
    assert!(directory_created.value.is_new);
    assert_eq!((attributes.mode, attributes.uid, attributes.size), (0o640, 5, 10));
    world.commit();
    world.crash(1);
    let again = world.create_how(Ino::ROOT, "file", &how).unwrap().value;
    assert!(!again.is_new);
    assert_eq!(again.attributes, attributes);
    assert_eq!(again.directory.before.change, again.directory.after.change);
    let other = CreateHow::ExclusiveWith([2; 8], set(0o600));
    assert_eq!(world.create_how(Ino::ROOT, "file", &other).unwrap_err().error, Error::Exists);
    world.chmod(attributes.ino, 0o600);
    assert_eq!(world.create_how(Ino::ROOT, "file", &how).unwrap_err().error, Error::Exists);
}

#[test]
fn lookups_return_parents_and_changes_return_versions() {
    let mut world = World::new();
    let (outer, inner) = (world.mkdir(Ino::ROOT, "outer").unwrap(), world.file("file"));
    let parent = |world: &mut World, ino| world.run(|v, r| v.lookup_parent(r, ino));
    assert_eq!(parent(&mut world, outer).unwrap().attributes.ino, Ino::ROOT);
    assert_eq!(parent(&mut world, Ino::ROOT).unwrap_err(), Error::NoEntry);
    assert_eq!(parent(&mut world, inner).unwrap_err(), Error::NotDirectory);
    let before = world.attributes(outer).unwrap().change;
    let set = SetAttributes::default();
    let directory_created =
        world.answer(|v, r| v.make_directory(r, outer, b"d", &set, &mut nothing)).unwrap();
    assert_eq!(directory_created.value.directory.before.change, before);
    assert_eq!(directory_created.value.directory.after.change, world.attributes(outer).unwrap().change);
    assert!(directory_created.value.directory.after.change > before);
    world.commit();
    assert_eq!(world.durable(directory_created.after), Durable::Yes);
}
