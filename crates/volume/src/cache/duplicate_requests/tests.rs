use super::*;

fn key(client: u8, request: u64) -> RequestKey {
    RequestKey([&[client; CLIENT_BYTES][..], &request.to_be_bytes()].concat().into())
}

fn answer(seconds: i64, seq: u64) -> ReplyRecord {
    ReplyRecord { time: Time::from_parts(seconds, 0), seq: Seq(seq), answer: Arc::from(seq.to_be_bytes()) }
}

fn at(seconds: i64) -> Time {
    Time::from_parts(seconds, 0)
}

#[test]
fn one_client_cannot_evict_the_replies_of_another() {
    let cache = DuplicateRequestCache::default();
    cache.insert(key(1, 0), answer(0, 1), 0, true);
    for request in 0..5 * REPLIES_PER_CLIENT_MAX as u64 {
        cache.insert(key(2, request), answer(0, 2 + request), 0, true);
    }
    assert_eq!(cache.len(), 1 + REPLIES_PER_CLIENT_MAX);
    assert_eq!(cache.lookup(&key(1, 0)).unwrap().1.seq, Seq(1));
    let newest = 5 * REPLIES_PER_CLIENT_MAX as u64 - 1;
    assert_eq!(cache.lookup(&key(2, newest)).unwrap().1.seq, Seq(2 + newest));
    assert!(cache.lookup(&key(2, newest - REPLIES_PER_CLIENT_MAX as u64)).is_none(), "the oldest goes first");
}

#[test]
fn the_replies_of_all_clients_are_bounded() {
    let cache = DuplicateRequestCache::default();
    let clients = 100;
    let each = REPLIES_MAX as u64 / clients + 50;
    for request in 0..each {
        for client in 0..clients {
            let key = key(u8::try_from(client).unwrap(), request);
            cache.insert(key, answer(0, request * clients + client + 1), 0, false);
        }
    }
    assert_eq!(cache.len(), REPLIES_MAX);
    assert!(cache.lookup(&key(0, 0)).is_none());
    assert!(cache.lookup(&key(0, each - 1)).is_some());
    // Reusing one key does not grow the queue.
    for seq in 0..3 * REPLIES_MAX as u64 {
        cache.insert(key(200, 0), answer(0, 1_000_000 + seq), 0, false);
    }
    let state = cache.state.lock();
    assert!(state.order.len() <= 2 * REPLIES_MAX && state.answers.len() <= REPLIES_MAX);
    let of_clients: usize = state.clients.values().map(VecDeque::len).sum();
    assert_eq!(of_clients, state.answers.len());
}

#[test]
fn checkpoints_carry_replies_over_until_they_expire() {
    let cache = DuplicateRequestCache::default();
    cache.insert(key(1, 1), answer(1000, 1), 0, true);
    cache.insert(key(1, 2), answer(1000, 2), 0, false);
    let changes = cache.take_changes(at(1001));
    assert_eq!(changes.put, [(key(1, 1), answer(1000, 1))], "a failure is remembered in memory only");
    assert!(changes.delete.is_empty());
    // A reply that expires before the next checkpoint is not stored.
    cache.insert(key(1, 3), answer(900, 3), 0, true);
    let changes = cache.take_changes(at(1250));
    assert!(changes.put.is_empty() && changes.delete.is_empty());
    let changes = cache.take_changes(at(1301));
    assert_eq!(changes.delete, [key(1, 1)]);
    assert!(cache.take_changes(at(9999)).delete.is_empty());
}

#[test]
fn an_answer_from_the_index_expires_too() {
    let cache = DuplicateRequestCache::default();
    cache.load(key(1, 1), answer(1000, 1));
    assert_eq!(cache.lookup(&key(1, 1)).unwrap().1.seq, Seq(1));
    assert!(cache.take_changes(at(1100)).put.is_empty(), "it is already stored");
    assert_eq!(cache.take_changes(at(1400)).delete, [key(1, 1)]);
}

#[test]
fn a_reused_key_keeps_its_new_reply_when_the_old_one_expires() {
    let cache = DuplicateRequestCache::default();
    cache.insert(key(1, 1), answer(1000, 1), 0, true);
    assert_eq!(cache.take_changes(at(1000)).put.len(), 1);
    cache.insert(key(1, 1), answer(1200, 2), 0, true);
    assert_eq!(cache.take_changes(at(1200)).put, [(key(1, 1), answer(1200, 2))]);
    // The old reply has expired, the new one has not, and both use the same row.
    assert!(cache.take_changes(at(1301)).delete.is_empty());
    assert_eq!(cache.take_changes(at(1501)).delete, [key(1, 1)]);
}

#[test]
fn lowering_the_bound_evicts_the_oldest_replies() {
    let cache = DuplicateRequestCache::default();
    for request in 0..10 {
        cache.insert(key(1, request), answer(0, request), 0, true);
    }
    cache.bound(4);
    let kept = |request| cache.lookup(&key(1, request)).is_some();
    assert_eq!((cache.len(), kept(5), kept(6)), (4, false, true));
    cache.insert(key(2, 1), answer(0, 10), 0, true);
    assert_eq!((cache.len(), kept(6)), (4, false));
}
