//! A call on its way past the limits that apply to it.
//!
//! Nearly all calls are about one volume. All their limiters are asked at once, and charged at once or not at all. A call that is
//! about several volumes, which moves other amounts in each, or that both reads and writes, passes in *stages*, and waits at
//! each until it is let on: it could not wait for all of them at once, as limiters know one cost of a call. Where it has passed,
//! it was charged.

use std::sync::Arc;

use nfs::charge::{Charge, CopyTerms, Work};
use nfs::summary::{MovedIn, Transferred};
use qos::{Call, Class, ClientId, Cost, Limiter, Scheduler, Time, Token, Verdict};
use volume::ids::VolumeId;

use super::Asker;
use super::limiters::Limiters;

/// For calls that cannot wait.
const NO_TOKEN: Token = Token { event_loop: qos::LoopId(u16::MAX), call: u64::MAX };

/// A call, as limiters see it.
#[derive(Clone, Debug)]
pub(crate) struct Charged {
    client: ClientId,
    first: Stage,
    others: Vec<Stage>,
    /// Stages that it has passed.
    passed: usize,
    /// Whether its target limits bytes that are written, and it writes some.
    is_of_target: bool,
}

/// Limiters that a call passes at once, all for the same cost.
#[derive(Clone, Debug)]
struct Stage {
    limiters: Vec<Arc<Limiter>>,
    cost: Cost,
    /// The volume whose limiters are among them.
    volume: Option<VolumeId>,
    /// Whether the cost is that of the whole call, otherwise of what it does in the volume.
    is_whole: bool,
}

impl Stage {
    fn call(&self, client: ClientId, bytes: u32, token: Token) -> Call<'_> {
        Call { limiters: &self.limiters, client, cost: Cost { bytes, ..self.cost }, token }
    }

    /// Returns how much of what was moved is what this stage was charged for.
    fn moved(&self, moved: impl Iterator<Item = MovedIn>) -> u32 {
        let counts = |moved: &MovedIn| self.is_whole || Some(moved.volume) == self.volume;
        let moved = moved.filter(counts).fold(Transferred::default(), |sum, one| sum.and(one.bytes));
        of_class(moved, self.cost.class)
    }
}

impl Charged {
    /// Returns what a call passes; none if it passes no limit.
    pub(super) fn new(limiters: &Limiters, charge: &Charge, asker: &Asker<'_>) -> Option<Charged> {
        let mut stages = Vec::new();
        let mut add = |limiters: Vec<Arc<Limiter>>, work, volume, is_whole| {
            if !limiters.is_empty() {
                let stage = |cost| Stage { limiters: limiters.clone(), cost, volume, is_whole };
                stages.extend(costs(work, charge.is_urgent).map(stage));
            }
        };
        let mut places = charge.places();
        match (places.next(), places.next()) {
            (first, None) => {
                let volume = first.map(|place| place.volume);
                add(limiters.of_call(asker.target, volume, asker.limiter), charge.work, volume, true);
            }
            _ => {
                add(limiters.of_call(asker.target, None, asker.limiter), charge.work, None, true);
                for place in charge.places() {
                    add(limiters.of_volume(Some(place.volume)), place.work, Some(place.volume), false);
                }
            }
        }
        let mut stages = stages.into_iter();
        let first = stages.next()?;
        let is_of_target = charge.work.written.is_some()
            && limiters.of_target(asker.target).is_some_and(|limiter| limiter.limits_bytes(Class::Write));
        let client = ClientId(asker.origin.number());
        Some(Charged { client, first, others: stages.collect(), passed: 0, is_of_target })
    }

    /// Returns whose call it is.
    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    /// Returns how much a COPY in it may copy.
    pub(crate) fn copy_terms(&self) -> CopyTerms {
        let limits = |stage: &Stage| stage.limiters.iter().any(|limiter| limiter.limits_bytes(Class::Write));
        if self.is_of_target {
            CopyTerms::ChargedByTarget
        } else if self.stages().any(|stage| stage.cost.class == Class::Write && limits(stage)) {
            CopyTerms::Charged
        } else {
            CopyTerms::Free
        }
    }

    /// Returns all limiters that it passes.
    #[cfg(test)]
    pub(super) fn limiters(&self) -> impl Iterator<Item = &Arc<Limiter>> {
        self.stages().flat_map(|stage| &stage.limiters)
    }

    fn stages(&self) -> impl Iterator<Item = &Stage> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn stage(&self, number: usize) -> Option<&Stage> {
        if number == 0 { Some(&self.first) } else { self.others.get(number - 1) }
    }

    /// Passes the stages that are left, until one holds or refuses the call. Only the first one refuses.
    pub(super) fn pass(&mut self, scheduler: &Scheduler, now: Time, token: Token) -> Verdict {
        while let Some(stage) = self.stage(self.passed) {
            let call = stage.call(self.client, stage.cost.bytes, token);
            let verdict =
                if self.passed == 0 { scheduler.admit(now, &call) } else { scheduler.go_on(now, &call) };
            if verdict != Verdict::Admitted {
                return verdict;
            }
            self.passed += 1;
        }
        Verdict::Admitted
    }

    /// Notes that the stage at which it was held has let it pass.
    pub(super) fn note_passed(&mut self) {
        self.passed += 1;
    }

    /// Corrects what was charged by what the call did.
    pub(super) fn settle(
        &self,
        scheduler: &Scheduler,
        now: Time,
        limiters: &Limiters,
        moved: impl Iterator<Item = MovedIn> + Clone,
    ) {
        for stage in self.stages() {
            let (moved, charged) = (stage.moved(moved.clone()), stage.cost.bytes);
            if moved < charged {
                scheduler.refund(now, &stage.call(self.client, charged - moved, NO_TOKEN));
            } else if moved > charged {
                scheduler.owe(now, &stage.call(self.client, moved - charged, NO_TOKEN));
            }
        }
        for moved in moved {
            self.settle_unforeseen(scheduler, now, limiters, moved);
        }
    }

    /// Charges what was moved in a volume without a stage for it: the configuration has changed since the call was judged.
    fn settle_unforeseen(&self, scheduler: &Scheduler, now: Time, limiters: &Limiters, moved: MovedIn) {
        for class in [Class::Read, Class::Write] {
            let bytes = of_class(moved.bytes, class);
            let is_charged = |stage: &Stage| stage.volume == Some(moved.volume) && stage.cost.class == class;
            if bytes > 0 && !self.stages().any(is_charged) {
                let limiters = limiters.of_volume(Some(moved.volume));
                let cost = Cost { class, bytes, is_debt_only: true };
                let owed = Call { limiters: &limiters, client: self.client, cost, token: NO_TOKEN };
                scheduler.owe(now, &owed);
            }
        }
    }

    /// Gives back the bytes of the stages that it has passed.
    pub(super) fn give_back(&self, scheduler: &Scheduler, now: Time) {
        for stage in self.stages().take(self.passed) {
            scheduler.refund(now, &stage.call(self.client, stage.cost.bytes, NO_TOKEN));
        }
    }
}

/// Returns what work costs: a READ, a WRITE, or both; without either, an operation on metadata.
fn costs(work: Work, is_urgent: bool) -> impl Iterator<Item = Cost> {
    let read = work.read.map(Cost::read);
    let written = work.written.map(Cost::write);
    let other = (read.is_none() && written.is_none()).then(Cost::metadata);
    let costs = read.into_iter().chain(written).chain(other);
    costs.map(move |cost| if is_urgent { cost.debt_only() } else { cost })
}

fn of_class(moved: Transferred, class: Class) -> u32 {
    match class {
        Class::Read => moved.read,
        Class::Write => moved.written,
        Class::Metadata => 0,
    }
}
