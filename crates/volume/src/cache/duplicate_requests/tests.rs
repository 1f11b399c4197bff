use super::*;
use crate::api::ids::Seq;
use crate::media::memory::Random;

fn caller(number: u8) -> Caller {
    [number; 16]
}

fn key(client: u8, request: u64) -> RequestKey {
    RequestKey::new([&caller(client)[..], &request.to_be_bytes()].concat())
}

fn answer(seconds: i64, seq: u64) -> ReplyRecord {
    ReplyRecord { time: Time::from_parts(seconds, 0), seq: Seq(seq), answer: Arc::from(seq.to_be_bytes()) }
}

fn at(seconds: i64) -> Time {
    Time::from_parts(seconds, 0)
}

impl DuplicateRequestCache {
    fn take_changes(&self, now: Time) -> ReplyChanges {
        let fresh = self.take_fresh();
        self.changes(&fresh, now)
    }

    fn has(&self, key: &RequestKey) -> bool {
        self.lookup(key).is_some()
    }

    /// Checks that the tables agree.
    fn check(&self) {
        let state = self.state.lock();
        assert!(state.answers.len() <= state.max);
        assert_eq!(state.order.len(), state.answers.len(), "keys without an answer are not kept");
        assert!(state.order.iter().all(|(number, key)| state.answers[key].number == *number));
        assert_eq!(state.rows.len(), state.stored.len());
        assert!(state.stored.iter().all(|(time, key)| state.rows[key] == *time));
        assert!(state.fresh.iter().all(|number| state.order.contains_key(number)));
        let mut of_origins: HashMap<Caller, usize> = HashMap::new();
        for (client, known) in &state.clients {
            assert!(known.answers.iter().all(|number| state.order[number].client() == *client));
            *of_origins.entry(known.origin).or_default() += known.answers.len();
            let rank = (known.answers.len().ilog2(), *client);
            assert!(state.origins[&known.origin].greediest.0.contains(&rank));
        }
        assert_eq!(of_origins.values().sum::<usize>(), state.answers.len());
        assert_eq!(of_origins.len(), state.origins.len());
        assert_eq!(state.greediest.0.len(), state.origins.len());
        for (who, answers) in of_origins {
            assert_eq!(state.origins[&who].answers, answers);
            assert!(state.greediest.0.contains(&(answers.ilog2(), who)));
        }
    }
}

#[test]
fn one_client_cannot_evict_the_replies_of_another() {
    let cache = DuplicateRequestCache::default();
    cache.insert(key(1, 0), answer(0, 1), FlushWait::default(), true);
    let requests = 2 * REPLIES_MAX as u64;
    for request in 0..requests {
        cache.insert(key(2, request), answer(0, 2 + request), FlushWait::default(), true);
    }
    assert_eq!(cache.len(), REPLIES_MAX);
    assert_eq!(cache.lookup(&key(1, 0)).unwrap().1.seq, Seq(1));
    assert_eq!(cache.lookup(&key(2, requests - 1)).unwrap().1.seq, Seq(1 + requests));
    assert!(!cache.has(&key(2, requests - REPLIES_MAX as u64)), "the oldest goes first");
    cache.check();
}

#[test]
fn many_clients_of_one_origin_cannot_evict_the_replies_of_another() {
    let cache = DuplicateRequestCache::default();
    cache.bound(1000);
    let neighbour = (0..5).map(|request| key(1, request).from_origin(caller(99)));
    let others = (0..200).map(|request| key(2, request));
    let kept: Vec<RequestKey> = neighbour.chain(others).collect();
    for (seq, key) in kept.iter().enumerate() {
        cache.insert(key.clone(), answer(0, seq as u64), FlushWait::default(), true);
    }
    // A neighbour of many clients, which use keys again and again.
    for number in 0..20_000_u64 {
        let client = 10 + u8::try_from(number % 80).unwrap();
        let key = key(client, number / 160 % 40).from_origin(caller(99));
        cache.insert(key, answer(0, 1000 + number), FlushWait::default(), number % 2 == 0);
    }
    cache.check();
    assert!(kept.iter().all(|key| cache.has(key)), "an answer of another was evicted");
    assert_eq!(cache.len(), 1000);
}

#[test]
fn using_a_key_again_evicts_nothing() {
    let cache = DuplicateRequestCache::default();
    cache.bound(100);
    (0..99).for_each(|request| cache.insert(key(1, request), answer(0, request), FlushWait::default(), true));
    for seq in 0..1000 {
        cache.insert(key(2, 0), answer(0, seq), FlushWait::default(), false);
    }
    assert_eq!((cache.len(), cache.has(&key(1, 0))), (100, true));
    assert_eq!(cache.lookup(&key(2, 0)).unwrap().1.seq, Seq(999));
    cache.check();
}

#[test]
fn expired_answers_go_first() {
    let cache = DuplicateRequestCache::default();
    cache.bound(100);
    (0..10).for_each(|request| cache.insert(key(1, request), answer(0, request), FlushWait::default(), true));
    (0..90)
        .for_each(|request| cache.insert(key(2, request), answer(1000, request), FlushWait::default(), true));
    assert!(cache.has(&key(1, 0)));
    (90..95)
        .for_each(|request| cache.insert(key(2, request), answer(1000, request), FlushWait::default(), true));
    assert_eq!((cache.has(&key(1, 4)), cache.has(&key(1, 5)), cache.has(&key(2, 0))), (false, true, true));
    cache.check();
}

#[test]
fn the_index_keeps_the_answers_that_memory_keeps() {
    let cache = DuplicateRequestCache::default();
    cache.bound(100);
    cache.insert(key(1, 0), answer(0, 1), FlushWait::default(), true);
    let mut rows = BTreeSet::new();
    for number in 0..10_000 {
        cache.insert(key(2, number), answer(1, 2 + number), FlushWait::default(), true);
        if number % 70 == 0 {
            let changes = cache.take_changes(at(2));
            changes.delete.iter().for_each(|key| assert!(rows.remove(key), "{key:?} was not stored"));
            rows.extend(changes.put.into_iter().map(|(key, _)| key));
            assert!(rows.len() <= 100 && rows.contains(&key(1, 0)));
            cache.check();
        }
    }
}

#[test]
fn the_origin_of_a_client_is_learned_with_its_next_request() {
    let cache = DuplicateRequestCache::default();
    cache.bound(100);
    // After a restart each client seems to be an origin.
    for number in 0..60_u64 {
        let client = 10 + u8::try_from(number % 6).unwrap();
        cache.load(key(client, number), answer(0, number));
    }
    (0..40).for_each(|request| cache.load(key(1, request), answer(0, 100 + request)));
    cache.check();
    for number in 0..6 {
        cache.insert(
            key(10 + number, 1000).from_origin(caller(99)),
            answer(0, 200),
            FlushWait::default(),
            true,
        );
        cache.check();
    }
    for request in 0..200 {
        cache.insert(
            key(15, 2000 + request).from_origin(caller(99)),
            answer(0, 300),
            FlushWait::default(),
            true,
        );
    }
    let kept = (0..40).filter(|request| cache.has(&key(1, *request))).count();
    assert!(kept >= 31, "{kept}");
    cache.check();
}

#[test]
fn random_requests_leave_tables_that_agree() {
    for seed in 0..10 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let cache = DuplicateRequestCache::default();
        cache.bound(60);
        let mut now = 0;
        for seq in 0..2000 {
            let client = u8::try_from(random.below(12)).unwrap();
            let key = key(client, random.below(20)).from_origin(caller(client / 3));
            match random.below(40) {
                0 => drop(cache.take_changes(at(now))),
                1 => now += 100,
                2 => cache.store_all_again(),
                _ => {
                    cache.insert(key.clone(), answer(now, seq), FlushWait::default(), random.below(3) > 0);
                    assert!(cache.has(&key), "the newest is kept");
                }
            }
            cache.check();
        }
    }
}

#[test]
fn checkpoints_carry_replies_over_until_they_expire() {
    let cache = DuplicateRequestCache::default();
    cache.insert(key(1, 1), answer(1000, 1), FlushWait::default(), true);
    cache.insert(key(1, 2), answer(1000, 2), FlushWait::default(), false);
    let changes = cache.take_changes(at(1001));
    assert_eq!(changes.put, [(key(1, 1), answer(1000, 1))], "a failure is remembered in memory only");
    assert!(changes.delete.is_empty());
    // A reply that expires before the next checkpoint is not stored.
    cache.insert(key(1, 3), answer(900, 3), FlushWait::default(), true);
    let changes = cache.take_changes(at(1250));
    assert!(changes.put.is_empty() && changes.delete.is_empty());
    let changes = cache.take_changes(at(1301));
    assert_eq!(changes.delete, [key(1, 1)]);
    assert!(cache.take_changes(at(9999)).delete.is_empty());
}

#[test]
fn an_answer_added_after_a_freeze_waits_for_the_next_checkpoint() {
    let cache = DuplicateRequestCache::default();
    cache.insert(key(1, 1), answer(1000, 1), FlushWait::default(), true);
    cache.insert(key(1, 2), answer(1000, 2), FlushWait::default(), true);
    let fresh = cache.take_fresh();
    cache.insert(key(1, 2), answer(1000, 3), FlushWait::default(), true);
    assert_eq!(cache.changes(&fresh, at(1000)).put, [(key(1, 1), answer(1000, 1))]);
    assert_eq!(cache.take_changes(at(1000)).put, [(key(1, 2), answer(1000, 3))]);
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
    cache.insert(key(1, 1), answer(1000, 1), FlushWait::default(), true);
    assert_eq!(cache.take_changes(at(1000)).put.len(), 1);
    cache.insert(key(1, 1), answer(1200, 2), FlushWait::default(), true);
    assert_eq!(cache.take_changes(at(1200)).put, [(key(1, 1), answer(1200, 2))]);
    // The old reply has expired, the new one has not, and both use the same row.
    assert!(cache.take_changes(at(1301)).delete.is_empty());
    assert_eq!(cache.take_changes(at(1501)).delete, [key(1, 1)]);
}

#[test]
fn lowering_the_bound_evicts_the_oldest_replies() {
    let cache = DuplicateRequestCache::default();
    for request in 0..10 {
        cache.insert(key(1, request), answer(0, request), FlushWait::default(), true);
    }
    cache.bound(4);
    let kept = |request| cache.lookup(&key(1, request)).is_some();
    assert_eq!((cache.len(), kept(5), kept(6)), (4, false, true));
    cache.insert(key(2, 1), answer(0, 10), FlushWait::default(), true);
    assert_eq!((cache.len(), kept(6)), (4, false));
}
