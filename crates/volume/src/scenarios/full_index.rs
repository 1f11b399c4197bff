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
    let mut rename = |from, to| world.rename((Ino::ROOT, from), (Ino::ROOT, to));
    assert_eq!(rename("short", "longer"), Err(Error::NoSpace));
    assert_eq!(rename("short", "brief"), Err(Error::NoSpace), "it lies elsewhere in the index");
    assert_eq!(rename("short", "removed"), Ok(()), "there is such a name");
    let mut deallocate = |from, length| world.deallocate(file, from, length).map(drop);
    assert_eq!(deallocate(1, 1), Err(Error::NoSpace));
    assert_eq!(deallocate(100_000, 100_000), Ok(()));
    assert_eq!(deallocate(399_999, 1), Ok(()), "the end is cut off");
    let given = |size| SetAttributes { uid: Some(7), size, ..SetAttributes::default() };
    for size in [None, Some(1000), Some(1 << 30)] {
        assert_eq!(world.set(file, &given(size)), Err(Error::NoSpace), "an owner is counted");
    }
    let kept = SetAttributes { uid: Some(0), gid: Some(0), mode: Some(0o600), ..SetAttributes::default() };
    assert_eq!(world.set(file, &kept), Ok(()));
    assert_eq!(world.truncate(file, 200_000), Ok(()));
    assert_eq!(world.tree(directory), Err(TreeError::Failed(Error::NoSpace)));
    world.remove(Ino::ROOT, "other").unwrap();
    world.background();
    assert_eq!(world.rename((Ino::ROOT, "data"), (Ino::ROOT, "longer")), Ok(()), "there is room again");
    assert_eq!(world.tree(directory), Ok(TreeState::Ready));
    world.check();
}

#[test]
fn protocol_state_has_room_where_files_have_none() {
    let world = World::new();
    let volume = &world.volume;
    let put = |key: u8| StateChange { key: [key].into(), value: Some([key; 100][..].into()) };
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
