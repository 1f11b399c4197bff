//! The memory that one event loop's connections hold, and when more may be taken.
//!
//! Requests and replies have a part each, so that neither can keep the other from completing. The length of a record is
//! reserved when it is known, the greatest size of a large reply before its call runs; both begin only if that fits. Small
//! records and replies have headroom that large ones leave.
//!
//! Each part has two halves ([`Half`]). Origins that are not fast have one of them and no more. Fast ones may use both
//! while no other origin waits. So slow origins cannot keep fast ones waiting, nor the reverse.
//!
//! An origin that holds something is given more only while it would not hold more than what is free. So one origin takes
//! half of what there is at most, two take a third each, and whoever holds nothing finds room.
//!
//! A small record for which its origin has no room may be taken in if it is lent some, which all origins together have little
//! of, and share in the same way.

use wire::limits::RECORD_BYTES_MAX;

use super::Short;
use super::origins::{Half, Held, OriginKey, Origins};
use crate::limits::{
    KEPT_CALLS_MIN, LENT_BYTES_MAX, LITTLE_READ_BYTES, PORTION_BYTES, READ_BYTES, REQUESTS_EIGHTHS,
    SHORT_REPLY_ROOM_MAX, SMALL_RECORD_BYTES_MAX, SMALL_REPLIES_BYTES, SMALL_REPLY_ROOM_MAX,
    SMALL_REQUESTS_BYTES,
};

/// Who asks for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// What its origin holds.
    pub(crate) held: Held,
    pub(crate) half: Half,
    /// Whether it may use no other half.
    pub(crate) is_confined: bool,
}

/// A part of memory, bytes.
#[derive(Clone, Copy, Debug)]
struct Part {
    all: usize,
    /// What only small records or replies may take of it.
    headroom: usize,
}

/// Bytes held, and their limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    /// The sum over the origins, and empty output buffers among the replies.
    total: Held,
    /// The highest sum of both so far.
    highest: usize,
    /// Bytes of small records that were taken in beyond the shares of their origins.
    lent: usize,
    pub(crate) origins: Origins,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        Budget { limit, total: Held::default(), highest: 0, lent: 0, origins: Origins::default() }
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
        let held = |requests| Held { requests, ..Held::default() };
        self.count(origin, held(before), held(bytes));
    }

    /// Counts a call that is not answered at once: `bytes` in place of `before`.
    pub(crate) fn count_kept_call(&mut self, origin: OriginKey, before: usize, bytes: usize) {
        let small = |bytes| if bytes <= SMALL_RECORD_BYTES_MAX { bytes } else { 0 };
        let held = |requests| Held { requests, kept_calls: small(requests), ..Held::default() };
        self.count(origin, held(before), held(bytes));
    }

    /// Counts replies of an origin: `bytes` in place of `before`.
    pub(crate) fn count_replies(&mut self, origin: OriginKey, before: usize, bytes: usize) {
        let held = |replies| Held { replies, ..Held::default() };
        self.count(origin, held(before), held(bytes));
    }

    /// Counts the reply of a call that is not answered at once, or room for it: `bytes` in place of `before`.
    pub(crate) fn count_kept_reply(&mut self, origin: OriginKey, before: usize, bytes: usize) {
        let short = |bytes| if needs_short_room(bytes) { bytes } else { 0 };
        let held = |replies| Held { replies, kept_short: short(replies), ..Held::default() };
        self.count(origin, held(before), held(bytes));
    }

    /// Counts what an origin holds: `after` in place of `before`.
    pub(crate) fn count(&mut self, origin: OriginKey, before: Held, after: Held) {
        self.origins.count(origin, before, after);
        self.total.exchange(before, after);
        self.highest = self.highest.max(self.held());
    }

    /// Lends an origin room for a small record that its share has no room for. Returns whether there was some.
    pub(crate) fn lend(&mut self, origin: OriginKey, bytes: usize) -> bool {
        let lends = fits(self.origins.lent(origin), bytes, LENT_BYTES_MAX - self.lent);
        if lends {
            self.origins.count_lent(origin, 0, bytes);
            self.lent += bytes;
        }
        lends
    }

    /// Takes back what was lent.
    pub(crate) fn take_back(&mut self, origin: OriginKey, bytes: usize) {
        self.origins.count_lent(origin, bytes, 0);
        self.lent -= bytes;
    }

    /// Counts output buffers that are kept for any origin.
    pub(crate) fn count_buffers(&mut self, before: usize, bytes: usize) {
        self.total.replies = self.total.replies - before + bytes;
        self.highest = self.highest.max(self.held());
    }

    /// Whether memory that is kept for reuse must be freed.
    pub(crate) fn is_tight(&self) -> bool {
        Short::BOTH.into_iter().any(|short| self.total.of(short) > self.part(short).all / 2)
    }

    /// Returns how many bytes of a connection may be read without looking at them first. Zero unless there is memory for as much as
    /// one read brings, and for a large record beside it. What is read may have to wait, so it must fit into what may be kept.
    pub(crate) fn unseen_max(&self, asker: Asker) -> usize {
        let has_memory = asker.held.requests + RECORD_BYTES_MAX + READ_BYTES
            <= self.free_for_large(Short::Requests, asker)
            && asker.held.replies + PORTION_BYTES <= self.free_for_small(Short::Replies, asker);
        let half = self.part(Short::Requests).half();
        let (own, all) =
            (asker.held.kept_calls + asker.held.rests, self.kept_by(asker.half, Short::Requests));
        if !has_memory {
            0
        } else if all == 0 {
            READ_BYTES.min(half.beside(RECORD_BYTES_MAX) / 2)
        } else if fits(own, READ_BYTES, half.short_max().saturating_sub(all)) {
            READ_BYTES
        } else if self.is_little(asker, own + LITTLE_READ_BYTES, LITTLE_READ_BYTES) {
            LITTLE_READ_BYTES
        } else {
            0
        }
    }

    /// Whether a record of this length may begin, or go on for which `counted` bytes are counted already. The call of a small one may
    /// have to be kept.
    pub(crate) fn may_receive(&self, asker: Asker, length: usize, counted: usize) -> bool {
        let is_small = length <= SMALL_RECORD_BYTES_MAX;
        if is_small && counted == 0 && !self.may_keep_call(asker, length) {
            return false;
        }
        let free = if is_small { Budget::free_for_small } else { Budget::free_for_large };
        fits(
            asker.held.requests.saturating_sub(counted),
            length,
            free(self, Short::Requests, asker) + counted,
        )
    }

    /// Whether there may be one more small reply.
    pub(crate) fn may_answer(&self, asker: Asker) -> bool {
        asker.held.replies < self.free_for_small(Short::Replies, asker)
    }

    /// Whether a reply may begin that takes this much memory.
    pub(crate) fn may_reply(&self, asker: Asker, bytes: usize) -> bool {
        let is_small = bytes <= SMALL_REPLY_ROOM_MAX;
        let free = if is_small { Budget::free_for_small } else { Budget::free_for_large };
        fits(asker.held.replies, bytes, free(self, Short::Replies, asker))
    }

    /// Whether room may be kept for one more short reply. Each origin may always keep a little.
    pub(crate) fn may_keep_short(&self, asker: Asker, bytes: usize) -> bool {
        keeps_little(asker.held.kept_short, bytes)
            || self.may_keep(Short::Replies, asker, bytes) && self.may_reply(asker, bytes)
    }

    /// Whether a small call may be kept that is not answered at once. Each origin may keep one in any case: what others wait for must
    /// not stop it; and a little as long as all together leave room for a large record.
    fn may_keep_call(&self, asker: Asker, bytes: usize) -> bool {
        let kept = asker.held.kept_calls;
        kept == 0
            || self.is_little(asker, kept + bytes, bytes)
            || self.may_keep(Short::Requests, asker, bytes)
    }

    /// Whether an origin that keeps `kept` bytes of small calls, `new` of them new, keeps only a little. A quarter of the room that a large
    /// record leaves is reserved for origins that keep nothing.
    fn is_little(&self, asker: Asker, kept: usize, new: usize) -> bool {
        let room = self.part(Short::Requests).half().beside(RECORD_BYTES_MAX);
        kept <= KEPT_CALLS_MIN && self.kept_by(asker.half, Short::Requests) + new <= room / 4 * 3
    }

    /// Whether `bytes` more may be kept for small calls or for short replies. What is free in the other half adds nothing, even for
    /// origins that may use it: they would give it back only when their calls are answered.
    fn may_keep(&self, short: Short, asker: Asker, bytes: usize) -> bool {
        let free = self.part(short).half().short_max().saturating_sub(self.kept_by(asker.half, short));
        fits(asker.held.kept(short), bytes, free)
    }

    /// Returns what the origins of a half keep for small calls, or for short replies.
    fn kept_by(&self, half: Half, short: Short) -> usize {
        let held = self.origins.held_by(half, self.total);
        held.kept(short) + if short == Short::Requests { held.rests } else { 0 }
    }

    /// Returns how many bytes of a part must become free before an origin may take this many.
    pub(crate) fn lacks(&self, short: Short, asker: Asker, bytes: usize, is_large: bool) -> usize {
        let free = if is_large { Budget::free_for_large } else { Budget::free_for_small };
        (asker.held.of(short) + bytes).saturating_sub(free(self, short, asker))
    }

    /// Whether an origin holds no more requests than its share.
    pub(crate) fn is_within_share(&self, asker: Asker) -> bool {
        asker.held.requests <= self.free_for_small(Short::Requests, asker) && self.may_keep_call(asker, 0)
    }

    /// Returns by how much the origins of a half would hold more than large records or replies may take of it, if they held
    /// `bytes` more; zero if they would not.
    pub(crate) fn excess(&self, short: Short, half: Half, bytes: usize) -> usize {
        let Part { all, headroom } = self.part(short).half();
        (self.held_by(short, half) + bytes).saturating_sub(all.saturating_sub(headroom))
    }

    fn held_by(&self, short: Short, half: Half) -> usize {
        self.origins.held_by(half, self.total).of(short)
    }

    fn part(&self, short: Short) -> Part {
        let requests = self.limit / 8 * REQUESTS_EIGHTHS;
        match short {
            Short::Requests => Part { all: requests, headroom: SMALL_REQUESTS_BYTES },
            Short::Replies => Part { all: self.limit - requests, headroom: SMALL_REPLIES_BYTES },
        }
    }

    fn free_for_small(&self, short: Short, asker: Asker) -> usize {
        let part = self.part(short);
        // Large ones leave it also while those of the asker's half use both.
        let headroom = part.half().headroom.min(part.all.saturating_sub(self.total.of(short)));
        self.free(short, asker, |part| part.all).max(headroom)
    }

    fn free_for_large(&self, short: Short, asker: Asker) -> usize {
        self.free(short, asker, |part| part.all.saturating_sub(part.headroom))
    }

    /// Returns what is free of that which `usable` says of a part: in the asker's half, or in both if that is more and it may
    /// use both.
    fn free(&self, short: Short, asker: Asker, usable: impl Fn(Part) -> usize) -> usize {
        let part = self.part(short);
        let total = self.total.of(short);
        let of_half = usable(part.half()).saturating_sub(self.held_by(short, asker.half));
        let of_half = of_half.min(part.all.saturating_sub(total));
        if asker.is_confined { of_half } else { of_half.max(usable(part).saturating_sub(total)) }
    }
}

impl Part {
    fn half(self) -> Part {
        Part { all: self.all / 2, headroom: self.headroom / 2 }
    }

    /// Returns the most that may be kept for short replies, or for small calls: half of the part, or less if the rest is too little
    /// for large ones.
    fn short_max(self) -> usize {
        self.beside(2 * RECORD_BYTES_MAX).min(self.all / 2)
    }

    /// Returns what remains after the headroom and `large` bytes for large records or replies.
    fn beside(self, large: usize) -> usize {
        self.all.saturating_sub(self.headroom + large)
    }
}

/// Whether a reply needs room, and little enough to be a short one.
pub(crate) fn needs_short_room(bytes: usize) -> bool {
    (1..=SHORT_REPLY_ROOM_MAX).contains(&bytes)
}

/// Whether an origin that keeps `kept` bytes for short replies may keep `bytes` more, whatever others keep.
pub(crate) fn keeps_little(kept: usize, bytes: usize) -> bool {
    kept + bytes <= SHORT_REPLY_ROOM_MAX
}

/// Whether `bytes` more fit into what is free, for an origin that holds `held`.
fn fits(held: usize, bytes: usize, free: usize) -> bool {
    let share = if held == 0 { bytes } else { held + bytes };
    share <= free
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::origins::Standing;
    use super::*;
    use crate::limits::LOOP_BYTES_MIN;

    const LIMIT: usize = 64 << 20;

    fn budget() -> (Budget, [OriginKey; 3]) {
        let mut budget = Budget::new(LIMIT);
        let keys = ["192.0.2.1", "2001:db8::", "192.0.2.3"]
            .map(|address| budget.origins.join(address.parse().unwrap()));
        (budget, keys)
    }

    /// A fast origin, while no other waits.
    fn fast(budget: &Budget, origin: OriginKey) -> Asker {
        Asker { held: budget.origins.held(origin), half: Half::Fast, is_confined: false }
    }

    /// The origin, while others wait.
    fn confined(budget: &Budget, origin: OriginKey) -> Asker {
        let half = budget.origins.standing(origin).half();
        Asker { held: budget.origins.held(origin), half, is_confined: true }
    }

    /// Begins as many large records as an origin may. Returns their bytes.
    fn fill(budget: &mut Budget, origin: OriginKey, asker: fn(&Budget, OriginKey) -> Asker) -> usize {
        let before = budget.origins.held(origin).requests;
        while budget.may_receive(asker(budget, origin), RECORD_BYTES_MAX, 0) {
            budget.count_requests(origin, 0, RECORD_BYTES_MAX);
        }
        budget.origins.held(origin).requests - before
    }

    #[test]
    fn an_origin_takes_half_of_what_is_free_and_others_find_room() {
        let (mut budget, [greedy, second, third]) = budget();
        let all = LIMIT / 8 * 3 - SMALL_REQUESTS_BYTES;
        let taken = fill(&mut budget, greedy, fast);
        assert!(taken <= all / 2 + RECORD_BYTES_MAX && taken > all / 2 - RECORD_BYTES_MAX, "{taken}");
        assert_eq!(budget.unseen_max(fast(&budget, greedy)), 0);
        assert_eq!(budget.unseen_max(fast(&budget, second)), READ_BYTES);
        assert!(fill(&mut budget, second, fast) > all / 4 - RECORD_BYTES_MAX);
        assert!(fill(&mut budget, third, fast) > all / 8 - RECORD_BYTES_MAX);
        assert!(budget.held() <= all);
        budget.count_requests(second, budget.origins.held(second).requests, 0);
        assert_eq!(fill(&mut budget, greedy, fast), 0, "it has its share");
    }

    #[test]
    fn each_half_has_room_for_the_largest_request_and_reply_in_the_least_memory() {
        let mut budget = Budget::new(LOOP_BYTES_MIN);
        let [fast, steady, newcomer] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            .map(|address| budget.origins.join(address.parse().unwrap()));
        for (first, second) in [(fast, steady), (steady, fast)] {
            for origin in [first, second] {
                let standing = if origin == steady { Standing::Steady } else { Standing::Fast };
                budget.origins.note(origin, standing, Instant::now());
                assert_eq!(fill(&mut budget, origin, confined), RECORD_BYTES_MAX);
                assert!(budget.may_reply(confined(&budget, origin), 2 * RECORD_BYTES_MAX));
                budget.count_replies(origin, 0, 2 * RECORD_BYTES_MAX);
                assert!(!budget.may_reply(confined(&budget, origin), 2 * RECORD_BYTES_MAX));
                assert_eq!(budget.excess(Short::Requests, standing.half(), 0), 0);
            }
            let asker = confined(&budget, newcomer);
            assert!(budget.may_answer(asker) && budget.may_receive(asker, SMALL_RECORD_BYTES_MAX, 0));
            assert!(budget.held() <= LOOP_BYTES_MIN);
            for origin in [first, second] {
                budget.count_requests(origin, RECORD_BYTES_MAX, 0);
                budget.count_replies(origin, 2 * RECORD_BYTES_MAX, 0);
            }
        }
        assert!(fill(&mut budget, fast, self::fast) > 0);
        assert!(fill(&mut budget, newcomer, self::fast) > 0, "fast ones use both halves");
        assert!(budget.excess(Short::Requests, Half::Fast, 0) > 0);
        assert_eq!(fill(&mut budget, steady, confined), 0);
    }

    #[test]
    fn small_records_fit_when_large_ones_do_not() {
        let (mut budget, [greedy, second, third]) = budget();
        budget.count_requests(greedy, 0, LIMIT / 8 * 3 - SMALL_REQUESTS_BYTES);
        let may_receive =
            |budget: &Budget, origin, length| budget.may_receive(fast(budget, origin), length, 0);
        assert!(!may_receive(&budget, second, RECORD_BYTES_MAX));
        assert!(may_receive(&budget, second, SMALL_RECORD_BYTES_MAX));
        assert!(!may_receive(&budget, greedy, 100));
        assert!(!may_receive(&budget, second, SMALL_RECORD_BYTES_MAX + 1));
        let large = SMALL_RECORD_BYTES_MAX + 1;
        budget.count_requests(third, 0, large);
        assert!(budget.may_receive(fast(&budget, third), SMALL_RECORD_BYTES_MAX, large));
    }

    #[test]
    fn small_ones_have_room_while_large_ones_of_their_half_give_the_other_one_back() {
        let (mut budget, [first, second, newcomer]) = budget();
        let (requests, replies) = (LIMIT / 8 * 3 - SMALL_REQUESTS_BYTES, LIMIT / 8 * 5 - SMALL_REPLIES_BYTES);
        for origin in [first, second] {
            budget.count_requests(origin, 0, requests / 2);
            budget.count_replies(origin, 0, replies / 2);
        }
        let asker = confined(&budget, newcomer);
        assert!(budget.may_answer(asker) && budget.may_reply(asker, SMALL_REPLY_ROOM_MAX));
        assert!(budget.may_receive(asker, SMALL_RECORD_BYTES_MAX, 0));
        assert!(!budget.may_receive(asker, SMALL_RECORD_BYTES_MAX + 1, 0));
        assert!(!budget.may_reply(asker, SMALL_REPLY_ROOM_MAX + 1));
    }

    #[test]
    fn little_is_lent_and_newcomers_find_some_of_it() {
        let (mut budget, [greedy, second, third]) = budget();
        assert!(budget.lend(greedy, SMALL_RECORD_BYTES_MAX));
        assert!(!budget.lend(greedy, 100), "it has its share");
        assert!(budget.lend(second, SMALL_RECORD_BYTES_MAX / 2));
        assert!(
            !budget.lend(third, SMALL_RECORD_BYTES_MAX) && budget.lend(third, SMALL_RECORD_BYTES_MAX / 4)
        );
        budget.take_back(greedy, SMALL_RECORD_BYTES_MAX);
        assert!(budget.lend(greedy, SMALL_RECORD_BYTES_MAX));
        assert_eq!(budget.lent, SMALL_RECORD_BYTES_MAX / 4 * 7);
    }

    #[test]
    fn replies_have_a_part_of_their_own() {
        let (mut budget, [greedy, second, _]) = budget();
        let (requests, replies) = (LIMIT / 8 * 3, LIMIT / 8 * 5);
        budget.count_requests(greedy, 0, requests);
        while budget.may_reply(fast(&budget, greedy), 1 << 20) {
            budget.count_replies(greedy, 0, 1 << 20);
        }
        let held = budget.origins.held(greedy).replies;
        assert!((replies / 2 - (2 << 20)..=replies / 2).contains(&held), "{held}");
        assert!(budget.may_reply(fast(&budget, second), 8 << 20));
        assert!(budget.may_answer(fast(&budget, second)));
        budget.count_replies(greedy, 0, 2 << 20);
        assert!(!budget.may_answer(fast(&budget, greedy)) && budget.may_answer(fast(&budget, second)));
        let all = budget.held();
        budget.count_requests(greedy, requests, 0);
        assert_eq!((budget.highest(), budget.held()), (all, all - requests));
    }
}
