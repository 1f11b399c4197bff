//! Peers that close their side of a connection while its calls are under way.

use std::net::Shutdown;

use super::*;
use crate::limits::LEAVING_MAX;

/// How soon the calls of a peer that left must be over: machines that run tests may be busy.
const SOON: Duration = Duration::from_secs(4);

/// Closes the sides of peers, and expects that their connections are closed soon.
fn leave(harness: &Harness, clients: &[Client]) {
    const { assert!(SOON.as_secs() > 2 * LEAVING_MAX.as_secs()) };
    let (start, closed) = (Instant::now(), harness.fake.closed.lock().len());
    clients.iter().for_each(|client| client.stream.shutdown(Shutdown::Write).unwrap());
    harness.wait_until("closing", |harness| harness.fake.closed.lock().len() == closed + clients.len());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn a_long_call_ends_soon_after_its_client_sends_no_more() {
    let harness = Harness::new(1);
    harness.fake.turns.store(u64::MAX, Ordering::SeqCst);
    let mut client = harness.client();
    (0..20).for_each(|xid| client.send(xid, BLOCK, 0));
    harness.wait_until("turns", |harness| harness.fake.turns.load(Ordering::SeqCst) < u64::MAX - 100);
    leave(&harness, &[client]);
    let turns = harness.fake.turns.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(harness.fake.turns.load(Ordering::SeqCst), turns, "a worker goes on");
    assert!(harness.held_bytes() < 100_000, "{}", harness.held_bytes());
    harness.loops.stop();
}

#[test]
fn calls_that_no_worker_has_begun_end_with_their_client() {
    let harness = Harness::new(1);
    let mut clients: Vec<Client> = ["127.0.0.2", "127.0.0.3"].map(|from| harness.client_at(from)).into();
    // A quarter of a minute for two workers.
    clients.iter_mut().for_each(|client| (0..60).for_each(|xid| client.send(xid, LONG_BLOCK, 250_000)));
    harness.wait_until("a line", |harness| harness.loops.workers.queued() > 100);
    leave(&harness, &clients);
    let mut other = harness.client();
    other.send(1, BLOCK, 0);
    assert_eq!(other.reply(), (1, 0, 0));
    harness.loops.stop();
}

#[test]
fn calls_that_wait_for_room_end_with_their_client() {
    let harness = Harness::new(1);
    harness.fake.busy.store(u64::MAX, Ordering::SeqCst);
    for procedure in [BUSY, OBSTRUCTED, TAKE] {
        let mut client = harness.client();
        (0..20).for_each(|xid| client.send(xid, procedure, 1));
        harness.wait_until("calls", |harness| harness.retry_queued() == 20);
        leave(&harness, &[client]);
        harness.wait_until("nothing", |harness| harness.retry_queued() == 0);
    }
    // Nobody waits behind them.
    harness.fake.room.store(1, Ordering::SeqCst);
    let mut other = harness.client();
    other.send(1, TAKE, 0);
    assert_eq!(other.reply(), (1, 0, 0));
    harness.loops.stop();
}

#[test]
fn a_peer_that_sends_no_more_gets_the_replies_that_need_not_much_longer() {
    let harness = Harness::new(1);
    harness.fake.turns.store(5, Ordering::SeqCst);
    let mut client = harness.client();
    client.send(1, BLOCK, 0);
    client.send(2, LONG_BLOCK, 100_000);
    client.send(3, SLOW, 1 << 20);
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut answered = [1, 2, 3].map(|_| client.reply().0);
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
    assert!(client.is_closed());
    harness.loops.stop();
}
