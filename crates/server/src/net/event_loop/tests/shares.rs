//! Memory is shared: peers that are slow, or want much, do not delay others.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::limits::{PACE_MIN, PACE_TIME};

/// The longest that a call may take while others attack: it may have to wait until some of them give way. Tests that run
/// beside this one delay it too.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// What is sent in a record of the largest size, besides the header of the call.
const LARGE_BYTES: usize = 1 << 20;

/// Runs `attack` in a thread, again and again with a pause, until `run` has ended.
fn during<T: Send>(mut attack: impl FnMut() -> T + Send, run: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = &ended;
        scope.spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                attack();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let _ends = Ends(ended);
        run();
    });
}

/// Ends the attack, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Makes small calls, WRITEs and READs of the largest size, and returns how long the slowest took.
fn slowest_call(harness: &Harness, client: &mut Client, rounds: u32) -> Duration {
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        for (procedure, argument, padding) in
            [(ECHO, 1, 0), (ECHO, 2, LARGE_BYTES), (LARGE, 1 << 20, 0), (SLOW, 1 << 20, 0)]
        {
            let start = Instant::now();
            let call = call(round, procedure, argument, padding);
            // This thread may not run for so long that it counts as one that stopped.
            while !client
                .stream
                .write_all(&call)
                .is_ok_and(|()| client.try_reply().is_ok_and(|reply| reply.0 == round))
            {
                *client = harness.client();
            }
            slowest = slowest.max(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    slowest
}

/// Attacks, again and again, beside a client that is served all the same. `attack` is given what has the server's address.
fn withstands(harness: Harness, mut attack: impl FnMut(&Harness) + Send, meanwhile: impl FnOnce(&Harness)) {
    let mut client = harness.client();
    slowest_call(&harness, &mut client, 1);
    attack(&harness);
    during(
        || attack(&harness),
        || {
            meanwhile(&harness);
            let slowest = slowest_call(&harness, &mut client, 50);
            assert!(slowest < DELAY_MAX, "{slowest:?}");
        },
    );
    let highest = harness.loops.counters[0].held_bytes_highest.load(Ordering::Relaxed);
    assert!(highest <= LOOP_BYTES_MIN, "{highest} bytes were held");
    harness.loops.stop();
}

/// Connects so many clients, from one address or several.
fn attackers(harness: &Harness, count: usize, addresses: usize) -> Vec<Client> {
    let connect = |number| harness.client_at(&format!("127.0.1.{}", 1 + number % addresses));
    let clients: Vec<Client> = (0..count).map(connect).collect();
    for client in &clients {
        client.stream.set_nonblocking(true).unwrap();
    }
    clients
}

/// Sends a part of `record` if the socket takes it. Connects again if the connection was closed.
fn trickle(harness: &Harness, client: &mut Client, sent: &mut usize, record: &[u8], until: usize) {
    match client.stream.write(&record[*sent..until.max(*sent)]) {
        Ok(count) => *sent += count,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        Err(_) => {
            let address = client.stream.local_addr().unwrap().ip();
            *client = harness.client_at(&address.to_string());
            client.stream.set_nonblocking(true).unwrap();
            *sent = 0;
        }
    }
}

/// Sends half of a large record on 60 connections, then a byte each time.
fn half_records(harness: &Harness, addresses: usize) -> impl FnMut(&Harness) + Send + use<> {
    let record = call(1, ECHO, 5, LARGE_BYTES);
    let mut halves = attackers(harness, 60, addresses);
    let mut sent = vec![0; halves.len()];
    move |harness| {
        for (half, sent) in halves.iter_mut().zip(&mut sent) {
            let until = (record.len() / 2).max((*sent + 1).min(record.len() - 1));
            trickle(harness, half, sent, &record, until);
        }
    }
}

#[test]
fn half_records_of_one_host_delay_nobody_else() {
    let harness = Harness::new(1);
    let attack = half_records(&harness, 1);
    withstands(harness, attack, |_| {});
}

#[test]
fn half_records_of_many_hosts_are_given_up() {
    let harness = Harness::new(1);
    let attack = half_records(&harness, 20);
    withstands(harness, attack, |harness| {
        // Nothing is known of a newcomer; its calls are served all the same.
        let mut newcomer = harness.client_at("127.0.0.77");
        for xid in 0..100 {
            let start = Instant::now();
            newcomer.send(xid, ECHO, 7);
            assert_eq!(newcomer.reply(), (xid, 7, 0));
            assert!(start.elapsed() < DELAY_MAX, "{:?}", start.elapsed());
        }
        // Before a large one, each of the others may have its turn.
        assert!(slowest_call(harness, &mut newcomer, 1) < DELAY_MAX);
        assert!(harness.count(|counters| &counters.evicted) > 0);
    });
}

/// Asks for large replies on 60 connections, and takes some of them each time.
fn replies_are_taken_slowly(addresses: usize) {
    let harness = Harness::new(1);
    let mut takers = attackers(&harness, 60, addresses);
    let requests: Vec<u8> = (0..16).flat_map(|xid| call(xid, LARGE, 1 << 20, 0)).collect();
    let mut asked = vec![0; takers.len()];
    let attack = |harness: &Harness| {
        for (taker, asked) in takers.iter_mut().zip(&mut asked) {
            trickle(harness, taker, asked, &requests, requests.len());
            let _ = taker.stream.read(&mut [0; 1024]);
        }
    };
    withstands(harness, attack, |_| {});
}

#[test]
fn replies_that_one_host_takes_slowly_delay_nobody_else() {
    replies_are_taken_slowly(1);
}

#[test]
fn replies_that_many_hosts_take_slowly_are_given_up() {
    replies_are_taken_slowly(20);
}

#[test]
fn small_replies_that_nobody_takes_delay_nobody_else() {
    for addresses in [1, 20] {
        let harness = Harness::new(1);
        let mut silent = attackers(&harness, 60, addresses);
        let calls: Vec<u8> = (0..20_000).flat_map(|xid| call(xid, LARGE, 3000, 0)).collect();
        let mut sent = vec![0; silent.len()];
        let attack = |harness: &Harness| {
            for (silent, sent) in silent.iter_mut().zip(&mut sent) {
                trickle(harness, silent, sent, &calls, calls.len());
            }
        };
        withstands(harness, attack, |_| {});
    }
}

#[test]
fn records_in_many_fragments_take_no_more_memory() {
    let harness = Harness::new(1);
    let fragment = [&256_u32.to_be_bytes()[..], &[7; 256][..]].concat();
    let fragments = fragment.repeat(4000);
    let mut halves = attackers(&harness, 60, 20);
    let mut sent = vec![0; halves.len()];
    let until = fragments.len() - 1000;
    let attack = |harness: &Harness| {
        for (half, sent) in halves.iter_mut().zip(&mut sent) {
            let until = until.max((*sent + 1).min(fragments.len()));
            trickle(harness, half, sent, &fragments, until);
        }
    };
    withstands(harness, attack, |_| {});
}

/// Three hosts hold all the memory for large records that there is for hosts that are not fast, and wait for more, while one
/// behind a slow link sends a large record.
#[test]
fn a_host_behind_a_slow_link_completes_a_large_record_beside_others_that_are_little_faster() {
    let harness = Harness::new(1);
    let record = call(1, ECHO, 5, LARGE_BYTES);
    let mut others = attackers(&harness, 12, 3);
    let mut sent = vec![0; others.len()];
    let attack = || {
        for (other, sent) in others.iter_mut().zip(&mut sent) {
            // 400 KiB a second.
            let until = (*sent + (20 << 10)).min(record.len());
            trickle(&harness, other, sent, &record, until);
            *sent %= record.len();
        }
    };
    let mut closed = 0;
    during(attack, || {
        let mut client = harness.client_at("127.0.0.77");
        let start = Instant::now();
        loop {
            let is_sent = record.chunks(15 << 10).all(|part| {
                std::thread::sleep(Duration::from_millis(50));
                client.stream.write_all(part).is_ok()
            });
            if is_sent && client.try_reply().is_ok() {
                break;
            }
            closed += 1;
            client = harness.client_at("127.0.0.77");
        }
        assert!(closed <= 1, "it was closed {closed} times");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    });
    harness.loops.stop();
}

#[test]
fn slow_peers_are_served_while_memory_is_not_short() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    let record = call(1, ECHO, 5, 3000);
    let start = Instant::now();
    for part in record.chunks(300) {
        client.stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(400));
    }
    assert_eq!(client.reply(), (1, 5, 0));
    let pace = record.len() as u64 * 1000 / u64::try_from(start.elapsed().as_millis()).unwrap();
    assert!(pace < u64::from(PACE_MIN) && start.elapsed() > 2 * PACE_TIME);
    assert_eq!(harness.count(|counters| &counters.evicted), 0);
    harness.loops.stop();
}

/// Connects twenty clients from one address, each of which sends all `calls`.
fn twenty_that_send(harness: &Harness, calls: &[u8]) -> Vec<Client> {
    let mut clients = attackers(harness, 20, 1);
    for client in &mut clients {
        client.stream.set_nonblocking(false).unwrap();
        client.stream.write_all(calls).unwrap();
    }
    clients
}

/// Makes a call, which must be answered in [`DELAY_MAX`].
fn is_answered_soon(client: &mut Client, xid: u32, procedure: u32) {
    let start = Instant::now();
    client.send(xid, procedure, 7);
    assert_eq!(client.reply(), (xid, 7, 0));
    assert!(start.elapsed() < DELAY_MAX, "{:?}", start.elapsed());
}

#[test]
fn calls_that_take_long_do_not_stop_a_loop() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    let calls: Vec<u8> = (0..5000).flat_map(|xid| call(xid, LONG, 500, 0)).collect();
    // 20 connections times 2.5 seconds.
    let greedy = twenty_that_send(&harness, &calls);
    for xid in 0..20 {
        is_answered_soon(&mut client, xid, ECHO);
        let start = Instant::now();
        let mut newcomer = harness.client_at("127.0.0.77");
        newcomer.send(xid, ECHO, 7);
        assert_eq!(newcomer.reply(), (xid, 7, 0));
        assert!(start.elapsed() < DELAY_MAX, "{:?}", start.elapsed());
    }
    drop(greedy);
    harness.loops.stop();
}

#[test]
fn calls_that_are_put_off_do_not_stop_a_loop() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    let mut first = harness.client();
    first.send(0, TAKE, 0);
    harness.wait_until("getting in line", |harness| harness.retry_queued() == 1);
    let calls: Vec<u8> = (0..1000).flat_map(|xid| call(xid, TAKE, 1000, 0)).collect();
    // 20 connections times a second.
    let greedy = twenty_that_send(&harness, &calls);
    for xid in 0..20 {
        is_answered_soon(&mut client, xid, ECHO);
    }
    drop(greedy);
    harness.loops.stop();
}

#[test]
fn calls_that_block_long_leave_workers_for_others() {
    let harness = Harness::new(1);
    let mut greedy = harness.client();
    for xid in 0..100 {
        greedy.send(xid, LONG_BLOCK, 100_000);
    }
    let mut client = harness.client_at("127.0.0.77");
    for xid in 0..20 {
        is_answered_soon(&mut client, xid, BLOCK);
    }
    drop(greedy);
    harness.loops.stop();
}
