//! The state machine of one process and one lease: watches it, takes it, keeps it, gives it up.
//!
//! One call to the lease object is under way at a time, since each change names the version that the one before it left. If its
//! answer does not come, the object is read again; if the change was made after all, the object says so, or refuses the next
//! one.
//!
//! # Why one node executes at any instant
//!
//! Let an owner's last acknowledged renewal be sent at `s` and applied at `a >= s`. The owner executes until [`TERM`] after `s`
//! by its clock, which is at most `TERM / (1 - e)` of true time after `a`, if clocks are wrong by `e`. A watcher takes the
//! lease only with the version that it first read at some time after `a`, [`WATCH`](crate::WATCH) by its clock after that
//! answer came, which is at least `WATCH / (1 + e)` after `a`; this is later. The owner may renew between that read and the
//! takeover, but then the version is another one, and the store refuses the takeover. If the answer came late, or the watcher
//! was stopped, it takes the lease later. Counting from when a renewal was *answered* would be wrong, since that can be any
//! time after `a`.

use std::mem::take;
use std::time::Duration;

use crate::limits::{ERROR_PAUSE, PATIENCE_MAX, POLL, RENEWAL, TERM};
use crate::name::Name;
use crate::record::{Damage, Epoch, Identity, LeaseRecord, LeaseState};
use crate::time::Time;

pub use call::{Action, Answer, CallId, End, Event, Version};
use call::{Call, Purpose};
use ownership::{Ownership, Seal};
use sighting::Sighting;
pub use sighting::Watched;
use volume::media::Tenure;

mod call;
mod ownership;
mod sighting;

/// How an owner gives up a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// Any node may take it.
    Release,
    /// This node may take it at once.
    OfferTo(Name),
}

/// Where a lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Somebody else has it, or nobody.
    Standby,
    /// It was taken, and objects are being sealed: nothing of the group may be read yet.
    Sealing,
    /// The group may be opened and served.
    Owner,
    /// It is being given up.
    GivingUp,
    /// This process does not have it, and will not take it any more.
    Ended(End),
}

/// How long a takeover took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// From the first sight of the lease as it was taken, until it was taken.
    pub watched: Duration,
    /// Until all objects were sealed.
    pub sealed: Duration,
}

/// The lease of a group, as one process sees it.
#[derive(Debug)]
pub struct Lease {
    identity: Identity,
    /// How much longer than necessary it waits before it takes the lease, so that better nodes come first; none if it does not
    /// take it.
    candidacy: Option<Duration>,
    role: Role,
    call: Option<Call>,
    last_call: CallId,
    /// How long the next answer is waited for.
    patience: Duration,
    /// When the next call to the lease object is due.
    next: Time,
    /// Whether the outcome of the last change is unknown, so that the object must be read before it is changed again.
    is_uncertain: bool,
    is_notification_due: bool,
    /// What was wrong with the lease object when it was last read by a watcher.
    damage: Option<Damage>,
    /// What another process of this machine saw, until the first read.
    inherited: Option<Watched>,
}

#[derive(Debug)]
enum Role {
    Standby(Option<Sighting>),
    Owner(Ownership),
    Ended(End),
}

impl Lease {
    /// Begins to watch the lease of a group. Takes nothing before [`Lease::stand`].
    #[must_use]
    pub fn new(identity: Identity, now: Time) -> Lease {
        Lease {
            identity,
            candidacy: None,
            role: Role::Standby(None),
            call: None,
            last_call: CallId(0),
            patience: TERM,
            next: now,
            is_uncertain: false,
            is_notification_due: false,
            damage: None,
            inherited: None,
        }
    }

    /// Goes on with what another process of this machine saw of the lease, which has the same clock. To be called before the
    /// first [`Lease::poll`].
    pub fn inherit(&mut self, watched: Watched) {
        self.inherited = Some(watched);
    }

    /// Returns what a watcher saw, for another process of this machine.
    #[must_use]
    pub fn watched(&self) -> Option<Watched> {
        match &self.role {
            Role::Standby(Some(seen)) => Some(seen.watched()),
            _ => None,
        }
    }

    /// Takes the lease from now on, when it may be taken. A node that others are better than waits for `delay` in addition.
    pub fn stand(&mut self, now: Time, delay: Duration) {
        if self.candidacy.replace(delay) != Some(delay) {
            self.look(now);
        }
    }

    /// Takes the lease no more. If it was taken, it is kept.
    pub fn stand_back(&mut self) {
        self.candidacy = None;
    }

    /// Gives the lease up. The caller has stopped executing and closed the group; from now on its tenure is lost.
    pub fn give_up(&mut self, now: Time, handover: Handover) {
        match &mut self.role {
            Role::Standby(_) => self.end(End::GivenUp),
            Role::Owner(ownership) => {
                ownership.handover = Some(handover);
                self.next = now;
            }
            Role::Ended(_) => {}
        }
    }

    /// Returns whether the process may execute calls for the group.
    #[must_use]
    pub fn tenure(&self, now: Time) -> Tenure {
        match (&self.role, self.executes_until()) {
            (Role::Ended(_), _) => Tenure::Lost,
            (Role::Owner(ownership), _) if ownership.handover.is_some() => Tenure::Lost,
            (_, Some(deadline)) if now < deadline => Tenure::Held,
            _ => Tenure::Paused,
        }
    }

    /// Returns until when the process may execute calls for the group; none while it may not, whatever the time.
    #[must_use]
    pub fn executes_until(&self) -> Option<Time> {
        match &self.role {
            Role::Owner(ownership) if ownership.handover.is_none() && ownership.sealed.is_done() => {
                ownership.deadline
            }
            _ => None,
        }
    }

    /// Returns where the lease is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match &self.role {
            Role::Standby(_) => Phase::Standby,
            Role::Owner(ownership) if ownership.handover.is_some() => Phase::GivingUp,
            Role::Owner(ownership) if ownership.sealed.is_done() => Phase::Owner,
            Role::Owner(_) => Phase::Sealing,
            Role::Ended(end) => Phase::Ended(end.clone()),
        }
    }

    /// Returns the epoch in which this process owns the lease.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.role {
            Role::Owner(ownership) => Some(ownership.record.epoch),
            _ => None,
        }
    }

    /// Returns what the lease object held when it was last read or written, and for how long a watcher has seen it so.
    #[must_use]
    pub fn seen(&self, now: Time) -> Option<(&LeaseRecord, Duration)> {
        match &self.role {
            Role::Standby(sighting) => sighting.as_ref().map(|seen| (&seen.record, now.since(seen.since))),
            Role::Owner(ownership) => Some((&ownership.record, Duration::ZERO)),
            Role::Ended(_) => None,
        }
    }

    /// Returns what is wrong with the lease object, which is then not taken.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Returns how long this process took to get the lease, once all objects are sealed.
    #[must_use]
    pub fn takeover(&self) -> Option<Takeover> {
        match &self.role {
            Role::Owner(ownership) => ownership.takeover(),
            _ => None,
        }
    }

    /// Returns when [`Lease::poll`] has something to do next, if nothing happens before. Never, after the lease ended.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        let own = match (&self.role, self.call) {
            (Role::Ended(_), _) => return None,
            (_, Some(call)) => call.expires,
            (_, None) => self.next,
        };
        let seal = match &self.role {
            Role::Owner(ownership) => ownership.sealed.wake(),
            _ => None,
        };
        Some(seal.map_or(own, |seal| seal.min(own)))
    }

    /// Returns what is to be done at `now`, one thing after the other until there is nothing. `now` must have been read before
    /// the call is sent, since terms count from it.
    pub fn poll(&mut self, now: Time) -> Option<Action> {
        if take(&mut self.is_notification_due) {
            return Some(Action::Notify);
        }
        self.expire(now);
        if let Role::Owner(ownership) = &mut self.role
            && ownership.sealed.is_due(now)
        {
            self.last_call.0 += 1;
            return Some(ownership.seal(self.last_call, now));
        }
        if self.call.is_some() || now < self.next {
            return None;
        }
        let (purpose, write) = match &self.role {
            Role::Ended(_) => return None,
            _ if self.is_uncertain => (Purpose::Read, None),
            Role::Owner(ownership) => ownership.next_change(),
            Role::Standby(Some(seen)) if seen.may_be_taken(&self.identity, self.candidacy, now) => {
                (Purpose::Take, Some((seen.version, seen.record.taken_by(&self.identity))))
            }
            Role::Standby(_) => (Purpose::Read, None),
        };
        self.last_call.0 += 1;
        let call = self.last_call;
        self.call = Some(Call { id: call, purpose, sent: now, expires: now + self.patience });
        Some(match write {
            None => Action::Read { call },
            Some((version, record)) => Action::Write { call, version, record },
        })
    }

    /// Takes note of what happened. [`Lease::poll`] then says what follows from it.
    pub fn on_event(&mut self, now: Time, event: Event) {
        match event {
            _ if matches!(self.role, Role::Ended(_)) => {}
            Event::Fenced => self.end(End::Fenced),
            Event::Notified => self.look(now),
            Event::Answer { call, answer } => {
                if let Role::Owner(ownership) = &mut self.role
                    && ownership.sealed.is_call(call)
                {
                    let refused = ownership.on_seal(now, &answer);
                    return refused.map_or((), |end| self.end(end));
                }
                if let Some(found) = self.call.take_if(|waiting| waiting.id == call) {
                    self.on_answer(now, found, answer);
                }
            }
        }
    }

    /// Has a watcher read the object now.
    fn look(&mut self, now: Time) {
        if let Role::Standby(_) = self.role {
            self.next = now;
        }
    }

    /// Waits no longer for an answer that does not come.
    fn expire(&mut self, now: Time) {
        if self.call.take_if(|call| call.expires <= now).is_some() {
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            self.forget(now);
        }
    }

    /// The outcome of a call is unknown: reads the object at `next`. A watcher begins anew, since the store may be slow rather
    /// than the owner silent.
    fn forget(&mut self, next: Time) {
        self.is_uncertain = true;
        self.next = next;
        if let Role::Standby(sighting) = &mut self.role {
            *sighting = None;
        }
    }

    fn on_answer(&mut self, now: Time, call: Call, answer: Answer) {
        self.patience = TERM;
        match (call.purpose, answer) {
            (_, Answer::Blocked) => self.end(End::Fenced),
            (_, Answer::Missing) => self.end(End::Missing),
            (Purpose::Read, Answer::Read { version, bytes }) => {
                self.is_uncertain = false;
                match LeaseRecord::decode(&bytes) {
                    Ok(record) => self.on_read(now, call.sent, version, record),
                    Err(damage) => self.on_damage(now, damage),
                }
            }
            (Purpose::Take, Answer::Written { version }) => self.own(now, version, Some(call.sent)),
            (Purpose::Renew, Answer::Written { version }) => {
                if let Role::Owner(ownership) = &mut self.role {
                    ownership.renewed(call.sent, version);
                }
                // A handover that came meanwhile does not wait.
                self.next = if self.phase() == Phase::GivingUp { now } else { call.sent + RENEWAL };
            }
            (Purpose::GiveUp, Answer::Written { .. }) => self.end(End::GivenUp),
            (Purpose::Take | Purpose::Renew | Purpose::GiveUp, Answer::Refused) => self.forget(now),
            _ => self.forget(now + ERROR_PAUSE),
        }
    }

    fn on_read(&mut self, now: Time, sent: Time, version: Version, record: LeaseRecord) {
        self.damage = None;
        let is_held_here = record.is_of(&self.identity) && record.state == LeaseState::Held;
        match &mut self.role {
            Role::Ended(_) => {}
            Role::Owner(ownership) if is_held_here && ownership.record.epoch == record.epoch => {
                (ownership.version, ownership.record) = (version, record);
                self.next = now;
            }
            Role::Owner(ownership) => {
                let end = ownership.end(&self.identity, record);
                self.end(end);
            }
            Role::Standby(sighting) => {
                // A takeover whose answer was lost. When it was sent is not known any more: a renewal begins the term.
                let is_taken = is_held_here;
                let mut seen = Sighting::after(sighting.take(), now, sent, version, record);
                if let Some(watched) = self.inherited.take() {
                    seen.inherit(watched, now, sent);
                }
                let ripe = seen.ripe_at(&self.identity, self.candidacy);
                *sighting = Some(seen);
                self.next = (sent + POLL).min(ripe.unwrap_or(sent + POLL)).max(now);
                if is_taken {
                    self.own(now, version, None);
                }
            }
        }
    }

    fn on_damage(&mut self, now: Time, damage: Damage) {
        match &mut self.role {
            Role::Owner(_) => self.end(End::Damaged(damage)),
            _ => {
                self.damage = Some(damage);
                self.forget(now + POLL);
            }
        }
    }

    /// Becomes the owner.
    fn own(&mut self, now: Time, version: Version, sent: Option<Time>) {
        let Role::Standby(Some(seen)) = &self.role else { return };
        let record = match sent {
            Some(_) => seen.record.taken_by(&self.identity),
            None => seen.record.clone(),
        };
        let deadline = sent.map(|sent| sent + TERM);
        self.next = sent.map_or(now, |sent| sent + RENEWAL);
        self.role = Role::Owner(Ownership {
            version,
            record,
            deadline,
            watched: now.since(seen.since),
            taken: now,
            sealed: Seal::Due(now),
            handover: None,
        });
    }

    fn end(&mut self, end: End) {
        self.is_notification_due = end == End::GivenUp && matches!(self.role, Role::Owner(_));
        self.role = Role::Ended(end);
        self.call = None;
    }
}

#[cfg(test)]
mod tests;
