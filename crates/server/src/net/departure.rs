//! Until when the calls of a connection are worth executing.
//!
//! A peer that has closed its side has most likely gone, or has connected again and will repeat its calls. Only a reply would show
//! that, and a long call sends none for minutes. So what has not been answered a moment later is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use volume::time::Time;

use crate::limits::LEAVING_MAX;

/// When a peer is gone. Its connection and its calls share it, wherever they wait.
#[derive(Clone, Debug)]
pub(crate) struct Departure(Arc<AtomicI64>);

impl Departure {
    /// Returns that of a peer that stays.
    pub(crate) fn none() -> Departure {
        Departure(Arc::new(AtomicI64::new(i64::MAX)))
    }

    /// Notes that the peer has closed its side.
    pub(crate) fn begin(&self, now: Time) {
        // Often it is noted again, which gives it no more time.
        self.0.fetch_min(now.plus(LEAVING_MAX).nanos(), Ordering::Relaxed);
    }

    /// Notes that the connection was closed.
    pub(crate) fn complete(&self) {
        self.0.store(i64::MIN, Ordering::Relaxed);
    }

    /// Whether nobody awaits replies any longer.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.0.load(Ordering::Relaxed) <= now.nanos()
    }
}
