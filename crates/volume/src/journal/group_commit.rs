//! Group commit: entries queue while a batch syncs, then leave in the next batch, all of them unless they exceed its
//! bound or a fence ends it.
//!
//! The committer is either syncing or idle; there are no timers. One caller in flight pays for one sync, 512 callers
//! share one. Callers decide when to wake the committer ([`Committer::wake`]): a thread that executes many calls in a
//! row does so once, after the last, as waking a thread costs more than most calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::api::ids::{Generation, Seq};
use crate::api::time::Time;
use crate::bytes::Bytes;
use crate::encoding::anchor::Anchor;
use crate::journal::{AppendError, Batch, Ring};
use crate::limits::ENTRY_BYTES_MAX;
use crate::media::{Media, Tenure};

/// How far ahead of the clock a batch sets the time ceiling. After a crash with the clock set back, times continue
/// from the ceiling.
const TIME_LEAD: Duration = Duration::from_secs(2);

/// Share of the ring, in percent, at which callers have to retry. Background work may journal beyond it, as
/// checkpoints and write-back must not wait for each other.
const BUSY_PERCENT: u64 = 80;

/// Share of the ring, in percent, at which background work waits for a checkpoint too. The rest takes what several threads
/// queue at the same moment, and the unused end of the ring: a checkpoint begins when all that is queued is in the ring.
const FULL_PERCENT: u64 = 90;

/// A batch takes no further entry beyond this many bytes, which bounds the duration of a sync.
const BATCH_BYTES_TARGET: usize = 8 << 20;

/// With more than this queued, only the committer writes a batch, as that takes longer than waking it.
const SMALL_BATCH_BYTES_MAX: u64 = 64 << 10;

/// The journal of an open volume, its queue, and how far it is durable.
pub struct Committer {
    /// Checked for the lease before each batch.
    media: Arc<dyn Media>,
    queue: Mutex<Queue>,
    queued: Condvar,
    ring: Mutex<Writer>,
    durable: AtomicU64,
    progress: Mutex<()>,
    progressed: Condvar,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
    /// The latest time that queued entries allow to be handed out.
    time_ceiling: AtomicI64,
    /// No earlier time is handed out.
    time_floor: Time,
    /// The entry that carries `time_ceiling`.
    ceiling_seq: AtomicU64,
    used_bytes: AtomicU64,
    capacity_bytes: u64,
    generation: Generation,
    notify: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

#[derive(Default)]
struct Queue {
    entries: Vec<Bytes>,
    /// Sequence of the first entry of `entries`.
    first: u64,
    /// Bytes of `entries`.
    bytes: u64,
    /// Sequences at which a batch must end, as a memtable was frozen there.
    fences: Vec<Seq>,
    /// The committer should retry although nothing is queued.
    kicked: bool,
    /// The ring has no room for the next batch: the committer waits until it is kicked.
    stuck: bool,
}

impl Queue {
    /// Whether a batch can be tried.
    fn is_ready(&self) -> bool {
        self.kicked || (!self.entries.is_empty() && !self.stuck)
    }
}

struct Writer {
    ring: Ring,
    /// A batch that did not fit, to be retried after a trim.
    waiting: Option<(u64, Vec<Bytes>)>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").field("durable", &self.durable()).finish_non_exhaustive()
    }
}

impl Committer {
    /// Returns a committer that continues after `last`, which is durable.
    pub fn new(
        media: Arc<dyn Media>,
        ring: Ring,
        last: Seq,
        generation: Generation,
        time_floor: Time,
    ) -> Committer {
        Committer {
            media,
            queue: Mutex::new(Queue { first: last.0 + 1, ..Queue::default() }),
            queued: Condvar::new(),
            durable: AtomicU64::new(last.0),
            progress: Mutex::new(()),
            progressed: Condvar::new(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            time_ceiling: AtomicI64::new(i64::MIN),
            time_floor,
            ceiling_seq: AtomicU64::new(last.0),
            used_bytes: AtomicU64::new(ring.used_bytes()),
            capacity_bytes: ring.capacity_bytes(),
            ring: Mutex::new(Writer { ring, waiting: None }),
            generation,
            notify: Mutex::new(None),
        }
    }

    /// Queues an entry and returns its sequence number. The caller holds the locks of everything the entry changes,
    /// and calls [`Committer::wake`] soon.
    pub fn push(&self, entry: impl Into<Bytes>) -> Seq {
        let entry = entry.into();
        debug_assert!(entry.len() as u64 <= ENTRY_BYTES_MAX, "an entry of {} bytes", entry.len());
        let mut queue = self.queue.lock();
        queue.bytes += entry.len() as u64;
        queue.entries.push(entry);
        Seq(queue.first + queue.entries.len() as u64 - 1)
    }

    /// Wakes the committer if anything is queued.
    pub fn wake(&self) {
        if !self.queue.lock().entries.is_empty() {
            self.queued.notify_one();
        }
    }

    /// Returns the sequence of the last entry queued.
    pub fn last_queued(&self) -> Seq {
        let queue = self.queue.lock();
        Seq(queue.first + queue.entries.len() as u64 - 1)
    }

    /// Makes a batch end at the last entry queued, and returns its sequence.
    pub fn fence(&self) -> Seq {
        let mut queue = self.queue.lock();
        let seq = Seq(queue.first + queue.entries.len() as u64 - 1);
        queue.fences.push(seq);
        seq
    }

    /// Returns the sequence of the last durable entry.
    pub fn durable(&self) -> Seq {
        Seq(self.durable.load(Ordering::Acquire))
    }

    /// Whether the journal failed: nothing more becomes durable.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns why the journal failed.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Fails the journal for good: what is not durable never will be.
    pub fn fail(&self, reason: String) {
        tracing::error!(event = "device_error", reason, "the pool refuses changes from now on");
        self.failure.lock().get_or_insert(reason);
        self.failed.store(true, Ordering::Release);
        self.wake_waiters();
    }

    /// Returns a timestamp for a change, and the entry that must be durable before the timestamp may be shown.
    pub fn stamp(&self, now: Time) -> (Time, Seq) {
        let now = now.max(self.time_floor);
        if now.nanos() > self.time_ceiling.load(Ordering::Acquire) {
            self.raise_ceiling(now);
        }
        (now, Seq(self.ceiling_seq.load(Ordering::Acquire)))
    }

    /// Returns the latest time that may have been handed out.
    pub fn time_ceiling(&self) -> Time {
        Time::from_nanos(self.time_ceiling.load(Ordering::Acquire)).max(self.time_floor)
    }

    /// Raises the ceiling with an entry of its own, so that times which unstable writes reveal are below a durable
    /// ceiling.
    fn raise_ceiling(&self, now: Time) {
        let mut queue = self.queue.lock();
        if now.nanos() <= self.time_ceiling.load(Ordering::Acquire) {
            return;
        }
        let entry = Bytes::from(crate::encoding::entry::Entry::default().encode());
        queue.bytes += entry.len() as u64;
        queue.entries.push(entry);
        let seq = queue.first + queue.entries.len() as u64 - 1;
        self.ceiling_seq.store(seq, Ordering::Release);
        self.time_ceiling.store(now.plus(TIME_LEAD).nanos(), Ordering::Release);
    }

    /// Writes and syncs one batch; returns whether it did.
    pub fn step(&self) -> bool {
        self.may_write() && self.write_batch(self.ring.lock())
    }

    /// Like [`Committer::step`], but only for a small batch and only if no other thread is writing one: never waits.
    pub fn try_step(&self) -> bool {
        if self.queued_bytes() > SMALL_BATCH_BYTES_MAX || !self.may_write() {
            return false;
        }
        self.ring.try_lock().is_some_and(|writer| self.write_batch(writer))
    }

    /// Checks that the journal may be written, including the lease.
    fn may_write(&self) -> bool {
        if self.has_failed() {
            return false;
        }
        if self.media.tenure() == Tenure::Lost {
            self.fail("the lease on the pool is lost: another server may have it".to_owned());
            return false;
        }
        true
    }

    fn write_batch(&self, mut writer: MutexGuard<'_, Writer>) -> bool {
        let Some((first, entries)) = writer.waiting.take().or_else(|| self.take_batch(&writer.ring)) else {
            return false;
        };
        let batch = Batch {
            generation: self.generation,
            first_seq: Seq(first),
            entries: &entries,
            durable: self.durable(),
            time_ceiling: self.time_ceiling(),
        };
        match writer.ring.append(&batch) {
            Ok(()) => {}
            Err(AppendError::Full) => {
                writer.waiting = Some((first, entries));
                self.used_bytes.store(self.capacity_bytes, Ordering::Relaxed);
                // Making room takes the ring's lock, and a kick follows.
                let mut queue = self.queue.lock();
                (queue.kicked, queue.stuck) = (false, true);
                return false;
            }
            Err(AppendError::Io(error)) => {
                self.fail(format!("writing the journal failed: {error}"));
                return false;
            }
        }
        if let Err(error) = writer.ring.sync() {
            self.fail(format!("syncing the journal failed: {error}"));
            return false;
        }
        self.used_bytes.store(writer.ring.used_bytes(), Ordering::Relaxed);
        self.durable.store(first + entries.len() as u64 - 1, Ordering::Release);
        drop(writer);
        self.wake_waiters();
        true
    }

    fn take_batch(&self, ring: &Ring) -> Option<(u64, Vec<Bytes>)> {
        let mut queue = self.queue.lock();
        queue.kicked = false;
        if queue.entries.is_empty() {
            return None;
        }
        let max = usize::try_from(ring.largest_batch_bytes())
            .unwrap_or(usize::MAX)
            .min(BATCH_BYTES_TARGET)
            .min(self.batch_bytes());
        let first = queue.first;
        queue.fences.retain(|fence| fence.0 >= first);
        let until_fence = queue.fences.first().map_or(usize::MAX, |fence| {
            usize::try_from(fence.0 - first + 1).expect("a queue holds fewer entries than memory has bytes")
        });
        let mut bytes = 0;
        let count = queue
            .entries
            .iter()
            .take(until_fence)
            .take_while(|entry| {
                bytes += entry.len() + 16;
                bytes <= max
            })
            .count()
            .max(1);
        let rest = queue.entries.split_off(count);
        let entries = std::mem::replace(&mut queue.entries, rest);
        queue.first += count as u64;
        queue.bytes = queue.bytes.saturating_sub(entries.iter().map(|entry| entry.len() as u64).sum());
        Some((first, entries))
    }

    /// Returns the bound of a batch relative to the ring: a batch that does not fit before the ring's end leaves that
    /// much unused.
    fn batch_bytes(&self) -> usize {
        usize::try_from(self.capacity_bytes / 16).unwrap_or(usize::MAX)
    }

    /// Blocks until something is queued, at most for `max`.
    pub fn wait_for_work(&self, max: Duration) {
        let mut queue = self.queue.lock();
        if !queue.is_ready() {
            self.queued.wait_for(&mut queue, max);
        }
    }

    /// Makes the committer retry, as after a trim.
    pub fn kick(&self) {
        let mut queue = self.queue.lock();
        (queue.kicked, queue.stuck) = (true, false);
        drop(queue);
        self.queued.notify_all();
    }

    /// Blocks until `seq` is durable, or never will be. With `drive`, runs the steps itself.
    pub fn wait_durable(&self, seq: Seq, drive: bool) -> bool {
        while self.durable() < seq {
            if self.has_failed() || (drive && !self.step()) {
                return self.durable() >= seq;
            }
            if !drive {
                self.wake();
                let mut guard = self.progress.lock();
                if self.durable() < seq && !self.has_failed() {
                    self.progressed.wait_for(&mut guard, Duration::from_millis(100));
                }
            }
        }
        true
    }

    /// Returns the anchor at `seq`, which a fence made the end of a batch.
    pub fn anchor_at(&self, seq: Seq) -> Option<Anchor> {
        self.ring.lock().ring.anchor_at(seq)
    }

    /// Frees the part of the ring that a checkpoint covers.
    pub fn trim(&self, anchor: &Anchor) {
        let mut writer = self.ring.lock();
        writer.ring.trim(anchor);
        self.used_bytes.store(writer.ring.used_bytes(), Ordering::Relaxed);
        drop(writer);
        self.kick();
    }

    /// Whether the ring, with the queued entries, is so full that only background work may continue, with care.
    pub fn is_busy(&self) -> bool {
        (self.used_bytes() + self.queued_bytes()) * 100 > self.capacity_bytes * BUSY_PERCENT
    }

    /// Whether the ring, with the queued entries, is so full that nothing may be queued before a checkpoint.
    pub fn is_full(&self) -> bool {
        let held = self.used_bytes() + self.queued_bytes();
        held * 100 > self.capacity_bytes * FULL_PERCENT || held + ENTRY_BYTES_MAX > self.capacity_bytes
    }

    /// Returns the bytes of queued entries that are not written yet.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.lock().bytes
    }

    /// Returns the bytes of the ring that no checkpoint covers.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns the capacity of the ring, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Returns the open-generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Sets a callback for when durability advances or fails.
    pub fn on_progress(&self, notify: Box<dyn Fn() + Send + Sync>) {
        *self.notify.lock() = Some(Arc::from(notify));
    }

    /// Wakes all waiting threads.
    pub fn wake_waiters(&self) {
        drop(self.progress.lock());
        self.progressed.notify_all();
        let notify = self.notify.lock().clone();
        if let Some(notify) = notify {
            notify();
        }
    }
}

#[cfg(test)]
mod tests;
