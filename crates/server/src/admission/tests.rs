use std::net::IpAddr;
use std::time::Duration;

use wire::limits::RECORD_BYTES_MAX;

use super::eviction::{Because, Holder};
use super::origins::OriginKey;
use super::pace::Pace;
use super::*;
use crate::connection_origin::ConnectionOrigin;
use crate::limits::{
    FAST_PACE_TIME, KEPT_CALLS_MIN, LOOP_BYTES_MIN, OWN_PACE_MIN, OWN_PACE_TIME, PACE_TIME,
    SHORT_REPLY_ROOM_MAX, SMALL_REPLIES_BYTES, WAIT_MAX,
};

impl Admission {
    /// Returns the first connection of each origin that waits.
    pub(crate) fn waiting(&self, blocked: Blocked) -> Vec<Waiter> {
        let line = match blocked {
            Blocked::Read => &self.read_blocked,
            Blocked::Reply => &self.reply_blocked,
        };
        line.fronts().copied().collect()
    }
}

/// The record that everybody wants.
const RECORD: Want = Want::Record { length: RECORD_BYTES_MAX, counted: 0 };

/// Returns one of very many hosts.
fn host(number: u32) -> ConnectionOrigin {
    IpAddr::from((0xc633_0000 + number).to_be_bytes()).into()
}

/// A loop with a connection of each of three origins, which holds records.
struct Loop {
    admission: Admission,
    keys: [ConnectionKey; 3],
    records: [usize; 3],
    now: Instant,
}

impl Loop {
    fn new(limit: usize) -> Loop {
        let mut admission = Admission::new(limit);
        let mut index = 0;
        let keys = ["192.0.2.1", "192.0.2.2", "2001:db8::"].map(|address| {
            index += 1;
            let origin = admission.budget.origins.join(address.parse().unwrap());
            ConnectionKey { index, generation: 0, origin }
        });
        Loop { admission, keys, records: [0; 3], now: Instant::now() }
    }

    fn holding(records: [usize; 3]) -> Loop {
        let mut held = Loop::new(64 << 20);
        for (number, count) in records.into_iter().enumerate() {
            (0..count).for_each(|_| held.hold(number));
        }
        held
    }

    fn hold(&mut self, number: usize) {
        self.admission.budget.count_requests(self.keys[number].origin, 0, RECORD_BYTES_MAX);
        self.records[number] += 1;
    }

    /// Has an origin begin as many records as it may.
    fn fill(&mut self, number: usize) -> usize {
        while self.admission.may_go_on(self.keys[number], RECORD) {
            self.hold(number);
        }
        self.records[number]
    }

    fn note(&mut self, number: usize, standing: Standing) {
        self.admission.budget.origins.note(self.keys[number].origin, standing, self.now);
    }

    /// Returns the connections that give way to one of the first origin after this wait. Their records began `age` ago, and
    /// the peers of `silent` have moved nothing since.
    fn give_way(&mut self, waited: Duration, age: Duration, silent: &[usize]) -> Option<Vec<usize>> {
        let key = self.keys[0];
        self.admission.block(key, RECORD, self.now);
        let now = self.now + waited;
        let holders: Vec<Holder> = (0..3)
            .flat_map(|number| std::iter::repeat_n(number, self.records[number]))
            .map(|number| {
                let mut pace = Pace::begin(now - age);
                pace.moved(if silent.contains(&number) { 0 } else { RECORD_BYTES_MAX }, now);
                Holder { key: self.keys[number], bytes: RECORD_BYTES_MAX, because: Because::Pace(pace) }
            })
            .collect();
        let waiters = self.admission.waiting_too_long(Short::Requests, self.admission.half(key.origin), now);
        let mut candidates = self.admission.candidates(Short::Requests, holders.into_iter(), now);
        let closed = waiters.first().and_then(|waiter| self.admission.make_room(waiter, &mut candidates));
        self.admission.forget(key);
        let number = |key| self.keys.iter().position(|other| *other == key).unwrap();
        closed.map(|closed| closed.into_iter().map(number).collect())
    }
}

#[test]
fn who_waits_for_its_own_share_stops_nobody_else() {
    let mut held = Loop::new(LOOP_BYTES_MIN);
    let [greedy, other, _] = held.keys;
    assert!(held.fill(0) > 0);
    held.admission.block(greedy, RECORD, held.now);
    assert!(held.admission.waiting_too_long(Short::Requests, Half::Fast, held.now + WAIT_MAX).is_empty());
    assert!(held.admission.may_go_on(other, RECORD), "it fits");
    assert!(!held.admission.may_go_on(greedy, RECORD), "it queues behind its own");
    assert!(held.fill(1) > 0);
    held.admission.block(other, RECORD, held.now);
    for half in [Half::Fast, Half::Steady] {
        let waits = !held.admission.waiting_too_long(Short::Requests, half, held.now + WAIT_MAX).is_empty();
        assert_eq!(waits, half == Half::Fast, "both wait for memory now");
    }
}

/// Half records of one connection each kept all others of their host from sending a large one, for as long as it liked.
#[test]
fn a_connection_that_stopped_gives_way_to_another_one_of_its_origin() {
    let mut held = Loop::new(64 << 20);
    let origin = held.keys[0].origin;
    let count = held.fill(0);
    let now = held.now + OWN_PACE_TIME + Duration::from_millis(1);
    let key = |index| ConnectionKey { index, generation: 1, origin };
    let holder = |index, moved| {
        let mut pace = Pace::begin(held.now);
        pace.moved(moved, now);
        Holder { key: key(index), bytes: RECORD_BYTES_MAX, because: Because::Pace(pace) }
    };
    let kept = usize::try_from(OWN_PACE_MIN).unwrap() * 5;
    let holders: Vec<_> = (0..count).map(|index| holder(index, if index == 1 { 0 } else { kept })).collect();
    held.admission.block(key(count), RECORD, held.now);
    assert!(held.admission.wait_for_their_own(Short::Requests, now - OWN_PACE_TIME).is_empty());
    assert!(held.admission.wait_for_their_own(Short::Replies, now).is_empty());
    let waiters = held.admission.wait_for_their_own(Short::Requests, now);
    assert_eq!(waiters.iter().map(|waiter| waiter.key).collect::<Vec<_>>(), [key(count)]);
    let mut candidates = held.admission.candidates(Short::Requests, holders.into_iter(), now);
    assert_eq!(candidates.take_stopped(&waiters[0]), Some(key(1)));
    assert_eq!(candidates.take_stopped(&waiters[0]), None, "the others go on");
    assert_eq!(held.admission.budget.origins.standing(origin), Standing::Unknown);
}

#[test]
fn whoever_holds_more_gives_way_and_equals_only_if_they_stop() {
    let mut equals = Loop::holding([0, 11, 11]);
    assert_eq!(equals.give_way(WAIT_MAX / 2, FAST_PACE_TIME * 2, &[1]), None, "it has not waited long");
    assert_eq!(equals.give_way(WAIT_MAX, FAST_PACE_TIME / 2, &[1, 2]).unwrap().len(), 1, "they hold more");
    let mut greedy = Loop::holding([0, 10, 12]);
    assert_eq!(greedy.give_way(WAIT_MAX, FAST_PACE_TIME / 2, &[]), Some(vec![2]));
    let mut single = Loop::holding([20, 1, 1]);
    assert_eq!(single.give_way(WAIT_MAX, FAST_PACE_TIME / 2, &[]), None, "it does not give way to itself");
    assert_eq!(single.give_way(WAIT_MAX, FAST_PACE_TIME / 2, &[1]), None, "it may still go on");
    assert_eq!(single.give_way(WAIT_MAX, FAST_PACE_TIME * 2, &[1]), Some(vec![]), "it is not closed");
    assert_eq!(single.admission.budget.origins.standing(single.keys[1].origin), Standing::Steady);
}

#[test]
fn an_origin_that_was_fast_stays_in_its_half_once() {
    let mut held = Loop::holding([0, 1, 21]);
    held.note(1, Standing::Fast);
    held.note(2, Standing::Fast);
    for (standing, closed) in [(Standing::Unknown, vec![1]), (Standing::Steady, vec![])] {
        assert_eq!(held.give_way(WAIT_MAX, FAST_PACE_TIME * 2, &[1]), Some(closed));
        assert_eq!(held.admission.budget.origins.standing(held.keys[1].origin), standing);
    }
}

#[test]
fn a_fast_origin_that_stops_keeps_what_fits_into_the_other_half() {
    let mut held = Loop::holding([1, 21, 0]);
    let fitting = 11;
    let closed = held.give_way(WAIT_MAX, FAST_PACE_TIME * 2, &[1]).unwrap();
    assert_eq!(closed, vec![1; 21 - fitting]);
    held.admission.budget.count_requests(held.keys[1].origin, (21 - fitting) * RECORD_BYTES_MAX, 0);
    assert_eq!(held.admission.budget.excess(Short::Requests, Half::Steady, 0), 0);
    assert!(held.admission.budget.excess(Short::Requests, Half::Steady, RECORD_BYTES_MAX) > 0);
}

#[test]
fn whoever_keeps_the_least_pace_gives_way_to_nobody_once_it_is_known() {
    let mut held = Loop::holding([0, 1, 10]);
    for number in 0..3 {
        held.note(number, Standing::Steady);
    }
    assert_eq!(held.give_way(WAIT_MAX, PACE_TIME, &[1]), Some(vec![2]), "it holds more than others");
    let mut held = Loop::holding([0, 1, 1]);
    for number in 0..3 {
        held.note(number, Standing::Steady);
        held.admission.budget.count_requests(held.keys[number].origin, 0, 5 << 20);
    }
    assert_eq!(held.give_way(WAIT_MAX, PACE_TIME, &[1]), None);
    assert_eq!(held.give_way(WAIT_MAX, PACE_TIME * 2, &[1]), Some(vec![1]));
    assert_eq!(held.admission.budget.origins.standing(held.keys[1].origin), Standing::Slow);
}

#[test]
fn only_the_half_that_is_full_gives_way() {
    let mut held = Loop::holding([0, 11, 11]);
    held.note(2, Standing::Steady);
    assert_eq!(held.give_way(WAIT_MAX, PACE_TIME * 2, &[1, 2]), Some(vec![1]));
    assert_eq!(held.admission.budget.origins.standing(held.keys[1].origin), Standing::Slow);
}

#[test]
fn many_give_way_after_one_look_at_all_connections() {
    let mut admission = Admission::new(64 << 20);
    let now = Instant::now();
    let (origins, connections) = (40, 250);
    let keys: Vec<OriginKey> = (0..=origins)
        .map(|number| admission.budget.origins.join(std::net::IpAddr::from([192, 0, 2, number]).into()))
        .collect();
    let mut holders = Vec::new();
    for index in 0..usize::from(origins) * connections {
        let key = ConnectionKey { index, generation: 0, origin: keys[1 + index % usize::from(origins)] };
        let bytes = 2048 + index % 7;
        admission.budget.count_requests(key.origin, 0, bytes);
        holders.push(Holder { key, bytes, because: Because::Pace(Pace::begin(now - PACE_TIME * 2)) });
    }
    let greedy = ConnectionKey { index: holders.len(), generation: 0, origin: keys[0] };
    admission.block(greedy, RECORD, now - WAIT_MAX);
    let waiter = admission.waiting(Blocked::Read)[0];
    let all = holders.len();
    let mut candidates = admission.candidates(Short::Requests, holders.clone().into_iter(), now);
    let rounds = 1000;
    for _ in 0..rounds {
        let held = |holder: &Holder| admission.budget.origins.held(holder.key.origin).requests;
        let half = admission.full_half(&waiter, Short::Requests);
        let most = holders
            .iter()
            .filter(|holder| admission.half(holder.key.origin) == half)
            .map(held)
            .max()
            .unwrap();
        let closed = admission.make_room(&waiter, &mut candidates).unwrap();
        let closed = holders.iter().position(|holder| holder.key == closed[0]).unwrap();
        let Holder { key, bytes, .. } = holders.swap_remove(closed);
        assert_eq!(admission.budget.origins.held(key.origin).requests, most, "the greediest is first");
        admission.budget.count_requests(key.origin, bytes, 0);
    }
    assert!(candidates.looked_at <= 4 * rounds, "{} of {all}", candidates.looked_at);
}

#[test]
fn fast_ones_have_both_halves_until_another_waits() {
    let mut held = Loop::new(LOOP_BYTES_MIN);
    held.note(2, Standing::Steady);
    assert_eq!((held.fill(0), held.fill(1)), (1, 1), "more than a half");
    held.admission.block(held.keys[2], RECORD, held.now);
    held.admission.budget.count_requests(held.keys[0].origin, RECORD_BYTES_MAX, 0);
    assert!(!held.admission.may_go_on(held.keys[0], RECORD), "the other half is not theirs now");
    held.admission.block(held.keys[0], RECORD, held.now);
    let mut pass = held.admission.pass(Blocked::Read);
    let next = held.admission.next_of(&mut pass, held.now);
    assert_eq!(next.map(|waiter| waiter.key), Some(held.keys[2]));
    assert!(held.admission.next_of(&mut pass, held.now).is_none());
}

#[test]
fn small_records_overtake_large_ones_but_not_for_ever() {
    let mut held = Loop::new(LOOP_BYTES_MIN);
    held.hold(0);
    held.hold(0);
    held.admission.block(held.keys[1], RECORD, held.now);
    let small = Want::Record { length: SMALL_RECORD_BYTES_MAX, counted: 0 };
    let overtook = (0..100).filter(|_| held.admission.may_go_on(held.keys[2], small)).count();
    assert_eq!(overtook, SMALL_REQUESTS_BYTES / 2 / SMALL_RECORD_BYTES_MAX);
    held.admission.block(held.keys[2], small, held.now);
    let mut pass = held.admission.pass(Blocked::Read);
    assert!(held.admission.next_of(&mut pass, held.now).is_none(), "it waits behind the large one");
    held.admission.budget.count_requests(held.keys[0].origin, held.records[0] * RECORD_BYTES_MAX, 0);
    let mut pass = held.admission.pass(Blocked::Read);
    let next = std::iter::from_fn(|| held.admission.next_of(&mut pass, held.now));
    assert_eq!(next.map(|waiter| waiter.key).collect::<Vec<_>>(), held.keys[1..]);
    assert!(!held.admission.is_short());
}

#[test]
fn small_replies_overtake_large_ones_as_long_as_few_are_kept() {
    let mut held = Loop::new(LOOP_BYTES_MIN);
    let (small, large) = (Want::Reply(SMALL_REPLY_ROOM_MAX), Want::Reply(2 * RECORD_BYTES_MAX));
    let bytes = 4 * RECORD_BYTES_MAX;
    held.admission.budget.count_replies(held.keys[0].origin, 0, bytes);
    assert!(!held.admission.may_go_on(held.keys[1], large));
    held.admission.block(held.keys[1], large, held.now);
    // Those that are executed at once keep nothing.
    assert!((0..1000).all(|_| held.admission.may_go_on(held.keys[2], small)));
    let mut kept = 0;
    while held.admission.may_go_on(held.keys[2], small) {
        held.admission.note_kept(held.keys[2], Blocked::Reply, SMALL_REPLY_ROOM_MAX);
        kept += 1;
    }
    assert_eq!(kept, (SMALL_REQUESTS_BYTES / 2).div_ceil(SMALL_REPLY_ROOM_MAX));
    held.admission.block(held.keys[2], small, held.now);
    let mut pass = held.admission.pass(Blocked::Reply);
    assert!(held.admission.next_of(&mut pass, held.now).is_none(), "it waits behind the large one");
    held.admission.budget.count_replies(held.keys[0].origin, bytes, 0);
    let mut pass = held.admission.pass(Blocked::Reply);
    let next = std::iter::from_fn(|| held.admission.next_of(&mut pass, held.now));
    assert_eq!(next.map(|waiter| waiter.key).collect::<Vec<_>>(), held.keys[1..]);
    assert!(!held.admission.is_short());
}

#[test]
fn a_small_record_passes_no_large_one_that_waits_if_its_origin_has_its_share() {
    let mut held = Loop::new(LOOP_BYTES_MIN);
    held.hold(0);
    held.hold(0);
    held.admission.block(held.keys[1], RECORD, held.now);
    assert!(!held.admission.may_keep(held.keys[0], SMALL_RECORD_BYTES_MAX));
    let mut kept = 0;
    while held.admission.may_keep(held.keys[2], SMALL_RECORD_BYTES_MAX) {
        held.admission.note_kept(held.keys[2], Blocked::Read, SMALL_RECORD_BYTES_MAX);
        kept += 1;
    }
    assert_eq!(kept, SMALL_REQUESTS_BYTES / 2 / SMALL_RECORD_BYTES_MAX);
}

/// An example is small READs from disk: when they arrive, nothing shows that they will have to wait.
#[test]
fn short_replies_take_turns_with_large_ones_once_many_are_kept() {
    let mut held = Loop::new(LOOP_BYTES_MIN);
    let [greedy, large, modest] = held.keys;
    let short = SHORT_REPLY_ROOM_MAX / 2;
    let keep = |held: &mut Loop| {
        held.admission.note_kept(greedy, Blocked::Reply, short);
        held.admission.budget.count_kept_reply(greedy.origin, 0, short);
    };
    (0..100).for_each(|_| keep(&mut held));
    assert!(held.admission.may_begin_short(greedy, short), "nobody waits");
    held.admission.budget.count_replies(modest.origin, 0, 4 * RECORD_BYTES_MAX);
    held.admission.block(large, Want::Reply(2 * RECORD_BYTES_MAX), held.now);
    let mut kept = 0;
    while kept < 100 && held.admission.may_begin_short(greedy, short) {
        keep(&mut held);
        kept += 1;
    }
    assert_eq!(kept, OVERTAKEN_BYTES_MAX / short);
    assert!(held.admission.may_begin_short(modest, SHORT_REPLY_ROOM_MAX), "it has no calls that wait");
    held.admission.block(greedy, Want::Reply(short), held.now + WAIT_MAX);
    let mut pass = held.admission.pass(Blocked::Reply);
    assert!(held.admission.next_of(&mut pass, held.now).is_none(), "it waits behind the large one");
    held.admission.budget.count_replies(modest.origin, 4 * RECORD_BYTES_MAX, 0);
    let mut pass = held.admission.pass(Blocked::Reply);
    let next = std::iter::from_fn(|| held.admission.next_of(&mut pass, held.now));
    assert_eq!(next.map(|waiter| waiter.key).collect::<Vec<_>>(), [large, greedy]);
    (0..100 + kept).for_each(|_| held.admission.budget.count_kept_reply(greedy.origin, short, 0));
    assert_eq!(held.admission.budget.origins.held(greedy.origin).kept_short, 0);
}

/// On a slow disk such calls wait for seconds.
#[test]
fn calls_that_wait_for_media_leave_room_for_a_large_reply() {
    for (limit, hosts, is_confined) in
        [(LOOP_BYTES_MIN, 40, false), (LOOP_BYTES_MIN, 3, true), (64 << 20, 40, false), (64 << 20, 40, true)]
    {
        let mut held = Loop::new(limit);
        let [steady, large, other] = held.keys;
        if is_confined {
            held.note(0, Standing::Steady);
            held.note(2, Standing::Steady);
            held.admission.budget.count_replies(steady.origin, 0, limit / 8 * 5 / 2);
            held.admission.block(other, Want::Reply(2 * RECORD_BYTES_MAX), held.now);
        }
        let short = SHORT_REPLY_ROOM_MAX / 2;
        let mut kept = Vec::new();
        for number in 0..hosts {
            let origin = held.admission.budget.origins.join(host(number));
            while kept.len() < limit / short && held.admission.may_keep_reply(origin, short) {
                held.admission.budget.count_kept_reply(origin, 0, short);
                kept.push(origin);
            }
        }
        assert!(held.admission.may_go_on(large, Want::Reply(2 * RECORD_BYTES_MAX)), "{limit} {is_confined}");
        let last = kept.pop().unwrap();
        held.admission.budget.count_kept_reply(last, short, 0);
        assert!(held.admission.may_keep_reply(last, short));
        held.admission.budget.count_kept_reply(last, 0, short);
        assert!(!held.admission.may_keep_reply(last, short), "one for one");
        assert!(held.admission.may_keep_reply(last, 0), "it needs none");
    }
}

/// On a slow disk these end after seconds, and others come all the time.
#[test]
fn small_calls_that_wait_leave_room_for_a_large_record() {
    const CALL: usize = 600;
    for (limit, hosts) in [(LOOP_BYTES_MIN, 90), (16 << 20, 700), (64 << 20, 4000)] {
        let mut held = Loop::new(limit);
        let large = held.keys[1];
        for number in 0..hosts {
            let origin = held.admission.budget.origins.join(host(number));
            let key = ConnectionKey { index: 9, generation: 0, origin };
            let mut kept = 0;
            while held.admission.may_keep(key, CALL) {
                held.admission.budget.count_kept_call(origin, 0, CALL);
                kept += CALL;
            }
            let is_early = number < 4;
            assert!(kept >= if is_early { KEPT_CALLS_MIN - CALL } else { CALL }, "{number} may keep {kept}");
        }
        let want = Want::Record { length: RECORD_BYTES_MAX, counted: 0 };
        assert!(held.admission.may_go_on(large, want), "{limit} {hosts}");
    }
}

/// Their connections go on, and would bring more and more of them.
#[test]
fn calls_get_no_room_for_short_replies_that_all_replies_together_do_not_leave() {
    let limit = 64 << 20;
    let mut held = Loop::new(limit);
    let [_, large, other] = held.keys;
    held.admission.budget.count_kept_reply(other.origin, 0, SHORT_REPLY_ROOM_MAX);
    assert!(held.admission.may_keep_reply(other.origin, SHORT_REPLY_ROOM_MAX));
    held.admission.budget.count_replies(large.origin, 0, limit);
    assert!(!held.admission.may_keep_reply(other.origin, SHORT_REPLY_ROOM_MAX));
    held.admission.budget.count_kept_reply(other.origin, SHORT_REPLY_ROOM_MAX, 0);
    assert!(held.admission.may_keep_reply(other.origin, SHORT_REPLY_ROOM_MAX), "each may keep a little");
}

/// What it would need to have as much again free is its own share, for which it waits.
#[test]
fn one_that_holds_much_takes_from_others_only_what_it_lacks_beside_that() {
    let mut held = Loop::new(64 << 20);
    let [much, little, third] = held.keys;
    let (large, all) = (2 * RECORD_BYTES_MAX, (64 << 20) / 8 * 5 - SMALL_REPLIES_BYTES);
    let missing = 100_000;
    held.admission.budget.count_replies(much.origin, 0, 8 << 20);
    held.admission.budget.count_replies(little.origin, 0, 1000);
    held.admission.budget.count_replies(third.origin, 0, all - (8 << 20) - 1000 - large + missing);
    let lacks = |key| {
        let waiter = Waiter { key, want: Want::Reply(large), since: held.now };
        assert!(!held.admission.is_over_share(&waiter));
        held.admission.lacks(&waiter, Short::Replies)
    };
    assert_eq!((lacks(much), lacks(little)), (missing, missing + 1000));
}
