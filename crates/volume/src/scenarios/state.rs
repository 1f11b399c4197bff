//! Records of protocol state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::world::World;
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::{Durable, Error, Journaled, RequestKey};
use crate::api::results::CreateHow;
use crate::api::state::{DeferredValue, StateChange, StateKey};
use crate::limits::{STATE_BYTES_PER_ENTRY_MAX, STATE_KEY_BYTES_MAX, STATE_VALUE_BYTES_MAX};

fn put(key: &[u8], value: &[u8]) -> StateChange {
    StateChange { key: StateKey::new(key).expect("short"), value: Some(value.into()) }
}

fn delete(key: &[u8]) -> StateChange {
    StateChange { key: StateKey::new(key).expect("short"), value: None }
}

/// A value that is made as late as one of `nfs`.
#[derive(Debug)]
struct Late(Vec<u8>);

impl DeferredValue for Late {
    fn bytes_max(&self) -> usize {
        self.0.len()
    }

    fn make(&self) -> Arc<[u8]> {
        self.0.as_slice().into()
    }
}

fn defer(world: &World, key: &[u8], value: &[u8]) -> Result<(), Error> {
    world.volume.defer_state(StateKey::new(key).expect("short"), Arc::new(Late(value.to_vec())))
}

fn all(world: &World) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut last: Option<Vec<u8>> = None;
    world
        .volume
        .scan_state(&mut |key, value| {
            assert!(last.as_deref().is_none_or(|last| last < key), "keys are not in order");
            last = Some(key.to_vec());
            all.insert(key.to_vec(), value.to_vec());
        })
        .unwrap();
    all
}

fn expected(records: &[(&[u8], &[u8])]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn state_records_return_the_last_value_in_any_layer_and_after_crashes() {
    let mut world = World::new();
    let change = |world: &World, changes: &[StateChange]| world.volume.change_state(changes).unwrap();
    let after = change(&world, &[put(b"a", b"1"), put(b"", b""), put(b"b", b"1"), put(b"long key", b"1")]);
    assert_eq!(world.durable(after), Durable::NotYet);
    world.commit();
    assert_eq!(world.durable(after), Durable::Yes);
    world.checkpoint();
    change(&world, &[put(b"b", b"2"), delete(b"long key"), put(b"c", b"3")]);
    let now = expected(&[(b"", b""), (b"a", b"1"), (b"b", b"2"), (b"c", b"3")]);
    assert_eq!(all(&world), now);
    world.commit();
    for seed in 0..3 {
        world.crash(seed);
        assert_eq!(all(&world), now);
        world.checkpoint();
        assert_eq!(all(&world), now);
    }
    change(&world, &[delete(b""), delete(b"a"), delete(b"b"), delete(b"c"), delete(b"never was")]);
    assert_eq!(all(&world), expected(&[]));
    world.commit();
    world.reopen();
    assert_eq!(all(&world), expected(&[]));
}

#[test]
fn a_crash_keeps_the_state_of_an_entry_atomic() {
    let mut world = World::new();
    world.volume.change_state(&[put(b"old", b"1")]).unwrap();
    world.commit();
    world.volume.change_state(&[delete(b"old"), put(b"new", b"2")]).unwrap();
    let disk = world.disk.after_kill();
    let lost = World::open(disk, world.now());
    assert_eq!(all(&lost), expected(&[(b"old", b"1")]));
    world.commit();
    world.crash(1);
    assert_eq!(all(&world), expected(&[(b"new", b"2")]));
}

#[test]
fn state_records_are_bounded_and_long_lists_span_several_entries() {
    let world = World::new();
    let value = vec![7; STATE_VALUE_BYTES_MAX];
    let longest = put(&[1; STATE_KEY_BYTES_MAX], &value);
    assert_eq!(StateKey::new(&[1; STATE_KEY_BYTES_MAX + 1]), None);
    let wrong = put(b"k", &[0; STATE_VALUE_BYTES_MAX + 1]);
    assert_eq!(world.volume.change_state(&[longest, wrong]), Err(Error::Invalid));
    assert_eq!(all(&world).len(), 0, "a refused list stores no record");
    let many: Vec<StateChange> =
        (0..100_u8).map(|number| put(&[number; STATE_KEY_BYTES_MAX], &value)).collect();
    let before = world.volume.committer.last_queued().0;
    let after = world.volume.change_state(&many).unwrap();
    let entries = after.seq.0 - before;
    let least =
        (100 * (STATE_KEY_BYTES_MAX + STATE_VALUE_BYTES_MAX)).div_ceil(STATE_BYTES_PER_ENTRY_MAX) as u64;
    assert!((least..2 * least).contains(&entries), "{entries} entries");
    assert_eq!(all(&world).len(), 100);
    assert_eq!(world.volume.change_state(&[]).unwrap().seq.0, 0, "nothing to wait for");
    world.check();
}

#[test]
fn deferred_state_precedes_the_next_change_and_costs_nothing_if_it_is_deleted_before() {
    let mut world = World::new();
    let queued = |world: &World| world.volume.committer.last_queued();
    let before = queued(&world);
    defer(&world, b"one", b"1").unwrap();
    defer(&world, b"two", b"2").unwrap();
    assert_eq!(world.volume.change_state(&[delete(b"one")]).unwrap().seq.0, 0, "nothing to wait for");
    assert_eq!(queued(&world), before);
    // Whatever changes next, it is durable only with the record.
    let file = world.create(Ino::ROOT, "file").unwrap();
    world.commit();
    world.crash(1);
    assert_eq!(world.lookup(Ino::ROOT, "file"), Ok(file));
    assert_eq!(all(&world), expected(&[(b"two", b"2")]));
    // A journaled record is deleted in the journal.
    world.volume.change_state(&[delete(b"two")]).unwrap();
    defer(&world, b"three", b"3").unwrap();
    world.commit();
    world.crash(2);
    assert_eq!(all(&world), expected(&[]), "a crash takes back what is deferred");
    // Some are deleted, others changed.
    defer(&world, b"four", b"4").unwrap();
    world.volume.change_state(&[delete(b"four"), put(b"five", b"5")]).unwrap();
    world.commit();
    assert_eq!(all(&world), expected(&[(b"five", b"5")]));
    // Time passes, or the volume is closed.
    defer(&world, b"six", b"6").unwrap();
    world.volume.journal_deferred_state();
    world.commit();
    world.crash(3);
    defer(&world, b"seven", b"7").unwrap();
    world.reopen();
    assert_eq!(all(&world), expected(&[(b"five", b"5"), (b"seven", b"7"), (b"six", b"6")]));
}

#[test]
fn deferred_state_is_bounded() {
    let world = World::new();
    let value = vec![7; STATE_VALUE_BYTES_MAX];
    assert_eq!(defer(&world, b"key", &[7; STATE_VALUE_BYTES_MAX + 1]), Err(Error::Invalid));
    let before = world.volume.committer.last_queued().0;
    for number in 0..100_u8 {
        defer(&world, &[number; STATE_KEY_BYTES_MAX], &value).unwrap();
    }
    let least =
        (100 * (STATE_KEY_BYTES_MAX + STATE_VALUE_BYTES_MAX)).div_ceil(STATE_BYTES_PER_ENTRY_MAX) as u64;
    let entries = world.volume.committer.last_queued().0 - before;
    assert!((least - 1..2 * least).contains(&entries), "{entries} entries");
    world.volume.journal_deferred_state();
    assert_eq!(all(&world).len(), 100);
    world.check();
}

#[test]
fn an_operation_journals_state_with_its_effect() {
    let mut world = World::new();
    let key = RequestKey::new([[1; 16], [2; 16]].concat());
    let how = CreateHow::Guarded(SetAttributes::default());
    world.key = Some(key.clone());
    let mut calls = 0;
    let mut encode = |created: &crate::api::results::Created| {
        calls += 1;
        let state = vec![put(b"open", &created.attributes.ino.0.to_be_bytes())];
        Journaled { answer: Arc::from(&b"answer"[..]), state }
    };
    let directory_created =
        world.answer(|v, r| v.create_file(r, Ino::ROOT, b"file", &how, &mut encode)).unwrap().value;
    assert_eq!(calls, 1);
    let lost = World::open(world.disk.after_kill(), world.now);
    assert_eq!(all(&lost), expected(&[]), "uncommitted state is lost with its operation");
    world.commit();
    world.crash(1);
    assert_eq!(all(&world), expected(&[(b"open", &directory_created.attributes.ino.0.to_be_bytes())]));
    assert_eq!(world.lookup(Ino::ROOT, "file"), Ok(directory_created.attributes.ino));
    let mut keys = Vec::new();
    world.volume.remembered_keys(&mut |key| keys.push(key.bytes().to_vec()));
    assert_eq!(keys, [key.bytes()]);
}
