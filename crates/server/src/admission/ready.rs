//! The order in which connections with input are served.
//!
//! A connection that moved much data when it was last served, or whose calls took long, is *heavy* and waits apart from the
//! others. In each turn of the loop every light connection is served once, unless that takes too long, and then one heavy
//! one, which is left to the next turn once if the others took long; after that the loop looks for new events. So a small call
//! waits for one portion of data at most, however many connections stream, and one stream moves in each turn, however many
//! small calls there are.
//!
//! Among the light connections origins take turns, and so they do among the heavy ones. So an origin with thousands
//! of connections delays each connection of another origin by one portion.

use std::collections::VecDeque;

use super::ConnectionKey;

/// The capacity above which an empty line of connections gives its memory back.
const KEPT_LENGTH: usize = 16;

/// Connections to be served. Some may have been closed since they were queued.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    light: Lines,
    heavy: Lines,
    /// The last turn ended before a heavy connection was served, which the next one must do.
    is_postponed: bool,
}

/// The connections that remain to be served in a turn.
#[derive(Debug)]
pub(crate) struct Turn {
    light: usize,
    heavy: usize,
}

/// A line of connections for each origin.
#[derive(Debug, Default)]
struct Lines {
    /// By the place of the origin.
    lines: Vec<VecDeque<ConnectionKey>>,
    /// The places of those that are not empty, in the order in which they are served.
    order: VecDeque<usize>,
    length: usize,
}

impl Lines {
    fn push(&mut self, key: ConnectionKey) {
        let place = key.origin.place();
        if place >= self.lines.len() {
            self.lines.resize_with(place + 1, VecDeque::new);
        }
        let line = &mut self.lines[place];
        if line.is_empty() {
            self.order.push_back(place);
        }
        line.push_back(key);
        self.length += 1;
    }

    fn pop(&mut self) -> Option<ConnectionKey> {
        let place = self.order.pop_front()?;
        let line = &mut self.lines[place];
        let key = line.pop_front();
        if !line.is_empty() {
            self.order.push_back(place);
        } else if line.capacity() > KEPT_LENGTH {
            *line = VecDeque::new();
        }
        self.length -= 1;
        key
    }
}

impl Ready {
    /// Appends a connection, which must not be queued, to its queue.
    pub(crate) fn push(&mut self, key: ConnectionKey, is_heavy: bool) {
        let lines = if is_heavy { &mut self.heavy } else { &mut self.light };
        lines.push(key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.light.length + self.heavy.length == 0
    }

    /// Begins a turn. As many connections are served in it as wait now.
    pub(crate) fn turn(&self) -> Turn {
        Turn { light: self.light.length, heavy: self.heavy.length.min(1) }
    }

    /// Returns the next connection of a turn.
    pub(crate) fn next(&mut self, turn: &mut Turn) -> Option<ConnectionKey> {
        if turn.light > 0 {
            turn.light -= 1;
            return self.light.pop();
        }
        turn.heavy = turn.heavy.checked_sub(1)?;
        self.is_postponed = false;
        self.heavy.pop()
    }

    /// Leaves the connections that remain to the next turn, but the heavy one only once: light ones may take long in each.
    pub(crate) fn end_turn(&mut self, turn: &mut Turn) {
        turn.light = 0;
        if turn.heavy > 0 && !self.is_postponed {
            turn.heavy = 0;
            self.is_postponed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::origins::Origins;
    use super::*;

    fn key(index: usize) -> ConnectionKey {
        ConnectionKey { index, generation: 0, origin: Default::default() }
    }

    /// Serves a turn and queues the served connections again; those from 10 on are heavy.
    fn serve(ready: &mut Ready) -> Vec<usize> {
        let mut turn = ready.turn();
        let mut served = Vec::new();
        while let Some(key) = ready.next(&mut turn) {
            served.push(key.index);
            ready.push(key, key.index >= 10);
        }
        served
    }

    #[test]
    fn light_connections_are_served_before_a_heavy_one() {
        let mut ready = Ready::default();
        for index in [10, 11, 1, 12, 2] {
            ready.push(key(index), index >= 10);
        }
        assert_eq!(serve(&mut ready), [1, 2, 10]);
        ready.push(key(3), false);
        assert_eq!(serve(&mut ready), [1, 2, 3, 11]);
        assert_eq!(serve(&mut ready), [1, 2, 3, 12], "one stream moves in each turn");
        assert_eq!(serve(&mut ready), [1, 2, 3, 10], "streams take turns");
    }

    #[test]
    fn heavy_connections_alone_are_served_one_per_turn() {
        let mut ready = Ready::default();
        ready.push(key(10), true);
        ready.push(key(11), true);
        assert_eq!([serve(&mut ready), serve(&mut ready), serve(&mut ready)], [[10], [11], [10]]);
        assert!(!ready.is_empty());
    }

    #[test]
    fn origins_take_turns() {
        let mut origins = Origins::default();
        let keys = [1, 2].map(|number| origins.join(IpAddr::from([192, 0, 2, number]).into()));
        for is_heavy in [false, true] {
            let mut ready = Ready::default();
            for index in 0..100 {
                ready.push(ConnectionKey { origin: keys[0], ..key(index) }, is_heavy);
            }
            ready.push(ConnectionKey { origin: keys[1], ..key(100) }, is_heavy);
            let mut served = Vec::new();
            while !ready.is_empty() {
                served.extend(ready.next(&mut ready.turn()).map(|key| key.index));
            }
            assert_eq!((served.len(), &served[..3]), (101, &[0, 100, 1][..]));
        }
    }

    #[test]
    fn light_connections_that_take_long_do_not_stop_a_heavy_one() {
        let mut ready = Ready::default();
        for index in [1, 2, 3, 10] {
            ready.push(key(index), index >= 10);
        }
        let mut turn = ready.turn();
        assert_eq!(ready.next(&mut turn), Some(key(1)));
        ready.end_turn(&mut turn);
        assert_eq!(ready.next(&mut turn), None);
        let mut turn = ready.turn();
        assert_eq!(ready.next(&mut turn), Some(key(2)));
        ready.end_turn(&mut turn);
        assert_eq!((ready.next(&mut turn), ready.next(&mut turn)), (Some(key(10)), None));
        assert_eq!(serve(&mut ready), [3]);
    }
}
