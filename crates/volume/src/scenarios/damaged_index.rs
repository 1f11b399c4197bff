//! Damages the index block by block: readable records are served, lost ones are I/O errors, and the volume still accepts
//! changes.

use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::world::{OPTIONS, World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::{Cookie, Ino};
use crate::api::request::Error;
use crate::api::results::{SetXattr, Stability};
use crate::api::state::{StateChange, StateKey};
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Table};
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::files::Files;
use crate::options::Options;
use crate::scenarios::seeds::fresh_seed;

const BLOCK: usize = 4096;

/// What a volume holds.
#[derive(Clone, Debug, Default)]
struct Model {
    files: BTreeMap<Ino, Vec<u8>>,
    /// Names of directories, in the order of their creation.
    directories: BTreeMap<Ino, Vec<(String, Ino)>>,
    links: BTreeMap<Ino, Vec<u8>>,
    xattrs: BTreeMap<(Ino, String), Vec<u8>>,
    /// Files that were removed.
    gone: Vec<Ino>,
}

/// A volume with all kinds of records, in many leaves of its index, after several checkpoints.
fn build() -> (Arc<MemoryMedia>, Model, Time) {
    let random = &mut Random::new(1);
    let (mut world, mut model) = (World::new(), Model::default());
    let mut all = vec![Ino::ROOT];
    model.directories.insert(Ino::ROOT, Vec::new());
    for n in 0..12 {
        let (parent, name) = (all[random.index(all.len())], format!("directory {n}"));
        let ino = world.mkdir(parent, &name).unwrap();
        model.directories.get_mut(&parent).unwrap().push((name, ino));
        model.directories.insert(ino, Vec::new());
        all.push(ino);
    }
    for n in 0..240 {
        let parent = all[random.index(all.len())];
        let name = format!("{n:03} {}", "n".repeat(random.index(100)));
        let (parent_names, is_link) = (model.directories.get_mut(&parent).unwrap(), n % 8 == 0);
        let ino = if is_link {
            let target = vec![b'a' + u8::try_from(n % 26).unwrap(); 1 + random.index(300)];
            let set = SetAttributes::default();
            let made =
                world.run(|v, r| v.make_symlink(r, parent, name.as_bytes(), &target, &set, &mut nothing));
            let ino = made.unwrap().attributes.ino;
            model.links.insert(ino, target);
            ino
        } else {
            world.create(parent, &name).unwrap()
        };
        parent_names.push((name, ino));
        if !is_link {
            model.files.insert(ino, write_some(&mut world, ino, random));
        }
        if n % 10 == 3 {
            let (name, value) = ("attribute".to_owned(), random.bytes(60));
            world
                .run(|v, r| v.set_xattr(r, ino, name.as_bytes(), &value, SetXattr::Either, &mut nothing))
                .unwrap();
            model.xattrs.insert((ino, name), value);
        }
        let state = [&b"X"[..], &ino.0.to_be_bytes()].concat();
        let change =
            StateChange { key: StateKey::new(&state).expect("short"), value: Some(vec![1; 40].into()) };
        world.volume.change_state(&[change]).unwrap();
        if n % 60 == 59 {
            world.background();
        }
    }
    for n in 0..12 {
        let name = format!("gone {n}");
        let ino = world.file(&name);
        write_some(&mut world, ino, random);
        if n % 4 == 0 {
            world.background();
        }
        world.remove(Ino::ROOT, &name).unwrap();
        model.gone.push(ino);
    }
    world.background();
    let now = world.now();
    world.volume.close(now).unwrap();
    world.check();
    (world.disk.after_kill(), model, now)
}

/// Writes pieces of a file, some with holes between them.
fn write_some(world: &mut World, ino: Ino, random: &mut Random) -> Vec<u8> {
    let mut content = Vec::new();
    for piece in 0..1 + random.index(6) {
        let at = content.len() + random.index(2) * 10_000;
        let length = 1 + random.index(3000);
        let bytes = random.bytes(length);
        world.write(ino, at as u64, &bytes).unwrap();
        content.resize(at, 0);
        content.extend(bytes);
        if piece == 2 {
            world.checkpoint();
        }
    }
    content
}

/// Reads everything. Returns the answers that are not I/O errors.
fn look(world: &mut World, model: &Model, context: &str) -> Vec<bool> {
    let mut served = Vec::new();
    let mut judge = |right: Result<bool, Error>, what: &dyn std::fmt::Debug| match right {
        Ok(true) => served.push(true),
        Err(Error::Io) => served.push(false),
        wrong => panic!("{context}: {what:?}: {wrong:?}"),
    };
    for (directory, names) in &model.directories {
        for (name, ino) in names {
            judge(
                ask(world, |world| world.lookup(*directory, name)).map(|found| found == *ino),
                &(directory, name),
            );
        }
        let none = ask(world, |world| Ok(world.lookup(*directory, "none").err()));
        judge(
            none.and_then(|none| {
                none.map_or(Ok(false), |error| match error {
                    Error::NoEntry => Ok(true),
                    error => Err(error),
                })
            }),
            &(directory, "none"),
        );
        let listed = ask(world, |world| listing(world, *directory));
        judge(listed.map(|listed| listed == *names), &(directory, "listing"));
    }
    for (ino, content) in &model.files {
        let size = ask(world, |world| world.attributes(*ino)).map(|found| found.size == content.len() as u64);
        judge(size, ino);
        let read = ask(world, |world| world.read_at(*ino, 0, 1 << 20));
        // A read may end before what is lost.
        judge(
            read.and_then(|read| match read.len() < content.len() {
                true => {
                    assert_eq!(read, content[..read.len()], "{context}: {ino}");
                    Err(Error::Io)
                }
                false => Ok(read == *content),
            }),
            &(ino, "data"),
        );
        let at = content.len() as u64 / 2;
        let half = ask(world, |world| world.read_at(*ino, at, 100));
        judge(half.map(|half| content[content.len() / 2..].starts_with(&half)), &(ino, "half"));
    }
    look_at_small(world, model, &mut judge);
    served
}

/// Reads everything but names and data.
fn look_at_small(
    world: &mut World,
    model: &Model,
    judge: &mut dyn FnMut(Result<bool, Error>, &dyn std::fmt::Debug),
) {
    for (ino, target) in &model.links {
        judge(
            ask(world, |world| world.run(|v, r| v.read_link(r, *ino)))
                .map(|found| found.target[..] == target[..]),
            ino,
        );
    }
    for ((ino, name), value) in &model.xattrs {
        let found = ask(world, |world| world.run(|v, r| v.get_xattr(r, *ino, name.as_bytes())));
        judge(found.map(|found| found[..] == value[..]), &(ino, name));
    }
    for ino in &model.gone {
        let found = ask(world, |world| Ok(world.attributes(*ino).err()));
        judge(
            found.and_then(|found| match found {
                Some(Error::Stale) => Ok(true),
                Some(error) => Err(error),
                None => Ok(false),
            }),
            ino,
        );
    }
}

/// Repeats a call while it is refused as busy, as a client does, making checkpoints in between.
fn ask<T>(world: &mut World, mut work: impl FnMut(&mut World) -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..3 {
        match work(world) {
            Err(Error::Busy) => drop(world.checkpoint()),
            answer => return answer,
        }
    }
    work(world)
}

fn listing(world: &mut World, directory: Ino) -> Result<Vec<(String, Ino)>, Error> {
    let (mut names, mut after) = (Vec::new(), Cookie(2));
    loop {
        let listing = world.run(|v, r| v.read_directory(r, directory, after, 16, false))?;
        let Some(last) = listing.entries.last() else { return Ok(names) };
        after = last.cookie;
        names.extend(
            listing
                .entries
                .iter()
                .map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.ino)),
        );
        if listing.end {
            return Ok(names);
        }
    }
}

fn open(media: &Arc<MemoryMedia>, now: Time) -> Result<World, String> {
    // The cache is small, so that reads must go to the file.
    let options = Options { memory: 64 << 10, ..OPTIONS };
    let volume = Volume::open(Arc::clone(media) as Arc<dyn Media>, &options, now)
        .map_err(|error| error.to_string())?;
    Ok(World::with(Arc::clone(media), volume, now))
}

/// Makes every change that is possible, and repeats it in the model. Returns the number of changes.
fn change(world: &mut World, model: &mut Model, context: &str) -> usize {
    let mut made = 0;
    let mut turn = 0;
    for directory in model.directories.keys().copied().collect::<Vec<_>>() {
        turn += 1;
        let name = format!("new {turn}");
        match ask(world, |world| world.create(directory, &name)) {
            Ok(ino) => {
                let data = vec![7; 9000];
                world.write(ino, 0, &data).unwrap_or_else(|error| panic!("{context}: a new file: {error:?}"));
                model.files.insert(ino, data);
                model.directories.get_mut(&directory).unwrap().push((name, ino));
                made += 1;
            }
            Err(Error::Io) => {}
            // What is needed to find the records is damaged.
            Err(Error::ReadOnly) => return made,
            Err(error) => panic!("{context}: {error:?}"),
        }
    }
    let files: Vec<Ino> = model.files.keys().copied().step_by(7).collect();
    for (turn, ino) in files.into_iter().enumerate() {
        let how = [Stability::FileSync, Stability::Unstable][turn % 2];
        let at = 1500;
        match ask(world, |world| world.write_how(ino, at as u64, &[9; 5000], how)) {
            Ok(_) => {
                let content = model.files.get_mut(&ino).unwrap();
                let length = content.len().max(at + 5000);
                content.resize(length, 0);
                content[at..at + 5000].fill(9);
                made += 1;
            }
            Err(Error::Io) => {}
            // What is needed to find the records is damaged.
            Err(Error::ReadOnly) => return made,
            Err(error) => panic!("{context}: {error:?}"),
        }
    }
    made
}

/// Damages the index, then reads and changes everything, in a volume that is already open or is opened afterwards.
fn damage_and_serve(
    (media, model, now): &(Arc<MemoryMedia>, Model, Time),
    damage: &dyn Fn(&mut [u8]),
    is_open: bool,
    context: &str,
) -> Outcome {
    let media = media.after_kill();
    let mut model = model.clone();
    if !is_open {
        media.index_file().damage(damage);
    }
    let mut world = match open(&media, *now) {
        Ok(world) => world,
        Err(why) => {
            // What opening advises, works.
            match Files::open(Arc::clone(&media) as Arc<dyn Media>) {
                Ok(_) => assert!(why.contains("holdfast dump --files"), "{context}: {why}"),
                Err(error) => assert_eq!(why, error.to_string(), "{context}"),
            }
            return Outcome::Refused;
        }
    };
    if is_open {
        media.index_file().damage(damage);
    }
    look(&mut world, &model, &format!("{context}, at first"));
    // The first checkpoint repairs what was found so far, later ones what they find.
    let made = change(&mut world, &mut model, context);
    world.write_back();
    for _ in 0..3 {
        world.background();
    }
    if let Some(why) = world.volume.refuses_changes() {
        assert!(why.contains("holdfast check"), "{context}: {why}");
        return Outcome::Refused;
    }
    assert!(
        world.volume.view().active.is_empty() && world.volume.view().frozen.is_none(),
        "{context}: no checkpoint"
    );
    let then = look(&mut world, &model, &format!("{context}, then"));
    let now = world.now();
    world.volume.close(now).unwrap_or_else(|error| panic!("{context}: {error}"));
    drop(world);
    let mut again = Vec::new();
    for _ in 0..2 {
        let mut world =
            open(&media.after_kill(), now).unwrap_or_else(|why| panic!("{context}, again: {why}"));
        world.background();
        again.push(look(&mut world, &model, &format!("{context}, again")));
    }
    assert_eq!(again[0], again[1], "{context}");
    // What was in memory may have been served though it is lost.
    assert!(then.iter().zip(&again[0]).all(|(then, again)| *then || !again), "{context}");
    assert!(made > 0 || again[0].iter().any(|served| !served), "{context}");
    Outcome::Served { lost: again[0].iter().filter(|served| !**served).count() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It says what to do.
    Refused,
    /// All of it but this number of answers.
    Served { lost: usize },
}

/// The number of damaged blocks that the tests try, or all: `HOLDFAST_DAMAGED_BLOCKS`.
fn tries() -> usize {
    const FEW: usize = 14;
    match std::env::var("HOLDFAST_DAMAGED_BLOCKS").as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) => number.parse().expect("`all` or a number"),
        Err(_) => FEW,
    }
}

/// Returns the blocks of the file that hold anything, in random order.
fn used_blocks(image: &[u8], random: &mut Random) -> Vec<usize> {
    let is_used = |block: &usize| image[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
    let mut blocks: Vec<usize> = (0..image.len() / BLOCK).filter(is_used).collect();
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, random.index(last + 1));
    }
    blocks
}

#[test]
fn damage_of_any_block_of_the_index_stays_where_it_is() {
    let built = build();
    let image = built.0.index_file().bytes();
    let random = &mut Random::new(fresh_seed());
    let blocks = used_blocks(&image, random);
    assert!(blocks.len() > 60, "{}", blocks.len());
    let mut tally = [Tally::default(); 2];
    for block in blocks.into_iter().take(tries()) {
        for is_open in [false, true] {
            let context = format!("block {block} of the file, {}", if is_open { "open" } else { "closed" });
            let damage = |bytes: &mut [u8]| bytes[block * BLOCK + 300] ^= 0x10;
            tally[usize::from(is_open)].add(damage_and_serve(&built, &damage, is_open, &context));
        }
    }
    println!("found at opening: {:?}; while open: {:?}", tally[0], tally[1]);
    assert!(tally.iter().all(|tally| tally.lost > 0 && tally.refused < tally.lost), "{tally:?}");
}

#[test]
fn damage_of_several_blocks_of_the_index_stays_where_it_is() {
    let built = build();
    let image = built.0.index_file().bytes();
    let random = &mut Random::new(fresh_seed());
    let mut tally = Tally::default();
    for turn in 0..tries().min(150) {
        let blocks = used_blocks(&image, random);
        let bad = &blocks[..2 + random.index(6)];
        let damage = |bytes: &mut [u8]| {
            bad.iter().for_each(|block| bytes[block * BLOCK + 300..][..8].fill(0xee));
        };
        let is_open = turn % 2 == 0;
        tally.add(damage_and_serve(&built, &damage, is_open, &format!("blocks {bad:?}, open {is_open}")));
    }
    println!("{tally:?}");
    assert!(tally.lost > 0, "{tally:?}");
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    refused: usize,
    complete: usize,
    lost: usize,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Refused => self.refused += 1,
            Outcome::Served { lost: 0 } => self.complete += 1,
            Outcome::Served { .. } => self.lost += 1,
        }
    }
}

#[test]
fn state_that_was_settled_is_not_lost_again_at_the_next_start() {
    let (media, _, now) = build();
    let image = media.index_file().bytes();
    let scan = |world: &World| world.volume.scan_state(&mut |_, _| {});
    // Finds a block of which the rebuild records that state is lost.
    let mut found = 0;
    for block in used_blocks(&image, &mut Random::new(1)).into_iter().take(100) {
        let media = media.after_kill();
        media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 0x10);
        let Ok(mut world) = open(&media, now) else { continue };
        world.background();
        let (from, to) = key::table_range(FIRST, Table::State);
        if !world.volume.view().index.lost().meets(&from, &to) {
            assert_eq!(scan(&world), Ok(()), "block {block}");
            continue;
        }
        assert_eq!(scan(&world), Err(Error::Io), "block {block}");
        world.volume.settle_state();
        // A change, so that there is something to checkpoint.
        let change = StateChange { key: (*b"X").into(), value: Some(vec![1; 40].into()) };
        world.volume.change_state(&[change]).unwrap();
        world.checkpoint();
        assert_eq!(scan(&world), Ok(()), "block {block}");
        let now = world.now();
        world.volume.close(now).unwrap();
        drop(world);
        assert_eq!(scan(&open(&media.after_kill(), now).unwrap()), Ok(()), "block {block}");
        found += 1;
    }
    assert!(found > 0);
}

#[test]
fn a_destroyed_block_of_seals_costs_its_group_only() {
    const SLOT: usize = 255 * BLOCK;
    let built = build();
    let length = built.0.index_file().bytes().len();
    for (slot, at) in (BLOCK..length).step_by(SLOT).enumerate() {
        for fill in [0, 0xee] {
            for is_open in [false, true] {
                let context = format!("seals of slot {slot} are {fill:#x}, open {is_open}");
                let damage = |bytes: &mut [u8]| bytes[at..at + BLOCK].fill(fill);
                let outcome = damage_and_serve(&built, &damage, is_open, &context);
                println!("{context}: {outcome:?}");
                // The list of tables lies there.
                assert!(slot > 0 || outcome == Outcome::Refused, "{context}: {outcome:?}");
            }
        }
    }
}

#[test]
fn an_open_volume_whose_root_is_lost_serves_what_is_in_memory() {
    let (media, model, now) = build();
    let mut world = World::open(media, now);
    let (ino, content) = model.files.iter().next().unwrap();
    assert_eq!(world.read(*ino).as_ref(), Ok(content));
    assert_eq!(world.attributes(Ino::ROOT).map(|found| found.ino), Ok(Ino::ROOT));
    world.disk.index_file().damage(|bytes| bytes[BLOCK..].fill(0));
    let made = world.create(Ino::ROOT, "made in memory");
    for _ in 0..3 {
        world.background();
    }
    let why = world.volume.refuses_changes().expect("nothing of the index is left");
    assert!(
        ["index", "holdfast check", "holdfast dump --files"].iter().all(|part| why.contains(part)),
        "{why}"
    );
    assert_eq!(world.write(*ino, 0, b"more"), Err(Error::ReadOnly));
    assert_eq!(world.read(*ino).as_ref(), Ok(content));
    assert_eq!(world.attributes(Ino::ROOT).map(|found| found.ino), Ok(Ino::ROOT));
    if let Ok(made) = made {
        assert_eq!(world.lookup(Ino::ROOT, "made in memory"), Ok(made));
    }
}
