//! An index that cannot grow by a whole checkpoint: what is set aside for one is not used up.

use super::world::World;
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::state::StateChange;
use crate::api::trees::{TreeError, TreeState};
use crate::media::Space;
use crate::segments::space::RoomToGrow;

const DEVICE: Space = Space { total: 1 << 30, available: 0 };

/// Reports that background work can free nothing, so that callers that need room are refused.
fn exhaust(world: &World) {
    assert_eq!(world.volume.begin().map(drop), Err(Error::ObjectBusy), "the first one waits");
    (0..20).for_each(|_| world.volume.space.exhausted());
}

#[test]
fn only_changes_that_take_no_room_go_on() {
    let mut world = World::new();
    for name in ["short", "other", "removed"] {
        world.create(Ino::ROOT, name).unwrap();
    }
    let file = world.create(Ino::ROOT, "data").unwrap();
    let directory = world.mkdir(Ino::ROOT, "tree").unwrap();
    world.write(file, 0, &[7; 400_000]).unwrap();
    world.background();
    world.volume.space.refresh(1 << 30, DEVICE, RoomToGrow::State, true);
    exhaust(&world);
    let mut rename = |from, to| world.rename((Ino::ROOT, from), (Ino::ROOT, to));
    assert_eq!(rename("short", "longer"), Err(Error::NoSpace));
    assert_eq!(rename("short", "brief"), Err(Error::NoSpace), "it lies elsewhere in the index");
    assert_eq!(rename("short", "removed"), Ok(()), "there is such a name");
    exhaust(&world);
    let mut deallocate = |from, length| world.deallocate(file, from, length).map(drop);
    assert_eq!(deallocate(1, 1), Err(Error::NoSpace));
    assert_eq!(deallocate(100_000, 100_000), Ok(()));
    assert_eq!(deallocate(399_999, 1), Ok(()), "the end is cut off");
    exhaust(&world);
    let given = |size| SetAttributes { uid: Some(7), size, ..SetAttributes::default() };
    for size in [None, Some(1000), Some(1 << 30)] {
        assert_eq!(world.set(file, &given(size)), Err(Error::NoSpace), "an owner is counted");
    }
    let kept = SetAttributes { uid: Some(0), gid: Some(0), mode: Some(0o600), ..SetAttributes::default() };
    assert_eq!(world.set(file, &kept), Ok(()));
    assert_eq!(world.truncate(file, 200_000), Ok(()));
    exhaust(&world);
    assert_eq!(world.tree(directory), Err(TreeError::Failed(Error::NoSpace)));
    world.remove(Ino::ROOT, "other").unwrap();
    world.background();
    assert_eq!(world.rename((Ino::ROOT, "data"), (Ino::ROOT, "longer")), Ok(()), "there is room again");
    assert_eq!(world.tree(directory), Ok(TreeState::Ready));
    world.check();
}

#[test]
fn whatever_needs_room_waits_while_background_work_may_make_some() {
    let mut world = World::new();
    let file = world.create(Ino::ROOT, "data").unwrap();
    world.write(file, 0, &[7; 400_000]).unwrap();
    world.background();
    let refresh = |world: &World, room| world.volume.space.refresh(1 << 30, DEVICE, room, true);
    refresh(&world, RoomToGrow::State);
    let add: [&dyn Fn(&mut World) -> Result<(), Error>; 4] = [
        &|world| world.create(Ino::ROOT, "new").map(drop),
        &|world| world.mkdir(Ino::ROOT, "directory").map(drop),
        &|world| world.deallocate(file, 1, 1).map(drop),
        &|world| world.write(file, 0, &[8]),
    ];
    for add in add {
        assert_eq!(add(&mut world), Err(Error::ObjectBusy));
    }
    refresh(&world, RoomToGrow::Checkpoint);
    for add in add {
        assert_eq!(add(&mut world), Ok(()));
    }
}

#[test]
fn the_cleaner_has_a_segment_before_the_index_grows() {
    let world = World::new();
    world.volume.segments.drop_spares();
    let index = world.volume.media.index();
    let little = world.volume.limits.checkpoint_bytes(0);
    world.disk.index_file().set_room(usize::try_from(index.len().unwrap() + little).ok());
    world.volume.maintain_space();
    let space = &world.volume.space;
    assert_eq!((space.can_checkpoint(), space.can_keep_state()), (false, true));
    assert_eq!(world.volume.segments.spares(), 1);
}

#[test]
fn protocol_state_has_room_where_files_have_none() {
    let world = World::new();
    let volume = &world.volume;
    let put = |key: u8| StateChange { key: [key].into(), value: Some([key; 100][..].into()) };
    volume.space.refresh(1 << 30, DEVICE, RoomToGrow::State, true);
    exhaust(&world);
    for (room, allowed) in [(RoomToGrow::State, true), (RoomToGrow::Nothing, false)] {
        volume.space.refresh(1 << 30, DEVICE, room, true);
        assert_eq!(
            volume.change_state(&[put(1)]).map(drop),
            if allowed { Ok(()) } else { Err(Error::NoSpace) }
        );
        assert_eq!(volume.begin().map(drop), Err(Error::NoSpace));
    }
    assert!(volume.change_state(&[StateChange { value: None, ..put(1) }]).is_ok());
}
