//! Rate limits: what they hold, in which order, and what they leave alone.

use super::*;
use crate::rates::Kind;
use crate::rates::setting::{Rate, SettingChange};

const MIB: u64 = 1 << 20;

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
fn a_client_that_leaves_takes_what_is_held_along() {
    let harness = Harness::new(1);
    limit(&harness, Kind::Client, "*", Rate::TotalOps, Some(10));
    let mut client = harness.client();
    (0..30).for_each(|xid| client.send(xid, ECHO, 0));
    harness.wait_until("calls held", |harness| held(harness) > 0);
    drop(client);
    harness.wait_until("nothing held", |harness| held(harness) == 0 && harness.held_bytes() == 0);
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
