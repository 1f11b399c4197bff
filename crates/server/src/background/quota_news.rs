//! Reports soft limits that are exceeded, and quotas that refuse growth, as events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use volume::quota::{Owner, QuotaNotice};
use volume::{Pool, Volume};

/// How often a pool is asked. In between, a volume keeps a few notices, and counts the others.
const INTERVAL: Duration = Duration::from_secs(5);

/// When the quotas of a pool were last asked for.
#[derive(Debug, Default)]
pub(crate) struct QuotaNews {
    asked: Option<Instant>,
}

impl QuotaNews {
    /// Logs what happened to the quotas of a pool, if [`INTERVAL`] has passed.
    pub(crate) fn report(&mut self, pool: &Arc<Pool>) {
        if self.asked.is_some_and(|time| time.elapsed() < INTERVAL) {
            return;
        }
        self.asked = Some(Instant::now());
        pool.volumes().iter().for_each(report);
    }
}

fn report(volume: &Volume) {
    let (notices, more) = volume.take_quota_notices();
    let name = volume.name();
    for (Owner { kind, id }, notice) in notices {
        let kind = kind.name();
        match notice {
            QuotaNotice::SoftExceeded => {
                tracing::info!(event = "quota_exceeded", volume = %name, kind, id, "a soft limit is exceeded: it holds after the grace period")
            }
            QuotaNotice::Refused => {
                tracing::warn!(event = "quota_refused", volume = %name, kind, id, "a quota is used up: clients get \"disk quota exceeded\"")
            }
        }
    }
    if more > 0 {
        tracing::warn!(event = "quota_refused", volume = %name, more, "more quotas are exceeded or used up: see `holdfast quota report`");
    }
}
