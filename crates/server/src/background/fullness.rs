//! Warns when a pool fills up: once each time it becomes nearly full or full, and once when it has room again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use volume::ids::VolumeNumber;
use volume::request::{Access, Credentials, Request};
use volume::results::VolumeStatus;
use volume::{Pool, Volume};

use crate::clock::now;
use crate::config::size::Size;
use crate::volumes::nearly_full_below;

/// How often a pool is checked. A check takes time in proportion to the number of segments.
const INTERVAL: Duration = Duration::from_secs(5);

/// How full a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Level {
    #[default]
    Room,
    NearlyFull,
    Full,
}

/// How full the volumes of a pool were when they were last checked. Those without a size share the space of the pool: one of them
/// stands for all.
#[derive(Debug, Default)]
pub(crate) struct Fullness {
    levels: HashMap<VolumeNumber, Fill>,
    /// Whether the pool refused data.
    is_full: bool,
    /// When that was.
    watched: Option<Instant>,
}

/// How full a volume, or a pool, was.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    level: Level,
}

impl Fullness {
    /// Checks a pool if [`INTERVAL`] has passed, and logs which volumes crossed a threshold.
    pub(crate) fn watch(&mut self, pool: &Arc<Pool>) {
        if self.watched.is_some_and(|time| time.elapsed() < INTERVAL) {
            return;
        }
        self.watched = Some(Instant::now());
        let (mut volumes, mut is_shared_seen) = (pool.volumes(), false);
        volumes.retain(|volume| volume.size().is_some() || !std::mem::replace(&mut is_shared_seen, true));
        self.levels.retain(|number, _| volumes.iter().any(|volume| volume.number() == *number));
        let pool_refuses = pool.refuses_data();
        self.is_full = pool_refuses;
        for volume in &volumes {
            let fill = self.levels.entry(volume.number()).or_default();
            fill.watch(volume, pool_refuses && volume.size().is_none() || is_over_mapped(volume));
        }
    }
}

impl Fullness {
    /// Whether the pool refused data when it was last checked.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

/// Whether a volume has more mappings than its size allows.
fn is_over_mapped(volume: &Volume) -> bool {
    let (mappings, most) = volume.mappings();
    most.is_some_and(|most| mappings > most)
}

impl Fill {
    fn watch(&mut self, volume: &Volume, refuses_data: bool) {
        let superuser = Credentials::root();
        let request = Request { credentials: &superuser, now: now(), access: Access::Cached, key: None };
        let Ok(status) = volume.status(&request) else { return };
        let status = status.value;
        let Some(level) = self.cross(&status, refuses_data) else { return };
        let (free, total) = (Size(status.bytes_free), Size(status.bytes_total));
        // Its own size is meant, or that of the pool.
        let sized = volume.size().map(|_| tracing::field::display(volume.name()));
        match level {
            Level::Room => {
                tracing::info!(event = "volume_has_room", volume = sized, %free, %total, "the volume has room again")
            }
            Level::NearlyFull => {
                tracing::warn!(event = "volume_nearly_full", volume = sized, %free, %total, "the volume is nearly full: remove files, or enlarge it or its file system")
            }
            Level::Full if is_over_mapped(volume) => tracing::error!(
                event = "volume_full",
                volume = sized,
                mappings = volume.mappings().0,
                %free,
                %total,
                "the data of the volume's files is in more pieces than its size allows: clients get \"no space left\" until \
                 files of many small pieces are removed, or the volume is enlarged"
            ),
            Level::Full => tracing::error!(
                event = "volume_full",
                volume = sized,
                %free,
                %total,
                "the volume is full: clients get \"no space left\" until files are removed, or it or its file system is \
                 enlarged"
            ),
        }
    }

    /// Returns the new level if it differs from the last one. A pool has room again only at one and a half times the
    /// threshold, so that one file that comes and goes does not cross it each time.
    fn cross(&mut self, status: &VolumeStatus, refuses_data: bool) -> Option<Level> {
        let nearly = nearly_full_below(status.bytes_total);
        let (free, last) = (status.bytes_free, self.level);
        self.level = if refuses_data || free == 0 {
            Level::Full
        } else if free < nearly || last != Level::Room && free < nearly + nearly / 2 {
            Level::NearlyFull
        } else {
            Level::Room
        };
        (self.level != last).then_some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn status(bytes_free: u64, bytes_total: u64) -> VolumeStatus {
        VolumeStatus {
            bytes_free,
            bytes_total,
            bytes_used: bytes_total - bytes_free,
            ..VolumeStatus::default()
        }
    }

    #[test]
    fn each_threshold_is_reported_once_per_crossing() {
        let mut fullness = Fill::default();
        let mut at = |free: u64, refuses| fullness.cross(&status(free * GIB, 100 * GIB), refuses);
        assert_eq!(at(100, false), None);
        assert_eq!(at(10, false), None);
        assert_eq!(at(9, false), Some(Level::NearlyFull));
        assert_eq!(at(5, false), None);
        assert_eq!(at(12, false), None, "a little more does not count");
        assert_eq!(at(9, false), None);
        assert_eq!(at(0, false), Some(Level::Full));
        assert_eq!(at(0, true), None);
        assert_eq!(at(3, true), None, "it still refuses data");
        assert_eq!(at(3, false), Some(Level::NearlyFull));
        assert_eq!(at(15, false), Some(Level::Room));
        assert_eq!(at(9, false), Some(Level::NearlyFull), "the next crossing is reported again");
        assert_eq!(at(50, false), Some(Level::Room));
    }

    #[test]
    fn a_large_volume_is_not_nearly_full_while_64_gib_are_free() {
        let mut fullness = Fill::default();
        assert_eq!(fullness.cross(&status(64 * GIB, 10_000 * GIB), false), None);
        assert_eq!(fullness.cross(&status(63 * GIB, 10_000 * GIB), false), Some(Level::NearlyFull));
    }

    #[test]
    fn an_empty_volume_without_any_room_is_full() {
        assert_eq!(Fill::default().cross(&status(0, 0), false), Some(Level::Full));
    }
}
