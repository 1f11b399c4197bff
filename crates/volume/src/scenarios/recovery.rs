//! Data that survives crashes, and values that must not repeat after one.

use crate::volume::Volume;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::world::{OPTIONS, World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::{Cookie, Ino};
use crate::api::request::{Durability, Durable, Error, RequestKey};
use crate::api::results::{CreateHow, Stability};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key;
use crate::limits::INLINE_WRITE_BYTES_MAX;
use crate::media::Media;
use crate::media::memory::Random;
use crate::offline::check::{CheckOptions, check};
use crate::tables::index::Index;

#[test]
fn two_memtables_are_replayed_into_one() {
    for seed in 0..6 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut world = World::new();
        let file = world.file("f");
        let mut model: Vec<u8> = Vec::new();
        for round in 0..3 {
            for turn in 0..30_u8 {
                let offset = usize::try_from(random.below(60_000)).unwrap();
                let length = usize::try_from(1 + random.below(9000)).unwrap();
                let data = vec![round * 50 + turn + 1; length];
                world.write(file, offset as u64, &data).unwrap();
                model.resize(model.len().max(offset + length), 0);
                model[offset..offset + length].copy_from_slice(&data);
                if random.below(10) == 0 {
                    world.truncate(file, offset as u64).unwrap();
                    model.truncate(offset);
                }
            }
            world.commit();
            if round == 0 {
                // The checkpoint freezes the memtable and then fails, so later writes go into a second one.
                world.disk.refuse_appends(true);
                assert_eq!(world.checkpoint(), Progress::Idle);
                assert!(world.volume.view().frozen.is_some());
                world.disk.refuse_appends(false);
            }
        }
        assert!(world.read(file).unwrap() == model);
        world.check();
        world.crash(seed);
        assert!(world.read(file).unwrap() == model);
        world.check();
        world.reopen();
        assert!(world.read(file).unwrap() == model);
        let used = world.attributes(file).unwrap().used;
        world.truncate(file, 0).unwrap();
        assert!(used > 0 && world.attributes(file).unwrap().used == 0);
        world.reopen();
    }
}

#[test]
fn synced_data_survives_power_loss_at_any_time() {
    for seed in 0..12 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut world = World::new();
        let mut model: HashMap<String, (Ino, Vec<u8>)> = HashMap::new();
        for turn in 0..60_u64 {
            let name = random.below(12).to_string();
            let large = random.below(4) == 0;
            let length = usize::try_from(1 + random.below(if large { 300_000 } else { 5_000 })).unwrap();
            if let Some((file, bytes)) = model.get_mut(&name) {
                if random.below(4) == 0 {
                    world.remove(Ino::ROOT, &name).unwrap();
                    model.remove(&name);
                } else {
                    let data = vec![u8::try_from(turn).unwrap(); length];
                    let written = world.write_how(*file, 0, &data, Stability::FileSync).unwrap();
                    world.write_back();
                    assert_eq!(world.durable(written.after), Durable::Yes);
                    bytes.resize(bytes.len().max(length), 0);
                    bytes[..length].copy_from_slice(&data);
                }
            } else {
                model.insert(name.clone(), (world.file(&name), Vec::new()));
            }
            world.commit();
            match random.below(12) {
                0 => {
                    world.checkpoint();
                }
                1 => {
                    world.clean();
                    world.commit();
                }
                2 => {
                    // Unsynced changes may or may not survive a power loss, and do no harm.
                    world.create(Ino::ROOT, "unsynced").ok();
                    let file = world.lookup(Ino::ROOT, "unsynced").unwrap();
                    world.write_unstable(file, 0, &vec![9; length]);
                }
                3 => world.crash(seed * 1000 + turn),
                _ => {}
            }
        }
        world.crash(seed);
        for (name, (file, bytes)) in &model {
            assert_eq!(world.lookup(Ino::ROOT, name), Ok(*file));
            assert!(world.read(*file).unwrap() == *bytes, "{name}");
        }
        world.check();
    }
}

#[test]
fn an_exclusive_create_is_repeated_only_with_its_verifier() {
    let mut world = World::new();
    let (own, foreign) = (CreateHow::Exclusive(*b"verifier"), CreateHow::Exclusive(*b"another!"));
    let directory_created = world.create_how(Ino::ROOT, "f", &own).unwrap().value.attributes.ino;
    world.commit();
    for _ in 0..2 {
        // A retransmission succeeds also after a crash, and from the index.
        assert_eq!(world.create_how(Ino::ROOT, "f", &own).unwrap().value.attributes.ino, directory_created);
        assert_eq!(world.create_how(Ino::ROOT, "f", &foreign).unwrap_err().error, Error::Exists);
        let guarded = CreateHow::Guarded(SetAttributes::default());
        assert_eq!(world.create_how(Ino::ROOT, "f", &guarded).unwrap_err().error, Error::Exists);
        world.crash(1);
        world.checkpoint();
    }
    // The SETATTR that follows an exclusive create discards the verifier.
    world.chmod(directory_created, 0o600);
    assert_eq!(world.create_how(Ino::ROOT, "f", &own).unwrap_err().error, Error::Exists);
    // An unchecked create never opens a directory.
    world.mkdir(Ino::ROOT, "d").unwrap();
    let unchecked = CreateHow::Unchecked(SetAttributes::default());
    assert_eq!(world.create_how(Ino::ROOT, "d", &unchecked).unwrap_err().error, Error::Exists);
}

#[test]
fn an_unchecked_create_truncates_only_the_file_it_checked() {
    let mut world = World::new();
    let cut =
        |known| CreateHow::UncheckedIf(SetAttributes { size: Some(0), ..SetAttributes::default() }, known);
    let directory_created = world.create_how(Ino::ROOT, "f", &cut(None)).unwrap().value;
    assert!(directory_created.is_new);
    let file = directory_created.attributes.ino;
    let other = world.file("other");
    world.write_how(file, 0, b"data", Stability::FileSync).unwrap();
    for known in [None, Some(other), Some(Ino::ROOT)] {
        assert_eq!(world.create_how(Ino::ROOT, "f", &cut(known)).unwrap_err().error, Error::ObjectBusy);
    }
    assert_eq!(world.read(file).unwrap(), b"data");
    assert_eq!(world.create_how(Ino::ROOT, "f", &cut(Some(file))).unwrap().value.attributes.size, 0);
    // The name is new, so there is nothing to truncate.
    assert!(world.create_how(Ino::ROOT, "new", &cut(Some(file))).unwrap().value.is_new);
}

#[test]
fn a_retransmission_is_answered_after_a_restart_and_executes_once() {
    let mut world = World::new();
    let key = |number: u8| RequestKey::new([&[1; 16][..], &[number; 20]].concat());
    world.file("a");
    world.key = Some(key(1));
    let renamed = world.answer(|v, r| {
        v.rename(r, (Ino::ROOT, b"a"), (Ino::ROOT, b"b"), &mut |_| Arc::<[u8]>::from(&b"renamed"[..]).into())
    });
    let after = renamed.unwrap().after;
    let cached = |world: &World, number| {
        let found = world.volume.lookup_request(&key(number));
        found.map(|(answer, after)| (answer.to_vec(), after))
    };
    let (answer, waits) = cached(&world, 1).unwrap();
    assert_eq!(answer, b"renamed");
    assert_eq!((waits.seq, world.durable(waits)), (after.seq, Durable::NotYet), "the repeat waits too");
    world.commit();
    // From the journal, from the index, and after a close.
    world.crash(1);
    assert_eq!(cached(&world, 1).unwrap().0, b"renamed");
    world.checkpoint();
    world.crash(2);
    assert_eq!(cached(&world, 1).unwrap().0, b"renamed");
    world.reopen();
    let (answer, waits) = cached(&world, 1).unwrap();
    assert_eq!((&answer[..], world.durable(waits)), (&b"renamed"[..], Durable::Yes));
    assert!(cached(&world, 2).is_none());
    // Failed requests changed nothing, so their replies are kept in memory only.
    let now = world.now();
    world.volume.remember_unchanged(&key(3), Arc::from(&b"no entry"[..]), Durability::NOW, now);
    assert_eq!(cached(&world, 3).unwrap().0, b"no entry");
    world.checkpoint();
    world.crash(3);
    assert!(cached(&world, 3).is_none());
    // A checkpoint after the retention time drops the reply.
    world.set_clock(Time::from_parts(5_000, 0));
    world.file("later");
    world.checkpoint();
    world.reopen();
    assert!(cached(&world, 1).is_none());
}

#[test]
fn the_write_verifier_changes_exactly_when_unstable_data_may_be_lost() {
    let mut world = World::new();
    let file = world.file("f");
    let first = world.write_unstable(file, 0, b"data");
    assert_eq!(world.write_unstable(file, 4, b"more"), first);
    world.write_back();
    world.checkpoint();
    let committed = world.run(|v, r| v.commit(r, file, 0, 0)).unwrap();
    assert_eq!(committed.verifier, first);
    let mut seen = HashSet::from([first.0]);
    world.crash(1);
    assert!(seen.insert(world.write_unstable(file, 0, b"data").0), "after a crash");
    world.write_unstable(file, 0, &vec![1; 2 * INLINE_WRITE_BYTES_MAX]);
    world.disk.refuse_appends(true);
    world.write_back();
    world.disk.refuse_appends(false);
    let after_failure = world.write_unstable(file, 0, b"data");
    assert!(seen.insert(after_failure.0), "after a failed write-back");
    world.write_back();
    assert_eq!(world.write_unstable(file, 0, b"data"), after_failure);
    world.reopen();
    assert!(seen.insert(world.write_unstable(file, 0, b"data").0), "after a restart");
    world.crash(2);
    assert!(seen.insert(world.write_unstable(file, 0, b"data").0));
}

#[test]
fn a_time_at_the_ceiling_does_not_repeat_after_a_crash() {
    let mut world = World::new();
    let file = world.file("f");
    world.commit();
    let ceiling = world.volume.committer.time_ceiling();
    world.tick = 0;
    world.set_clock(ceiling);
    world.write_unstable(file, 0, b"lost");
    world.commit();
    let shown = world.attributes(file).unwrap();
    assert_eq!(shown.ctime, ceiling);
    world.crash(1);
    world.write(file, 0, b"next").unwrap();
    assert!(world.attributes(file).unwrap().ctime > shown.ctime);
}

#[test]
fn no_change_value_or_time_repeats_after_a_crash_with_the_clock_set_back() {
    let mut world = World::new();
    let file = world.file("f");
    world.commit();
    let (mut changes, mut times) = (HashSet::new(), HashSet::new());
    let mut last = world.attributes(file).unwrap();
    for round in 0..5 {
        for turn in 0..20 {
            match turn % 4 {
                0 => {
                    world.write_unstable(file, turn, b"unstable");
                }
                1 => world.write(file, turn, b"stable").unwrap(),
                2 => world.chmod(file, 0o600),
                _ => world.truncate(file, turn).unwrap(),
            }
            // Unstable changes become visible once the time ceiling is durable.
            world.commit();
            let now = world.attributes(file).unwrap();
            assert!(now.ctime > last.ctime && now.change > last.change && now.mtime <= now.ctime);
            assert!(changes.insert(now.change) && times.insert(now.ctime), "{round} {turn}");
            last = now;
        }
        // The unstable data and its times are lost.
        world.write_unstable(file, 0, b"lost");
        world.commit();
        let lost = world.attributes(file).unwrap();
        assert!(changes.insert(lost.change) && times.insert(lost.ctime));
        if round % 2 == 0 {
            world.checkpoint();
        }
        world.set_clock(Time::from_parts(10 + round, 0));
        world.crash(u64::try_from(round).unwrap());
        last = world.attributes(file).unwrap();
        assert!(last.ctime <= lost.ctime);
        world.write(file, 0, b"next").unwrap();
        let next = world.attributes(file).unwrap();
        assert!(next.ctime > lost.ctime && next.change > lost.change, "{lost:?} {next:?}");
        assert!(changes.insert(next.change) && times.insert(next.ctime));
        last = next;
    }
}

#[test]
fn times_do_not_repeat_while_the_clock_is_stopped() {
    let mut world = World::new();
    world.tick = 0;
    let file = world.file("f");
    let mut times = HashSet::new();
    for turn in 0..500 {
        world.write_unstable(file, turn, b"x");
        assert!(times.insert(world.attributes(file).unwrap().ctime));
    }
}

#[test]
fn cookies_are_never_reused_and_listings_neither_skip_nor_repeat() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    let random = &mut Random::new(8);
    let mut given: HashMap<u64, String> = HashMap::new();
    let mut there: HashSet<String> = HashSet::new();
    for round in 0..8 {
        for number in 0..40 {
            let name = format!("{round} {number}");
            world.create(directory, &name).unwrap();
            there.insert(name);
        }
        let stays = there.clone();
        let (mut after, mut seen) = (Cookie(0), HashSet::new());
        loop {
            // Names are created and removed and layers change during the listing.
            let name = format!("meanwhile {round} {}", after.0);
            world.create(directory, &name).unwrap();
            if random.below(2) == 0 {
                world.remove(directory, &name).unwrap();
            }
            if random.below(4) == 0 {
                world.checkpoint();
            }
            let (entries, end) = world.list(directory, after, 7);
            for entry in &entries {
                let name = String::from_utf8(entry.name.to_vec()).unwrap();
                assert!(entry.cookie > after && seen.insert(name.clone()), "{name} again");
                let known = given.entry(entry.cookie.0).or_insert_with(|| name.clone());
                assert_eq!(*known, name, "a cookie never names another entry");
                after = entry.cookie;
            }
            if end {
                break;
            }
        }
        assert!(stays.is_subset(&seen), "a name that stayed was skipped");
        for name in stays.iter().filter(|_| random.below(2) == 0) {
            world.remove(directory, name).unwrap();
            there.remove(name);
        }
        world.commit();
        world.crash(round);
    }
    let unknown =
        world.answer(|v, r| v.read_directory(r, directory, Cookie(1 << 40), 10, false)).unwrap_err();
    assert_eq!(unknown.error, Error::BadCookie);
    world.check();
}

#[test]
fn inode_numbers_are_never_reused() {
    let mut world = World::new();
    let mut seen = HashSet::new();
    for round in 0..6 {
        let old = world.file("f");
        assert!(seen.insert(old));
        let handle = world.volume.handle(old);
        world.remove(Ino::ROOT, "f").unwrap();
        world.commit();
        if round % 2 == 0 {
            world.checkpoint();
        }
        world.crash(round);
        assert!(seen.insert(world.file("f")));
        assert_eq!(world.volume.resolve(&handle), Ok(old));
        assert_eq!(world.attributes(old), Err(Error::Stale));
        world.remove(Ino::ROOT, "f").unwrap();
    }
    let set = SetAttributes::default();
    world.run(|v, r| v.make_directory(r, Ino::ROOT, b"d", &set, &mut nothing)).unwrap();
}

#[test]
fn a_volume_of_another_format_is_refused_in_one_sentence() {
    let mut world = World::new();
    world.reopen();
    let disk = world.disk.after_kill();
    let index = Index::open(disk.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    let mut records = update.records().unwrap();
    let mut meta = records.get(&key::meta()).unwrap().unwrap();
    meta[..4].copy_from_slice(&5_u32.to_be_bytes());
    records.put(&key::meta(), &meta).unwrap();
    drop(records);
    update.commit().unwrap();
    drop(index);
    let said = "the volume has format 5, and this release reads only format 11: copy the files with the release that \
                wrote them";
    let media = disk as Arc<dyn Media>;
    let checked = check(&media, &CheckOptions::default()).map(|_| ()).unwrap_err();
    let opened = Volume::open(media, &OPTIONS, world.now).map(|_| ()).unwrap_err();
    assert_eq!((opened.to_string().as_str(), checked.to_string().as_str()), (said, said));
}
