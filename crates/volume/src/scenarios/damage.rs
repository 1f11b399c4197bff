//! Damage of the index: what can be read is served.

use crate::encoding::key::FIRST;
use crate::volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::world::{OPTIONS, World};
use crate::api::ids::{Cookie, Ino};
use crate::api::request::Error;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::options::Options;

const BLOCK: usize = 4096;

/// Files of a directory with their contents.
type Files = BTreeMap<String, (Ino, Vec<u8>)>;

/// Returns a volume that was closed, and its directories with their files.
fn volume(random: &mut Random) -> (World, BTreeMap<Ino, Files>) {
    let mut world = World::new();
    let mut directories = BTreeMap::new();
    for directory in 0..6 {
        let ino = world.mkdir(Ino::ROOT, &format!("directory {directory}")).unwrap();
        let mut files = Files::new();
        for file in 0..40 {
            let name = format!("{}{file}", "a long name ".repeat(1 + random.index(8)));
            let data = random.bytes(1000);
            let of = world.create(ino, &name).unwrap();
            world.write(of, 0, &data).unwrap();
            files.insert(name, (of, data));
        }
        directories.insert(ino, files);
    }
    world.commit();
    world.reopen();
    (world, directories)
}

/// Opens a volume that caches as little of the index as possible.
fn open(world: &World, disk: Arc<MemoryMedia>) -> World {
    let options = Options { memory: 64 << 10, ..OPTIONS };
    let volume = Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &options, world.now).unwrap();
    World {
        disk,
        volume: Arc::new(volume),
        who: world.who.clone(),
        key: None,
        now: world.now,
        tick: world.tick,
    }
}

/// Reads everything once, and returns the number of calls and how many of them failed. None may be wrong, and none is
/// told to come again.
fn read_all(world: &mut World, directories: &BTreeMap<Ino, Files>) -> (usize, usize) {
    let (mut calls, mut failed) = (0, 0);
    let mut judge = |is_right: Result<bool, Error>| {
        calls += 1;
        match is_right {
            Ok(is_right) => assert!(is_right, "what is read is right"),
            Err(error) => {
                assert_eq!(error, Error::Io);
                failed += 1;
            }
        }
    };
    for (directory, files) in directories {
        for (name, (ino, data)) in files {
            judge(world.lookup(*directory, name).map(|found| found == *ino));
            judge(world.attributes(*ino).map(|found| found.size == data.len() as u64));
            judge(world.read(*ino).map(|found| found == *data));
        }
        let absent = world.lookup(*directory, "no such name").map(|_| false);
        judge(absent.or_else(|error| if error == Error::NoEntry { Ok(true) } else { Err(error) }));
        let listing = world.run(|v, r| v.read_directory(r, *directory, Cookie(0), 1000, true));
        judge(listing.map(|listing| {
            let names = listing.entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap());
            let found: BTreeSet<String> = names.filter(|name| !name.starts_with('.')).collect();
            listing.end && found == files.keys().cloned().collect()
        }));
    }
    (calls, failed)
}

#[test]
fn a_bad_block_under_an_open_volume_fails_only_calls_that_need_it() {
    let random = &mut Random::new(31);
    let (world, directories) = volume(random);
    let healthy = world.disk.after_kill();
    let (_, failed) = read_all(&mut open(&world, healthy.after_kill()), &directories);
    assert_eq!(failed, 0);
    let (mut some, mut all, mut blocks) = (0, 0, 0);
    for block in 1..healthy.index_file().bytes().len() / BLOCK {
        let mut world = open(&world, healthy.after_kill());
        world.disk.index_file().flip(block * BLOCK + random.index(BLOCK), 1);
        let (calls, first) = read_all(&mut world, &directories);
        // By now the library refuses whatever it does not have in memory.
        let failed = first.max(read_all(&mut world, &directories).1);
        blocks += 1;
        some += usize::from((1..calls / 4).contains(&failed));
        all += usize::from(failed > calls / 2);
    }
    println!("{blocks} blocks; {some} fail some calls, {all} most of them");
    assert!(some > 5 && all < 5, "{some} {all} of {blocks}");
}

#[test]
fn several_bad_blocks_under_an_open_volume_show_nothing_wrong() {
    let random = &mut Random::new(32);
    let (world, directories) = volume(random);
    let healthy = world.disk.after_kill();
    let blocks = healthy.index_file().bytes().len() / BLOCK;
    for round in 0..20 {
        println!("round {round}");
        let mut world = open(&world, healthy.after_kill());
        for _ in 0..4 {
            world.disk.index_file().flip((1 + random.index(blocks - 1)) * BLOCK + random.index(BLOCK), 1);
            read_all(&mut world, &directories);
        }
    }
}

#[test]
fn damaged_objects_get_their_paths_from_every_layer() {
    let mut world = World::new();
    let (outer, other) = (world.mkdir(Ino::ROOT, "outer").unwrap(), world.mkdir(Ino::ROOT, "other").unwrap());
    let inner = world.mkdir(outer, "inner").unwrap();
    let [old, moved, removed] = ["old", "moved", "removed"].map(|name| world.create(inner, name).unwrap());
    for number in 0..3000 {
        world.create(other, &number.to_string()).unwrap();
        if number % 500 == 0 {
            world.background();
        }
    }
    world.background();
    world.rename((inner, "moved"), (other, "moved here")).unwrap();
    world.remove(inner, "removed").unwrap();
    let new = world.create(other, "new").unwrap();
    // None is found in the cache instead.
    for (directory, name) in
        [(Ino::ROOT, "outer"), (outer, "inner"), (inner, "old"), (other, "moved here"), (other, "new")]
    {
        world.volume.name_cache.remove(FIRST.object(directory), name.as_bytes());
    }
    let wanted = BTreeSet::from([Ino::ROOT, inner, old, moved, removed, new]);
    let paths: Vec<(Ino, Vec<u8>)> = world.volume.paths_of(FIRST, &wanted, u64::MAX).into_iter().collect();
    let expected = [
        (Ino::ROOT, "/"),
        (inner, "/outer/inner"),
        (old, "/outer/inner/old"),
        (moved, "/other/moved here"),
        (new, "/other/new"),
    ];
    assert_eq!(paths, expected.map(|(ino, path)| (ino, path.into())));
    world.rename((outer, "inner"), (other, "inner")).unwrap();
    assert_eq!(world.volume.paths_of(FIRST, &BTreeSet::from([old]), u64::MAX)[&old], b"/other/inner/old");
}
