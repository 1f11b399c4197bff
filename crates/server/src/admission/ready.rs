//! The order in which connections with input are served.
//!
//! A connection that moved much data when it was last served is *heavy* and waits in a queue of its own. In each turn of
//! the loop every light connection is served once, and then one heavy one; after that the loop looks for new events. So a
//! small call waits for one portion of data at most, however many connections stream, and one stream moves in each turn,
//! however many small calls there are.

use std::collections::VecDeque;

use super::ConnectionKey;

/// Connections to be served. Some may have been closed since they were queued.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    light: VecDeque<ConnectionKey>,
    heavy: VecDeque<ConnectionKey>,
}

/// The connections that remain to be served in a turn.
#[derive(Debug)]
pub(crate) struct Turn {
    light: usize,
    heavy: usize,
}

impl Ready {
    /// Appends a connection, which must not be queued, to its queue.
    pub(crate) fn push(&mut self, key: ConnectionKey, is_heavy: bool) {
        let queue = if is_heavy { &mut self.heavy } else { &mut self.light };
        queue.push_back(key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    /// Begins a turn. Connections that are queued later are served in the next one.
    pub(crate) fn turn(&self) -> Turn {
        Turn { light: self.light.len(), heavy: self.heavy.len().min(1) }
    }

    /// Returns the next connection of a turn.
    pub(crate) fn next(&mut self, turn: &mut Turn) -> Option<ConnectionKey> {
        if turn.light > 0 {
            turn.light -= 1;
            return self.light.pop_front();
        }
        turn.heavy = turn.heavy.checked_sub(1)?;
        self.heavy.pop_front()
    }
}

impl Turn {
    /// Returns the number of connections that remain.
    pub(crate) fn len(&self) -> usize {
        self.light + self.heavy
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(ready.turn().len(), 4);
    }

    #[test]
    fn heavy_connections_alone_are_served_one_per_turn() {
        let mut ready = Ready::default();
        ready.push(key(10), true);
        ready.push(key(11), true);
        assert_eq!([serve(&mut ready), serve(&mut ready), serve(&mut ready)], [[10], [11], [10]]);
        assert!(!ready.is_empty());
    }
}
