//! What happens to quotas, until somebody asks for it.
//!
//! Anybody can meet a limit as often as he likes, under many numbers of users. So an owner is named once in a while, and only so many
//! are kept.

use std::time::Duration;

use crate::api::quotas::{Owner, QuotaNotice};
use crate::api::time::Time;

/// Most notices that are kept.
const NOTICES_MAX: usize = 16;

/// Owners of whom is known that they were named lately.
const NAMED_MAX: usize = 256;

/// How long an owner is not named again.
const PAUSE: Duration = Duration::from_secs(3600);

/// The newest notices.
#[derive(Debug, Default)]
pub(super) struct Notices {
    kept: Vec<(Owner, QuotaNotice)>,
    /// Those that were not kept.
    lost: u64,
    /// Who was named lately, and when. The oldest one goes if there are too many.
    named: Vec<(Owner, QuotaNotice, Time)>,
}

impl Notices {
    /// Adds a notice, unless the owner was named for the same a short time ago.
    pub(super) fn add(&mut self, owner: Owner, notice: QuotaNotice, now: Time) {
        self.named.retain(|(_, _, time)| now < time.plus(PAUSE));
        if self.named.iter().any(|(of, before, _)| (*of, *before) == (owner, notice)) {
            return;
        }
        if self.kept.len() == NOTICES_MAX {
            self.lost += 1;
            return;
        }
        self.kept.push((owner, notice));
        if self.named.len() == NAMED_MAX {
            self.named.remove(0);
        }
        self.named.push((owner, notice, now));
    }

    /// Returns them, and how many were lost besides.
    pub(super) fn take(&mut self) -> (Vec<(Owner, QuotaNotice)>, u64) {
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::quotas::QuotaKind;

    const NOW: Time = Time::from_nanos(1_000_000_000);

    #[test]
    fn an_owner_is_named_once_in_a_while_and_few_are_kept() {
        let mut notices = Notices::default();
        let user = |id| Owner::new(QuotaKind::User, id);
        for _ in 0..100 {
            notices.add(user(1), QuotaNotice::Refused, NOW);
        }
        notices.add(user(1), QuotaNotice::SoftExceeded, NOW);
        let both = [(user(1), QuotaNotice::Refused), (user(1), QuotaNotice::SoftExceeded)];
        assert_eq!(notices.take(), (both.to_vec(), 0));
        notices.add(user(1), QuotaNotice::Refused, NOW);
        assert_eq!(notices.take(), (Vec::new(), 0), "not again");
        notices.add(user(1), QuotaNotice::Refused, NOW.plus(PAUSE));
        assert_eq!(notices.take().0.len(), 1);
        for id in 0..3 * NAMED_MAX as u64 {
            notices.add(user(2 + id), QuotaNotice::Refused, NOW);
            if id % 8 == 7 {
                assert_eq!(notices.take().0.len(), 8);
            }
        }
        assert_eq!(notices.named.len(), NAMED_MAX);
        for id in 0..100 {
            notices.add(user(1 << 20 | id), QuotaNotice::Refused, NOW);
        }
        let (kept, lost) = notices.take();
        assert_eq!((kept.len(), lost), (NOTICES_MAX, 84));
    }
}
