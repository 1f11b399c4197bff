//! Hosts take turns in having answers computed. A caller can ask for answers that take long, and the threads that execute calls need
//! the processors too.

use std::collections::VecDeque;
use std::net::IpAddr;

use parking_lot::{Condvar, Mutex};

/// Answers that are computed at once, of different hosts.
const COMPUTED_MAX: usize = 2;

/// The hosts, as limits count them, whose answers are computed or wait for that.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    computed: Vec<IpAddr>,
    /// The hosts that wait, each with its requests. The one that has waited longest since its last turn is first.
    lines: VecDeque<(IpAddr, VecDeque<u64>)>,
    next: u64,
}

/// The turn of a host, which ends with this.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    host: IpAddr,
}

impl Turns {
    /// Waits for the turn of a host.
    pub(crate) fn begin(&self, host: IpAddr) -> Turn<'_> {
        let mut state = self.state.lock();
        let number = state.line_up(host);
        self.changed.wait_while(&mut state, |state| !state.begins(number));
        // There may be room for another host.
        self.changed.notify_all();
        Turn { turns: self, host }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        if let Some(at) = state.computed.iter().position(|host| *host == self.host) {
            state.computed.swap_remove(at);
        }
        self.turns.changed.notify_all();
    }
}

impl State {
    /// Has a request wait. Returns its number.
    fn line_up(&mut self, host: IpAddr) -> u64 {
        self.next += 1;
        match self.lines.iter_mut().find(|(known, _)| *known == host) {
            Some((_, line)) => line.push_back(self.next),
            None => self.lines.push_back((host, [self.next].into())),
        }
        self.next
    }

    /// Begins a request if it is its turn.
    fn begins(&mut self, number: u64) -> bool {
        if self.computed.len() >= COMPUTED_MAX {
            return false;
        }
        let next = self.lines.iter().position(|(host, _)| !self.computed.contains(host));
        let is_its_turn =
            |at: &usize| self.lines.get(*at).is_some_and(|(_, line)| line.front() == Some(&number));
        let Some((host, mut line)) = next.filter(is_its_turn).and_then(|at| self.lines.remove(at)) else {
            return false;
        };
        line.pop_front();
        self.computed.push(host);
        if !line.is_empty() {
            self.lines.push_back((host, line));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn hosts_take_turns_however_many_requests_each_has() {
        let mut state = State::default();
        let greedy: Vec<u64> = (0..10).map(|_| state.line_up(host(1))).collect();
        let others = [2, 3].map(|number| state.line_up(host(number)));
        assert!(state.begins(greedy[0]));
        assert!(!state.begins(greedy[1]), "one of a host at a time");
        assert!(!state.begins(others[1]), "another one has waited longer");
        assert!(state.begins(others[0]));
        assert!(!state.begins(others[1]), "two at once");
        state.computed.retain(|computed| *computed != host(1));
        assert!(!state.begins(greedy[1]));
        assert!(state.begins(others[1]));
        state.computed.clear();
        assert!(state.begins(greedy[1]));
        assert_eq!(state.lines.len(), 1);
    }

    #[test]
    fn a_turn_ends_with_what_holds_it() {
        let turns = Turns::default();
        let first = turns.begin(host(1));
        let _second = turns.begin(host(2));
        std::thread::scope(|scope| {
            let third = scope.spawn(|| drop(turns.begin(host(1))));
            drop(first);
            third.join().unwrap();
        });
        assert_eq!(turns.state.lock().computed, [host(2)]);
    }
}
