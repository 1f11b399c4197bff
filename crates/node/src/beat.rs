//! What a node says of itself, twice a second, and which nodes are heard.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{ABSENT_AFTER, Name, Presence, SLOW, STEADY_AFTER, Time};
use serde::{Deserialize, Serialize};

use crate::status::{NodeStatus, State};

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Grows with each, and differs from those of another agent of the node.
    pub count: u64,
    /// For how long the node has been there without a break, milliseconds.
    pub up_ms: u64,
    /// What it does. Groups that are stopped there are left out.
    pub status: NodeStatus,
}

impl Beat {
    /// Reads what a node said; none if a later version of Holdfast said it.
    #[must_use]
    pub fn read(says: &[u8]) -> Option<Beat> {
        serde_json::from_slice(says).ok()
    }

    /// Returns the groups that a server of the node stands for.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &str> {
        self.status.groups.iter().filter(|group| group.state == State::Standby).map(|group| &*group.name)
    }
}

/// Decodes the heartbeats of nodes, by their names. Heartbeats written by a later version of Holdfast are left out.
pub(crate) fn beats_of(
    said: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> impl Iterator<Item = (Name, Beat)> {
    said.into_iter().filter_map(|(node, says)| Some((Name::new(&node).ok()?, Beat::read(&says)?)))
}

/// The nodes that are heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    nodes: BTreeMap<Name, (Beat, Time)>,
}

impl Heard {
    /// Takes note of what nodes say: it was asked for at `asked`, and answered at `now`. If that took long, nobody is taken to be
    /// silent.
    pub(crate) fn listen(&mut self, asked: Time, now: Time, said: Vec<(Name, Beat)>) {
        let mut before = std::mem::take(&mut self.nodes);
        self.nodes.extend(said.into_iter().map(|(node, beat)| {
            let known = before.remove(&node).filter(|(known, _)| known.count == beat.count);
            let since = known.map_or(now, |(_, since)| since);
            (node, (beat, if now.since(asked) > SLOW { now } else { since }))
        }));
    }

    /// Returns which nodes are there.
    pub(crate) fn presences(&self, now: Time) -> BTreeMap<Name, Presence> {
        let presence = |(beat, since): &(Beat, Time)| {
            if now.since(*since) > ABSENT_AFTER || !beat.status.has_link {
                Presence::Absent
            } else if Duration::from_millis(beat.up_ms) < STEADY_AFTER {
                Presence::Returning
            } else {
                Presence::Steady
            }
        };
        self.nodes.iter().map(|(node, heard)| (node.clone(), presence(heard))).collect()
    }

    /// Returns what the nodes said that are there.
    pub(crate) fn beats(&self, now: Time) -> impl Iterator<Item = (&Name, &Beat)> {
        let is_there = move |since: Time| now.since(since) <= ABSENT_AFTER;
        self.nodes
            .iter()
            .filter(move |(_, (_, since))| is_there(*since))
            .map(|(node, (beat, _))| (node, beat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn beat(count: u64, up_ms: u64, has_link: bool) -> Beat {
        Beat { count, up_ms, status: NodeStatus { node: "a".to_owned(), has_link, groups: Vec::new() } }
    }

    fn presence(heard: &Heard, now: u64) -> Presence {
        heard.presences(at(now))[&Name::new("a").unwrap()]
    }

    fn hear(heard: &mut Heard, asked: u64, now: u64, beat: Beat) {
        heard.listen(at(asked), at(now), vec![(Name::new("a").unwrap(), beat)]);
    }

    #[test]
    fn a_node_that_says_nothing_new_is_absent_after_a_while() {
        let mut heard = Heard::default();
        hear(&mut heard, 0, 1, beat(1, 20_000, true));
        assert_eq!(presence(&heard, 1000), Presence::Steady);
        hear(&mut heard, 1000, 1001, beat(1, 20_000, true));
        assert_eq!((presence(&heard, 1801), presence(&heard, 1802)), (Presence::Steady, Presence::Absent));
        assert_eq!((heard.beats(at(1801)).count(), heard.beats(at(1802)).count()), (1, 0));
        hear(&mut heard, 5000, 5001, beat(2, 9_000, true));
        assert_eq!(presence(&heard, 5001), Presence::Returning);
        // Without a link it serves nobody.
        hear(&mut heard, 5500, 5501, beat(3, 20_000, false));
        assert_eq!(presence(&heard, 5501), Presence::Absent);
    }

    #[test]
    fn nobody_is_absent_because_the_store_is_slow() {
        let mut heard = Heard::default();
        hear(&mut heard, 0, 1, beat(1, 20_000, true));
        hear(&mut heard, 300, 9000, beat(1, 20_000, true));
        assert_eq!(presence(&heard, 9000), Presence::Steady);
    }
}
