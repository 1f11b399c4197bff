//! The memory that one event loop's connections hold, and when more may be taken.
//!
//! Requests and replies have a half each, so that neither can keep the other from completing. The greatest size of a large
//! reply is reserved before its call runs; the call begins only if that fits. Small replies are not reserved; they draw on
//! headroom that large ones leave, and nothing is read while that is used up.

use crate::limits::{REQUEST_SLACK_BYTES, SMALL_REPLIES_BYTES};

/// Bytes held, and their limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    /// Records that are arriving, and calls that wait.
    requests: usize,
    /// Replies that are being made, wait or are unsent; output buffers.
    replies: usize,
    /// The highest sum of both so far.
    highest: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        Budget { limit, requests: 0, replies: 0, highest: 0 }
    }

    /// Returns the bytes held.
    pub(crate) fn held(&self) -> usize {
        self.requests + self.replies
    }

    /// Returns the most bytes ever held.
    pub(crate) fn highest(&self) -> usize {
        self.highest
    }

    /// Counts requests: `bytes` in place of `before`.
    pub(crate) fn count_requests(&mut self, before: usize, bytes: usize) {
        self.requests = self.requests - before + bytes;
        self.highest = self.highest.max(self.held());
    }

    /// Counts replies: `bytes` in place of `before`.
    pub(crate) fn count_replies(&mut self, before: usize, bytes: usize) {
        self.replies = self.replies - before + bytes;
        self.highest = self.highest.max(self.held());
    }

    /// Returns the bytes of requests that may be read.
    pub(crate) fn room_to_read(&self) -> usize {
        if self.is_full_of_replies() {
            return 0;
        }
        (self.limit / 2 - REQUEST_SLACK_BYTES).saturating_sub(self.requests)
    }

    /// Returns the bytes of large replies that may be begun.
    pub(crate) fn room_to_reply(&self) -> usize {
        (self.limit / 2 - SMALL_REPLIES_BYTES).saturating_sub(self.replies)
    }

    /// Whether memory that is kept for reuse must be freed.
    pub(crate) fn is_tight(&self) -> bool {
        self.requests > self.limit / 4 || self.replies > self.limit / 4
    }

    /// Whether the headroom of small replies is used up, too.
    pub(crate) fn is_full_of_replies(&self) -> bool {
        self.replies >= self.limit / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_have_a_half_each() {
        let mut budget = Budget::new(16 << 20);
        let (requests, replies) = ((8 << 20) - REQUEST_SLACK_BYTES, (8 << 20) - SMALL_REPLIES_BYTES);
        budget.count_requests(0, requests);
        assert_eq!((budget.room_to_read(), budget.room_to_reply()), (0, replies));
        budget.count_requests(requests, 0);
        budget.count_replies(0, replies);
        assert_eq!((budget.room_to_read(), budget.room_to_reply()), (requests, 0));
        budget.count_replies(0, SMALL_REPLIES_BYTES);
        assert_eq!(budget.room_to_read(), 0, "small replies are bounded too");
        budget.count_replies(8 << 20, 5);
        assert_eq!((budget.held(), budget.highest()), (5, 8 << 20));
    }
}
