//! Warns when a volume fills up: once each time it becomes nearly full or full, and once when it has room again.

use std::time::{Duration, Instant};

use volume::Volume;
use volume::request::{Access, Credentials, Request};
use volume::results::VolumeStatus;

use crate::clock::now;
use crate::config::size::Size;

/// A volume with less free space than this share of it is nearly full.
const NEARLY_FULL_SHARE: u64 = 10;

/// How often a volume is checked. A check takes time in proportion to the number of segments.
const INTERVAL: Duration = Duration::from_secs(5);

/// A volume with this much free space is never nearly full, bytes.
const ENOUGH_BYTES: u64 = 64 << 30;

/// How full a volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Level {
    #[default]
    Room,
    NearlyFull,
    Full,
}

/// How full a volume was when it was last checked.
#[derive(Debug, Default)]
pub(crate) struct Fullness {
    level: Level,
    /// When that was.
    watched: Option<Instant>,
}

impl Fullness {
    /// Checks a volume if [`INTERVAL`] has passed, and logs if it crossed a threshold.
    pub(crate) fn watch(&mut self, volume: &Volume) {
        if self.watched.is_some_and(|time| time.elapsed() < INTERVAL) {
            return;
        }
        self.watched = Some(Instant::now());
        let superuser = Credentials::root();
        let request = Request { credentials: &superuser, now: now(), access: Access::Cached, key: None };
        let Ok(status) = volume.status(&request) else { return };
        let status = status.value;
        let Some(level) = self.cross(&status, volume.refuses_data()) else { return };
        let (free, total) = (Size(status.bytes_free), Size(status.bytes_total));
        match level {
            Level::Room => tracing::info!(%free, %total, "the volume has room again"),
            Level::NearlyFull => {
                tracing::warn!(%free, %total, "the volume is nearly full: remove files, or enlarge its file system")
            }
            Level::Full => tracing::error!(
                %free,
                %total,
                "the volume is full: clients get \"no space left\" until files are removed, or its file system is \
                 enlarged"
            ),
        }
    }

    /// Returns the new level if it differs from the last one. A volume has room again only at one and a half times the
    /// threshold, so that one file that comes and goes does not cross it each time.
    fn cross(&mut self, status: &VolumeStatus, refuses_data: bool) -> Option<Level> {
        let nearly = (status.bytes_total / NEARLY_FULL_SHARE).min(ENOUGH_BYTES);
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
        let mut fullness = Fullness::default();
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
        let mut fullness = Fullness::default();
        assert_eq!(fullness.cross(&status(64 * GIB, 10_000 * GIB), false), None);
        assert_eq!(fullness.cross(&status(63 * GIB, 10_000 * GIB), false), Some(Level::NearlyFull));
    }

    #[test]
    fn an_empty_volume_without_any_room_is_full() {
        assert_eq!(Fullness::default().cross(&status(0, 0), false), Some(Level::Full));
    }
}
