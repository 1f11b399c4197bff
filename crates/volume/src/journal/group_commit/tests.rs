use super::*;
use crate::media::memory::{MemoryFile, MemoryMedia};

const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// Creates a committer on a ring of `bytes` bytes.
fn committer(bytes: usize) -> (Arc<MemoryMedia>, Arc<MemoryFile>, Committer) {
    let disk = MemoryMedia::new();
    let log = MemoryFile::holding(vec![0; bytes]);
    let anchor = Ring::format(log.as_ref(), [1; 16]).unwrap();
    let file = Arc::clone(&log) as Arc<dyn crate::media::RandomFile>;
    let (ring, _) = Ring::recover(file, &anchor, &mut |_, _, _| Ok(())).unwrap();
    let media = Arc::clone(&disk) as Arc<dyn Media>;
    let committer = Committer::new(media, ring, Seq(0), Generation(1), Time::from_nanos(i64::MIN));
    (disk, log, committer)
}

#[test]
fn entries_queued_during_a_sync_form_one_batch() {
    let (_, log, committer) = committer(1 << 20);
    assert!(!committer.step(), "nothing to do");
    let last = (0..500).map(|_| committer.push(vec![1; 40])).last().unwrap();
    assert_eq!((last, committer.last_queued(), committer.durable()), (Seq(500), Seq(500), Seq(0)));
    let steps = log.steps();
    assert!(committer.step());
    assert_eq!(committer.durable(), last);
    assert_eq!(log.steps() - steps, 2, "one write, one sync");
    assert_eq!(committer.queued_bytes(), 0);
    assert!(!committer.step());
}

#[test]
fn try_step_neither_waits_nor_writes_large_batches() {
    let (disk, _, committer) = committer(1 << 20);
    assert!(!committer.try_step(), "nothing to do");
    committer.push(vec![1; 40]);
    let writing = committer.ring.lock();
    assert!(!committer.try_step(), "another thread is writing");
    drop(writing);
    assert!(committer.try_step());
    assert_eq!(committer.durable(), Seq(1));
    for _ in 0..=SMALL_BATCH_BYTES_MAX / 1024 {
        committer.push(vec![2; 1024]);
    }
    assert!(!committer.try_step(), "large batches are left to the commit thread");
    assert!(committer.step());
    committer.push(vec![3; 40]);
    disk.lose_tenure();
    assert!(!committer.try_step() && committer.has_failed());
}

#[test]
fn a_batch_ends_at_each_fence() {
    let (_, _, committer) = committer(1 << 20);
    committer.push(vec![1]);
    committer.push(vec![2]);
    let first = committer.fence();
    committer.push(vec![3]);
    let second = committer.fence();
    committer.push(vec![4]);
    assert!(committer.step());
    assert_eq!(committer.durable(), first);
    assert_eq!(committer.anchor_at(first).unwrap().seq, first);
    assert!(committer.step());
    assert_eq!(committer.durable(), second);
    assert!(committer.anchor_at(second).is_some());
    assert!(committer.step());
    assert_eq!(committer.durable(), Seq(4));
    // A fence with an empty queue is the end of the previous batch.
    assert_eq!(committer.fence(), Seq(4));
    assert!(committer.anchor_at(Seq(4)).is_some());
    committer.push(vec![5]);
    assert!(committer.step());
    assert!(committer.anchor_at(Seq(1)).is_none(), "no batch ends there");
}

#[test]
fn a_batch_for_a_full_ring_waits_for_a_checkpoint() {
    let (_, _, committer) = committer(64 << 10);
    let mut fences = Vec::new();
    loop {
        committer.push(vec![7; 3000]);
        fences.push(committer.fence());
        if !committer.step() {
            break;
        }
    }
    let durable = committer.durable();
    let waiting = committer.last_queued();
    assert!(durable < waiting && !committer.has_failed());
    let later = committer.push(vec![8; 100]);
    assert!(!committer.step() && !committer.wait_durable(later, true), "still full");
    let is_ready = || committer.queue.lock().is_ready();
    assert!(!is_ready(), "the committer sleeps until there is room");
    committer.kick();
    assert!(is_ready() && !committer.step() && !is_ready(), "a vain request is not kept");
    committer.trim(&committer.anchor_at(fences[fences.len() / 2]).unwrap());
    assert!(committer.used_bytes() < committer.capacity_bytes() && is_ready());
    assert!(committer.wait_durable(later, true));
    assert_eq!(committer.durable(), later);
}

#[test]
fn nothing_becomes_durable_after_a_failed_sync() {
    let (_, log, committer) = committer(1 << 20);
    let good = committer.push(vec![1]);
    assert!(committer.wait_durable(good, true));
    for step in 0..2 {
        let bad = committer.push(vec![2]);
        log.fail_from(Some(log.steps() + 1 - step));
        assert!(!committer.step());
        log.fail_from(None);
        assert!(committer.has_failed() && committer.failure().is_some());
        // The device works again, but its contents remain unknown.
        assert!(
            !committer.step() && !committer.wait_durable(bad, true) && !committer.wait_durable(bad, false)
        );
        assert_eq!(committer.durable(), good);
    }
}

#[test]
fn a_lost_lease_is_detected_before_a_batch_is_written() {
    let (disk, log, committer) = committer(1 << 20);
    committer.push(vec![1]);
    disk.lose_tenure();
    let steps = log.steps();
    assert!(!committer.step());
    assert!(committer.has_failed());
    assert_eq!(log.steps(), steps, "nothing was written");
}

#[test]
fn waiters_are_woken() {
    let (_, _, committer) = committer(1 << 20);
    let notified = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&notified);
    committer.on_progress(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let seq = committer.push(vec![1]);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| committer.wait_durable(seq, false));
        assert!(committer.step());
        assert!(waiter.join().unwrap());
        let never = committer.push(vec![2]);
        let committer = &committer;
        let waiter = scope.spawn(move || committer.wait_durable(never, false));
        committer.fail("broken".to_owned());
        assert!(!waiter.join().unwrap());
    });
    assert_eq!(notified.load(Ordering::Relaxed), 2);
    assert_eq!(committer.failure().as_deref(), Some("broken"));
}

#[test]
fn a_time_is_visible_only_once_a_ceiling_above_it_is_durable() {
    let (_, _, committer) = committer(1 << 20);
    let (stamp, after) = committer.stamp(NOW);
    assert_eq!((stamp, after), (NOW, Seq(1)), "an entry records the ceiling");
    assert!(committer.time_ceiling() > NOW);
    let (_, after) = committer.stamp(NOW.plus(TIME_LEAD));
    assert_eq!((after, committer.last_queued()), (Seq(1), Seq(1)), "the ceiling covers later times");
    let (_, after) = committer.stamp(NOW.plus(TIME_LEAD).next());
    assert_eq!(after, Seq(2));
    // If the clock was set back, times stay above the ceiling of the previous run.
    let disk = MemoryMedia::new();
    let log = MemoryFile::holding(vec![0; 64 << 10]);
    let anchor = Ring::format(log.as_ref(), [1; 16]).unwrap();
    let (ring, _) = Ring::recover(log, &anchor, &mut |_, _, _| Ok(())).unwrap();
    let late = Committer::new(disk, ring, Seq(0), Generation(2), NOW);
    assert_eq!(late.stamp(Time::EPOCH).0, NOW);
}
