use super::*;

const DEVICE: Space = Space { total: 1 << 30, available: 1 << 29 };

#[test]
fn reservations_never_exceed_the_space_that_is_ready() {
    let ledger = SpaceLedger::default();
    assert_eq!(ledger.reserve(600, 1000), Ok(()));
    assert_eq!(ledger.reserve(401, 1000), Err(Error::Busy));
    assert_eq!(ledger.reserve(400, 1000), Ok(()));
    ledger.release(5000);
    assert_eq!(ledger.reserved(), 0, "releasing too much stops at zero");
}

#[test]
fn no_space_is_reported_only_after_background_work_is_exhausted() {
    let ledger = SpaceLedger::default();
    // Background work before the first refusal does not count.
    (0..10).for_each(|_| ledger.exhausted());
    assert!(!ledger.is_short());
    for _ in 0..EXHAUSTIONS_MAX {
        assert_eq!(ledger.reserve(1, 0), Err(Error::Busy));
        ledger.exhausted();
    }
    assert!(ledger.is_short());
    assert_eq!(ledger.reserve(1, 0), Err(Error::NoSpace));
    // The shortage ends only once ROOM_AGAIN_BYTES are available.
    ledger.refresh(ROOM_AGAIN_BYTES - 1, DEVICE, RoomToGrow::Checkpoint, true);
    assert!(ledger.is_short());
    ledger.refresh(ROOM_AGAIN_BYTES, DEVICE, RoomToGrow::Checkpoint, true);
    assert!(!ledger.is_short());
    assert_eq!(ledger.reserve(1, 0), Err(Error::Busy), "the count of attempts restarts");
}

#[test]
fn a_caller_is_refused_in_time_though_others_need_less() {
    let ledger = SpaceLedger::default();
    for _ in 0..EXHAUSTIONS_MAX {
        assert_eq!(ledger.reserve(500, 400), Err(Error::Busy));
        assert_eq!(ledger.reserve(1, 400), Ok(()));
        ledger.exhausted();
    }
    assert_eq!(ledger.reserve(500, 400), Err(Error::NoSpace));
    assert_eq!(ledger.reserve(1, 600), Ok(()));
    assert!(!ledger.is_short(), "it was answered");
    assert_eq!(ledger.reserve(500, 400), Err(Error::Busy));
    assert_eq!(ledger.reserve(1, 400), Ok(()));
    assert!(ledger.is_short());
    assert_eq!(ledger.reserve(1, 600), Ok(()));
    assert!(!ledger.is_short(), "there is space for it now");
}

#[test]
fn progress_prolongs_the_wait_within_bounds() {
    let ledger = SpaceLedger::default();
    assert_eq!(ledger.reserve(1, 0), Err(Error::Busy));
    for _ in 0..PROLONGED_MAX {
        ledger.prolong();
        assert_eq!(ledger.reserve(1, 0), Err(Error::Busy));
    }
    for _ in 0..EXHAUSTIONS_MAX {
        assert_eq!(ledger.reserve(1, 0), Err(Error::Busy));
        ledger.prolong();
    }
    assert_eq!(ledger.reserve(1, 0), Err(Error::NoSpace));
}

#[test]
fn nothing_is_reserved_without_room_for_a_checkpoint() {
    let ledger = SpaceLedger::default();
    for (room, state) in [(RoomToGrow::Nothing, false), (RoomToGrow::State, true)] {
        ledger.refresh(1 << 30, DEVICE, room, true);
        assert_eq!((ledger.can_checkpoint(), ledger.can_keep_state()), (false, state));
        assert_eq!(ledger.reserve(1, 1 << 30), Err(Error::ObjectBusy));
    }
    ledger.refresh(1 << 30, DEVICE, RoomToGrow::Checkpoint, true);
    assert_eq!(ledger.reserve(1, 1 << 30), Ok(()));
    assert_eq!(ledger.device(), DEVICE);
}

#[test]
fn on_a_full_device_callers_wait_in_nobodys_way() {
    let ledger = SpaceLedger::default();
    ledger.refresh(0, DEVICE, RoomToGrow::Checkpoint, false);
    for _ in 0..EXHAUSTIONS_MAX {
        assert_eq!(ledger.reserve(1, 0), Err(Error::ObjectBusy));
        ledger.exhausted();
    }
    assert_eq!(ledger.reserve(1, 0), Err(Error::NoSpace));
    // What was removed may become room; until it has, nobody waits behind this one either.
    ledger.removed();
    assert_eq!(ledger.reserve(1, 0), Err(Error::ObjectBusy));
}

#[test]
fn removals_without_end_do_not_have_callers_wait_without_end() {
    let ledger = SpaceLedger::default();
    ledger.refresh(0, DEVICE, RoomToGrow::Checkpoint, false);
    for round in 0..2 {
        let waits = (0..100).take_while(|_| {
            ledger.removed();
            let waits = ledger.reserve(1, 0) == Err(Error::ObjectBusy);
            ledger.exhausted();
            waits
        });
        assert_eq!(waits.count() as u64, PROLONGED_MAX + EXHAUSTIONS_MAX, "round {round}");
    }
}
