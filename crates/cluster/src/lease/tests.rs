use super::*;
use crate::limits::{INHERITED_MAX, SLOW, WATCH};

/// One lease object.
struct Store {
    version: u64,
    bytes: Vec<u8>,
}

impl Store {
    fn new() -> Store {
        Store { version: 7, bytes: LeaseRecord::unowned(identity("init", 1)).encode() }
    }

    /// Executes a call, as the store does, and returns its answer.
    fn execute(&mut self, action: Action) -> Option<Event> {
        let (call, answer) = match action {
            Action::Notify => return None,
            Action::Seal { call, .. } => (call, Answer::Sealed),
            Action::Read { call } => {
                (call, Answer::Read { version: Version(self.version), bytes: self.bytes.clone() })
            }
            Action::Write { call, version, .. } if version.0 != self.version => (call, Answer::Refused),
            Action::Write { call, record, .. } => {
                self.version += 3;
                self.bytes = record.encode();
                (call, Answer::Written { version: Version(self.version) })
            }
        };
        Some(Event::Answer { call, answer })
    }

    fn record(&self) -> LeaseRecord {
        LeaseRecord::decode(&self.bytes).unwrap()
    }

    /// Lets a lease do everything that is due, with answers that come at once.
    fn serve(&mut self, now: Time, lease: &mut Lease) {
        while let Some(action) = lease.poll(now) {
            if let Some(event) = self.execute(action) {
                lease.on_event(now, event);
            }
        }
    }

    /// Lets leases act whenever one of them is due, until `end`.
    fn serve_until(&mut self, end: Time, leases: &mut [&mut Lease]) {
        while let Some(now) = leases.iter().filter_map(|lease| lease.wake()).min()
            && now <= end
        {
            leases.iter_mut().for_each(|lease| self.serve(now, lease));
        }
    }
}

fn identity(node: &str, instance: u64) -> Identity {
    Identity::new(Name::new(node).unwrap(), instance, "").unwrap()
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn candidate(node: &str, instance: u64, now: Time) -> Lease {
    let mut lease = Lease::new(identity(node, instance), now);
    lease.stand(now, Duration::ZERO);
    lease
}

/// Returns a store and the owner of its lease, which took it at the origin.
fn owned() -> (Store, Lease) {
    let (mut store, mut lease) = (Store::new(), candidate("a", 10, at(0)));
    store.serve(at(0), &mut lease);
    assert_eq!((lease.phase(), lease.tenure(at(0))), (Phase::Owner, Tenure::Held));
    (store, lease)
}

#[test]
fn a_released_lease_is_taken_at_once_and_held_once_it_is_sealed() {
    let (mut store, mut lease) = (Store::new(), candidate("a", 10, at(5)));
    for _ in 0..2 {
        let action = lease.poll(at(5)).unwrap();
        lease.on_event(at(5), store.execute(action).unwrap());
    }
    assert_eq!(
        (lease.phase(), lease.tenure(at(5)), lease.epoch()),
        (Phase::Sealing, Tenure::Paused, Some(Epoch(1)))
    );
    assert_eq!((store.record().epoch, store.record().owner), (Epoch(1), identity("a", 10)));
    let seal = lease.poll(at(6)).unwrap();
    assert!(matches!(seal, Action::Seal { epoch: Epoch(1), .. }));
    lease.on_event(at(36), store.execute(seal).unwrap());
    assert_eq!((lease.phase(), lease.tenure(at(36))), (Phase::Owner, Tenure::Held));
    let phases = Takeover { watched: Duration::ZERO, sealed: Duration::from_millis(31) };
    assert_eq!(lease.takeover(), Some(phases));
}

#[test]
fn a_watcher_without_candidacy_takes_nothing() {
    let (mut store, mut lease) = (Store::new(), Lease::new(identity("a", 10), at(0)));
    store.serve_until(at(9000), &mut [&mut lease]);
    assert_eq!((lease.phase(), store.record().epoch), (Phase::Standby, Epoch::NONE));
    assert!(lease.seen(at(9000)).is_some_and(|(_, age)| age >= Duration::from_secs(8)));
    lease.stand(at(9000), Duration::ZERO);
    store.serve(at(9000), &mut lease);
    lease.stand_back();
    assert_eq!(lease.phase(), Phase::Owner);
}

#[test]
fn an_owner_that_renews_keeps_its_lease() {
    let (mut store, mut owner) = owned();
    let mut watcher = candidate("b", 20, at(0));
    store.serve_until(at(60_000), &mut [&mut owner, &mut watcher]);
    assert_eq!((owner.phase(), watcher.phase()), (Phase::Owner, Phase::Standby));
    assert_eq!(owner.tenure(at(60_000)), Tenure::Held);
    assert_eq!(store.record().epoch, Epoch(1));
}

#[test]
fn a_silent_owner_is_paused_before_its_lease_is_taken_and_then_loses_it() {
    let (mut store, mut owner) = owned();
    let mut watcher = candidate("b", 20, at(0));
    store.serve_until(at(1200), &mut [&mut owner, &mut watcher]);
    let renewed = at(1000);
    assert_eq!(owner.executes_until(), Some(renewed + TERM));
    store.serve_until(at(999) + WATCH, &mut [&mut watcher]);
    assert_eq!(watcher.phase(), Phase::Standby);
    assert_eq!(owner.tenure(at(2999)), Tenure::Held);
    assert_eq!(owner.tenure(at(3000)), Tenure::Paused);
    store.serve_until(at(1000) + WATCH + POLL, &mut [&mut watcher]);
    assert_eq!((watcher.phase(), watcher.epoch()), (Phase::Owner, Some(Epoch(2))));
    store.serve(at(5000), &mut owner);
    let end = End::Taken { by: Name::new("b").unwrap(), epoch: Epoch(2) };
    assert_eq!((owner.phase(), owner.tenure(at(5000))), (Phase::Ended(end), Tenure::Lost));
}

#[test]
fn an_owner_that_was_paused_goes_on_if_nobody_took_its_lease() {
    let (mut store, mut owner) = owned();
    assert_eq!(owner.tenure(at(60_000)), Tenure::Paused);
    store.serve(at(60_000), &mut owner);
    assert_eq!(owner.tenure(at(60_000)), Tenure::Held);
    assert_eq!(owner.executes_until(), Some(at(62_000)));
}

#[test]
fn the_term_begins_when_a_renewal_is_sent() {
    let (mut store, mut owner) = owned();
    let renewal = owner.poll(at(500)).unwrap();
    let answer = store.execute(renewal).unwrap();
    owner.on_event(at(1900), answer.clone());
    assert_eq!(owner.executes_until(), Some(at(2500)));
    // The next renewal is due, and an answer that comes twice changes nothing.
    let next = owner.poll(at(1900)).unwrap();
    owner.on_event(at(2000), answer);
    assert_eq!(owner.executes_until(), Some(at(2500)));
    owner.on_event(at(2100), store.execute(next).unwrap());
    assert_eq!(owner.executes_until(), Some(at(3900)));
}

#[test]
fn a_renewal_whose_answer_is_lost_is_found_by_reading() {
    let (mut store, mut owner) = owned();
    let renewal = owner.poll(at(500)).unwrap();
    let late = store.execute(renewal).unwrap();
    assert_eq!(owner.poll(at(2499)), None);
    assert_eq!(owner.wake(), Some(at(2500)));
    assert!(matches!(owner.poll(at(2500)), Some(Action::Read { .. })));
    owner.on_event(at(2600), late);
    assert_eq!(owner.tenure(at(2600)), Tenure::Paused, "nobody waits for that answer any more");
    // The answer to the read does not come either: the next one is waited for twice as long.
    assert!(matches!(owner.poll(at(6500)), Some(Action::Read { .. })));
    assert_eq!(owner.wake(), Some(at(14_500)));
    store.serve(at(14_500), &mut owner);
    assert_eq!(owner.tenure(at(14_500)), Tenure::Held);
}

#[test]
fn a_takeover_whose_answer_is_lost_is_found_by_reading() {
    let (mut store, mut lease) = (Store::new(), candidate("a", 10, at(0)));
    let read = lease.poll(at(0)).unwrap();
    lease.on_event(at(0), store.execute(read).unwrap());
    let takeover = lease.poll(at(0)).unwrap();
    store.execute(takeover).unwrap();
    store.serve_until(at(1999), &mut [&mut lease]);
    assert_eq!(lease.phase(), Phase::Standby);
    let read = lease.poll(at(2000)).unwrap();
    lease.on_event(at(2000), store.execute(read).unwrap());
    assert_eq!((lease.phase(), lease.epoch()), (Phase::Sealing, Some(Epoch(1))));
    let seal = lease.poll(at(2000)).unwrap();
    lease.on_event(at(2000), store.execute(seal).unwrap());
    assert_eq!(
        lease.tenure(at(2000)),
        Tenure::Paused,
        "no acknowledged change says from when the term counts"
    );
    store.serve(at(2000), &mut lease);
    assert_eq!(lease.tenure(at(2000)), Tenure::Held);
}

#[test]
fn a_slow_store_makes_watchers_begin_anew() {
    let (mut store, _) = owned();
    let mut watcher = candidate("b", 20, at(0));
    store.serve_until(at(2400), &mut [&mut watcher]);
    let read = lease_read(&mut watcher, at(2500));
    // The object did not change, but who knows what waits with this read.
    watcher.on_event(at(3100), store.execute(read).unwrap());
    store.serve_until(at(3100) + WATCH, &mut [&mut watcher]);
    assert_eq!(watcher.phase(), Phase::Owner);
    assert!(watcher.takeover().unwrap().watched >= WATCH);

    let mut watcher = candidate("c", 30, at(0));
    store.serve_until(at(2400), &mut [&mut watcher]);
    let lost = lease_read(&mut watcher, at(2500));
    drop(lost);
    store.serve_until(at(4500) + WATCH, &mut [&mut watcher]);
    assert_eq!(watcher.takeover().unwrap().watched, WATCH, "a read without an answer is a slow one");
}

fn lease_read(lease: &mut Lease, now: Time) -> Action {
    let read = lease.poll(now).unwrap();
    assert!(matches!(read, Action::Read { .. }), "{read:?}");
    read
}

#[test]
fn of_two_takers_the_store_chooses_one() {
    let (mut store, _) = owned();
    let (mut one, mut other) = (candidate("b", 20, at(0)), candidate("c", 30, at(0)));
    store.serve_until(at(2499), &mut [&mut one, &mut other]);
    for lease in [&mut one, &mut other] {
        let read = lease_read(lease, at(2500));
        lease.on_event(at(2500), store.execute(read).unwrap());
    }
    let takeovers = [&mut one, &mut other].map(|lease| lease.poll(at(2500)).unwrap());
    let [first, second] = takeovers.map(|takeover| store.execute(takeover).unwrap());
    one.on_event(at(2500), first);
    other.on_event(at(2500), second);
    store.serve_until(at(20_000), &mut [&mut one, &mut other]);
    assert_eq!((one.phase(), other.phase()), (Phase::Owner, Phase::Standby));
}

#[test]
fn better_nodes_come_first() {
    let (mut store, mut best) = (Store::new(), Lease::new(identity("a", 10), at(0)));
    let mut second = Lease::new(identity("b", 20), at(0));
    second.stand(at(0), Duration::from_secs(1));
    store.serve_until(at(999), &mut [&mut second]);
    assert_eq!(second.phase(), Phase::Standby);
    best.stand(at(999), Duration::ZERO);
    store.serve_until(at(4000), &mut [&mut best, &mut second]);
    assert_eq!((best.phase(), second.phase()), (Phase::Owner, Phase::Standby));
    store.serve_until(at(9000), &mut [&mut second]);
    assert_eq!(second.phase(), Phase::Owner, "the better node fell silent");
}

#[test]
fn an_offered_lease_is_taken_at_once_by_one_node_and_late_by_others() {
    let (mut store, mut owner) = owned();
    let (mut chosen, mut other) = (candidate("b", 20, at(0)), candidate("c", 30, at(0)));
    store.serve_until(at(1000), &mut [&mut owner, &mut chosen, &mut other]);
    owner.give_up(at(1010), Handover::OfferTo(Name::new("b").unwrap()));
    assert_eq!((owner.phase(), owner.tenure(at(1010))), (Phase::GivingUp, Tenure::Lost));
    let offer = owner.poll(at(1010)).unwrap();
    owner.on_event(at(1011), store.execute(offer).unwrap());
    assert_eq!(owner.phase(), Phase::Ended(End::GivenUp));
    assert_eq!((owner.poll(at(1011)), owner.poll(at(1011))), (Some(Action::Notify), None));
    other.on_event(at(1012), Event::Notified);
    store.serve(at(1012), &mut other);
    assert_eq!(other.phase(), Phase::Standby);
    chosen.on_event(at(1012), Event::Notified);
    store.serve(at(1012), &mut chosen);
    assert_eq!(chosen.phase(), Phase::Owner);

    chosen.give_up(at(1100), Handover::OfferTo(Name::new("a").unwrap()));
    store.serve(at(1100), &mut chosen);
    store.serve_until(at(1100) + WATCH, &mut [&mut other]);
    assert_eq!(other.phase(), Phase::Standby);
    store.serve_until(at(1100) + WATCH + POLL, &mut [&mut other]);
    assert_eq!(other.phase(), Phase::Owner, "the node it was offered to did not come");
}

#[test]
fn a_handover_waits_for_the_renewal_under_way_and_survives_lost_answers() {
    let (mut store, mut owner) = owned();
    let renewal = owner.poll(at(500)).unwrap();
    owner.give_up(at(510), Handover::Release);
    assert_eq!(owner.poll(at(510)), None);
    owner.on_event(at(520), store.execute(renewal).unwrap());
    assert_eq!(owner.tenure(at(520)), Tenure::Lost);
    let release = owner.poll(at(520)).unwrap();
    store.execute(release).unwrap();
    assert_eq!(store.record().state, LeaseState::Released);
    store.serve(at(2520), &mut owner);
    assert_eq!(owner.phase(), Phase::Ended(End::GivenUp));
}

#[test]
fn a_refused_seal_ends_the_lease_and_a_failed_one_is_repeated() {
    let (mut store, mut lease) = (Store::new(), candidate("a", 10, at(0)));
    for _ in 0..2 {
        let action = lease.poll(at(0)).unwrap();
        lease.on_event(at(0), store.execute(action).unwrap());
    }
    let Some(Action::Seal { call, .. }) = lease.poll(at(0)) else { panic!("no seal") };
    lease.on_event(at(100), Event::Answer { call, answer: Answer::Failed });
    assert_eq!(lease.poll(at(100)), None);
    let Some(Action::Seal { call, epoch: Epoch(1) }) = lease.poll(at(350)) else { panic!("no seal") };
    // The lease is renewed meanwhile.
    store.serve_until(at(5000), &mut [&mut lease]);
    assert_eq!((lease.phase(), lease.tenure(at(5000))), (Phase::Sealing, Tenure::Paused));
    assert_eq!(store.record().counter, 11);
    lease.on_event(at(5000), Event::Answer { call, answer: Answer::Refused });
    assert_eq!((lease.phase(), lease.poll(at(5000)), lease.wake()), (Phase::Ended(End::Fenced), None, None));
}

#[test]
fn a_fenced_process_and_one_in_whose_name_somebody_released_lose_the_lease() {
    let (_, mut owner) = owned();
    owner.on_event(at(10), Event::Fenced);
    assert_eq!((owner.phase(), owner.tenure(at(10))), (Phase::Ended(End::Fenced), Tenure::Lost));

    let (mut store, mut owner) = owned();
    assert_eq!(store.record().released_for(11), None);
    store.bytes = store.record().released_for(10).unwrap().encode();
    store.version += 1;
    assert_eq!(store.record().released_for(10), None, "it is released");
    store.serve(at(500), &mut owner);
    assert_eq!(owner.phase(), Phase::Ended(End::Released));
}

#[test]
fn a_damaged_or_missing_lease_is_not_taken() {
    let mut store = Store::new();
    store.bytes[300] ^= 1;
    let mut lease = candidate("a", 10, at(0));
    store.serve_until(at(9000), &mut [&mut lease]);
    assert_eq!((lease.phase(), lease.damage()), (Phase::Standby, Some(Damage::Checksum)));
    store.bytes[300] ^= 1;
    store.serve_until(at(9300), &mut [&mut lease]);
    assert_eq!((lease.phase(), lease.damage()), (Phase::Owner, None));

    store.bytes[300] ^= 1;
    store.version += 1;
    store.serve_until(at(10_000), &mut [&mut lease]);
    assert_eq!(lease.phase(), Phase::Ended(End::Damaged(Damage::Checksum)));

    let mut lease = candidate("b", 20, at(0));
    let Some(Action::Read { call }) = lease.poll(at(0)) else { panic!("no read") };
    lease.on_event(at(1), Event::Answer { call, answer: Answer::Missing });
    assert_eq!(lease.phase(), Phase::Ended(End::Missing));
}

#[test]
fn answers_of_the_wrong_kind_are_failures() {
    let (_, mut owner) = owned();
    let Some(Action::Write { call, .. }) = owner.poll(at(500)) else { panic!("no renewal") };
    owner.on_event(at(501), Event::Answer { call, answer: Answer::Sealed });
    assert_eq!(owner.poll(at(501)), None);
    assert!(matches!(owner.poll(at(501) + ERROR_PAUSE), Some(Action::Read { .. })));
    assert_eq!(owner.executes_until(), Some(at(2000)));
}

#[test]
fn a_watch_is_continued_by_another_process_of_the_machine_unless_too_much_may_have_been_missed() {
    let (mut store, _silent) = owned();
    let mut watcher = Lease::new(identity("b", 20), at(100));
    store.serve_until(at(1600), &mut [&mut watcher]);
    let watched = watcher.watched().unwrap();
    assert_eq!((watched.version, watched.since), (Version(store.version), at(100)));
    let heir = |now, instance| {
        let mut heir = Lease::new(identity("b", instance), now);
        heir.inherit(watched);
        heir.stand(now, Duration::ZERO);
        heir
    };
    let ripe = at(100) + WATCH;
    // It connected for too long; another version; a first read that took long.
    let mut late = heir(watched.confirmed + INHERITED_MAX + Duration::from_millis(1), 21);
    store.serve_until(ripe + Duration::from_millis(1200), &mut [&mut late]);
    assert_eq!(late.phase(), Phase::Standby);
    let mut slow = heir(at(1700), 21);
    let read = lease_read(&mut slow, at(1700));
    let answered = at(1700) + SLOW + Duration::from_millis(1);
    slow.on_event(answered, store.execute(read).unwrap());
    store.serve_until(ripe + Duration::from_millis(300), &mut [&mut slow]);
    assert_eq!(slow.phase(), Phase::Standby);
    let mut taker = heir(at(1700), 21);
    store.serve_until(at(2599), &mut [&mut taker]);
    assert_eq!(taker.phase(), Phase::Standby);
    store.serve_until(ripe + Duration::from_millis(300), &mut [&mut taker]);
    assert_eq!(taker.phase(), Phase::Owner);
    let mut other = heir(at(1700), 22);
    store.serve_until(at(3000), &mut [&mut other]);
    assert_eq!(other.phase(), Phase::Standby, "the version is another one");
}
