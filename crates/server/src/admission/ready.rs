//! Whose turn it is: connections with input, in the order in which they came.
//!
//! A connection that moved much the last time it was served is *heavy*, and stands in a line of its own. In a turn of the
//! loop each connection that is not heavy is served once, and then one heavy one; behind that the loop looks for new
//! events. So a small call waits for one portion of somebody's data at most, however many connections stream; and one of
//! those is served in each turn, however many small calls there are.

use std::collections::VecDeque;

/// Connections that are to be served.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    light: VecDeque<usize>,
    heavy: VecDeque<usize>,
}

/// What is left of a turn.
#[derive(Debug)]
pub(crate) struct Turn {
    light: usize,
    heavy: usize,
}

impl Ready {
    /// Puts a connection, which is not among them, at the end of its line.
    pub(crate) fn push(&mut self, index: usize, is_heavy: bool) {
        let line = if is_heavy { &mut self.heavy } else { &mut self.light };
        line.push_back(index);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    /// Begins a turn: who comes later is served in the next one.
    pub(crate) fn turn(&self) -> Turn {
        Turn { light: self.light.len(), heavy: self.heavy.len().min(1) }
    }

    /// The next one of a turn.
    pub(crate) fn next(&mut self, turn: &mut Turn) -> Option<usize> {
        if turn.light > 0 {
            turn.light -= 1;
            return self.light.pop_front();
        }
        turn.heavy = turn.heavy.checked_sub(1)?;
        self.heavy.pop_front()
    }
}

impl Turn {
    /// How many it serves.
    pub(crate) fn len(&self) -> usize {
        self.light + self.heavy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves a turn; who was served comes again, as heavy as before: those from 10 on.
    fn serve(ready: &mut Ready) -> Vec<usize> {
        let mut turn = ready.turn();
        let mut served = Vec::new();
        while let Some(index) = ready.next(&mut turn) {
            served.push(index);
            ready.push(index, index >= 10);
        }
        served
    }

    #[test]
    fn small_calls_come_before_all_data_and_wait_for_one_portion_at_most() {
        let mut ready = Ready::default();
        for index in [10, 11, 1, 12, 2] {
            ready.push(index, index >= 10);
        }
        assert_eq!(serve(&mut ready), [1, 2, 10]);
        ready.push(3, false);
        assert_eq!(serve(&mut ready), [1, 2, 3, 11]);
        assert_eq!(serve(&mut ready), [1, 2, 3, 12], "data move in each turn");
        assert_eq!(serve(&mut ready), [1, 2, 3, 10], "and streams take turns");
        assert_eq!(ready.turn().len(), 4);
    }

    #[test]
    fn streams_alone_are_served_one_by_one() {
        let mut ready = Ready::default();
        ready.push(10, true);
        ready.push(11, true);
        assert_eq!([serve(&mut ready), serve(&mut ready), serve(&mut ready)], [[10], [11], [10]]);
        assert!(!ready.is_empty());
    }
}
