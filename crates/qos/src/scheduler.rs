//! The entrance: admits calls at once where nothing waits, and has the others wait.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backlog::{Backlog, Refusal};
use crate::call::{Call, Counters, LIMITERS_MAX, Released, Token, Verdict};
use crate::charges::Charges;
use crate::fault::{Fault, is_planted};
use crate::gate::{Gate, Terms, Ticks};
use crate::limiter::{Limiter, LimiterId, byte_passages, passages};
use crate::limits::Limits;
use crate::queue::OWED_MAX;
use crate::time::Time;
#[cfg(test)]
use crate::{call::ClientId, limiter::GateId};

/// No step is due.
const NEVER: u64 = u64::MAX;

/// The limiters of a server, and the calls that wait for them.
#[derive(Debug)]
pub struct Scheduler {
    backlog: Mutex<Backlog>,
    /// The next deadline, nanoseconds, so that loops can ask without the lock.
    deadline: AtomicU64,
    /// Limiters that were made.
    limiters: AtomicU64,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler { backlog: Mutex::default(), deadline: AtomicU64::new(NEVER), limiters: AtomicU64::new(0) }
    }
}

impl Scheduler {
    /// Makes a limiter. Its whole burst is free.
    pub fn limiter(&self, now: Time, limits: &Limits) -> Arc<Limiter> {
        let id = LimiterId(self.limiters.fetch_add(1, Relaxed) + 1);
        Arc::new(Limiter::new(id, now, limits))
    }

    /// Changes the limits of a limiter at once. Calls that a removed limit held are released by the next
    /// [`Scheduler::release`]; as the deadline may be earlier than loops know, wake one of them.
    pub fn change(&self, now: Time, limiter: &Arc<Limiter>, limits: &Limits) {
        let mut backlog = self.lock();
        backlog.change(now, limiter, limits);
        self.publish(&backlog);
    }

    /// Admits a call, or lets it wait. What is [`Cost::is_debt_only`](crate::Cost::is_debt_only) is always admitted.
    ///
    /// # Panics
    /// More than [`LIMITERS_MAX`] limiters apply.
    pub fn admit(&self, now: Time, call: &Call<'_>) -> Verdict {
        self.admit_if(now, call, Refusal::WithoutRoom)
    }

    /// Admits a call that has passed other limiters already, or lets it wait, however much of its client waits: never
    /// [`Verdict::Full`].
    ///
    /// # Panics
    /// More than [`LIMITERS_MAX`] limiters apply.
    pub fn go_on(&self, now: Time, call: &Call<'_>) -> Verdict {
        let refusal = if is_planted(Fault::RefuseOnTheWay) { Refusal::WithoutRoom } else { Refusal::Never };
        self.admit_if(now, call, refusal)
    }

    fn admit_if(&self, now: Time, call: &Call<'_>, refusal: Refusal) -> Verdict {
        assert!(call.limiters.len() <= LIMITERS_MAX, "{} limiters apply to a call", call.limiters.len());
        if !call.limiters.iter().any(|limiter| limiter.is_limited()) {
            return Verdict::Admitted;
        }
        if call.cost.is_debt_only {
            self.charge_debt(now, call);
            return Verdict::Admitted;
        }
        if charge(now, call) {
            return Verdict::Admitted;
        }
        let mut backlog = self.lock();
        let verdict = backlog.admit(now, call, refusal);
        self.publish(&backlog);
        verdict
    }

    /// Gives back bytes that an admitted call did not move: `call` with the bytes left over as its cost. A short READ is one.
    pub fn refund(&self, now: Time, call: &Call<'_>) {
        if is_planted(Fault::ForgetRefund) {
            return;
        }
        self.settle(call, |backlog| backlog.refund(now, call), |gate, ticks| gate.refund(ticks));
    }

    /// Charges bytes that a call has moved without having waited for them: `call` with these bytes as its cost. No burst bounds
    /// what is owed. Later calls wait until it is paid, for [`OWED_MAX`] at most.
    pub fn owe(&self, now: Time, call: &Call<'_>) {
        if is_planted(Fault::ForgetOwed) {
            return;
        }
        let charge = |gate: &Gate, ticks| {
            gate.charge_debt(now, ticks, OWED_MAX);
        };
        self.settle(call, |backlog| backlog.owe(now, call), charge);
    }

    /// Corrects what an admitted call was charged for its bytes: in the backlog if calls wait at one of its gates, else at the gates alone.
    fn settle(
        &self,
        call: &Call<'_>,
        with_backlog: impl FnOnce(&mut Backlog),
        at_gate: impl Fn(&Gate, Ticks),
    ) {
        if byte_passages(call.limiters, call.cost).any(|passage| passage.gate().is_busy()) {
            let mut backlog = self.lock();
            with_backlog(&mut backlog);
            return self.publish(&backlog);
        }
        for passage in byte_passages(call.limiters, call.cost) {
            let gate = passage.gate();
            at_gate(gate, gate.ticks(u64::from(passage.units)));
        }
    }

    /// Returns when [`Scheduler::release`] has something to do. Each loop asks before it sleeps, and wakes up then: whatever
    /// made the deadline earlier was done by a loop that has not slept since.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadline = self.deadline.load(Acquire);
        (deadline != NEVER).then(|| Time::from_nanos(deadline))
    }

    /// Adds to `out` what is to be done now, by any loop. At most [`RELEASED_MAX`](crate::RELEASED_MAX) calls are released; the
    /// deadline stays in the past if there are more. Takes no lock if nothing is due.
    pub fn release(&self, now: Time, out: &mut Vec<Released>) {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let mut backlog = self.lock();
        backlog.release(now, out);
        self.publish(&backlog);
    }

    /// Forgets a call that waits, because its connection has gone. Returns whether it waited.
    pub fn forget(&self, now: Time, token: Token) -> bool {
        let mut backlog = self.lock();
        let was_held = backlog.forget(now, token);
        self.publish(&backlog);
        was_held
    }

    /// Returns the counters of a limiter. Takes the lock: meant for metrics, not for each call.
    pub fn counters(&self, now: Time, limiter: &Limiter) -> Counters {
        let mut counters = Counters::default();
        self.lock().count(now, limiter, &mut counters);
        counters
    }

    fn charge_debt(&self, now: Time, call: &Call<'_>) {
        if passages(call.limiters, call.cost).any(|passage| passage.gate().is_busy()) {
            let mut backlog = self.lock();
            backlog.charge_debt(now, call);
            return self.publish(&backlog);
        }
        for passage in passages(call.limiters, call.cost) {
            let gate = passage.gate();
            gate.charge_debt(now, gate.ticks(u64::from(passage.units)), Duration::ZERO);
        }
    }

    /// Takes the lock. A thread that panicked with it has ended the process, except in tests.
    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the deadline to loops. The caller has the lock, so that no older one is published later.
    fn publish(&self, backlog: &MutexGuard<'_, Backlog>) {
        let deadline = backlog.next_deadline().map_or(NEVER, Time::as_nanos);
        self.deadline.store(deadline, Release);
    }

    /// Whether nothing waits, and the counts of what does are right.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<usize, String> {
        self.lock().check()
    }

    /// Returns whose calls wait at which gates.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<(GateId, Vec<(ClientId, u64)>)> {
        self.lock().held()
    }
}

/// Charges a call at all gates if nothing waits at them and all admit it.
fn charge(now: Time, call: &Call<'_>) -> bool {
    let mut charges = Charges::default();
    for passage in passages(call.limiters, call.cost) {
        if passage.gate().is_busy() || !charges.add(now, &passage, Terms::Fits(Ticks(0))) {
            charges.undo();
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
