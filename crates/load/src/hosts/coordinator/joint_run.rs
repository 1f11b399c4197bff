//! One measurement of all agents, as the coordinator follows it.

use std::time::{Duration, Instant};

use super::Failure;
use super::cpu_meter::CpuMeter;
use super::joint_rounds::JointRounds;
use super::link::{AgentState, Link};
use crate::error::LoadError;
use crate::result::{Measurement, ServerCost};

/// What is known about a measurement so far.
pub(super) struct JointRun {
    pub(super) began_at: Option<Instant>,
    pub(super) pinged_at: Instant,
    pub(super) stopped_at: Option<Instant>,
    pub(super) start_skew: Option<StartSkew>,
    /// For a steady state.
    pub(super) rounds: Option<JointRounds>,
    /// For the server's processor time, as long as it can be read.
    pub(super) meter: Option<CpuMeter>,
    pub(super) failures: Vec<Failure>,
}

impl JointRun {
    pub(super) fn new(rounds: Option<JointRounds>, meter: Option<CpuMeter>) -> Self {
        let (pinged_at, failures) = (Instant::now(), Vec::new());
        let (began_at, stopped_at, start_skew) = (None, None, None);
        Self { began_at, pinged_at, stopped_at, start_skew, rounds, meter, failures }
    }

    /// Whether an agent's measurement ended before the coordinator ended it. A rate must not mix different spans of time.
    pub(super) fn is_early(&self, measurement: &Measurement) -> bool {
        let is_cut = self.rounds.as_ref().map_or(measurement.interrupted, |rounds| rounds.last.is_none());
        self.stopped_at.is_none() && is_cut
    }

    /// Returns the round that ends the steady-state window, once that is decided: the rate is steady, time is up, or the
    /// user interrupts.
    pub(super) fn decide_last_round(&mut self, agents: &[usize], is_interrupted: bool) -> Option<u64> {
        let is_open = self.stopped_at.is_none();
        let rounds = self.rounds.as_mut().filter(|rounds| is_open && rounds.last.is_none())?;
        let before = rounds.judged;
        let verdict = rounds.verdict(agents);
        rounds.last = if is_interrupted { rounds.complete(agents) } else { verdict };
        let (last, is_new) = (rounds.last, rounds.judged > before);
        if is_new {
            self.with_meter(CpuMeter::mark);
        }
        last.map(|last| last as u64)
    }

    /// Uses the meter. A meter that fails is given up.
    pub(super) fn with_meter(&mut self, action: fn(&mut CpuMeter) -> Result<(), LoadError>) {
        if let Some(Err(error)) = self.meter.as_mut().map(action) {
            self.failures.push(Failure(format!("the server's processor time is not known: {error}")));
            self.meter = None;
        }
    }

    /// Stops the meter: what agents do from now on does not count.
    pub(super) fn end_stage(&mut self) {
        self.with_meter(CpuMeter::mark);
        if let Some(meter) = &mut self.meter {
            meter.end();
        }
    }

    /// Returns what the measurement cost the server, unless the server also worked for agents without a result; `notes`
    /// says so then.
    pub(super) fn server_cost(
        &mut self,
        whole: &Measurement,
        agents: &[usize],
        agents_asked: usize,
        notes: &mut Vec<String>,
    ) -> Option<ServerCost> {
        let meter = self.meter.as_mut()?;
        if agents.len() < agents_asked {
            let reason = "it worked for hosts that have no part in the result";
            notes.push(format!("{}: the server's processor time is not known: {reason}.", whole.name));
            return None;
        }
        let (operations, bytes) = match &self.rounds {
            // The meter is read when a round is complete.
            Some(rounds) if rounds.judged == 0 => return None,
            Some(rounds) => rounds.total(agents),
            None => (whole.operations, whole.bytes),
        };
        meter.cost(operations, bytes)
    }
}

/// How far apart agents began a stage. Each began between being told and being heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartSkew {
    /// If each began in the middle of that span.
    pub(super) estimate: Duration,
    pub(super) max: Duration,
}

impl StartSkew {
    /// Returns the skew once all agents have begun.
    pub(super) fn of(links: &[Link]) -> Option<Self> {
        let spans: Vec<(Instant, Instant)> = links
            .iter()
            .filter(|link| link.told_at.is_some())
            .filter(|link| !matches!(link.state, AgentState::Lost | AgentState::Failed))
            .map(|link| link.told_at.zip(link.began_at))
            .collect::<Option<_>>()?;
        let middles = || spans.iter().map(|(told, began)| *told + began.duration_since(*told) / 2);
        let estimate = middles().max()?.duration_since(middles().min()?);
        let first = spans.iter().map(|(told, _)| *told).min()?;
        let last = spans.iter().map(|(_, began)| *began).max()?;
        Some(Self { estimate, max: last.duration_since(first) })
    }
}
