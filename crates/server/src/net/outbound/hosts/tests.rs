use std::net::{Ipv4Addr, SocketAddr};

use nfs::service::Destination;

use super::*;

fn address(number: u32) -> IpAddr {
    IpAddr::from(Ipv4Addr::from(0x0a00_0000 + number))
}

fn to(host: u32) -> Destination {
    Destination::Address(SocketAddr::new(address(host), 1))
}

/// Lets a call with the number of its host wait.
fn push(hosts: &mut Hosts, host: u32, now: Instant) -> Result<(), NoRoom> {
    hosts.push(address(host), Callback { id: host.into(), to: to(host), record: Vec::new() }, now)
}

/// Returns a call to a port of host 0, with the port's number.
fn to_port(number: u16) -> Callback {
    let to = Destination::Address(SocketAddr::new(address(0), number));
    Callback { id: number.into(), to, record: Vec::new() }
}

/// Makes a call to a port of host 0, which is its turn, and ends it. Returns the calls that end with it.
fn make(hosts: &mut Hosts, call: &Callback, how: Ending, now: Instant) -> Vec<u64> {
    hosts.push(address(0), call.clone(), now).unwrap();
    assert_eq!(begin(hosts, now), [call.id]);
    hosts.ended(address(0), call.to, how, now)
}

/// Begins all calls whose turn it is. Returns the numbers of the hosts.
fn begin(hosts: &mut Hosts, now: Instant) -> Vec<u64> {
    std::iter::from_fn(|| hosts.begin_next(now)).map(|(_, callback)| callback.id).collect()
}

/// Calls hosts, which all do the same.
fn call(hosts: &mut Hosts, numbers: std::ops::Range<u32>, how: Ending, now: Instant) {
    for number in numbers {
        push(hosts, number, now).unwrap();
        assert_eq!(begin(hosts, now), [u64::from(number)]);
        hosts.ended(address(number), to(number), how, now);
    }
}

const PROMPTLY: Ending = Ending::Answered(Duration::from_millis(20));

#[test]
fn hosts_that_answered_lately_find_a_slot_at_once() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    call(&mut hosts, 0..1, PROMPTLY, now);
    (1..600).for_each(|number| push(&mut hosts, number, now).unwrap());
    let begun = begin(&mut hosts, now).len();
    assert_eq!(begun, Standing::Unknown.slots());
    push(&mut hosts, 0, now).unwrap();
    assert_eq!(begin(&mut hosts, now), [0]);
    assert_eq!(hosts.blocked(now), Some(Standing::Unknown), "the others wait");
}

#[test]
fn unknown_hosts_find_a_slot_beside_prompt_and_silent_ones() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    call(&mut hosts, 0..300, PROMPTLY, now);
    call(&mut hosts, 300..600, Ending::Silent, now);
    let later = now + REST_MIN;
    (0..600).for_each(|number| push(&mut hosts, number, later).unwrap());
    let begun = begin(&mut hosts, later);
    assert!(begun.len() < OUTBOUND_CALLS_MAX && begun.iter().any(|number| *number >= 300));
    push(&mut hosts, 1000, later).unwrap();
    assert_eq!(begin(&mut hosts, later), [1000]);
}

#[test]
fn slow_calls_give_way_to_hosts_of_the_same_or_a_better_standing() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    call(&mut hosts, 0..1, PROMPTLY, now);
    call(&mut hosts, 1..2, Ending::Silent, now);
    let later = now + REST_MIN;
    for number in 0..2 {
        push(&mut hosts, number, later).unwrap();
    }
    assert_eq!(begin(&mut hosts, later), [0, 1]);
    assert_eq!(hosts.blocked(later), None);
    (2..300).for_each(|number| push(&mut hosts, number, later).unwrap());
    begin(&mut hosts, later);
    assert_eq!(hosts.blocked(later), Some(Standing::Unknown));
    let gives_way = |host| hosts.can_give_way(address(host), Standing::Unknown);
    assert!(gives_way(2) && !gives_way(0));
    assert!(!gives_way(1), "that would be no slot for it");
    hosts.ended(address(2), to(2), Ending::Silent, later);
    assert_eq!(begin(&mut hosts, later).len(), 1);
}

#[test]
fn silent_hosts_rest_longer_each_time_and_take_few_slots() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    let mut then = now;
    for rest in [1, 2, 4, 8, 8] {
        (0..3).for_each(|_| push(&mut hosts, 7, then).unwrap());
        assert_eq!(begin(&mut hosts, then), [7], "one call at a time");
        assert_eq!(
            hosts.ended(address(7), to(7), Ending::Silent, then),
            [7, 7],
            "it would not answer these either"
        );
        push(&mut hosts, 7, then).unwrap();
        assert!(begin(&mut hosts, then).is_empty());
        let rested = then + Duration::from_secs(rest);
        assert_eq!(hosts.next_change(then), Some(rested));
        assert_eq!(begin(&mut hosts, rested), [7]);
        hosts.ended(address(7), to(7), Ending::Failed, rested);
        then = rested;
    }
    call(&mut hosts, 100..300, Ending::Silent, then);
    then += REST_MIN;
    (100..300).for_each(|number| push(&mut hosts, number, then).unwrap());
    assert_eq!(begin(&mut hosts, then).len(), Standing::Silent.slots());
}

#[test]
fn silence_is_forgotten() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    call(&mut hosts, 0..1, Ending::Silent, now);
    let later = now + SILENCE_REMEMBERED;
    push(&mut hosts, 0, later).unwrap();
    assert_eq!(hosts.hosts[&address(0)].standing, Standing::Unknown);
}

#[test]
fn calls_to_silent_hosts_leave_the_queue_first() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    call(&mut hosts, 0..1, Ending::Silent, now);
    push(&mut hosts, 0, now).unwrap();
    (1..).take(OUTBOUND_QUEUED_MAX - 1).for_each(|number| push(&mut hosts, number, now).unwrap());
    let NoRoom(dropped, _) = push(&mut hosts, 5000, now).unwrap_err();
    assert_eq!(dropped, 0);
    let NoRoom(dropped, _) = push(&mut hosts, 1, now).unwrap_err();
    assert_eq!(dropped, 1, "the longest line");
    assert_eq!(begin(&mut hosts, now).len(), Standing::Unknown.slots());
}

/// Calls to hosts that answer give way first if most calls are for them.
#[test]
fn unknown_hosts_keep_their_calls_however_many_there_are_to_known_ones() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    let known = 0..u32::try_from(OUTBOUND_QUEUED_MAX / OUTBOUND_QUEUED_PER_HOST_MAX).unwrap() + 1;
    call(&mut hosts, known.clone(), PROMPTLY, now);
    for _ in 0..OUTBOUND_QUEUED_PER_HOST_MAX {
        known.clone().for_each(|number| drop(push(&mut hosts, number, now)));
    }
    let NoRoom(dropped, _) = push(&mut hosts, 5000, now).unwrap_err();
    assert!(dropped < u64::from(known.end), "{dropped}");
}

/// Not always those to the same host, which would never be called.
#[test]
fn of_equal_hosts_the_call_that_came_last_leaves_the_queue() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    let at = |number: u32| now + Duration::from_millis(number.into());
    let count = u32::try_from(OUTBOUND_QUEUED_MAX).unwrap();
    (0..count).for_each(|number| push(&mut hosts, number, at(number)).unwrap());
    for number in [count + 7, count + 3, count] {
        let NoRoom(dropped, _) = push(&mut hosts, number, at(number)).unwrap_err();
        assert_eq!(dropped, u64::from(number), "those before it keep their places");
    }
}

#[test]
fn calls_wait_for_a_while_only() {
    let (mut hosts, now) = (Hosts::default(), Instant::now());
    (0..300).for_each(|number| push(&mut hosts, number, now).unwrap());
    let begun = begin(&mut hosts, now).len();
    let then = now + OUTBOUND_WAIT_MAX;
    assert_eq!(hosts.next_change(now), Some(then));
    assert_eq!(hosts.take_late(then).len(), 300 - begun);
    assert!(begin(&mut hosts, then).is_empty() && hosts.blocked(then).is_none());
}

#[test]
fn few_hosts_are_remembered() {
    let (mut hosts, mut now) = (Hosts::default(), Instant::now());
    for number in 0..2 * 4096 {
        now += Duration::from_millis(1);
        call(&mut hosts, number..number + 1, PROMPTLY, now);
    }
    assert_eq!(hosts.hosts.len(), OUTBOUND_HOSTS_MAX);
    assert!(hosts.hosts.contains_key(&address(8191)) && !hosts.hosts.contains_key(&address(0)));
    call(&mut hosts, 9000..9001, Ending::Failed, now);
    assert!(!hosts.hosts.contains_key(&address(9000)), "nothing is known of it");
}

/// Another machine of the origin, or another user of the machine, must not cost a lock manager its calls.
#[test]
fn what_does_not_answer_costs_its_neighbours_of_the_origin_little() {
    let (mut hosts, now, host) = (Hosts::default(), Instant::now(), address(0));
    let (call, to_manager) = (to_port(9), to_port(4045));
    let (silent, manager) = (call.to, to_manager.to);
    assert!(make(&mut hosts, &to_manager, PROMPTLY, now).is_empty());
    for _ in 0..3 {
        hosts.push(host, call.clone(), now).unwrap();
    }
    assert_eq!(begin(&mut hosts, now), [9]);
    let to_other = to_port(111);
    for callback in [&call, &to_other, &to_manager, &call] {
        hosts.push(host, callback.clone(), now).unwrap();
    }
    assert_eq!(hosts.ended(host, silent, Ending::Silent, now), [9, 9, 9, 9], "the others stay");
    hosts.push(host, call.clone(), now).unwrap();
    let rested = now + REST_MIN;
    assert_eq!(hosts.next_change(now), Some(rested));
    assert_eq!(begin(&mut hosts, rested), [4045], "it answered lately");
    hosts.ended(host, manager, PROMPTLY, rested);
    assert_eq!(begin(&mut hosts, rested), [111]);
    hosts.ended(host, to_other.to, Ending::Failed, rested);
    assert_eq!(begin(&mut hosts, rested), [9]);
    // One that answered rests no longer than a second, however often others did not.
    let mut then = rested;
    for _ in 0..4 {
        assert!(hosts.ended(host, silent, Ending::Silent, then).is_empty());
        hosts.push(host, call.clone(), then).unwrap();
        then = hosts.next_change(then).unwrap();
        assert_eq!(begin(&mut hosts, then), [9]);
    }
    hosts.ended(host, silent, Ending::Silent, then);
    hosts.push(host, call.clone(), then).unwrap();
    hosts.push(host, to_manager, then).unwrap();
    assert!(begin(&mut hosts, then).is_empty());
    assert_eq!(begin(&mut hosts, then + REST_MIN), [4045]);
}

#[test]
fn a_full_line_has_room_for_what_answered_lately() {
    let (mut hosts, now, host) = (Hosts::default(), Instant::now(), address(0));
    let (call, to_manager) = (to_port(9), to_port(4045));
    make(&mut hosts, &to_manager, PROMPTLY, now);
    let refused = (0..=OUTBOUND_QUEUED_PER_HOST_MAX).find(|_| hosts.push(host, call.clone(), now).is_err());
    assert_eq!(refused, Some(OUTBOUND_QUEUED_PER_HOST_MAX));
    assert_eq!(hosts.push(host, to_manager.clone(), now).unwrap_err().0, 9);
    assert_eq!(hosts.waiting, OUTBOUND_QUEUED_PER_HOST_MAX);
    assert_eq!(hosts.begin_next(now).unwrap().1, to_manager);
}

/// Many locks of one host may become free at the same time.
#[test]
fn what_answers_after_a_silence_of_its_neighbours_is_called_again_at_once() {
    let (mut hosts, now, host) = (Hosts::default(), Instant::now(), address(0));
    let (call, to_manager) = (to_port(9), to_port(4045));
    let (silent, manager) = (call.to, to_manager.to);
    make(&mut hosts, &to_manager, PROMPTLY, now);
    let mut then = now;
    for _ in 0..4 {
        hosts.push(host, call.clone(), then).unwrap();
        then = hosts.next_change(then).map_or(then, |at| at.max(then));
        assert_eq!(begin(&mut hosts, then), [9]);
        hosts.ended(host, silent, Ending::Silent, then);
    }
    (0..3).for_each(|_| hosts.push(host, to_manager.clone(), then).unwrap());
    then += REST_MIN;
    for _ in 0..3 {
        assert_eq!(begin(&mut hosts, then), [4045]);
        hosts.ended(host, manager, PROMPTLY, then);
    }
}

#[test]
fn what_answers_all_the_time_leaves_turns_to_others_of_its_origin() {
    let (mut hosts, now, host) = (Hosts::default(), Instant::now(), address(0));
    let (call, to_manager) = (to_port(9), to_port(4045));
    let manager = to_manager.to;
    make(&mut hosts, &to_manager, PROMPTLY, now);
    hosts.push(host, call, now).unwrap();
    let mut then = now;
    let is_called = (0..40).any(|_| {
        hosts.push(host, to_manager.clone(), then).unwrap();
        let begun = begin(&mut hosts, then);
        hosts.ended(host, manager, PROMPTLY, then);
        then += Duration::from_millis(400);
        begun == [9]
    });
    assert!(is_called, "before it has waited for {OUTBOUND_WAIT_MAX:?}");
}

#[test]
fn a_refused_call_does_not_make_a_host_forget_what_answered() {
    let (mut hosts, now, host) = (Hosts::default(), Instant::now(), address(0));
    let (call, to_manager) = (to_port(9), to_port(4045));
    make(&mut hosts, &to_manager, PROMPTLY, now);
    make(&mut hosts, &call, Ending::Failed, now);
    hosts.push(host, call, now).unwrap();
    hosts.push(host, to_manager, now).unwrap();
    assert_eq!(begin(&mut hosts, now), [4045]);
}
