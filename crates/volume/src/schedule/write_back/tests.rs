use std::sync::Arc;

use super::*;
use crate::api::ids::Ino;
use crate::encoding::key::FIRST;

fn enter(write_back: &WriteBack, ino: u64, now: Time) {
    let id = FIRST.object(Ino(ino));
    let cell: SharedInode = Arc::new(Mutex::new(InodeState::new(id)));
    write_back.enter(&cell.lock(), &cell, now);
}

fn end(write_back: &WriteBack, flush: &Flush, failed: Option<Failed>) {
    write_back.finish(flush.generation, flush.after, failed);
}

fn numbers(flush: &Flush) -> Vec<u64> {
    flush.files.iter().map(|(id, _)| id.ino.0).collect()
}

#[test]
fn flushes_take_what_is_requested_then_what_is_oldest_and_no_more_than_a_bound() {
    let write_back = WriteBack::default();
    let (at, many) = (|seconds| Time::from_parts(seconds, 0), FILES_PER_FLUSH_MAX as u64);
    // The oldest have the highest numbers.
    for number in 0..many {
        enter(&write_back, 100_000 + number, at(1));
    }
    for number in 0..1000 {
        enter(&write_back, number, at(2));
    }
    assert_eq!(write_back.files(), FILES_PER_FLUSH_MAX + 1000);
    assert!(write_back.begin(at(2), false).is_none());
    let generation = write_back.request(FIRST.object(Ino(7)));
    write_back.press();
    let first = write_back.begin(at(2), false).unwrap();
    assert!(first.after < generation && generation <= first.generation);
    assert_eq!(first.files.len(), FILES_PER_FLUSH_MAX + 1);
    let taken = numbers(&first);
    assert!(taken[0] == 7 && taken[1..].iter().all(|ino| *ino >= 100_000), "the oldest come first");
    // What was left is written without another request.
    end(&write_back, &first, None);
    let second = write_back.begin(at(2), false).unwrap();
    assert_eq!((numbers(&second).len(), write_back.files()), (999, 0));
    end(&write_back, &second, None);
    assert!(write_back.begin(at(100), true).is_none());
}

#[test]
fn a_file_that_could_not_be_saved_rests_unless_it_is_requested() {
    let write_back = WriteBack::default();
    let (at, id) = (|seconds| Time::from_parts(seconds, 0), FIRST.object(Ino(5)));
    let fail = |flush: &Flush, now| {
        assert_eq!(numbers(flush), [5]);
        enter(&write_back, 5, now);
        write_back.set_aside(id, now);
        end(&write_back, flush, Some(Failed::Files(BTreeSet::from([id]))));
    };
    enter(&write_back, 5, at(0));
    fail(&write_back.begin(at(2), false).unwrap(), at(2));
    write_back.press();
    assert!(write_back.begin(at(3), false).is_none());
    fail(&write_back.begin(at(4), false).unwrap(), at(4));
    assert!(write_back.begin(at(7), false).is_none(), "twice as long");
    write_back.request(id);
    fail(&write_back.begin(at(7), false).unwrap(), at(7));
    assert!(write_back.begin(at(14), false).is_none());
    let flush = write_back.begin(at(14), true).unwrap();
    write_back.note_saved(&[(id, None)]);
    end(&write_back, &flush, None);
    // Once it was saved it is like any other.
    enter(&write_back, 5, at(15));
    assert!(write_back.begin(at(17), false).is_some());
}

/// A remembered reply may name a flush of hours ago.
#[test]
fn flushes_that_failed_are_never_taken_for_done() {
    let write_back = WriteBack::default();
    let (at, id) = (|seconds| Time::from_parts(seconds, 0), FIRST.object(Ino(5)));
    let wait = |generation| FlushWait { generation, file: Some(id) };
    let flush_one = |fails: bool| {
        let generation = write_back.request(id);
        let flush = write_back.begin(at(1), false).unwrap();
        assert!(flush.after < generation && generation <= flush.generation);
        end(&write_back, &flush, fails.then(|| Failed::Files(BTreeSet::from([id]))));
        generation
    };
    let first = flush_one(true);
    assert!(write_back.has_failed(wait(first)));
    for _ in 0..FAILED_FLUSHES_MAX {
        flush_one(true);
    }
    assert!(write_back.has_failed(wait(first)));
    let last = flush_one(false);
    assert!(!write_back.has_failed(wait(last)), "later ones are told apart");
    assert!(!write_back.has_failed(wait(first - 1)), "whoever only waits for its turn does not care");
}

#[test]
fn a_flush_that_joins_another_does_not_stand_for_the_next_one_of_what_is_due() {
    let write_back = WriteBack::default();
    let [first, second] = [5, 6].map(|number| FIRST.object(Ino(number)));
    let wait = |generation, file| FlushWait { generation, file: Some(file) };
    write_back.request(first);
    let begun = write_back.begin(Time::from_parts(1, 0), false).unwrap();
    assert!(begun.is_of_due);
    let paced = write_back.pace();
    let wanted = write_back.request(second);
    let joined = write_back.join().unwrap();
    assert!(!joined.is_of_due && joined.after == begun.generation && joined.requested.contains(&second));
    assert!(begun.generation < wanted && wanted <= joined.generation && joined.generation < paced);
    assert!(write_back.join().is_none(), "nothing is requested");
    write_back.note_saved(&[(second, Some(joined.generation))]);
    assert!(write_back.has_saved(wait(wanted, second)) && !write_back.has_saved(wait(wanted, first)));
    let later = write_back.request(second);
    assert!(!write_back.has_saved(wait(later, second)), "it may have changed since");
    end(&write_back, &begun, Some(Failed::Files(BTreeSet::from([first]))));
    assert!(write_back.has_saved(wait(wanted, second)) && write_back.done() < wanted);
    end(&write_back, &joined, None);
    assert!(write_back.done() >= wanted && write_back.done() < paced.min(later));
    let next = write_back.begin(Time::from_parts(1, 0), false).unwrap();
    assert!(next.requested.contains(&second) && next.generation >= later.max(paced));
    end(&write_back, &next, Some(Failed::Files(BTreeSet::from([second]))));
    assert!(
        write_back.has_failed(wait(begun.generation, first)) && write_back.has_failed(wait(later, second))
    );
    assert!(!write_back.has_failed(wait(wanted, second)), "that was another flush");
}

#[test]
fn files_are_due_though_the_clock_was_set_back() {
    let write_back = WriteBack::default();
    let (before, after) = (Time::from_parts(1_000_000, 0), Time::from_parts(900_000, 0));
    for number in 0..3 {
        enter(&write_back, number, before);
    }
    assert!(write_back.begin(before, false).is_none());
    assert_eq!(write_back.begin(after, false).unwrap().files.len(), 3);
}

#[test]
fn a_file_that_changes_while_a_flush_begins_is_in_it_once() {
    let write_back = WriteBack::default();
    let now = Time::from_parts(1, 0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let cell: SharedInode = Arc::new(Mutex::new(InodeState::new(FIRST.object(Ino(1)))));
            while !stop.load(Ordering::Relaxed) {
                write_back.enter(&cell.lock(), &cell, now);
            }
        });
        for _ in 0..20 {
            for number in 2..16 * FILES_AT_ONCE as u64 {
                enter(&write_back, number, now);
            }
            let flush = write_back.begin(now, true).unwrap();
            let taken: BTreeSet<u64> = numbers(&flush).into_iter().collect();
            let is_distinct = taken.len() == flush.files.len();
            stop.fetch_or(!is_distinct, Ordering::Relaxed);
            assert!(is_distinct);
            end(&write_back, &flush, None);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
