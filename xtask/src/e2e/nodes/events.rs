//! What happens to the nodes, drawn by a seed.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::e2e::Options;
use crate::e2e::pair::stalls::Kind;
use crate::e2e::pair::{BETWEEN, Blow, pause};

/// The groups. The guests that lock files use the first one.
pub(super) const GROUPS: [&str; 4] = ["home", "work", "other", "builds"];

/// How long a node is stopped, or cut off, seconds: for less than a lease lasts, and for longer than an address does.
const PAUSES: (f64, f64) = (0.5, 20.0);
/// How long nothing happens between two events of a long run, seconds.
const QUIET: (f64, f64) = (2.0, 40.0);
/// The longest pause in a sample, seconds.
const SAMPLED_PAUSE_MAX: f64 = 8.0;

/// What happens to the node that serves a group, unless the event names another one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Blow(Blow),
    /// The agent of that node is killed, which ends its servers.
    AgentDies,
    /// That agent alone is stopped, until others serve its groups.
    AgentStops,
    /// That node is drained.
    Drain,
    /// The last node is added, and given a group.
    Add,
    /// The last node is drained and removed.
    Remove,
}

impl Kind for Event {
    fn name(&self) -> &'static str {
        match self {
            Event::Blow(blow) => blow.name(),
            Event::AgentDies => "agent killed",
            Event::AgentStops => "agent stopped",
            Event::Drain => "drained",
            Event::Add => "node added",
            Event::Remove => "node removed",
        }
    }

    fn pause(&self) -> f64 {
        match self {
            Event::Blow(blow) => blow.pause(),
            _ => 0.0,
        }
    }
}

/// What happens in each round, and to which group: most kinds once, in any order, then kinds at random until the rounds are
/// over. In a run of some minutes, it goes on until these are over, and strikes any group.
pub(super) struct Events {
    random: Rng,
    pauses: (f64, f64),
    /// Those that are left of what happens once.
    once: Vec<Event>,
    rounds_left: usize,
    end: Option<Instant>,
    /// Whether the last node is one of the cluster.
    has_last: bool,
}

impl Events {
    pub(super) fn new(options: &Options) -> Events {
        let (least, most) = PAUSES;
        let mut events = Events {
            random: Rng::with_seed(options.seed),
            pauses: (least, if options.sample { SAMPLED_PAUSE_MAX } else { most }),
            once: Vec::new(),
            rounds_left: 0,
            end: options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes)),
            has_last: false,
        };
        events.once = vec![
            Event::Blow(Blow::Dies),
            Event::Blow(Blow::ServerDies),
            Event::Blow(Blow::Stops(events.pause().max(Duration::from_secs(4)))),
            Event::Blow(Blow::IsCut(events.pause())),
            Event::Blow(Blow::Moves),
            Event::AgentStops,
            Event::Drain,
            Event::Add,
        ];
        events.random.shuffle(&mut events.once);
        let rounds = if options.sample || options.minutes.is_some() { 0 } else { options.rounds };
        events.rounds_left = rounds.saturating_sub(events.once.len());
        events
    }

    fn pause(&mut self) -> Duration {
        pause(&mut self.random, self.pauses)
    }

    fn any(&mut self) -> Event {
        match self.random.u8(..11) {
            0..3 => Event::Blow(Blow::Dies),
            3 => Event::Blow(Blow::ServerDies),
            4 => Event::Blow(Blow::Stops(self.pause())),
            5 => Event::Blow(Blow::IsCut(self.pause())),
            6 => Event::Blow(Blow::Moves),
            7 => Event::AgentDies,
            8 => Event::AgentStops,
            9 => Event::Drain,
            _ if self.has_last => Event::Remove,
            _ => Event::Add,
        }
    }
}

impl Iterator for Events {
    /// The event, its group, and the time until the next one.
    type Item = (Event, &'static str, Duration);

    fn next(&mut self) -> Option<Self::Item> {
        let event = match self.once.pop() {
            Some(event) => event,
            None if self.end.is_some_and(|end| Instant::now() < end) => self.any(),
            None => {
                self.rounds_left = self.rounds_left.checked_sub(1)?;
                self.any()
            }
        };
        match event {
            Event::Add => self.has_last = true,
            Event::Remove => self.has_last = false,
            _ => {}
        }
        if self.end.is_none() {
            return Some((event, GROUPS[0], BETWEEN));
        }
        Some((event, GROUPS[self.random.usize(..GROUPS.len())], pause(&mut self.random, QUIET)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_node_comes_before_it_goes() {
        let options = Options::parse(&["--rounds", "500", "--seed", "7", "nodes"]).expect("it is valid");
        let events: Vec<_> = Events::new(&options).collect();
        assert_eq!(events.len(), 500);
        let comings = events.iter().filter_map(|(event, ..)| match event {
            Event::Add => Some(true),
            Event::Remove => Some(false),
            _ => None,
        });
        let comings: Vec<bool> = comings.collect();
        assert!(comings.len() > 10 && comings[0], "{comings:?}");
        assert!(comings.windows(2).all(|two| two[0] != two[1]), "{comings:?}");
    }
}
