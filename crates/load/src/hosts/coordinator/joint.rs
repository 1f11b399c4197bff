//! The steady state of several hosts: their rates are added up round by round, and judged as those of one host are.

use super::SILENCE_TIMEOUT;
use crate::error::LoadError;
use crate::result::Steady;
use crate::run::{RoundCount, rate};
use crate::steady::SteadyRule;

/// What all agents have counted, and what follows from it.
pub(super) struct JointRounds {
    rule: SteadyRule,
    /// What each agent counted, by round.
    rounds: Vec<Vec<RoundCount>>,
    /// The last round that was judged.
    pub(super) judged: usize,
    /// The round that ends the window, once that is known.
    pub(super) last: Option<usize>,
}

impl JointRounds {
    /// Of so many agents, none of which has counted anything.
    pub(super) fn new(rule: SteadyRule, agents: usize) -> Self {
        Self { rule, rounds: vec![Vec::new(); agents], judged: 0, last: None }
    }

    /// An agent has counted a round.
    ///
    /// # Errors
    /// If it is not its next one, or one more than there can be: all go on until it is known that one has fallen silent.
    pub(super) fn heard(&mut self, agent: usize, round: RoundCount) -> Result<(), LoadError> {
        let unnoticed = SILENCE_TIMEOUT.as_nanos().div_ceil(self.rule.round.as_nanos().max(1));
        let spare = u64::from(self.rule.late_rounds()) + u64::try_from(unnoticed).unwrap_or(u64::MAX / 2);
        let is_next = |rounds: &&mut Vec<RoundCount>| rounds.len() as u64 + 1 == round.number;
        match self.rounds.get_mut(agent).filter(is_next) {
            Some(rounds) if !self.rule.gives_up_after(round.number.saturating_sub(spare + 1)) => {
                rounds.push(round);
                Ok(())
            }
            _ => Err(LoadError::new("the rounds that it counts make no sense")),
        }
    }

    /// The last round that all of these have counted; none if there is none, or if one is so far behind the others that
    /// they would not keep its window.
    pub(super) fn complete(&self, agents: &[usize]) -> Option<usize> {
        let counts = || agents.iter().filter_map(|agent| self.rounds.get(*agent)).map(Vec::len);
        let (least, most) = (counts().min()?, counts().max()?);
        (least > 0 && most - least < self.rule.late_rounds() as usize).then_some(least)
    }

    /// The round with which the rate of these together has become steady, or it was tried for long enough. Each round is
    /// judged once.
    pub(super) fn verdict(&mut self, agents: &[usize]) -> Option<usize> {
        let last = self.complete(agents).filter(|last| *last > self.judged)?;
        self.judged = last;
        let is_over = self.judge(agents, last).reached || self.rule.gives_up_after(last as u64);
        is_over.then_some(last)
    }

    /// The window that ends with a round, as these together have it.
    pub(super) fn judge(&self, agents: &[usize], last: usize) -> Steady {
        let first = last.saturating_sub(self.rule.rounds as usize);
        let operations = |round: usize| {
            let of = |agent: &usize| Some(self.rounds.get(*agent)?.get(round)?.operations);
            agents.iter().filter_map(of).fold(0, u64::saturating_add)
        };
        let rates = (first..last).map(|round| rate(operations(round), self.rule.round.as_secs_f64()));
        self.rule.judge(&rates.collect::<Vec<_>>())
    }

    /// Operations and bytes of all rounds that were judged, also of those before the window.
    pub(super) fn all(&self, agents: &[usize]) -> (u64, u64) {
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
    use std::time::Duration;

    const RULE: SteadyRule = SteadyRule {
        round: Duration::from_secs(2),
        rounds: 3,
        spread: 0.2,
        slope: 0.1,
        duration_max: Duration::from_secs(20),
    };

    /// Two agents that have counted so much.
    fn joint(counts: [&[u64]; 2]) -> JointRounds {
        let mut joint = JointRounds::new(RULE, 2);
        for (agent, operations) in counts.into_iter().enumerate() {
            for (round, operations) in operations.iter().enumerate() {
                let counted = RoundCount { number: round as u64 + 1, operations: *operations, bytes: 0 };
                joint.heard(agent, counted).unwrap();
            }
        }
        joint
    }

    #[test]
    fn the_sum_is_judged_and_no_host_alone() {
        // One rises as the other falls.
        let mut both = joint([&[100, 200, 300], &[300, 200, 100]]);
        assert_eq!(both.verdict(&[0, 1]), Some(3));
        assert!(both.judge(&[0, 1], 3).reached && !both.judge(&[0], 3).reached);
        // Each is level but for one round, which is not the same.
        let mut jump = joint([&[100, 150, 100], &[100, 150, 100]]);
        assert_eq!(jump.verdict(&[0, 1]), None);
    }

    #[test]
    fn a_round_counts_when_all_have_told_it() {
        let mut joint = joint([&[100; 4], &[100; 2]]);
        assert_eq!((joint.complete(&[0, 1]), joint.verdict(&[0, 1])), (Some(2), None));
        let third = RoundCount { number: 3, operations: 100, bytes: 0 };
        joint.heard(1, third).unwrap();
        assert_eq!(joint.verdict(&[0, 1]), Some(3));
        // It is judged once, and those that are left are judged by themselves.
        assert_eq!(joint.verdict(&[0, 1]), None);
        assert_eq!(joint.verdict(&[0]), Some(4));
    }

    #[test]
    fn what_never_becomes_steady_has_an_end() {
        let rates: Vec<u64> = (1..=10).map(|round| round * round).collect();
        let mut joint = joint([&rates, &[1; 9]]);
        assert_eq!(joint.verdict(&[0, 1]), None);
        joint.heard(1, RoundCount { number: 10, operations: 1, bytes: 0 }).unwrap();
        assert_eq!(joint.verdict(&[0, 1]), Some(10));
        assert!(!joint.judge(&[0, 1], 10).reached);
    }

    #[test]
    fn all_judged_rounds_are_work() {
        let mut joint = joint([&[10, 20, 30, 40], &[1, 2, 3]]);
        assert_eq!(joint.all(&[0, 1]), (0, 0));
        joint.verdict(&[0, 1]);
        assert_eq!((joint.judged, joint.all(&[0, 1]), joint.all(&[1])), (3, (66, 0), (6, 0)));
    }

    #[test]
    fn one_that_is_far_behind_is_waited_for() {
        let joint = joint([&[100; 8], &[100; 3]]);
        assert_eq!(joint.complete(&[0, 1]), None);
        assert_eq!(joint.complete(&[]), None);
    }

    #[test]
    fn who_falls_silent_near_the_end_takes_nobody_along() {
        let mut joint = joint([&[100; 19], &[1; 9]]);
        assert_eq!(joint.verdict(&[0, 1]), None);
        assert_eq!(joint.verdict(&[0]), Some(19));
    }

    #[test]
    fn rounds_come_in_order_and_not_for_ever() {
        let mut joint = joint([&[], &[]]);
        for number in [0, 2, u64::MAX] {
            assert!(joint.heard(0, RoundCount { number, operations: 1, bytes: 0 }).is_err());
        }
        let endless = (1..100)
            .find(|number| joint.heard(0, RoundCount { number: *number, operations: 1, bytes: 0 }).is_err());
        // Ten rounds until it is given up, and ten more until a silent one is missed.
        assert_eq!(endless, Some(10 + 10 + u64::from(RULE.late_rounds()) + 1));
        assert!(joint.heard(7, RoundCount { number: 1, operations: 1, bytes: 0 }).is_err());
    }
}
