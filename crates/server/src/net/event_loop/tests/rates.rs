//! Rate limits: what they hold, in which order, and what they leave alone.

use super::*;
use crate::counters::phases::Phase;
use crate::limits::WAIT_MAX;
use crate::net::callbacks::loop_of;
use crate::net::mailbox::Message;
use crate::rates::Kind;
use crate::rates::setting::{Rate, SettingChange};

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// More than the output buffers that a loop keeps in these tests.
const KEPT_MAX: usize = 50_000;

fn limit(harness: &Harness, kind: Kind, name: &str, rate: Rate, most: Option<u64>) {
    let change = SettingChange { limits: [(rate, most)].into(), ..SettingChange::default() };
    harness.rates.change(kind, name, &change).unwrap();
}

fn held(harness: &Harness) -> usize {
    let count = |counters: &Arc<Counters>| counters.rate_held.load(Ordering::Relaxed);
    harness.loops.counters.iter().map(count).sum()
}

#[test]
fn reads_pass_at_the_rate_of_their_volume() {
    let harness = Harness::new(2);
    limit(&harness, Kind::Volume, "volume 1", Rate::ReadBytes, Some(10 * MIB));
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..4).map(|_| harness.client()).collect();
    for client in &mut clients {
        (0..10).for_each(|xid| client.send(xid, LARGE, 256 << 10));
    }
    for client in &mut clients {
        let mut xids: Vec<u32> = (0..10).map(|_| client.reply().0).collect();
        xids.sort_unstable();
        assert_eq!(xids, (0..10).collect::<Vec<_>>());
    }
    // 10 MiB, of which a burst of 1 MiB passes at once.
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(850), "{took:?}");
    harness.wait_until("an empty queue", |harness| held(harness) == 0);
}

#[test]
fn reads_of_several_volumes_pass_at_the_rate_of_each() {
    let harness = Harness::new(2);
    limit(&harness, Kind::Volume, "volume 2", Rate::ReadBytes, Some(10 * MIB));
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, Some(100));
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..4).map(|_| harness.client()).collect();
    for client in &mut clients {
        (0..10).for_each(|xid| client.send(xid, APART, 256 << 10));
    }
    for client in &mut clients {
        let xids: BTreeSet<u32> = (0..10).map(|_| client.reply().0).collect();
        assert_eq!(xids, (0..10).collect());
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(850), "volume 2 lets 10 MiB pass: {took:?}");
    harness.wait_until("an empty queue", |harness| held(harness) == 0);
    // Now volume 1 is the narrow one: 10 pass with the burst.
    limit(&harness, Kind::Volume, "volume 2", Rate::ReadBytes, Some(1 << 40));
    let start = Instant::now();
    (0..40).for_each(|xid| clients[0].send(xid, APART, 1));
    let answered = (0..40).map(|_| clients[0].reply()).count();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(250), "volume 1 lets {answered} operations pass: {took:?}");
}

#[test]
fn urgent_calls_overtake_what_is_held() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Target, "target", Rate::TotalBytes, Some(MIB));
    let mut client = harness.client();
    (0..4).for_each(|xid| client.send(xid, LARGE, 1 << 20));
    client.send(9, HOLD, 0);
    // The first passes with the burst.
    let (first, second) = (client.reply().0, client.reply().0);
    assert_eq!((first, second), (0, 9));
    harness.wait_until("calls held", |harness| held(harness) > 0);
    // A higher limit lets them go at once.
    limit(&harness, Kind::Target, "target", Rate::TotalBytes, Some(1 << 40));
    let start = Instant::now();
    let rest: BTreeSet<u32> = (0..3).map(|_| client.reply().0).collect();
    assert_eq!(rest, BTreeSet::from([1, 2, 3]));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn workers_execute_large_calls_that_were_held() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    let mut held_with = |bytes| {
        limit(&harness, Kind::Target, "target", Rate::TotalOps, Some(10));
        (0..20).for_each(|xid| client.stream.write_all(&call(xid, ECHO, 0, bytes)).unwrap());
        harness.wait_until("calls held", |harness| held(harness) > 0);
        limit(&harness, Kind::Target, "target", Rate::TotalOps, None);
        let xids: BTreeSet<u32> = (0..20).map(|_| client.reply().0).collect();
        assert_eq!(xids, (0..20).collect());
        harness.count(|counters| &counters.blocked)
    };
    assert_eq!(held_with(100), 0);
    assert!(held_with(100_000) > 0);
}

#[test]
fn a_client_that_leaves_takes_what_is_held_along() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Client, "*", Rate::TotalOps, Some(10));
    let mut client = harness.client();
    for xid in 0..30 {
        client.stream.write_all(&call(xid, ECHO, 0, 10_000)).unwrap();
    }
    harness.wait_until("calls held", |harness| held(harness) > 20 && harness.held_bytes() > 4 * KEPT_MAX);
    drop(client);
    harness.wait_until("nothing held", |harness| held(harness) == 0 && harness.held_bytes() < KEPT_MAX);
}

#[test]
fn what_is_held_for_one_client_is_bounded_and_others_are_served() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Client, "127.0.0.1", Rate::TotalOps, Some(10));
    let mut greedy: Vec<Client> = (0..8).map(|_| harness.client()).collect();
    for client in &mut greedy {
        // Nobody takes the replies; the socket holds the rest.
        client.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        for xid in 0..200 {
            if client.stream.write_all(&call(xid, ECHO, 0, 100_000)).is_err() {
                break;
            }
        }
    }
    harness.wait_until("calls held", |harness| held(harness) > 0);
    let limit = harness.loops.counters[0].held_bytes_max.load(Ordering::Relaxed);
    assert!(harness.held_bytes() < limit / 4, "{} of {limit}", harness.held_bytes());
    let mut other = harness.client_at("127.0.0.2");
    let start = Instant::now();
    for xid in 0..100 {
        other.send(xid, ECHO, 0);
        assert_eq!(other.reply().0, xid);
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn a_released_call_goes_on_though_its_connection_waits_for_memory() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Target, "target", Rate::TotalOps, Some(10));
    let mut client = harness.client();
    let mut sender = client.stream.try_clone().unwrap();
    // Together they are more than the loop has memory for; each is held.
    let sending = std::thread::spawn(move || {
        (0..8).for_each(|xid| sender.write_all(&call(xid, ECHO, 0, 1 << 20)).unwrap());
    });
    (0..8).for_each(|xid| assert_eq!(client.reply().0, xid));
    sending.join().unwrap();
    drop(client);
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < 1000);
}

#[test]
fn a_connection_goes_on_when_another_one_leaves_with_what_was_held() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Client, "*", Rate::TotalBytes, Some(MIB));
    let (mut first, mut second) = (harness.client(), harness.client());
    // One passes with the burst, and three are as much as may be held for a client.
    (0..4).for_each(|xid| first.stream.write_all(&call(xid, LARGE, 1 << 20, 150_000)).unwrap());
    harness.wait_until("calls held", |harness| held(harness) == 3);
    second.stream.write_all(&call(9, LARGE, 1 << 20, 150_000)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // A malformed record closes the connection.
    first.stream.write_all(&u32::MAX.to_be_bytes()).unwrap();
    harness
        .wait_until("closing", |harness| harness.loops.counters[0].connections.load(Ordering::Relaxed) == 1);
    assert_eq!(second.reply().0, 9);
}

/// Returns for how long calls were in a phase, all together.
fn spent(harness: &Harness, phase: Phase) -> Duration {
    let tallied = harness.loops.counters.iter().flat_map(|counters| counters.calls.volumes.entries());
    let nanos = tallied.map(|(_, volume)| volume.phases[phase as usize].load(Ordering::Relaxed));
    Duration::from_nanos(nanos.sum())
}

/// A call comes to wait in a queue only when there is room; before, its connection is not read.
#[test]
fn time_in_a_connection_that_is_not_read_counts_as_throttled() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, Some(10));
    let mut client = harness.client();
    // The burst covers one call, and 40 more are held, the maximum. The next call waits until half of these have been released;
    // the calls after it remain unread in the socket.
    (0..52).for_each(|xid| client.send(xid, ECHO, 0));
    harness.wait_until("calls held", |harness| held(harness) == 40);
    harness.wait_until("room for another one", |harness| held(harness) <= 20);
    std::thread::sleep(Duration::from_millis(100));
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, None);
    let xids: BTreeSet<u32> = (0..52).map(|_| client.reply().0).collect();
    assert_eq!(xids, (0..52).collect());
    harness.wait_until("counting", |harness| spent(harness, Phase::Qos) > 40 * SECOND);
    let queued = spent(&harness, Phase::Queue);
    assert!(queued < SECOND, "{queued:?} of queueing");
}

/// Four seconds of the limit wait in the queue; the rest waits in the connections.
#[test]
fn a_removed_limit_lets_all_go_at_once() {
    let harness = Harness::new(2);
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, Some(10));
    let mut clients: Vec<Client> = (0..8).map(|_| harness.client()).collect();
    for client in &mut clients {
        (0..100).for_each(|xid| client.send(xid, ECHO, 0));
    }
    harness.wait_until("calls held", |harness| held(harness) >= 40);
    let start = Instant::now();
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, None);
    for client in &mut clients {
        let xids: BTreeSet<u32> = (0..100).map(|_| client.reply().0).collect();
        assert_eq!(xids.len(), 100);
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    drop(clients);
    harness.wait_until("nothing held", |harness| held(harness) == 0 && harness.held_bytes() < KEPT_MAX);
}

/// Its client is gone, or has connected again and will repeat the calls.
#[test]
fn a_broken_connection_frees_what_it_held_at_once() {
    let harness = Harness::new(2);
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, Some(10));
    let mut others: Vec<Client> = (0..4).map(|_| harness.client_at("127.0.0.2")).collect();
    let mut broken: Vec<Client> = (0..4).map(|_| harness.client()).collect();
    for client in others.iter_mut().chain(&mut broken) {
        (0..100).for_each(|xid| client.send(xid, ECHO, 0));
    }
    harness.wait_until("calls held", |harness| held(harness) >= 40);
    for client in broken {
        // Closing it resets the connection.
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
    }
    let start = Instant::now();
    harness.wait_until("closing", |harness| harness.fake.closed.lock().len() == 4);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    drop(others);
}

/// Its peer may have gone, and others of the host would wait behind its calls.
#[test]
fn a_connection_whose_peer_sends_no_more_keeps_no_places() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Volume, "volume 1", Rate::TotalOps, Some(10));
    let mut leaving: Vec<Client> = (0..4).map(|_| harness.client()).collect();
    for client in &mut leaving {
        // Some are held, and the others wait behind them.
        (0..300).for_each(|xid| client.send(xid, ECHO, 0));
    }
    harness.wait_until("calls held", |harness| held(harness) >= 30);
    let start = Instant::now();
    leaving.iter().for_each(|client| client.stream.shutdown(std::net::Shutdown::Write).unwrap());
    harness.wait_until("closing", |harness| harness.fake.closed.lock().len() == 4);
    harness.wait_until("nothing held", |harness| held(harness) == 0 && harness.held_bytes() < KEPT_MAX);
    let mut other = harness.client();
    other.send(1, ECHO, 0);
    other.reply();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// What they write waits for memory that their own calls hold.
#[test]
fn throttled_clients_go_on_while_memory_is_short_and_leave_some_to_others() {
    const CALL: u32 = 1 << 20;
    let memory = 64 << 20;
    let harness = Harness::with_memory("127.0.0.1:0", 1, CONNECTIONS_MAX, memory);
    let addresses = ["127.0.0.10", "127.0.0.11", "127.0.0.12", "127.0.0.13"];
    addresses.iter().for_each(|address| limit(&harness, Kind::Client, address, Rate::TotalOps, Some(20)));
    let throttled: Vec<Client> =
        addresses.iter().flat_map(|address| (0..8).map(|_| harness.client_at(address))).collect();
    let sending = throttled.iter().map(|client| {
        let mut stream = client.stream.try_clone().unwrap();
        std::thread::spawn(move || while stream.write_all(&payload(7, CALL)).is_ok() {})
    });
    let sending: Vec<_> = sending.collect();
    harness.wait_until("calls held", |harness| held(harness) > 0);
    std::thread::sleep(Duration::from_secs(2));
    let held_bytes = harness.held_bytes();
    let executed = harness.fake.connections.lock().len();
    let mut other = harness.client();
    let mut longest = Duration::ZERO;
    for xid in 0..20 {
        let start = Instant::now();
        other.stream.write_all(&payload(xid, CALL)).unwrap();
        assert_eq!(other.reply().0, xid);
        longest = longest.max(start.elapsed());
    }
    for client in &throttled {
        let _ = client.stream.shutdown(std::net::Shutdown::Both);
    }
    sending.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(executed > 120, "{executed} of 160 calls in two seconds");
    assert!(held_bytes <= memory / 2, "{held_bytes}");
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

fn payload(xid: u32, length: u32) -> Vec<u8> {
    call(xid, PAYLOAD, length, usize::try_from(length).unwrap())
}

/// A client must be able to return what is recalled while its calls are held.
#[test]
fn callbacks_and_their_replies_pass_what_is_held() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Client, "*", Rate::TotalOps, Some(10));
    let mut client = harness.client();
    client.send(0, ECHO, 0);
    client.reply();
    let id = harness.fake.connections.lock()[0];
    (1..20).for_each(|xid| client.send(xid, ECHO, 0));
    harness.wait_until("calls held", |harness| held(harness) > 10);
    let start = Instant::now();
    harness.loops.mailboxes[loop_of(id, 1)].send(Message::Send(id, 7, call(700, ECHO, 0, 0)));
    while client.reply().0 != 700 {}
    let mut answer = call(701, ECHO, 0, 0);
    answer[MARK_BYTES + 7] = 1;
    client.stream.write_all(&answer).unwrap();
    while client.reply().0 != 701 {}
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    assert!(held(&harness) > 0);
}

#[test]
fn what_is_held_for_many_clients_keeps_no_memory_that_others_need() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Client, "*", Rate::TotalBytes, Some(MIB));
    limit(&harness, Kind::Client, "127.0.0.1", Rate::TotalBytes, Some(1 << 40));
    let throttled: Vec<Client> = (10..22)
        .flat_map(|host| [host; 2])
        .map(|host| harness.client_at(&format!("127.0.0.{host}")))
        .collect();
    for client in &throttled {
        let mut sender = client.stream.try_clone().unwrap();
        // Those that give way fail.
        std::thread::spawn(move || {
            (0..100).try_for_each(|xid| sender.write_all(&call(xid, CHARGED, 4 << 20, 1_000_000)))
        });
    }
    harness.wait_until("calls held", |harness| held(harness) > 1);
    let mut other = harness.client();
    for xid in 0..20 {
        let start = Instant::now();
        other.stream.write_all(&call(xid, ECHO, 0, 1_000_000)).unwrap();
        assert_eq!(other.reply().0, xid);
        // One of each other host may have to give way first.
        let most = if xid == 0 { 12 * 2 * WAIT_MAX + SECOND } else { SECOND };
        assert!(start.elapsed() < most, "{xid} took {:?}", start.elapsed());
    }
    throttled.iter().for_each(|client| client.stream.shutdown(std::net::Shutdown::Both).unwrap_or_default());
}
