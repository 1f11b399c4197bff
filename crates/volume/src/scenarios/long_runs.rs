//! Directories in which very many names in a row were removed.

use super::world::World;
use crate::api::ids::{Cookie, Ino};
use crate::api::request::Error;

#[test]
fn listings_pass_over_removed_names_in_turns() {
    let mut world = World::roomy();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    for number in 0..6000 {
        world.create(directory, &format!("name {number}")).unwrap();
    }
    world.checkpoint();
    // The index has the names until the next checkpoint; a memtable says that they are removed.
    for number in 0..6000 {
        world.remove(directory, &format!("name {number}")).unwrap();
    }
    let last = world.create(directory, "last").unwrap();
    let mut list = |cookie| world.run(|v, r| v.read_directory(r, directory, cookie, 10, false));
    let mut calls = 1;
    let listing = loop {
        match list(Cookie(2)) {
            Err(Error::WouldBlock) if calls < 10 => calls += 1,
            listing => break listing.unwrap(),
        }
    };
    assert_eq!(
        calls, 3,
        "4096 records at a time, of which each name has one in the index and one in a memtable"
    );
    assert_eq!(listing.entries.iter().map(|entry| entry.ino).collect::<Vec<_>>(), [last]);
    assert!(listing.end);
    let (again, _) = world.list(directory, Cookie(0), 10);
    assert_eq!(again.len(), 3, "what was learned is kept");
}
