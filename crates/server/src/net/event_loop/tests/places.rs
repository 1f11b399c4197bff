//! A connection takes the place of one that was closed while it waited to be served.

use super::*;
use crate::admission::line::Waiter;
use crate::admission::{Blocked, Want};
use crate::connection_origin::ConnectionOrigin;
use crate::limits::REQUESTS_EIGHTHS;
use crate::net::connection::WaitingCall;
use crate::net::connection_shares::ConnectionShares;

/// The reply that the second connection waits for.
const REPLY_BYTES: usize = 1 << 20;

/// Makes a loop that its test runs.
pub(super) fn event_loop(fake: Arc<Fake>) -> EventLoop {
    let poll = Poll::new().unwrap();
    let calls: Arc<dyn Calls> = fake;
    let shared = Shared {
        retry_queues: RetryQueues::new(calls.queues()),
        workers: Workers::start(0, &calls).unwrap().0,
        calls,
        rates: rates_in(&std::env::temp_dir(), &[]),
        connections: ConnectionShares::new(CONNECTIONS_MAX, 0),
        mailboxes: vec![Arc::new(Mailbox::new(poll.registry()).unwrap())],
        targets: vec!["192.0.2.2:2049".parse().unwrap()],
    };
    let tally = TallySettings { clients: 0, slow: Duration::from_secs(3600) };
    EventLoop::new(0, poll, Arc::new(shared), LOOP_BYTES_MIN, tally)
}

/// Adds a connection to a loop. Returns it and its other end.
pub(super) fn connect(event_loop: &mut EventLoop, id: u64) -> (Box<Connection>, TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let ends = Ends { id: ConnectionId(id), peer, local: listener.local_addr().unwrap() };
    let place = event_loop.shared.connections.join(ConnectionOrigin::of(peer)).place;
    let index = event_loop.connections.next_index();
    event_loop.connect(Newcomer { stream: mio::net::TcpStream::from_std(stream), ends, place });
    (event_loop.connections.take(index).unwrap(), client)
}

fn waiters(event_loop: &EventLoop) -> Vec<Waiter> {
    event_loop.admission.waiting(Blocked::Reply)
}

/// Has a connection wait in a queue of those to be served, closes it, and has one that waits for memory take its place.
fn reuse(is_heavy: bool) {
    let mut event_loop = event_loop(Arc::new(Fake::new()));
    // Somebody else holds the memory.
    let greedy = event_loop.admission.budget.origins.join("192.0.2.1".parse().unwrap());
    let held = LOOP_BYTES_MIN / 8 * (8 - REQUESTS_EIGHTHS);
    event_loop.admission.budget.count_replies(greedy, 0, held);
    // A connection of an origin without replies may be served, but not begin a large one.
    let room = REPLY_BYTES / 2;
    event_loop.admission.budget.count_replies(greedy, held, held - room);

    let (mut first, _first_end) = connect(&mut event_loop, 1);
    let place = first.key.index;
    first.is_heavy = is_heavy;
    first.rest = call(1, ECHO, 0, 0);
    event_loop.put_back(first);
    assert!(event_loop.admission.has_ready());
    let first = event_loop.connections.take(place).unwrap();
    event_loop.evict(first, "the test says so");

    let (mut second, mut second_end) = connect(&mut event_loop, 2);
    assert_eq!(second.key.index, place);
    let record = call(2, LARGE, 10, 0)[MARK_BYTES..].to_vec();
    second.waiting = Some(WaitingCall {
        record: IncomingRecord::decode(&record).to_kept(),
        reply_bytes: REPLY_BYTES,
        is_granted: false,
        passed: None,
    });
    let key = second.key;
    event_loop.put_back(second);
    for _ in 0..3 {
        event_loop.serve_turn();
        event_loop.unblock();
    }
    let waiting: Vec<_> = waiters(&event_loop).iter().map(|waiter| (waiter.key, waiter.want)).collect();
    assert_eq!(waiting, [(key, Want::Reply(REPLY_BYTES))]);
    event_loop.admission.forget(key);
    assert!(waiters(&event_loop).is_empty(), "it waits once");
    event_loop.admission.block(key, Want::Reply(REPLY_BYTES), Instant::now());

    // Now there is room.
    event_loop.admission.budget.count_replies(greedy, held - room, 0);
    for _ in 0..3 {
        event_loop.unblock();
        event_loop.serve_turn();
        event_loop.send_touched();
    }
    let mut reply = [0; MARK_BYTES + 8 + 10];
    second_end.read_exact(&mut reply).unwrap();
    assert_eq!(word(&reply, 1), 2);
    let second = event_loop.connections.take_owner(key).unwrap();
    event_loop.close(second);
    event_loop.unblock();
    assert_eq!(event_loop.admission.budget.held() - event_loop.buffers_counted, 0);
    assert!(!event_loop.admission.has_ready() && !event_loop.admission.is_short());
}

#[test]
fn a_place_that_is_used_again_is_not_served_for_the_one_that_left() {
    for is_heavy in [false, true] {
        reuse(is_heavy);
    }
}

#[test]
fn a_waiter_whose_connection_wants_something_else_is_dropped() {
    let mut event_loop = event_loop(Arc::new(Fake::new()));
    let (mut connection, _end) = connect(&mut event_loop, 1);
    let key = connection.key;
    connection.is_queued = true;
    event_loop.connections.put(connection);
    event_loop.admission.block(key, Want::Reply(REPLY_BYTES), Instant::now());
    event_loop.unblock();
    assert!(!event_loop.admission.is_short() && !event_loop.admission.has_ready());
    let connection = event_loop.connections.get_owner(key).unwrap();
    assert!(!connection.is_queued && connection.waiting.is_none());
    assert_eq!(event_loop.admission.budget.held(), 0);
}
