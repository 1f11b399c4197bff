//! Calls that are done in turns, for minutes, and hold what others wait for.

use super::*;

/// How soon a modest caller must be answered: machines that run tests may be busy. The calls of the attackers never end by
/// themselves.
const SOON: Duration = Duration::from_secs(4);

/// More than a CLONE or COPY needs.
const MODEST_REPLY: u32 = 6000;

/// Attackers at several addresses. Each sends its calls again when it has received all replies.
struct Attack {
    clients: Vec<Client>,
    calls: Vec<u8>,
    /// For each client, what it has to send and to receive.
    left: Vec<(usize, usize)>,
}

impl Attack {
    fn new(harness: &Harness, addresses: usize, connections: usize, calls: Vec<u8>, count: usize) -> Attack {
        let connect = |number| harness.client_at(&format!("127.0.3.{}", 1 + number % addresses));
        let clients: Vec<Client> = (0..addresses * connections).map(connect).collect();
        for client in &clients {
            client.stream.set_nonblocking(true).unwrap();
        }
        let left = vec![(calls.len(), count * (MARK_BYTES + 8)); clients.len()];
        Attack { clients, calls, left }
    }

    /// Goes on until `is_over`. Returns the number of bytes that were received: of replies to calls that ended.
    fn run(&mut self, is_over: &AtomicBool) -> usize {
        let (whole, mut received) = ((self.calls.len(), self.left[0].1), 0);
        while !is_over.load(Ordering::SeqCst) {
            for (client, (unsent, missing)) in self.clients.iter_mut().zip(&mut self.left) {
                if let Ok(count) = client.stream.write(&self.calls[self.calls.len() - *unsent..]) {
                    *unsent -= count;
                }
                if let Ok(count) = client.stream.read(&mut vec![0; *missing]) {
                    *missing -= count;
                    received += count;
                }
                if *missing == 0 {
                    (*unsent, *missing) = whole;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        received
    }
}

/// Makes a call, by another connection if this one is closed. Returns whether it was answered soon.
fn is_served(harness: &Harness, client: &mut Client, call: &[u8]) -> bool {
    let start = Instant::now();
    // This thread may not run for so long that it counts as one that stopped.
    while client.stream.write_all(call).and_then(|()| client.try_reply()).is_err() {
        if start.elapsed() >= SOON {
            return false;
        }
        *client = harness.client();
        client.stream.set_read_timeout(Some(SOON)).unwrap();
        client.stream.set_write_timeout(Some(SOON)).unwrap();
    }
    start.elapsed() < SOON
}

/// Makes calls of other clients beside an [`Attack`], whose calls must end. Each must be answered soon. One of them is long itself,
/// and must not be cut short.
fn others_are_served_beside(addresses: usize, connections: usize, calls: Vec<u8>, count: usize) {
    let ended = served_beside(addresses, connections, calls, count);
    assert!(ended.iter().all(|count| *count > 0), "no call ended: {ended:?}");
}

/// Returns how many calls of the attack ended, by the attack and by the server.
fn served_beside(addresses: usize, connections: usize, calls: Vec<u8>, count: usize) -> [u64; 2] {
    let harness = Harness::new(1);
    let mut attack = Attack::new(&harness, addresses, connections, calls, count);
    let mut modest = harness.client_at("127.0.0.7");
    modest.send(1, TURNS, MODEST_REPLY);
    let mut client = harness.client();
    client.stream.set_read_timeout(Some(SOON)).unwrap();
    client.stream.set_write_timeout(Some(SOON)).unwrap();
    let calls =
        [(ECHO, 1, 0), (LARGE, 8 << 10, 0), (LARGE, 1 << 20, 0), (SLOW, 1 << 20, 0), (ECHO, 2, 1 << 20)];
    let mut first_that_waits = |xids: std::ops::Range<u32>| {
        let mut all =
            xids.flat_map(|xid| calls.map(|(number, argument, padding)| (xid, number, argument, padding)));
        all.find(|(xid, number, argument, padding)| {
            !is_served(&harness, &mut client, &call(*xid, *number, *argument, *padding))
        })
    };
    // Hosts that are not known yet wait some seconds for fast ones.
    assert_eq!(first_that_waits(0..1), None);
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let attacking = scope.spawn(|| attack.run(&is_over));
        std::thread::sleep(Duration::from_millis(500));
        let waits = first_that_waits(1..8);
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(waits, None, "a call waits");
        [u64::try_from(attacking.join().unwrap()).unwrap(), harness.calls_cut_short()]
    });
    drop(attack);
    harness.fake.is_free.store(true, Ordering::SeqCst);
    assert_eq!(modest.reply(), (1, MODEST_REPLY, usize::try_from(MODEST_REPLY).unwrap()));
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < LOOP_BYTES_MIN / 8);
    harness.loops.stop();
    ended
}

#[test]
fn long_calls_with_large_replies_give_way() {
    others_are_served_beside(4, 4, call(1, TURNS, 1 << 20, 0), 1);
}

#[test]
fn long_calls_with_large_records_give_way() {
    others_are_served_beside(4, 4, call(1, TURNS, 1, 1 << 20), 1);
}

#[test]
fn long_calls_of_many_sizes_give_way() {
    let calls = [1 << 20, 300_000, 60_000, 10_000, 100].map(|bytes| call(1, TURNS, bytes, 0)).concat();
    others_are_served_beside(12, 2, calls, 5);
}

#[test]
fn very_many_long_calls_with_short_replies_keep_nobody_waiting() {
    let calls = (0..64).flat_map(|xid| call(xid, TURNS, 8000, 600)).collect();
    served_beside(32, 2, calls, 64);
}

#[test]
fn calls_that_wait_for_something_in_their_way_give_way() {
    others_are_served_beside(4, 4, call(1, WAITS, 1 << 20, 0), 1);
}

#[test]
fn calls_with_large_replies_that_wait_for_room_in_a_pool_give_way() {
    others_are_served_beside(4, 4, call(1, FULL, 1 << 20, 0), 1);
}

/// A WRITE, for example, waits as long as the pool takes, even if others need its memory.
#[test]
fn a_call_with_a_short_reply_that_waits_for_room_in_a_pool_does_not_end() {
    let harness = Harness::new(1);
    let mut writers = ["127.0.3.1", "127.0.3.2"].map(|address| harness.client_at(address));
    for writer in &mut writers {
        writer.stream.write_all(&call(1, FULL, 8000, 1 << 20)).unwrap();
    }
    harness.wait_until("waiting", |harness| harness.retry_queued() == 2);
    let mut client = harness.client();
    client.stream.set_nonblocking(true).unwrap();
    let _ = client.stream.write(&call(1, ECHO, 0, 1 << 20));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!((harness.calls_cut_short(), harness.retry_queued()), (0, 2));
    harness.fake.is_free.store(true, Ordering::SeqCst);
    for writer in &mut writers {
        assert_eq!(writer.reply(), (1, 8000, 8000));
    }
    harness.loops.stop();
}

/// Only the first call of a queue is tried, so that one must be there.
#[test]
fn calls_that_end_leave_their_queue() {
    let harness = Harness::new(1);
    let mut waiting: Vec<Client> =
        (1..5).map(|number| harness.client_at(&format!("127.0.3.{number}"))).collect();
    waiting.iter_mut().for_each(|client| client.send(1, FULL, 1 << 20));
    harness.wait_until("waiting", |harness| harness.retry_queued() > 1);
    let mut client = harness.client();
    client.send(2, LARGE, 1 << 20);
    assert_eq!(client.reply(), (2, 1 << 20, 1 << 20));
    assert!(harness.calls_cut_short() > 0);
    harness.fake.is_free.store(true, Ordering::SeqCst);
    for client in &mut waiting {
        let (xid, argument, _) = client.reply();
        assert!(xid == 1 && [ENDED, 1 << 20].contains(&argument), "{argument}");
    }
    harness.loops.stop();
}

/// However much it holds, and however long it takes.
#[test]
fn a_long_call_ends_only_if_somebody_waits() {
    let harness = Harness::new(1);
    let mut large = harness.client_at("127.0.0.7");
    large.send(1, TURNS, 1 << 20);
    let mut client = harness.client();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        client.send(2, SLOW, 100_000);
        assert_eq!(client.reply(), (2, 100_000, 100_000));
    }
    harness.fake.is_free.store(true, Ordering::SeqCst);
    assert_eq!(large.reply(), (1, 1 << 20, 1 << 20));
    assert_eq!(harness.calls_cut_short(), 0);
    harness.loops.stop();
}
