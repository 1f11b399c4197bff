//! What goes wrong in a schedule.

use cluster::{Handover, Phase};

use super::network::nanos;
use super::process::name;
use super::{Happening, World};

#[derive(Clone, Copy)]
enum Fault {
    /// A process stops for a while, and its clock goes on.
    Stop,
    /// A process dies, and its agent starts another one.
    Kill,
    /// A node dies, and comes back later.
    Lose,
    /// A node cannot reach the store for a while.
    Cut,
    /// Some objects, or all, hang.
    Hang,
    /// The owner gives the group to another node.
    Move,
}

const FAULTS: [(u64, Fault); 6] = [
    (4, Fault::Stop),
    (5, Fault::Kill),
    (2, Fault::Lose),
    (6, Fault::Cut),
    (2, Fault::Hang),
    (2, Fault::Move),
];

impl World {
    /// Something fails, and more will until it becomes quiet.
    pub(super) fn fail(&mut self) {
        let pause = nanos(200 + self.random.below(4000));
        if self.now + pause < self.quiet {
            self.schedule(self.now + pause, Happening::Fault);
        }
        if self.is_quiet() {
            return;
        }
        self.tally.faults += 1;
        // The owner is hit more often than others.
        let owner = self
            .nodes
            .iter()
            .position(|node| node.process.as_ref().is_some_and(|process| process.phase() == Phase::Owner));
        let any = self.random.index(self.nodes.len());
        let node = owner.filter(|_| self.random.chance(2, 3)).unwrap_or(any);
        let until = (self.now + nanos(100 + self.random.below(9000))).min(self.quiet);
        let fault = if self.plan.only_hangs { Fault::Hang } else { self.random.weighted(&FAULTS) };
        match fault {
            Fault::Stop => {
                self.nodes[node].stopped_until = until;
            }
            Fault::Kill => self.end(node),
            Fault::Lose => {
                self.nodes[node].process = None;
                let at = self.now + nanos(3000 + self.random.below(15_000));
                self.schedule(at, Happening::Start(node));
            }
            Fault::Cut => self.network.cut(node, until),
            Fault::Hang => {
                let beginning = *self.random.pick(&["", "", "lease", "ring", "head"]);
                self.network.hang(beginning, until);
            }
            Fault::Move => {
                let to = self.random.index(self.nodes.len());
                let handover =
                    if self.random.chance(1, 2) { Handover::Release } else { Handover::OfferTo(name(to)) };
                let processes = self.nodes.iter_mut().filter_map(|node| node.process.as_mut());
                if let Some(owner) = processes.into_iter().find(|process| process.phase() == Phase::Owner) {
                    owner.leave(handover);
                }
            }
        }
    }

    /// The process of a node ends, and its agent starts another one; often it releases the lease before.
    pub(super) fn end(&mut self, node: usize) {
        let Some(process) = self.nodes[node].process.take() else { return };
        self.nodes[node].watched = process.watched();
        let seen = self.now + nanos(20 + self.random.below(200));
        if self.random.chance(2, 3) {
            self.schedule(seen, Happening::Release(process.instance()));
        }
        let at = seen + nanos(self.random.below(2000));
        self.schedule(at, Happening::Start(node));
    }
}
