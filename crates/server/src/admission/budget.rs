//! The memory that one event loop's connections hold, and when more may be taken.
//!
//! Requests and replies have a half each, so that neither can keep the other from completing. The length of a record is
//! reserved when it is known, the greatest size of a large reply before its call runs; both begin only if that fits. Small
//! records and replies have headroom that large ones leave.
//!
//! An origin that holds something is given more only while it would not hold more than what is free. So one origin takes
//! half at most, two take a third each, and whoever holds nothing finds room.

use wire::limits::RECORD_BYTES_MAX;

use super::origins::{Held, OriginKey, Origins};
use crate::limits::{PORTION_BYTES, SMALL_RECORD_BYTES_MAX, SMALL_REPLIES_BYTES, SMALL_REQUESTS_BYTES};

/// Bytes held, and their limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    /// The sum over the origins, and empty output buffers among the replies.
    total: Held,
    /// The highest sum of both so far.
    highest: usize,
    pub(crate) origins: Origins,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        Budget { limit, total: Held::default(), highest: 0, origins: Origins::default() }
    }

    /// Returns the bytes held.
    pub(crate) fn held(&self) -> usize {
        self.total.requests + self.total.replies
    }

    /// Returns the most bytes ever held.
    pub(crate) fn highest(&self) -> usize {
        self.highest
    }

    /// Counts requests of an origin: `bytes` in place of `before`.
    pub(crate) fn count_requests(&mut self, origin: OriginKey, before: usize, bytes: usize) {
        self.origins.count(origin, |held| held.requests = held.requests - before + bytes);
        self.total.requests = self.total.requests - before + bytes;
        self.highest = self.highest.max(self.held());
    }

    /// Counts replies of an origin: `bytes` in place of `before`.
    pub(crate) fn count_replies(&mut self, origin: OriginKey, before: usize, bytes: usize) {
        self.origins.count(origin, |held| held.replies = held.replies - before + bytes);
        self.count_buffers(before, bytes);
    }

    /// Counts output buffers that are kept for any origin.
    pub(crate) fn count_buffers(&mut self, before: usize, bytes: usize) {
        self.total.replies = self.total.replies - before + bytes;
        self.highest = self.highest.max(self.held());
    }

    /// Whether memory that is kept for reuse must be freed.
    pub(crate) fn is_tight(&self) -> bool {
        self.total.requests > self.limit / 4 || self.total.replies > self.limit / 4
    }

    /// Whether there is memory for whatever one read of an origin's connection brings, without looking at it before.
    pub(crate) fn has_plenty(&self, origin: OriginKey) -> bool {
        let held = self.origins.held(origin);
        held.requests + RECORD_BYTES_MAX <= self.free_for_large_requests()
            && held.replies + PORTION_BYTES <= self.free_for_small_replies()
    }

    /// Whether an origin that holds `held` may begin a record of this length, for which `counted` bytes are counted already.
    pub(crate) fn may_receive(&self, held: Held, length: usize, counted: usize) -> bool {
        let is_small = length <= SMALL_RECORD_BYTES_MAX;
        let free = if is_small { self.free_for_small_requests() } else { self.free_for_large_requests() };
        fits(held.requests.saturating_sub(counted), length, free + counted)
    }

    /// Whether an origin that holds `held` may have one more small reply.
    pub(crate) fn may_answer(&self, held: Held) -> bool {
        held.replies < self.free_for_small_replies()
    }

    /// Whether an origin that holds `held` may begin a large reply.
    pub(crate) fn may_reply(&self, held: Held, bytes: usize) -> bool {
        let free = self.free_for_small_replies().saturating_sub(SMALL_REPLIES_BYTES);
        fits(held.replies, bytes, free)
    }

    fn free_for_small_requests(&self) -> usize {
        (self.limit / 2).saturating_sub(self.total.requests)
    }

    fn free_for_large_requests(&self) -> usize {
        self.free_for_small_requests().saturating_sub(SMALL_REQUESTS_BYTES)
    }

    fn free_for_small_replies(&self) -> usize {
        (self.limit / 2).saturating_sub(self.total.replies)
    }
}

/// Whether `bytes` more fit into what is free, for an origin that holds `held`.
fn fits(held: usize, bytes: usize, free: usize) -> bool {
    let share = if held == 0 { bytes } else { held + bytes };
    share <= free
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64 << 20;

    fn budget() -> (Budget, [OriginKey; 3]) {
        let mut budget = Budget::new(LIMIT);
        let keys = ["192.0.2.1", "2001:db8::", "192.0.2.3"]
            .map(|address| budget.origins.join(address.parse().unwrap()));
        (budget, keys)
    }

    /// Begins as many large records as an origin may. Returns their bytes.
    fn fill(budget: &mut Budget, origin: OriginKey) -> usize {
        let before = budget.origins.held(origin).requests;
        while budget.may_receive(budget.origins.held(origin), RECORD_BYTES_MAX, 0) {
            budget.count_requests(origin, 0, RECORD_BYTES_MAX);
        }
        budget.origins.held(origin).requests - before
    }

    #[test]
    fn an_origin_takes_half_of_what_is_free_and_others_find_room() {
        let (mut budget, [greedy, second, third]) = budget();
        let all = LIMIT / 2 - SMALL_REQUESTS_BYTES;
        let taken = fill(&mut budget, greedy);
        assert!(taken <= all / 2 + RECORD_BYTES_MAX && taken > all / 2 - RECORD_BYTES_MAX, "{taken}");
        assert!(!budget.has_plenty(greedy) && budget.has_plenty(second));
        assert!(fill(&mut budget, second) > all / 4 - RECORD_BYTES_MAX);
        assert!(fill(&mut budget, third) > all / 8 - RECORD_BYTES_MAX);
        assert!(budget.held() <= all);
        budget.count_requests(second, budget.origins.held(second).requests, 0);
        assert_eq!(fill(&mut budget, greedy), 0, "it has its share");
    }

    #[test]
    fn small_records_fit_when_large_ones_do_not() {
        let (mut budget, [greedy, second, third]) = budget();
        budget.count_requests(greedy, 0, LIMIT / 2 - SMALL_REQUESTS_BYTES);
        assert!(!budget.may_receive(budget.origins.held(second), RECORD_BYTES_MAX, 0));
        assert!(budget.may_receive(budget.origins.held(second), SMALL_RECORD_BYTES_MAX, 0));
        assert!(!budget.may_receive(budget.origins.held(greedy), 100, 0));
        assert!(!budget.may_receive(budget.origins.held(second), SMALL_RECORD_BYTES_MAX + 1, 0));
        budget.count_requests(third, 0, SMALL_RECORD_BYTES_MAX + 1);
        assert!(budget.may_receive(
            budget.origins.held(third),
            SMALL_RECORD_BYTES_MAX,
            SMALL_RECORD_BYTES_MAX + 1
        ));
    }

    #[test]
    fn replies_have_a_half_of_their_own() {
        let (mut budget, [greedy, second, _]) = budget();
        budget.count_requests(greedy, 0, LIMIT / 2);
        while budget.may_reply(budget.origins.held(greedy), 1 << 20) {
            budget.count_replies(greedy, 0, 1 << 20);
        }
        let held = budget.origins.held(greedy).replies;
        assert!((LIMIT / 4 - (2 << 20)..=LIMIT / 4).contains(&held), "{held}");
        assert!(
            budget.may_reply(budget.origins.held(second), 8 << 20)
                && budget.may_answer(budget.origins.held(second))
        );
        budget.count_replies(greedy, 0, 2 << 20);
        assert!(
            !budget.may_answer(budget.origins.held(greedy)) && budget.may_answer(budget.origins.held(second))
        );
        let all = budget.held();
        budget.count_requests(greedy, LIMIT / 2, 0);
        assert_eq!((budget.highest(), budget.held()), (all, all - LIMIT / 2));
    }
}
