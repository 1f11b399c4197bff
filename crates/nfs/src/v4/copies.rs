//! Continues copies after the reply to COPY (RFC 7862 section 4): part by part, each as large as one journal entry or as rate
//! limits allow. The origins take turns, and the copies of an origin take turns within its own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use volume::request::{Access, Durable, Error, Request};
use volume::volume::Volume;

use crate::charge::{CopyId, CopyLimits, CopyPart};
use crate::clocks::ClockReading;
use crate::context::ServiceContext;
use crate::state::StateError;
use crate::state::copies::{CopyEnd, CopyJob, CopyRequest, CopySide, Phase};
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::stateids::IoMode;

/// When to look again at a copy that waits for the journal, for write-back or for a delegation.
const SOON: Duration = Duration::from_millis(5);
/// When to look again at a copy whose client's lease is over.
const LEASE_OVER: Duration = Duration::from_secs(1);
/// When to look again if there is nothing to copy, or rate limits hold all there is.
const LATER: Duration = Duration::from_secs(60);

/// The outcome of one step.
enum Step {
    /// A part was copied. Step again after this time.
    Copied(Duration),
    /// Step again after this time.
    After(Duration),
    /// Nothing remains to be done.
    Done,
}

impl ServiceContext {
    /// Copies one part for each origin with copies that continue after their reply. May block for media. Returns when to call
    /// it again, unless `on_copies` reports a new copy, or `limits` allow one to go on earlier.
    pub(crate) fn copy_some(&self, now: ClockReading, limits: &dyn CopyLimits) -> Duration {
        let copies = self.shared.state.copies_to_do();
        limits.retain(&|id| copies.iter().any(|copy| id_of(copy) == id && is_running(copy)));
        let mut origins: BTreeMap<IpAddr, Vec<&Arc<CopyJob>>> = BTreeMap::new();
        for copy in &copies {
            origins.entry(copy.client.holder.origin()).or_default().push(copy);
        }
        origins.into_values().map(|own| self.step_origin(own, now, limits)).min().unwrap_or(LATER)
    }

    /// Copies a part of the copy that has waited longest of an origin, of those that can go on, and ends others. Returns when to
    /// call it again.
    fn step_origin(
        &self,
        mut own: Vec<&Arc<CopyJob>>,
        now: ClockReading,
        limits: &dyn CopyLimits,
    ) -> Duration {
        own.sort_by_cached_key(|copy| copy.progress().copied_at);
        // This may be called because of others, before the pause after the last part is over.
        let rest = own.iter().map(|copy| copy.progress().rests_until.since(now.steady)).max();
        let rest = rest.filter(|rest| !rest.is_zero());
        let (mut again, mut may_copy) = (rest.unwrap_or(LATER), rest.is_none());
        for copy in own {
            if !may_copy && is_running(copy) {
                continue;
            }
            match self.step_copy(copy, now, limits) {
                Step::Copied(pause) => (again, may_copy) = (again.min(pause), false),
                Step::After(pause) => again = again.min(pause),
                Step::Done => {}
            }
        }
        again
    }

    fn step_copy(&self, copy: &Arc<CopyJob>, now: ClockReading, limits: &dyn CopyLimits) -> Step {
        let volume = self.volume(copy.file.volume);
        let (Some(volume), Some(order)) = (volume, &copy.order) else {
            // The volume is no longer served.
            copy.stop();
            return self.end(copy, CopyEnd::NotServed, now);
        };
        match copy.progress().phase {
            Phase::Running => self.copy_part(copy, (order, limits), volume, now),
            Phase::Syncing => self.end_when_durable(copy, order, volume, now),
            Phase::Ended(_) | Phase::Gone => Step::Done,
        }
    }

    fn copy_part(
        &self,
        copy: &Arc<CopyJob>,
        (order, limits): (&CopyRequest, &dyn CopyLimits),
        volume: &Volume,
        now: ClockReading,
    ) -> Step {
        let Some(_working) = copy.work() else { return Step::After(Duration::ZERO) };
        if !self.is_still_admitted(order) {
            copy.stop();
            return Step::After(Duration::ZERO);
        }
        if self.shared.state.is_lease_expired(&copy.client, now.steady) {
            return Step::After(LEASE_OVER);
        }
        let done = copy.progress().done;
        let bytes = order.count - done;
        let part = CopyPart { copy: id_of(copy), volume: copy.file.volume, peer: order.peer, bytes };
        let Some(most) = limits.allow(&part) else { return Step::After(LATER) };
        let _in_flight = match self.allowed(copy, order, now) {
            Ok(in_flight) => in_flight,
            Err(StateError::TryLater | StateError::Engine(_)) => return Step::After(SOON),
            Err(_) => {
                copy.stop();
                return Step::After(Duration::ZERO);
            }
        };
        let request =
            Request { credentials: &order.credentials, now: now.wall, access: Access::Blocking, key: None };
        let place = |side: &CopySide| (side.file.ino, side.offset + done);
        let (from, to) = (place(&order.from), place(&order.to));
        match volume.copy_range(&request, from, to, bytes.min(most)) {
            Ok(promised) if promised.value.count > 0 => {
                limits.copied(&part, promised.value.count);
                let pause = volume.throttle();
                copy.copied(promised.value.count, promised.after, now.steady, pause);
                Step::Copied(pause)
            }
            Err(failure) if failure.error.is_busy() || failure.error == Error::WouldBlock => {
                Step::After(SOON)
            }
            // The source was truncated, or the volume is full: the copy ends short. A client that continues from
            // there gets the error.
            Ok(_) | Err(_) => {
                copy.stop();
                Step::After(Duration::ZERO)
            }
        }
    }

    /// Whether the exports in force have the same rules for both files as when the copy began: those rules squashed its
    /// credentials.
    fn is_still_admitted(&self, order: &CopyRequest) -> bool {
        let sides = [&order.from, &order.to].into_iter().zip(&order.rules);
        sides
            .into_iter()
            .all(|(side, rules)| self.exports.admitting(side.file.volume, order.peer) == Some(rules))
    }

    /// Checks that the client may still copy with its stateids. One that it has returned since counts as none. Hold
    /// the guard until a part is copied.
    fn allowed(
        &self,
        copy: &CopyJob,
        order: &CopyRequest,
        now: ClockReading,
    ) -> Result<InFlightModification<'_>, StateError> {
        let (state, context) = (&self.shared.state, self.state_context(now));
        let check = |side: &CopySide, wanted| {
            state.check_lasting_io(&context, &copy.client, side.stateid, side.file, wanted)
        };
        drop(check(&order.from, IoMode::Read)?);
        check(&order.to, IoMode::Write)
    }

    fn end_when_durable(
        &self,
        copy: &Arc<CopyJob>,
        order: &CopyRequest,
        volume: &Volume,
        now: ClockReading,
    ) -> Step {
        let progress = copy.progress();
        match volume.durability(progress.after) {
            Durable::NotYet => Step::After(SOON),
            Durable::Failed => self.end(copy, CopyEnd::Failed, now),
            Durable::Yes => {
                let complete = progress.done > 0 || order.count == 0;
                self.end(copy, if complete { CopyEnd::Complete } else { CopyEnd::Failed }, now)
            }
        }
    }

    fn end(&self, copy: &Arc<CopyJob>, end: CopyEnd, now: ClockReading) -> Step {
        let verifier = self.volume(copy.file.volume).map(|volume| volume.write_verifier().0);
        self.shared.state.end_copy(&self.state_context(now), copy, end, verifier.unwrap_or_default());
        Step::Done
    }
}

fn is_running(copy: &CopyJob) -> bool {
    copy.progress().phase == Phase::Running
}

fn id_of(copy: &CopyJob) -> CopyId {
    CopyId(copy.other.0)
}
