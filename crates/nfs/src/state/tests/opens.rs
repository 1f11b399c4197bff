//! Very many opens of one file.

use std::cell::Cell;

use super::model::Random;
use super::*;
use crate::state::files::opens::{OpenKind, Opens};
use crate::state::files::share::{Mode, Modes};
use crate::state::record::{Key, OpenRecord, Record as _};
use crate::state::stateids::entry::StateEntry;

fn mode(access: u32, deny: u32) -> Modes {
    Modes::default().with(Mode::new(access, deny).unwrap())
}

fn entry(world: &World, client: &Arc<Client>, owner: &str, modes: Modes) -> Arc<StateEntry> {
    let owner = client.open_owner(owner.as_bytes(), || OwnerSequence::new(world.now));
    let stateid = ids::StateId { seqid: 1, other: world.state.next_other(client) };
    StateEntry::open(client, file(1), stateid, &owner, modes, false)
}

/// Returns the clients with opens of a kind, in order.
fn clients(
    opens: &Opens,
    left_out: Option<&Arc<StateEntry>>,
    fits: impl Fn(OpenKind) -> bool + Copy,
) -> Vec<ids::ClientId> {
    let mut found: Vec<_> = opens.clients(left_out, fits).map(|client| client.id).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn denies(kind: OpenKind) -> bool {
    kind.mode.is_some_and(Mode::denies)
}

#[test]
fn opens_are_found_without_looking_at_each() {
    let world = World::new();
    let (one, two) = (world.client(b"one", 1, 0).0, world.client(b"two", 1, 0).0);
    let mut opens = Opens::default();
    let readers: Vec<_> =
        (0..1000).map(|number| entry(&world, &one, &format!("reader {number}"), mode(1, 0))).collect();
    readers.iter().for_each(|reader| opens.insert(reader));
    let denier = entry(&world, &two, "denier", mode(1, 2));
    opens.insert(&denier);
    let looked_at = Cell::new(0);
    let counted = |kind: OpenKind| {
        looked_at.set(looked_at.get() + 1);
        denies(kind)
    };
    assert_eq!(clients(&opens, None, counted), [two.id]);
    assert_eq!(opens.clients(None, |_| true).count(), 2, "each client once for each kind");
    assert_eq!(looked_at.get(), 2, "of each kind, one");
    assert_eq!(clients(&opens, Some(&denier), denies), []);
    for reader in &readers {
        let owner = &reader.as_open().unwrap().owner;
        assert!(Arc::ptr_eq(opens.of_owner(&one, owner).unwrap(), reader) && opens.contains(reader));
        opens.remove(reader);
        assert!(opens.of_owner(&one, owner).is_none() && !opens.contains(reader));
    }
    opens.remove(&denier);
    assert!(opens.is_empty());
}

#[test]
fn few_and_many_opens_are_found_alike() {
    let world = World::new();
    let all: Vec<_> = [b"one", b"two", b"six"].iter().map(|name| world.client(*name, 1, 0).0).collect();
    for seed in 1..=40 {
        let mut random = Random::new(seed);
        let (mut opens, mut model) = (Opens::default(), Vec::<Arc<StateEntry>>::new());
        for step in 0..400_usize {
            let growing = step % 200 < 100;
            let modes =
                mode(1 + u32::try_from(random.below(3)).unwrap(), random.below(4).try_into().unwrap());
            match random.below(4) {
                0 if !model.is_empty() => {
                    let changed = &model[random.below(model.len())];
                    opens.set_modes(changed, modes);
                }
                1 if !model.is_empty() && !growing => {
                    opens.remove(&model.swap_remove(random.below(model.len())))
                }
                2 if growing => {
                    let owner = format!("{seed} {step}");
                    model.push(entry(&world, &all[random.below(all.len())], &owner, modes));
                    opens.insert(model.last().unwrap());
                }
                _ => {}
            }
            let left_out = (!model.is_empty()).then(|| model[random.below(model.len())].clone());
            let others =
                model.iter().filter(|entry| left_out.as_ref().is_none_or(|out| !Arc::ptr_eq(out, entry)));
            let mut expected: Vec<_> = others
                .filter(|entry| entry.mode().is_some_and(Mode::denies))
                .map(|entry| entry.client.id)
                .collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(clients(&opens, left_out.as_ref(), denies), expected, "seed {seed}, step {step}");
            assert_eq!(opens.is_empty(), model.is_empty(), "seed {seed}, step {step}");
            assert!(model.iter().all(|entry| opens.contains(entry)), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn the_first_open_of_a_file_takes_the_hold_of_its_caller() {
    let world = World::new();
    let (one, two) = (world.client(b"one", 1, 0).0, world.client(b"two", 1, 0).0);
    let held = || world.memory.held.lock().get(&file(1)).copied().unwrap_or(0);
    let first = world.open(&one, b"o", file(1), (1, 0)).unwrap();
    assert_eq!((first.took_hold, held()), (true, 1));
    let second = world.open(&two, b"o", file(1), (1, 0)).unwrap();
    assert_eq!((second.took_hold, held()), (false, 1));
    for opened in [first, second] {
        assert_eq!(held(), 1);
        world.state.close(&world.context(), &opened.entry).unwrap();
    }
    assert_eq!(held(), 0);
    // An open that fails after it entered the file leaves the hold to its caller.
    world.state.remove_client(&world.context(), &two).unwrap();
    assert_eq!(refused(world.open(&two, b"o", file(1), (1, 0)).map(drop)), StateError::UnknownSession);
    assert_eq!(held(), 0);
    assert!(world.open(&one, b"o", file(1), (1, 0)).unwrap().took_hold);
}

#[test]
fn the_record_of_an_open_that_nobody_waits_for_is_whole() {
    let world = World::new();
    let client = world.client(b"one", 1, 0).0;
    let opened = world.open(&client, b"the owner", file(1), (3, 0)).unwrap();
    assert_eq!(opened.token, None);
    let key = Key::Open(file(1).ino, opened.stateid.other).to_bytes();
    let journaled = world.memory.records.lock()[&key].clone();
    let record = OpenRecord::parse(&journaled).unwrap();
    assert_eq!((&*record.owner, record.seqid), (&b"the owner"[..], 1));
    assert_eq!((record.modes, record.confirmed, record.principal), (mode(3, 0).0, true, None));
    assert!(journaled.len() <= opened.entry.bytes_max());
}
