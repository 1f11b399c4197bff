//! How many names objects and directories may have.

use super::world::World;
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::limits::LINKS_MAX;

/// Has an object in memory look as if it had so many links.
fn pretend_links(world: &World, ino: Ino, links: u32) {
    let cell = world.volume.inodes.peek(world.volume.object(ino)).unwrap();
    cell.lock().record_mut().links = links;
}

#[test]
fn nobody_uses_up_the_subdirectories_of_a_directory() {
    let mut world = World::new();
    let shared = world.mkdir(Ino::ROOT, "shared").unwrap();
    world.mkdir(Ino::ROOT, "moved").unwrap();
    pretend_links(&world, shared, LINKS_MAX);
    assert!(world.mkdir(shared, "made").is_ok());
    assert_eq!(world.rename((Ino::ROOT, "moved"), (shared, "moved")), Ok(()));
    pretend_links(&world, shared, i32::MAX as u32);
    assert_eq!(world.mkdir(shared, "too many"), Err(Error::TooManyLinks));
}

#[test]
fn a_file_has_a_bounded_number_of_names() {
    let mut world = World::new();
    let file = world.file("file");
    pretend_links(&world, file, LINKS_MAX);
    assert_eq!(world.link(file, Ino::ROOT, "too many"), Err(Error::TooManyLinks));
    pretend_links(&world, file, LINKS_MAX - 1);
    assert_eq!(world.link(file, Ino::ROOT, "the last"), Ok(()));
}
