//! Volumes without planted faults.

use super::world::{World, assert_clean};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::results::Stability;
use crate::media::memory::Random;

/// Creates, changes and removes objects of each type.
fn populate(world: &mut World) -> Ino {
    let directory = world.mkdir(Ino::ROOT, "directory").unwrap();
    let file = world.create(directory, "file").unwrap();
    world.write(file, 0, &[1; 10_000], Stability::FileSync).unwrap();
    world.write(file, 200_000, &[2; 300_000], Stability::Unstable).unwrap();
    world.link(file, Ino::ROOT, "link").unwrap();
    world.symlink(directory, "symlink", "file").unwrap();
    let gone = world.create(Ino::ROOT, "gone").unwrap();
    world.write(gone, 5, &[3; 100_000], Stability::Unstable).unwrap();
    world.write_back();
    world.remove(Ino::ROOT, "gone").unwrap();
    world.set(file, &SetAttributes { size: Some(250_000), ..SetAttributes::default() }).unwrap();
    world.write(file, 240_000, &[4; 20_000], Stability::FileSync).unwrap();
    world.rename((directory, "symlink"), (Ino::ROOT, "moved")).unwrap();
    world.mkdir(directory, "inner").unwrap();
    world.mkdir(Ino::ROOT, "empty").unwrap();
    world.rename((directory, "inner"), (Ino::ROOT, "empty")).unwrap();
    file
}

#[test]
fn a_new_volume_is_sound() {
    let report = assert_clean(&World::new().kill());
    assert_eq!((report.summary.inodes, report.summary.directories, report.summary.files), (1, 1, 0));
}

#[test]
fn a_volume_is_sound_with_and_without_a_close() {
    let mut world = World::new();
    populate(&mut world);
    let killed = world.kill();
    let report = assert_clean(&killed);
    assert!(report.summary.journal_entries > 10);
    assert_eq!((report.summary.inodes, report.summary.names, report.summary.files), (5, 5, 1));
    assert_eq!(report.summary.used_bytes, 10_000 + 60_000);
    let closed = World::open(killed).close();
    let report = assert_clean(&closed);
    assert_eq!((report.summary.journal_entries, report.summary.used_bytes), (0, 70_000));
    assert!(report.summary.verified_bytes >= 70_000, "{:?}", report.summary);
    assert_eq!(report.notes, Vec::<String>::new());
}

#[test]
fn a_volume_is_sound_while_the_cleaner_moves_extents() {
    let mut world = World::new();
    let files: Vec<Ino> =
        (0..12).map(|number| world.create(Ino::ROOT, &format!("{number}")).unwrap()).collect();
    for file in &files {
        world.write(*file, 0, &[7; 120_000], Stability::Unstable).unwrap();
        world.write_back();
    }
    for number in (0..12).filter(|number| number % 3 != 0) {
        world.remove(Ino::ROOT, &format!("{number}")).unwrap();
    }
    world.checkpoint();
    for _ in 0..4 {
        world.clean();
        assert_clean(&world.media.after_kill());
    }
    world.checkpoint();
    assert_clean(&world.media.after_kill());
    assert_clean(&world.close());
}

#[test]
fn a_volume_is_sound_if_the_server_dies_in_a_checkpoint() {
    let mut world = World::new();
    let file = world.create(Ino::ROOT, "file").unwrap();
    world.write(file, 0, &[1; 8_000], Stability::FileSync).unwrap();
    // The memtable stays frozen, since its data cannot be written to segments.
    world.media.refuse_appends(true);
    world.checkpoint();
    world.write(file, 1_000, &[2; 1_000], Stability::FileSync).unwrap();
    world.write(file, 6_000, &[3; 2_000], Stability::FileSync).unwrap();
    let expected = world.read(file).unwrap();
    let media = world.kill();
    assert_clean(&media);
    let mut world = World::open(media);
    assert!(world.read(file).unwrap() == expected, "acknowledged data is lost");
    assert_clean(&world.close());
}

/// Runs random operations, and repeatedly checks the state that a crash would leave.
fn random_operations(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::new();
    let mut directories = vec![Ino::ROOT];
    let mut files: Vec<Ino> = Vec::new();
    for step in 0..250 {
        let directory = directories[usize::try_from(random.below(directories.len() as u64)).unwrap()];
        let other = directories[usize::try_from(random.below(directories.len() as u64)).unwrap()];
        let name = format!("{}", random.below(8));
        let other_name = format!("{}", random.below(8));
        let file = files.get(usize::try_from(random.below(files.len() as u64 + 1)).unwrap()).copied();
        // Operations on existing or missing names may fail, and then must change nothing.
        match random.below(20) {
            0..=2 => files.extend(world.create(directory, &name)),
            3 => directories.extend(world.mkdir(directory, &name)),
            4 => drop(world.symlink(directory, &name, "somewhere")),
            5 => drop(file.map(|file| world.link(file, directory, &name).is_ok())),
            6 | 7 => drop(world.remove(directory, &name)),
            8 => drop(world.rmdir(directory, &name)),
            9 | 10 => drop(world.rename((directory, &name), (other, &other_name))),
            11..=14 => {
                let how = if random.below(2) == 0 { Stability::Unstable } else { Stability::FileSync };
                let (offset, length) =
                    (random.below(200_000), usize::try_from(random.below(30_000)).unwrap());
                let data = vec![u8::try_from(step % 251).unwrap(); length];
                let _ = file.map(|file| world.write(file, offset, &data, how));
            }
            15 => {
                let set = SetAttributes { size: Some(random.below(200_000)), ..SetAttributes::default() };
                let _ = file.map(|file| world.set(file, &set));
            }
            16 => {
                let uid = Some(u32::try_from(random.below(4)).unwrap());
                let _ = file.map(|file| world.set(file, &SetAttributes { uid, ..SetAttributes::default() }));
            }
            17 => world.write_back(),
            18 => world.checkpoint(),
            _ => {
                // While appends fail, the memtable stays frozen.
                world.media.refuse_appends(random.below(2) == 0);
                world.checkpoint();
                world.clean();
            }
        }
        world.commit();
        if random.below(10) == 0 {
            let media = world.media.after_kill();
            let report = super::world::report(&media);
            assert!(report.is_clean(), "seed {seed}, step {step}: {:#?}", report.faults);
            if random.below(4) == 0 {
                world = World::open(media);
                directories.truncate(1);
                assert_clean(&world.media);
            }
        }
    }
    world.media.refuse_appends(false);
    world.checkpoint();
    assert_clean(&world.close());
}

#[test]
fn random_operations_leave_a_sound_volume() {
    for seed in 1..=4 {
        random_operations(seed);
    }
}
