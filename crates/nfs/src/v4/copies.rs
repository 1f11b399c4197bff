//! Copying what a COPY left to be done after its reply (RFC 7862 section 4): part by part, each as much as one entry of the
//! journal takes, in turn among all copies.

use std::sync::Arc;
use std::time::Duration;

use volume::request::{Access, Durable, Error, Request};
use volume::time::Time;
use volume::volume::Volume;

use crate::context::ServiceContext;
use crate::state::StateError;
use crate::state::copies::{CopyEnd, Copying, Order, Phase, Side};
use crate::state::delegations::in_flight::Changing;
use crate::state::stateids::Use;

/// When to look again at copies that wait for the journal, for write-back or for a delegation.
const SOON: Duration = Duration::from_millis(5);
/// When to look again whether a client that let its lease run out was heard of.
const SILENT: Duration = Duration::from_secs(1);
/// When to look again if there is nothing to copy, unless told earlier.
const LATER: Duration = Duration::from_secs(60);

/// What came of looking at a copy.
enum Step {
    /// It is to be looked at again after this.
    After(Duration),
    /// Nothing is left to be done.
    Done,
}

impl ServiceContext {
    /// Copies a part of each copy that goes on after its reply. May block for media. Returns when to call it again, unless
    /// `on_copies` tells of a new one earlier.
    pub(crate) fn copy_some(&self, now: Time) -> Duration {
        let copies = self.shared.state.copies_to_do();
        let steps = copies.iter().filter_map(|copying| match self.step_copy(copying, now) {
            Step::After(pause) => Some(pause),
            Step::Done => None,
        });
        steps.min().unwrap_or(LATER)
    }

    fn step_copy(&self, copying: &Arc<Copying>, now: Time) -> Step {
        let volume = self.volume(copying.file.volume);
        let (Some(volume), Some(order)) = (volume, &copying.order) else {
            // It is not served any more.
            copying.stop();
            return self.end(copying, CopyEnd::NotServed, now);
        };
        match copying.progress().phase {
            Phase::Running => self.copy_part(copying, order, volume, now),
            Phase::Settling => self.settle(copying, order, volume, now),
            Phase::Ended(_) | Phase::Gone => Step::Done,
        }
    }

    fn copy_part(&self, copying: &Arc<Copying>, order: &Order, volume: &Volume, now: Time) -> Step {
        let Some(_working) = copying.work() else { return Step::After(Duration::ZERO) };
        if self.shared.state.is_silent(&copying.client, now) {
            return Step::After(SILENT);
        }
        let _changing = match self.allowed(copying, order, now) {
            Ok(changing) => changing,
            Err(StateError::TryLater | StateError::Engine(_)) => return Step::After(SOON),
            Err(_) => {
                copying.stop();
                return Step::After(Duration::ZERO);
            }
        };
        let request = Request { credentials: &order.credentials, now, access: Access::Blocking, key: None };
        let done = copying.progress().done;
        let place = |side: &Side| (side.file.ino, side.offset + done);
        let (from, to) = (place(&order.from), place(&order.to));
        match volume.copy_range(&request, from, to, order.count - done) {
            Ok(promised) if promised.value.count > 0 => {
                copying.copied(promised.value.count, promised.after);
                Step::After(volume.throttle())
            }
            Err(failure) if matches!(failure.error, Error::Busy | Error::WouldBlock) => Step::After(SOON),
            // The source became shorter, there is no room, or the like: it ends here, as a shorter copy. Who goes on behind
            // it is told why.
            Ok(_) | Err(_) => {
                copying.stop();
                Step::After(Duration::ZERO)
            }
        }
    }

    /// Whether the client may still do this: with its stateids, or if it gave them back meanwhile, as without. What is
    /// returned is kept until a part is copied.
    fn allowed(&self, copying: &Copying, order: &Order, now: Time) -> Result<Changing<'_>, StateError> {
        let (state, context) = (&self.shared.state, self.context(now));
        let check = |side: &Side, wanted| {
            state.check_lasting_io(&context, &copying.client, side.stateid, side.file, wanted)
        };
        drop(check(&order.from, Use::Read)?);
        check(&order.to, Use::Write)
    }

    fn settle(&self, copying: &Arc<Copying>, order: &Order, volume: &Volume, now: Time) -> Step {
        let progress = copying.progress();
        match volume.durability(progress.after) {
            Durable::NotYet => Step::After(SOON),
            Durable::Failed => self.end(copying, CopyEnd::Failed, now),
            Durable::Yes => {
                let complete = progress.done > 0 || order.count == 0;
                self.end(copying, if complete { CopyEnd::Complete } else { CopyEnd::Failed }, now)
            }
        }
    }

    fn end(&self, copying: &Arc<Copying>, end: CopyEnd, now: Time) -> Step {
        let verifier = self.volume(copying.file.volume).map(|volume| volume.write_verifier().0);
        self.shared.state.end_copy(&self.context(now), copying, end, verifier.unwrap_or_default());
        Step::Done
    }
}
