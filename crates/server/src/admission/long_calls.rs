//! Long calls that may have to end, so that others find room.
//!
//! A long call is done in turns, or waits for something in its way, and keeps its record and the room for its reply until it is
//! done, which may be minutes. Its peer has sent all and takes all, so it keeps every pace, and its connection gives way to nobody.
//! Therefore the call itself does: if others have waited for [`WAIT_MAX`] for what it holds, it ends where it stopped, and its
//! client repeats it.
//!
//! A call that waits for room in a pool ends too, but only to free memory for replies, and only if its own reply may take more than
//! [`SHORT_REPLY_ROOM_MAX`]. Ordinary clients do not ask for that much in a call that changes something. A WRITE has a short reply,
//! however large its record is, so a slow pool never cuts it short.
//!
//! Calls end for every connection that has waited this long, not just for the first. A client whose long calls have ended sends
//! them again and waits too, so each such client would cost the others one more round. Calls of the origin whose long calls hold
//! the most end first, the largest of them first. Those that remain to each origin, with up to [`LONG_KEPT_BYTES`], end only if
//! nothing else gives way, and if that suffices. So a long call that its origin makes alone does not end because others make many,
//! nor for one that waits for something else.
//!
//! [`WAIT_MAX`]: crate::limits::WAIT_MAX
//! [`SHORT_REPLY_ROOM_MAX`]: crate::limits::SHORT_REPLY_ROOM_MAX

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::eviction::wanted_of;
use super::line::Waiter;
use super::origins::{Held, OriginKey};
use super::{Admission, Short};
use crate::limits::{LONG_ENDED_AT_ONCE_MAX, LONG_KEPT_BYTES};

/// A call that worker threads do in turns, or that waits.
#[derive(Clone, Copy, Debug)]
struct LongCall {
    origin: OriginKey,
    held: Held,
    /// It was chosen to end, and holds what it does until its thread has given it back.
    is_ending: bool,
}

/// The long calls of a loop.
#[derive(Debug, Default)]
pub(crate) struct LongCalls {
    calls: HashMap<u64, LongCall>,
    next: u64,
}

/// What long calls do for one that has waited too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Those of these numbers end.
    End(BTreeSet<u64>),
    /// Those that were chosen before suffice for the first, and no more are to end. Threads have yet to give them back.
    Wait,
    /// None holds what it waits for, or all together hold too little.
    TooLittle,
}

/// The bytes that become free.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// For the connection that goes on next. Less is of no use.
    first: usize,
    /// For all that wait.
    all: usize,
}

/// When long calls end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// If they hold as much as is wanted beyond what each origin keeps.
    Enough,
    /// However little that is, or else if they hold as much in all: nothing else gives way.
    Any,
}

impl LongCalls {
    /// Adds a call that holds this. Returns its number.
    pub(crate) fn insert(&mut self, origin: OriginKey, held: Held) -> u64 {
        self.next += 1;
        self.calls.insert(self.next, LongCall { origin, held, is_ending: false });
        self.next
    }

    /// Removes a call. Returns whether it was chosen to end.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        self.calls.remove(&number).is_some_and(|call| call.is_ending)
    }

    /// Chooses calls that end, of the origins for which `gives_way` says so, so that bytes of a part become free.
    fn choose(
        &mut self,
        short: Short,
        wanted: Wanted,
        when: When,
        gives_way: impl Fn(OriginKey) -> bool,
    ) -> Choice {
        let mut by_origin: BTreeMap<OriginKey, Vec<(usize, u64)>> = BTreeMap::new();
        let mut freed = 0;
        for (number, call) in self.calls.iter().filter(|(_, call)| gives_way(call.origin)) {
            match call.is_ending {
                true => freed += call.held.of(short),
                false => by_origin.entry(call.origin).or_default().push((call.held.of(short), *number)),
            }
        }
        let suffices = |chosen: &[(usize, u64)]| {
            freed + chosen.iter().map(|(bytes, _)| bytes).sum::<usize>() >= wanted.first
        };
        let mut chosen = greediest(&by_origin, wanted.all.saturating_sub(freed), LONG_KEPT_BYTES);
        if chosen.is_empty() && freed >= wanted.first {
            return Choice::Wait;
        }
        let mut must_suffice = when == When::Enough;
        if chosen.is_empty() && when == When::Any {
            chosen = greediest(&by_origin, wanted.first - freed, 0);
            must_suffice = true;
        }
        if chosen.is_empty() || (must_suffice && !suffices(&chosen)) {
            return Choice::TooLittle;
        }
        let ending: BTreeSet<u64> =
            chosen.iter().map(|(_, number)| *number).take(LONG_ENDED_AT_ONCE_MAX).collect();
        for number in &ending {
            self.calls.get_mut(number).expect("it was found there").is_ending = true;
        }
        Choice::End(ending)
    }
}

/// Returns calls, with the bytes of each, that hold `wanted` bytes together, or all but those that leave each origin no more than
/// `kept`. `by_origin` has those of each origin.
fn greediest(
    by_origin: &BTreeMap<OriginKey, Vec<(usize, u64)>>,
    wanted: usize,
    kept: usize,
) -> Vec<(usize, u64)> {
    let mut ranked: BTreeMap<(usize, OriginKey), Vec<(usize, u64)>> = BTreeMap::new();
    for (origin, calls) in by_origin {
        let mut calls = calls.clone();
        calls.sort_unstable();
        ranked.insert((calls.iter().map(|(bytes, _)| bytes).sum(), *origin), calls);
    }
    let (mut chosen, mut freed) = (Vec::new(), 0);
    while freed < wanted
        && let Some(((held, origin), mut calls)) = ranked.pop_last()
        && held > kept
        && let Some((bytes, number)) = calls.pop()
    {
        chosen.push((bytes, number));
        freed += bytes;
        ranked.insert((held - bytes, origin), calls);
    }
    chosen
}

impl Admission {
    /// Chooses long calls that end for connections that have waited too long for a part of memory: `first`, which goes on next, and
    /// `others` of its half.
    pub(crate) fn choose_long(
        &self,
        (first, others): (&Waiter, &[Waiter]),
        short: Short,
        when: When,
        calls: &mut LongCalls,
    ) -> Choice {
        let full = self.full_half(first, short);
        let lacks = self.lacks(first, short);
        let others = others.iter().filter(|waiter| self.full_half(waiter, short) == full);
        let others: usize = others.map(|waiter| wanted_of(waiter.want, short).0).sum();
        let wanted = Wanted { first: lacks, all: lacks + others };
        calls.choose(short, wanted, when, |origin| self.half(origin) == full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::budget::Budget;
    use crate::limits::{LOOP_BYTES_MIN, SHORT_REPLY_ROOM_MAX};

    const LARGE: usize = 2 << 20;

    /// Returns a table with calls of three origins that hold so much for their replies, and their numbers.
    fn holding(replies: &[(usize, usize)]) -> (LongCalls, [OriginKey; 3], Vec<u64>) {
        let mut budget = Budget::new(LOOP_BYTES_MIN);
        let origins = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            .map(|address| budget.origins.join(address.parse().unwrap()));
        let mut calls = LongCalls::default();
        let held = |replies| Held { requests: 500, replies, ..Held::default() };
        let numbers =
            replies.iter().map(|(origin, bytes)| calls.insert(origins[*origin], held(*bytes))).collect();
        (calls, origins, numbers)
    }

    fn alone(bytes: usize) -> Wanted {
        Wanted { first: bytes, all: bytes }
    }

    #[test]
    fn the_greediest_origins_end_their_largest_calls_first() {
        let (mut calls, _, numbers) =
            holding(&[(0, LARGE), (0, LARGE), (0, LARGE), (1, LARGE / 2), (1, LARGE), (2, LARGE / 4)]);
        let choose = |calls: &mut LongCalls, wanted| {
            calls.choose(Short::Replies, alone(wanted), When::Enough, |_| true)
        };
        assert_eq!(choose(&mut calls, 2 * LARGE), Choice::End([numbers[1], numbers[2]].into()));
        assert_eq!(choose(&mut calls, 2 * LARGE), Choice::Wait, "threads have them yet");
        assert_eq!(choose(&mut calls, 3 * LARGE), Choice::End([numbers[4]].into()));
        assert_eq!(choose(&mut calls, 5 * LARGE), Choice::TooLittle);
        let ending: Vec<bool> = numbers.iter().map(|number| calls.remove(*number)).collect();
        assert_eq!(ending, [false, true, true, false, true, false]);
        assert_eq!(choose(&mut calls, 1), Choice::TooLittle);
    }

    /// Those who wait need not wait for one another.
    #[test]
    fn calls_end_for_all_that_wait_but_not_if_they_do_not_suffice_for_the_first() {
        let (mut calls, _, numbers) =
            holding(&[(0, LARGE), (0, LARGE), (1, LARGE), (1, LARGE), (2, SHORT_REPLY_ROOM_MAX)]);
        let choose = |calls: &mut LongCalls, first, all| {
            calls.choose(Short::Replies, Wanted { first, all }, When::Enough, |_| true)
        };
        assert_eq!(choose(&mut calls, 5 * LARGE, 6 * LARGE), Choice::TooLittle);
        assert_eq!(choose(&mut calls, LARGE, 2 * LARGE), Choice::End([numbers[1], numbers[3]].into()));
        assert_eq!(choose(&mut calls, 2 * LARGE, 2 * LARGE), Choice::Wait);
        assert_eq!(choose(&mut calls, LARGE, 9 * LARGE), Choice::End([numbers[0], numbers[2]].into()));
        assert_eq!(
            choose(&mut calls, LARGE, 9 * LARGE),
            Choice::Wait,
            "those that end suffice for the first"
        );
        assert_eq!(choose(&mut calls, 5 * LARGE, 9 * LARGE), Choice::TooLittle);
    }

    #[test]
    fn a_call_with_a_short_reply_ends_only_if_nothing_else_does_and_that_suffices() {
        let (mut calls, origins, numbers) =
            holding(&[(0, SHORT_REPLY_ROOM_MAX), (1, SHORT_REPLY_ROOM_MAX), (1, 4000), (2, LARGE)]);
        let greedy = |origin| origin != origins[2];
        assert_eq!(calls.choose(Short::Replies, alone(LARGE), When::Enough, greedy), Choice::TooLittle);
        let ending = calls.choose(Short::Replies, alone(LARGE), When::Any, greedy);
        assert_eq!(ending, Choice::End([numbers[1]].into()), "one of two, and none of the other half");
        assert_eq!(calls.choose(Short::Requests, alone(2001), When::Any, |_| true), Choice::TooLittle);
        let short = SHORT_REPLY_ROOM_MAX;
        let (mut calls, _, numbers) = holding(&[(0, short), (1, 4000), (2, short)]);
        assert_eq!(calls.choose(Short::Replies, alone(1), When::Enough, |_| true), Choice::TooLittle);
        assert_eq!(calls.choose(Short::Replies, alone(LARGE), When::Any, |_| true), Choice::TooLittle);
        let ending = calls.choose(Short::Replies, alone(2 * short), When::Any, |_| true);
        assert_eq!(ending, Choice::End([numbers[0], numbers[2]].into()), "the smallest would end last");
    }
}
