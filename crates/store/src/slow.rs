//! Media with a minimum duration of each sync, to measure as if on a slower device: a device whose syncs take no time does
//! not show the effect of group commit. Nothing else is slower, and nothing is less durable, since the real sync is done
//! first.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use volume::media::Media;

use crate::around::{Around, wrap};

/// Wraps `media` so that each sync of the log, the index and segments takes at least `delay`.
pub fn with_slow_syncs(media: Arc<dyn Media>, delay: Duration) -> Arc<dyn Media> {
    if delay.is_zero() { media } else { wrap(media, Arc::new(SlowSyncs(delay))) }
}

/// The minimum duration of a sync.
struct SlowSyncs(Duration);

impl Around for SlowSyncs {
    fn sync<R>(&self, sync: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let began = Instant::now();
        let result = sync();
        thread::sleep(self.0.saturating_sub(began.elapsed()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_takes_the_delay_and_returns_the_real_result() {
        let delay = Duration::from_millis(20);
        let slow = SlowSyncs(delay);
        let began = Instant::now();
        let result: io::Result<()> = slow.sync(|| Err(io::Error::other("no device")));
        assert_eq!(result.unwrap_err().to_string(), "no device");
        assert!(began.elapsed() >= delay);
        assert_eq!(slow.change(|| Ok(7)).unwrap(), 7);
    }
}
