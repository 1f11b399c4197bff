//! What an owner knows of its lease.

use crate::limits::{ERROR_PAUSE, PATIENCE_MAX, TERM};
use crate::record::{Identity, LeaseRecord, LeaseState};
use crate::time::Time;

use super::call::{Action, Answer, CallId, End, Purpose, Version};
use super::{Handover, Takeover};

#[derive(Debug)]
pub(super) struct Ownership {
    /// The lease object as this process left it.
    pub(super) version: Version,
    pub(super) record: LeaseRecord,
    /// Until when the last acknowledged change of the lease permits to execute; none if it is not known when that was sent.
    pub(super) deadline: Option<Time>,
    /// How long the lease was watched before it was taken, and when that was.
    pub(super) watched: std::time::Duration,
    pub(super) taken: Time,
    pub(super) sealed: Seal,
    /// How the lease is given up, if it is.
    pub(super) handover: Option<Handover>,
}

/// The sealing of all objects that are changed in place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seal {
    /// To be asked for at this time.
    Due(Time),
    /// Asked for; asked for again at this time.
    UnderWay(CallId, Time),
    /// Since this time.
    Done(Time),
}

impl Seal {
    pub(super) fn is_due(self, now: Time) -> bool {
        matches!(self, Seal::Due(at) | Seal::UnderWay(_, at) if at <= now)
    }

    pub(super) fn is_call(self, call: CallId) -> bool {
        matches!(self, Seal::UnderWay(waiting, _) if waiting == call)
    }

    pub(super) fn is_done(self) -> bool {
        matches!(self, Seal::Done(_))
    }

    pub(super) fn wake(self) -> Option<Time> {
        match self {
            Seal::Due(at) | Seal::UnderWay(_, at) => Some(at),
            Seal::Done(_) => None,
        }
    }
}

impl Ownership {
    /// Asks for the seal.
    pub(super) fn seal(&mut self, call: CallId, now: Time) -> Action {
        self.sealed = Seal::UnderWay(call, now + PATIENCE_MAX);
        Action::Seal { call, epoch: self.record.epoch }
    }

    /// Takes the answer to the seal. Returns why the lease ends, if it does.
    pub(super) fn on_seal(&mut self, now: Time, answer: &Answer) -> Option<End> {
        match answer {
            Answer::Sealed => self.sealed = Seal::Done(now),
            Answer::Refused | Answer::Blocked => return Some(End::Fenced),
            _ => self.sealed = Seal::Due(now + ERROR_PAUSE),
        }
        None
    }

    /// Returns the next change of the lease object, and what it is for.
    pub(super) fn next_change(&self) -> (Purpose, Option<(Version, LeaseRecord)>) {
        let (purpose, state) = match &self.handover {
            None => (Purpose::Renew, LeaseState::Held),
            Some(Handover::Release) => (Purpose::GiveUp, LeaseState::Released),
            Some(Handover::OfferTo(node)) => (Purpose::GiveUp, LeaseState::OfferedTo(node.clone())),
        };
        (purpose, Some((self.version, self.record.changed_to(state))))
    }

    /// A renewal that was sent at `sent` succeeded.
    pub(super) fn renewed(&mut self, sent: Time, version: Version) {
        self.version = version;
        self.record = self.record.changed_to(LeaseState::Held);
        self.deadline = self.deadline.max(Some(sent + TERM));
    }

    /// Returns why the lease ends: the object holds `found`, which this owner did not leave there as a held lease.
    pub(super) fn end(&self, identity: &Identity, found: LeaseRecord) -> End {
        let is_ours = found.is_of(identity) && found.epoch == self.record.epoch;
        match (&self.handover, is_ours) {
            (Some(_), _) => End::GivenUp,
            (None, true) => End::Released,
            (None, false) => End::Taken { by: found.owner.node().clone(), epoch: found.epoch },
        }
    }

    pub(super) fn takeover(&self) -> Option<Takeover> {
        match self.sealed {
            Seal::Done(at) => Some(Takeover { watched: self.watched, sealed: at.since(self.taken) }),
            _ => None,
        }
    }
}
