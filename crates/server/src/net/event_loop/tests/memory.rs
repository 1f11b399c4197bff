//! The memory of many connections, and the order of calls when something is short.

use std::collections::BTreeSet;

use super::*;
use crate::limits::KEPT_CALLS_MIN;

/// More than sockets take without a reader.
const REPLIES: u32 = 16;

#[test]
fn large_replies_stay_within_the_budget() {
    let harness = Harness::new(1);
    let length = 1 << 20;
    let mut clients: Vec<Client> = (0..24).map(|_| harness.client()).collect();
    for client in &mut clients {
        for xid in 0..REPLIES {
            client.send(xid, if xid % 2 == 0 { SLOW } else { LARGE }, length);
        }
    }
    let waited = |harness: &Harness| harness.loops.counters[0].reply_blocked.load(Ordering::Relaxed) > 0;
    harness.wait_until("waiting for memory", waited);
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                let answered: BTreeSet<u32> = (0..REPLIES).map(|_| client.reply().0).collect();
                assert_eq!(answered.len(), usize::try_from(REPLIES).unwrap());
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < LOOP_BYTES_MIN / 4);
    let highest = harness.loops.counters[0].held_bytes_highest.load(Ordering::Relaxed);
    assert!((1 << 20..=LOOP_BYTES_MIN).contains(&highest), "{highest} bytes were held");
    harness.loops.stop();
}

#[test]
fn clients_that_do_not_read_do_not_block_others() {
    let harness = Harness::new(1);
    let mut silent: Vec<Client> = (0..24).map(|_| harness.client()).collect();
    for client in &mut silent {
        for xid in 0..REPLIES {
            client.send(xid, LARGE, 1 << 20);
        }
    }
    let waited = |harness: &Harness| harness.loops.counters[0].reply_blocked.load(Ordering::Relaxed) > 0;
    harness.wait_until("waiting for memory", waited);
    let mut client = harness.client();
    for xid in 0..100 {
        client.send(xid, ECHO, xid);
        assert_eq!(client.reply(), (xid, xid, 0));
    }
    let highest = harness.loops.counters[0].held_bytes_highest.load(Ordering::Relaxed);
    assert!(highest <= LOOP_BYTES_MIN, "{highest} bytes were held");
    harness.loops.stop();
}

#[test]
fn new_calls_do_not_overtake_queued_ones() {
    let harness = Harness::new(2);
    // They are distributed to both loops in turn.
    let mut clients: Vec<Client> = (0..4).map(|_| harness.client()).collect();
    let mut sent = 0;
    for client in &mut clients {
        for _ in 0..10 {
            client.send(sent, TAKE, 0);
            sent += 1;
        }
        harness.wait_until("getting in line", |harness| {
            harness.retry_queued() == usize::try_from(sent).unwrap()
        });
    }
    assert_eq!(*harness.fake.tried.lock(), BTreeSet::from([0]), "only the first in the queue is tried");
    for room in 1..=10 {
        harness.fake.room.fetch_add(1, Ordering::SeqCst);
        harness.announce();
        harness.wait_until("taking", |harness| harness.fake.taken.lock().len() == room);
        clients[0].send(sent, TAKE, 0);
        sent += 1;
    }
    harness.fake.room.store(1000, Ordering::SeqCst);
    harness.announce();
    for (number, client) in clients.iter_mut().enumerate() {
        for _ in 0..if number == 0 { 20 } else { 10 } {
            client.reply();
        }
    }
    assert_eq!(*harness.fake.taken.lock(), (0..sent).collect::<Vec<_>>());
    // The queue is empty, so new calls do not wait.
    clients[1].send(sent, TAKE, 0);
    assert_eq!(clients[1].reply().0, sent);
    harness.loops.stop();
}

#[test]
fn what_is_in_the_way_of_one_call_delays_no_others() {
    let harness = Harness::new(1);
    let [mut obstructed, mut client] = [harness.client(), harness.client_at("127.0.0.2")];
    for xid in 0..100 {
        obstructed.send(xid, OBSTRUCTED, xid % 2);
    }
    harness.wait_until("waiting", |harness| harness.retry_queued() == 100);
    for xid in 0..20 {
        client.send(xid, TAKE, 0);
        harness.wait_until("waiting for room", |harness| harness.fake.tried.lock().contains(&xid));
        // More of them join the queue behind it.
        obstructed.send(100 + xid, OBSTRUCTED, 1);
        harness.fake.room.store(1, Ordering::SeqCst);
        harness.announce();
        assert_eq!(client.reply().0, xid);
        client.send(xid, BUSY, 0);
        assert_eq!(client.reply().0, xid);
    }
    harness.fake.is_free.store(true, Ordering::SeqCst);
    let answered: BTreeSet<u32> = (0..120).map(|_| obstructed.reply().0).collect();
    assert_eq!(answered.len(), 120);
    harness.wait_until("leaving", |harness| harness.retry_queued() == 0);
    harness.loops.stop();
}

/// Its first change found room, or was done; others that need nothing but that need not wait for it.
#[test]
fn a_call_that_meets_another_limit_than_expected_waits_for_that_one() {
    let harness = Harness::new(1);
    let [mut writer, mut other] = [harness.client(), harness.client_at("127.0.0.2")];
    for xid in 0..3 {
        writer.send(xid, ELSEWHERE, 1);
    }
    harness.wait_until("waiting", |harness| harness.retry_queued() == 3);
    for xid in 10..20 {
        other.send(xid, ELSEWHERE, 0);
        assert_eq!(other.reply().0, xid);
    }
    harness.fake.room.store(3, Ordering::SeqCst);
    harness.announce();
    (0..3).for_each(|xid| assert_eq!(writer.reply().0, xid));
    harness.wait_until("leaving", |harness| harness.retry_queued() == 0);
    harness.loops.stop();
}

#[test]
fn origins_take_turns_in_a_queue() {
    let harness = Harness::new(2);
    let [mut greedy, mut other] = [harness.client(), harness.client_at("127.0.0.2")];
    for xid in 0..100 {
        greedy.send(xid, TAKE, 0);
    }
    harness.wait_until("getting in line", |harness| harness.retry_queued() == 100);
    other.send(100, TAKE, 0);
    harness.wait_until("getting in line", |harness| harness.retry_queued() == 101);
    harness.fake.room.store(2, Ordering::SeqCst);
    harness.announce();
    assert_eq!(other.reply().0, 100);
    assert_eq!(*harness.fake.taken.lock(), [0, 100]);
    harness.fake.room.store(1000, Ordering::SeqCst);
    harness.announce();
    for xid in 0..100 {
        assert_eq!(greedy.reply().0, xid);
    }
    harness.loops.stop();
}

/// Small calls that wait in line, from many connections, as many as sockets take.
struct Flood {
    clients: Vec<Client>,
    record: Vec<u8>,
    /// For each client, the bytes of the last record that were sent.
    sent: Vec<usize>,
}

impl Flood {
    /// Long calls of 16 addresses with eight connections each.
    fn new(harness: &Harness) -> Flood {
        Flood::of(harness, 128, |number| format!("127.0.2.{}", 1 + number % 16), 16_000)
    }

    fn of(harness: &Harness, connections: u32, address: fn(u32) -> String, length: usize) -> Flood {
        let clients: Vec<Client> =
            (0..connections).map(|number| harness.client_at(&address(number))).collect();
        for client in &clients {
            client.stream.set_nonblocking(true).unwrap();
        }
        Flood { sent: vec![0; clients.len()], clients, record: call(1, TAKE, 0, length) }
    }

    /// Sends more, and takes replies.
    fn go_on(&mut self) {
        for (client, sent) in self.clients.iter_mut().zip(&mut self.sent) {
            let _ = client.stream.read(&mut [0; 4096]);
            for _ in 0..16 {
                let Ok(count) = client.stream.write(&self.record[*sent..]) else { break };
                *sent = (*sent + count) % self.record.len();
            }
        }
    }

    fn go_on_for(&mut self, time: Duration, mut meanwhile: impl FnMut()) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.go_on();
            meanwhile();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn small_calls_in_line_hold_no_more_than_their_share() {
    let harness = Harness::new(1);
    let mut flood = Flood::new(&harness);
    let mut client = harness.client();
    flood.go_on_for(Duration::from_secs(1), || {
        // Calls that can be executed at once are.
        client.send(1, ECHO, 1);
        assert_eq!(client.reply(), (1, 1, 0));
    });
    let highest = harness.loops.counters[0].held_bytes_highest.load(Ordering::Relaxed);
    // With so little memory, there is room for the little of a few addresses beside a large record.
    let half = LOOP_BYTES_MIN / 8 * REQUESTS_EIGHTHS / 2;
    let bounds = 2 * KEPT_CALLS_MIN..=half - RECORD_BYTES_MAX + LENT_BYTES_MAX;
    assert!(bounds.contains(&highest), "{highest} bytes were held, not {bounds:?}");
    drop(flood);
    harness.fake.room.store(1 << 20, Ordering::SeqCst);
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < LOOP_BYTES_MIN / 8);
    harness.loops.stop();
}

/// What each address may keep is little, but that of very many would be all there is.
#[test]
fn small_calls_that_wait_of_any_number_of_addresses_leave_room_for_a_large_one() {
    let harness = Harness::new(1);
    let address = |number| format!("127.0.{}.{}", 3 + number / 100, 1 + number % 100);
    let mut flood = Flood::of(&harness, 400, address, 400);
    flood.go_on_for(Duration::from_secs(1), || {});
    let mut client = harness.client();
    for xid in 0..3 {
        client.stream.write_all(&call(xid, ECHO, 1, 1 << 20)).unwrap();
        assert_eq!(client.reply(), (xid, 1, 0));
        flood.go_on();
    }
    harness.loops.stop();
}

#[test]
fn a_large_call_goes_before_small_ones_that_come_after_it() {
    let harness = Harness::new(1);
    let mut flood = Flood::new(&harness);
    flood.go_on_for(Duration::from_secs(1), || {});
    let mut client = harness.client();
    std::thread::scope(|scope| {
        let large = scope.spawn(move || {
            for xid in 0..3 {
                client.stream.write_all(&call(xid, ECHO, 1, 1 << 20)).unwrap();
                assert_eq!(client.reply(), (xid, 1, 0));
            }
        });
        let start = Instant::now();
        while !large.is_finished() {
            assert!(start.elapsed() < Duration::from_secs(10), "it waits as long as small ones come");
            // There is room for some of them at a time.
            harness.fake.room.store(20, Ordering::SeqCst);
            harness.announce();
            flood.go_on();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    harness.loops.stop();
}

/// Calls with short replies that wait for the disk, from as many addresses, as many as sockets take.
#[test]
fn a_large_reply_goes_before_short_ones_that_wait_for_the_disk_after_it() {
    let harness = Harness::new(1);
    let connect = |number| harness.client_at(&format!("127.0.2.{}", 1 + number % 16));
    let mut crowd: Vec<Client> = (0..64).map(connect).collect();
    for client in &crowd {
        client.stream.set_nonblocking(true).unwrap();
    }
    let calls: Vec<u8> = (0..64).flat_map(|xid| call(xid, DISK, 8000, 0)).collect();
    let mut unsent = vec![0; crowd.len()];
    let mut go_on = || {
        for (client, unsent) in crowd.iter_mut().zip(&mut unsent) {
            while client.stream.read(&mut [0; 64 << 10]).is_ok_and(|count| count > 0) {}
            *unsent = if *unsent == 0 { calls.len() } else { *unsent };
            *unsent -= client.stream.write(&calls[calls.len() - *unsent..]).unwrap_or(0);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        go_on();
    }
    let mut client = harness.client();
    std::thread::scope(|scope| {
        let large = scope.spawn(move || {
            for xid in 0..3 {
                client.send(xid, LARGE, 1 << 20);
                assert_eq!(client.reply(), (xid, 1 << 20, 1 << 20));
                // Nothing is reserved for what is answered at once.
                client.send(xid, ECHO, 1);
                assert_eq!(client.reply(), (xid, 1, 0));
            }
        });
        let start = Instant::now();
        while !large.is_finished() {
            assert!(start.elapsed() < Duration::from_secs(10), "it waits as long as short ones come");
            go_on();
        }
    });
    harness.loops.stop();
}

#[test]
fn calls_that_are_answered_at_once_do_not_wait_for_room_with_those_that_are_not() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    // Far more than one origin may keep.
    for xid in 0..64 {
        client.send(xid, DISK, 8000);
    }
    client.send(64, ECHO, 1);
    let order: Vec<u32> = (0..65).map(|_| client.reply().0).collect();
    let at = order.iter().position(|xid| *xid == 64).unwrap();
    assert!(at < 32, "{order:?}");
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 65);
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < LOOP_BYTES_MIN / 8);
    harness.loops.stop();
}
