//! The steady state of several hosts: their rates are added up round by round and judged as those of one host are.

use std::time::Duration;

use crate::error::LoadError;
use crate::result::Steady;
use crate::run::{RoundCount, rate};
use crate::steady::SteadyRule;

/// The silence that an agent is allowed.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);

/// The counts of all agents, and the verdict on them.
pub(super) struct JointRounds {
    rule: SteadyRule,
    /// The counts of each agent, by round.
    rounds: Vec<Vec<RoundCount>>,
    /// The last round that was judged.
    pub(super) judged: usize,
    /// The round that ends the window, once it is decided.
    pub(super) last: Option<usize>,
}

impl JointRounds {
    /// Begins without rounds.
    pub(super) fn new(rule: SteadyRule, agents: usize) -> Self {
        Self { rule, rounds: vec![Vec::new(); agents], judged: 0, last: None }
    }

    /// Adds an agent's count of a round.
    ///
    /// # Errors
    /// If it is not the agent's next round, or there are more rounds than possible: agents go on until the coordinator
    /// notices that one of them is silent.
    pub(super) fn add(&mut self, agent: usize, round: RoundCount) -> Result<(), LoadError> {
        let unnoticed = SILENCE_TIMEOUT.as_nanos().div_ceil(self.rule.round.as_nanos().max(1));
        let spare = u64::from(self.rule.late_rounds()) + u64::try_from(unnoticed).unwrap_or(u64::MAX / 2);
        let is_next = |rounds: &&mut Vec<RoundCount>| rounds.len() as u64 + 1 == round.number;
        match self.rounds.get_mut(agent).filter(is_next) {
            Some(rounds) if !self.rule.gives_up_after(round.number.saturating_sub(spare + 1)) => {
                rounds.push(round);
                Ok(())
            }
            _ => Err(LoadError::new("it counts rounds out of order or without end")),
        }
    }

    /// Returns the last round that all these agents have counted. Returns none if one agent is so far behind that the
    /// others no longer keep the rounds of that window.
    pub(super) fn complete(&self, agents: &[usize]) -> Option<usize> {
        let counts = || agents.iter().filter_map(|agent| self.rounds.get(*agent)).map(Vec::len);
        let (min, max) = (counts().min()?, counts().max()?);
        (min > 0 && max - min < self.rule.late_rounds() as usize).then_some(min)
    }

    /// Returns the round with which the sum of these agents' rates became steady or time was up. Judges each round once.
    pub(super) fn verdict(&mut self, agents: &[usize]) -> Option<usize> {
        let last = self.complete(agents).filter(|last| *last > self.judged)?;
        self.judged = last;
        let is_over = self.judge(agents, last).reached || self.rule.gives_up_after(last as u64);
        is_over.then_some(last)
    }

    /// Judges the window that ends with round `last`, over the sum of these agents' rates.
    pub(super) fn judge(&self, agents: &[usize], last: usize) -> Steady {
        let first = last.saturating_sub(self.rule.rounds as usize);
        let operations = |round: usize| {
            let of = |agent: &usize| Some(self.rounds.get(*agent)?.get(round)?.operations);
            agents.iter().filter_map(of).fold(0, u64::saturating_add)
        };
        let rates = (first..last).map(|round| rate(operations(round), self.rule.round.as_secs_f64()));
        self.rule.judge(&rates.collect::<Vec<_>>())
    }

    /// Returns the operations and bytes of all judged rounds, including those before the window.
    pub(super) fn total(&self, agents: &[usize]) -> (u64, u64) {
        let rounds = agents.iter().filter_map(|agent| self.rounds.get(*agent));
        rounds.flat_map(|rounds| rounds.iter().take(self.judged)).fold(
            (0, 0),
            |(operations, bytes), round| {
                (operations.saturating_add(round.operations), bytes.saturating_add(round.bytes))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steady::TEST_RULE as RULE;

    /// Two agents with these counts.
    fn joint(counts: [&[u64]; 2]) -> JointRounds {
        let mut joint = JointRounds::new(RULE, 2);
        for (agent, operations) in counts.into_iter().enumerate() {
            for (round, operations) in operations.iter().enumerate() {
                let counted = RoundCount { number: round as u64 + 1, operations: *operations, bytes: 0 };
                joint.add(agent, counted).unwrap();
            }
        }
        joint
    }

    #[test]
    fn the_sum_of_rates_is_judged() {
        // One rises while the other falls.
        let mut both = joint([&[100, 200, 300], &[300, 200, 100]]);
        assert_eq!(both.verdict(&[0, 1]), Some(3));
        assert!(both.judge(&[0, 1], 3).reached && !both.judge(&[0], 3).reached);
        // Both jump in the same round.
        let mut jump = joint([&[100, 150, 100], &[100, 150, 100]]);
        assert_eq!(jump.verdict(&[0, 1]), None);
    }

    #[test]
    fn a_round_counts_once_all_agents_have_counted_it() {
        let mut joint = joint([&[100; 4], &[100; 2]]);
        assert_eq!((joint.complete(&[0, 1]), joint.verdict(&[0, 1])), (Some(2), None));
        let third = RoundCount { number: 3, operations: 100, bytes: 0 };
        joint.add(1, third).unwrap();
        assert_eq!(joint.verdict(&[0, 1]), Some(3));
        // Each round is judged once; without the slow agent, the other is judged alone.
        assert_eq!(joint.verdict(&[0, 1]), None);
        assert_eq!(joint.verdict(&[0]), Some(4));
    }

    #[test]
    fn an_unsteady_rate_ends_when_time_is_up() {
        let rates: Vec<u64> = (1..=10).map(|round| round * round).collect();
        let mut joint = joint([&rates, &[1; 9]]);
        assert_eq!(joint.verdict(&[0, 1]), None);
        joint.add(1, RoundCount { number: 10, operations: 1, bytes: 0 }).unwrap();
        assert_eq!(joint.verdict(&[0, 1]), Some(10));
        assert!(!joint.judge(&[0, 1], 10).reached);
    }

    #[test]
    fn all_judged_rounds_count_as_work() {
        let mut joint = joint([&[10, 20, 30, 40], &[1, 2, 3]]);
        assert_eq!(joint.total(&[0, 1]), (0, 0));
        joint.verdict(&[0, 1]);
        assert_eq!((joint.judged, joint.total(&[0, 1]), joint.total(&[1])), (3, (66, 0), (6, 0)));
    }

    #[test]
    fn a_lagging_agent_is_waited_for() {
        let joint = joint([&[100; 8], &[100; 3]]);
        assert_eq!(joint.complete(&[0, 1]), None);
        assert_eq!(joint.complete(&[]), None);
    }

    #[test]
    fn an_agent_that_falls_silent_near_the_end_does_not_fail_the_others() {
        let mut joint = joint([&[100; 19], &[1; 9]]);
        assert_eq!(joint.verdict(&[0, 1]), None);
        assert_eq!(joint.verdict(&[0]), Some(19));
    }

    #[test]
    fn rounds_must_come_in_order_and_end() {
        let mut joint = joint([&[], &[]]);
        for number in [0, 2, u64::MAX] {
            assert!(joint.add(0, RoundCount { number, operations: 1, bytes: 0 }).is_err());
        }
        let endless = (1..100)
            .find(|number| joint.add(0, RoundCount { number: *number, operations: 1, bytes: 0 }).is_err());
        // Ten rounds until time is up, and ten more until a silent agent is noticed.
        assert_eq!(endless, Some(10 + 10 + u64::from(RULE.late_rounds()) + 1));
        assert!(joint.add(7, RoundCount { number: 1, operations: 1, bytes: 0 }).is_err());
    }
}
