//! What a turn does is bounded, and the next one goes on with the rest.

use super::places::{connect, event_loop};
use super::*;
use crate::limits::{SENDS_PER_TURN_MAX, SENT_PER_TURN_BYTES};

/// Adds connections with output, and returns their other ends.
fn with_output(event_loop: &mut EventLoop, count: u64, bytes: usize) -> Vec<TcpStream> {
    let mut ends = Vec::new();
    for id in 0..count {
        let (mut connection, end) = connect(event_loop, id);
        connection.output.bytes = vec![7; bytes];
        event_loop.touch(&mut connection);
        event_loop.put_back(connection);
        ends.push(end);
    }
    ends
}

fn unsent(event_loop: &EventLoop) -> Vec<usize> {
    event_loop.connections.iter().map(Connection::unsent).filter(|unsent| *unsent > 0).collect()
}

#[test]
fn output_of_many_connections_is_sent_in_several_turns() {
    let mut event_loop = event_loop(Arc::new(Fake::new()));
    let count = SENDS_PER_TURN_MAX + 10;
    let _ends = with_output(&mut event_loop, count.try_into().unwrap(), 100);
    event_loop.send_touched();
    assert_eq!(unsent(&event_loop).len(), 10);
    assert!(event_loop.has_more && event_loop.sleep_max() == Duration::ZERO);
    event_loop.has_more = false;
    event_loop.send_touched();
    assert!(unsent(&event_loop).is_empty() && !event_loop.has_more);
}

#[test]
fn much_output_is_sent_in_several_turns_and_connections_take_turns() {
    let mut event_loop = event_loop(Arc::new(Fake::new()));
    let size = SENT_PER_TURN_BYTES / 4;
    let mut readers = Vec::new();
    for end in with_output(&mut event_loop, 12, size) {
        readers.push(std::thread::spawn(move || {
            let mut all = vec![0; size];
            (&end).read_exact(&mut all).unwrap();
            assert!(all.iter().all(|byte| *byte == 7));
        }));
    }
    let mut turns = 0;
    while !unsent(&event_loop).is_empty() {
        let before: usize = unsent(&event_loop).iter().sum();
        event_loop.has_more = false;
        event_loop.send_touched();
        let left = unsent(&event_loop);
        let sent = before - left.iter().sum::<usize>();
        // The last system call may send what remains of a connection.
        assert!(sent < SENT_PER_TURN_BYTES + size, "{sent} bytes in one turn");
        // Sockets that were full announce when they take more.
        for index in event_loop.connections.indexes() {
            let mut connection = event_loop.connections.take(index).unwrap();
            if connection.unsent() > 0 {
                event_loop.touch(&mut connection);
            }
            event_loop.connections.put(connection);
        }
        turns += 1;
    }
    assert!(turns >= 3);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// Much longer than a turn, microseconds.
const VERY_LONG: u32 = 20_000;

/// Adds a connection that has sent these calls.
fn with_calls(event_loop: &mut EventLoop, id: u64, calls: &[u8]) -> TcpStream {
    let (mut connection, end) = connect(event_loop, id);
    connection.rest = calls.to_vec();
    event_loop.put_back(connection);
    end
}

fn executed(fake: &Fake) -> Vec<u64> {
    fake.connections.lock().iter().map(|connection| connection.0).collect()
}

#[test]
fn one_long_call_is_a_portion() {
    let fake = Arc::new(Fake::new());
    let mut event_loop = event_loop(Arc::clone(&fake));
    let calls: Vec<u8> = (0..3).flat_map(|xid| call(xid, LONG, VERY_LONG, 0)).collect();
    let _end = with_calls(&mut event_loop, 1, &calls);
    for turn in 1..=3 {
        event_loop.serve_turn();
        assert_eq!(executed(&fake).len(), turn);
        let heavy: Vec<bool> = event_loop.connections.iter().map(|connection| connection.is_heavy).collect();
        assert_eq!(heavy, [true]);
    }
}

#[test]
fn a_turn_ends_after_one_long_call_and_its_reply_leaves_at_once() {
    let fake = Arc::new(Fake::new());
    let mut event_loop = event_loop(Arc::clone(&fake));
    let calls: Vec<u8> = (1..5).flat_map(|xid| call(xid, LONG, VERY_LONG, 0)).collect();
    let mut ends: Vec<TcpStream> = (0..4).map(|id| with_calls(&mut event_loop, id, &calls)).collect();
    event_loop.serve_turn();
    assert_eq!(executed(&fake), [0]);
    assert!(unsent(&event_loop).is_empty());
    let mut client = Client::new(ends.remove(0));
    assert_eq!(client.reply(), (1, VERY_LONG, 0));
    // The other connections are light until they were served; among heavy ones, a light one is served first.
    for _ in 0..8 {
        event_loop.serve_turn();
    }
    let before = executed(&fake).len();
    let _light = with_calls(&mut event_loop, 9, &call(1, ECHO, 0, 0));
    event_loop.serve_turn();
    assert_eq!(executed(&fake)[before], 9);
}
