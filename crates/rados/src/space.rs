//! The space that a pool of the cluster has left.
//!
//! Nothing is allocated ahead: an object takes space when it is written. So what was promised, for segments that are not full yet, is
//! subtracted from what the cluster says, and some is set aside: the figure is seconds old, and others fill the same devices.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use volume::media::Space;

use crate::librados::Cluster;

/// The time between two questions to the monitors.
const PERIOD: Duration = Duration::from_secs(2);

/// How long to wait for the first figures of a pool: the manager gathers figures every five seconds (`mgr_stats_period`), so a new
/// pool has none at first.
const FIRST_FIGURES: Duration = Duration::from_secs(15);

/// The time between two questions during that wait.
const POLL: Duration = Duration::from_millis(250);

/// What is set aside: a 64th of the pool, but at least and at most so much, and no more than a quarter.
const MARGIN_BYTES_MIN: u64 = 64 << 20;
const MARGIN_BYTES_MAX: u64 = 1 << 30;

/// What the cluster says of a pool, and what was promised of it.
#[derive(Debug)]
pub(crate) struct Room {
    pool: String,
    total: AtomicU64,
    available: AtomicU64,
    /// With what is set aside.
    left: AtomicU64,
    promised: AtomicU64,
}

impl Room {
    pub(crate) fn new(pool: &str) -> Arc<Room> {
        let pool = pool.to_owned();
        Arc::new(Room {
            pool,
            total: AtomicU64::new(0),
            available: AtomicU64::new(0),
            left: AtomicU64::new(0),
            promised: AtomicU64::new(0),
        })
    }

    /// Notes what the cluster says: bytes in all, and those that may still be written.
    pub(crate) fn set(&self, total: u64, available: u64) {
        let margin = (total / 64).clamp(MARGIN_BYTES_MIN, MARGIN_BYTES_MAX).min(total / 4);
        self.total.store(total, Ordering::Relaxed);
        self.left.store(available, Ordering::Relaxed);
        self.available.store(available.saturating_sub(margin), Ordering::Relaxed);
    }

    /// Returns what is left beyond what was promised.
    pub(crate) fn space(&self) -> Space {
        let available = self.available.load(Ordering::Relaxed);
        let promised = self.promised.load(Ordering::Relaxed);
        Space { total: self.total.load(Ordering::Relaxed), available: available.saturating_sub(promised) }
    }

    /// Refuses what does not fit.
    pub(crate) fn check(&self, bytes: u64) -> io::Result<()> {
        self.check_within(bytes, self.space().available)
    }

    /// Refuses what does not fit, for the pool's own bookkeeping: that may take what is set aside.
    pub(crate) fn check_own(&self, bytes: u64) -> io::Result<()> {
        self.check_within(bytes, self.left.load(Ordering::Relaxed))
    }

    fn check_within(&self, bytes: u64, available: u64) -> io::Result<()> {
        if bytes <= available {
            return Ok(());
        }
        let text = format!(
            "the pool {} of the Ceph cluster has {available} bytes left, and {bytes} are needed: free some space, or add OSDs",
            self.pool
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, text))
    }

    /// Promises space that is about to be used.
    pub(crate) fn promise(self: &Arc<Room>, bytes: u64) -> io::Result<Promise> {
        self.check(bytes)?;
        self.promised.fetch_add(bytes, Ordering::Relaxed);
        Ok(Promise { room: Arc::clone(self), left: AtomicU64::new(bytes) })
    }
}

/// Promised space that is not used yet. The rest is given back on drop.
#[derive(Debug)]
pub(crate) struct Promise {
    room: Arc<Room>,
    left: AtomicU64,
}

impl Promise {
    /// Notes that `bytes` of it were used.
    pub(crate) fn keep(&self, bytes: u64) {
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(bytes)));
        let used = before.unwrap_or_else(|left| left).min(bytes);
        self.room.promised.fetch_sub(used, Ordering::Relaxed);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep(u64::MAX);
    }
}

/// Asks the monitors for the space of pools from time to time, until dropped.
pub(crate) struct Watch {
    cluster: Arc<Cluster>,
    rooms: Arc<Mutex<Vec<Arc<Room>>>>,
}

impl Watch {
    pub(crate) fn start(cluster: &Arc<Cluster>) -> io::Result<Watch> {
        let watch = Watch { cluster: Arc::clone(cluster), rooms: Arc::default() };
        let (cluster, rooms) = (Arc::downgrade(cluster), Arc::downgrade(&watch.rooms));
        // The thread may wait for monitors that do not answer, so nobody waits for the thread.
        thread::Builder::new().name("rados space".to_owned()).spawn(move || {
            loop {
                thread::sleep(PERIOD);
                let (Some(cluster), Some(rooms)) = (cluster.upgrade(), rooms.upgrade()) else { return };
                let rooms = lock(&rooms).clone();
                if let Err(error) = update(&cluster, &rooms) {
                    tracing::warn!(%error, "the Ceph cluster does not say how much space there is");
                }
            }
        })?;
        Ok(watch)
    }

    /// Returns the room of a pool of the cluster.
    pub(crate) fn room(&self, pool: &str) -> io::Result<Arc<Room>> {
        if let Some(known) = lock(&self.rooms).iter().find(|room| room.pool == pool) {
            return Ok(Arc::clone(known));
        }
        let room = Room::new(pool);
        let end = Instant::now() + FIRST_FIGURES;
        while let Err(error) = update(&self.cluster, std::slice::from_ref(&room)) {
            if error.kind() != io::ErrorKind::WouldBlock || Instant::now() > end {
                return Err(error);
            }
            thread::sleep(POLL);
        }
        lock(&self.rooms).push(Arc::clone(&room));
        Ok(room)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for the space of pools. The error is `WouldBlock` if there are no figures for one of them yet.
fn update(cluster: &Cluster, rooms: &[Arc<Room>]) -> io::Result<()> {
    let answer = cluster.ask_monitors(r#"{"prefix": "df", "format": "json"}"#)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(io::Error::other)?;
    for room in rooms {
        let (total, available) = space_of(&answer, &room.pool).ok_or_else(|| {
            let text = format!("`ceph df` has no figures for the pool {}: is a manager running?", room.pool);
            io::Error::new(io::ErrorKind::WouldBlock, text)
        })?;
        room.set(total, available);
    }
    Ok(())
}

/// Returns the bytes of a pool and those of it that are available, as `ceph df` counts them: without copies.
fn space_of(answer: &Value, pool: &str) -> Option<(u64, u64)> {
    let pools = answer.get("pools")?.as_array()?;
    let stats = pools.iter().find(|found| found["name"] == pool)?.get("stats")?;
    let available = stats.get("max_avail")?.as_u64()?;
    Some((available + stats.get("stored").and_then(Value::as_u64).unwrap_or(0), available))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_count_until_they_are_kept_or_dropped() {
        let room = Room::new("nfs");
        room.set(6400, 2600);
        assert_eq!(room.space(), Space { total: 6400, available: 1000 });
        assert!(room.check(1001).is_err() && room.check_own(2600).is_ok() && room.check_own(2601).is_err());
        let promise = room.promise(600).unwrap();
        assert_eq!(room.space().available, 400);
        let error = room.promise(401).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("400 bytes left"), "{error}");
        promise.keep(100);
        assert_eq!(room.space().available, 500);
        drop(promise);
        assert_eq!(room.space().available, 1000);
    }

    #[test]
    fn figures_of_pools_are_found_in_what_ceph_prints() {
        let answer = r#"{"stats": {}, "pools": [{"name": "a", "id": 1, "stats": {"stored": 5, "max_avail": 7}},
            {"name": "b", "id": 2, "stats": {}}]}"#;
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(space_of(&answer, "a"), Some((12, 7)));
        assert_eq!((space_of(&answer, "b"), space_of(&answer, "c")), (None, None));
    }
}
