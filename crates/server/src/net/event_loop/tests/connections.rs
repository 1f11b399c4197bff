//! Who is connected: strangers are refused, and the greediest gives way.

use super::*;
use crate::limits::CONNECTIONS_SPARE;

/// Sends a call and takes its reply.
fn is_served(client: &mut Client, xid: u32) {
    client.send(xid, ECHO, xid);
    assert_eq!(client.reply(), (xid, xid, 0));
}

#[test]
fn strangers_are_refused_before_a_byte_is_read() {
    for (address, stranger) in [("127.0.0.1:0", "127.0.0.9"), ("[::1]:0", "::1")] {
        let harness = Harness::with(address, 2, CONNECTIONS_MAX);
        harness.fake.strangers.lock().push(stranger.parse().unwrap());
        for _ in 0..5 {
            let mut client =
                if harness.address.is_ipv4() { harness.client_at(stranger) } else { harness.client() };
            let _ = client.stream.write_all(&call(1, ECHO, 1, 0));
            assert!(client.is_closed());
        }
        harness.wait_until("refusing", |harness| harness.count(|counters| &counters.refused) == 5);
        assert_eq!(harness.count(|counters| &counters.received), 0);
        assert!(harness.fake.connections.lock().is_empty());
        // Exports may change.
        harness.fake.strangers.lock().clear();
        is_served(&mut harness.client(), 1);
        harness.loops.stop();
    }
}

#[test]
fn idle_connections_of_the_greediest_origin_give_way() {
    for threads in [1, 3] {
        let harness = Harness::with("127.0.0.1:0", threads, CONNECTIONS_SPARE + 60);
        let mut neighbours: Vec<Client> = (0..6).map(|_| harness.client()).collect();
        let mut busy = harness.client_at("127.0.0.2");
        busy.send(7, WAIT, 7);
        harness.wait_until("waiting", |harness| harness.fake.connections.lock().len() == 1);
        let mut greedy: Vec<Client> = Vec::new();
        for _ in 0..300 {
            greedy.push(harness.client_at("127.0.0.2"));
        }
        for (xid, neighbour) in (0..).zip(&mut neighbours) {
            is_served(neighbour, xid);
        }
        let mut newcomers: Vec<Client> =
            (3..30).map(|number| harness.client_at(&format!("127.0.0.{number}"))).collect();
        for (xid, newcomer) in (0..).zip(&mut newcomers) {
            is_served(newcomer, xid);
        }
        // A call under way is finished, and the newest of the greedy are served too.
        harness.fake.durable.store(7, Ordering::SeqCst);
        harness.announce();
        assert_eq!(busy.reply(), (7, 7, 0));
        is_served(greedy.last_mut().unwrap(), 1);
        for (xid, neighbour) in (10..).zip(&mut neighbours) {
            is_served(neighbour, xid);
        }
        let served: usize =
            harness.loops.counters.iter().map(|counters| counters.connections.load(Ordering::Relaxed)).sum();
        assert!(served <= CONNECTIONS_SPARE + 60, "{served}");
        assert!(harness.count(|counters| &counters.evicted) >= 250);
        harness.loops.stop();
    }
}

#[test]
fn the_greediest_origin_gives_way_even_if_all_its_connections_are_busy() {
    let harness = Harness::with("127.0.0.1:0", 2, CONNECTIONS_SPARE + 20);
    let mut greedy: Vec<Client> = Vec::new();
    for xid in 0..20 {
        let mut client = harness.client_at("127.0.0.2");
        client.send(xid, WAIT, 7);
        greedy.push(client);
    }
    harness.wait_until("waiting", |harness| harness.fake.connections.lock().len() == 20);
    let mut newcomers: Vec<Client> = (0..5).map(|_| harness.client_at("127.0.0.3")).collect();
    for (xid, newcomer) in (0..).zip(&mut newcomers) {
        is_served(newcomer, xid);
    }
    harness.wait_until("giving way", |harness| harness.fake.closed.lock().len() == 5);
    assert!(greedy[0].is_closed(), "the one that was silent longest");
    harness.loops.stop();
}
