//! Rate limits: those that are set, and whether a call may pass them now.
//!
//! Administrators set limits for targets, pools, volumes and clients ([`setting`]); a file in the data directory keeps them
//! ([`catalogue`]). Each of these has a limiter of `qos` ([`limiters`]). A call passes those of its target, its pool, its volume
//! and its client, or is held by its event loop until the scheduler releases it.
//!
//! While nothing is limited, a call costs reading one flag.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nfs::charge::Charge;
use nfs::summary::{CallSummary, MovedIn};
use parking_lot::Mutex;
use qos::tiers::{Shares, Tiers};
use qos::{Counters, Limiter, Limits, Released, Scheduler, Token, Verdict};
use volume::ids::VolumeId;
use volume::time::Time;

use crate::clock;
use crate::connection_origin::ConnectionOrigin;
use crate::data::Files;
use crate::error::{Error, ErrorKind};
use crate::names;

use catalogue::{Catalogue, Subject};
use copies::Copies;
use limiters::{Limiters, OfClient, VolumeSize};
use setting::{Setting, SettingChange};

pub(crate) mod catalogue;
mod charged;
mod copies;
pub(crate) mod limiters;
pub mod setting;
#[cfg(test)]
pub(crate) mod tests;

pub use catalogue::Kind;
pub(crate) use catalogue::unused;
pub(crate) use charged::Charged;

/// The limits of a server, and the calls that wait for them.
pub(crate) struct Rates {
    /// Where the time of limiters begins, which count it for some decades only.
    origin: Time,
    scheduler: Scheduler,
    limiters: Limiters,
    /// Whether a limit is set.
    is_limiting: AtomicBool,
    settings: Mutex<Settings>,
    copies: Copies,
    /// Wakes a loop, as calls may be released earlier than loops know.
    changed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What is set.
#[derive(Clone)]
struct Settings {
    catalogue: Catalogue,
    tiers: Tiers,
    /// Where the file of the catalogue is.
    files: Files,
    /// The volumes that are served.
    volumes: Vec<VolumeSize>,
}

/// Who makes a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'l> {
    /// The number of the listen address.
    pub(crate) target: u32,
    /// Limiters share what they let pass evenly between these.
    pub(crate) origin: ConnectionOrigin,
    /// The limiter of the client, if it has limits.
    pub(crate) limiter: Option<&'l Arc<Limiter>>,
}

/// What is shown of a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InForce {
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
}

/// An object with limits.
#[derive(Clone, Debug)]
pub(crate) struct Limited {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) setting: Setting,
    /// What follows from the setting, and what waits for it; for all clients without limits of their own, what each has, and what
    /// waits for them together.
    pub(crate) in_force: InForce,
    /// Whether there is no such object any more, so that nothing is in force.
    pub(crate) is_unused: bool,
}

impl Rates {
    /// Reads the limits in `files`. `targets` are the names of the listen addresses, by number.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(crate) fn open(
        files: Files,
        tiers: Tiers,
        targets: Vec<String>,
        pools: Vec<String>,
    ) -> Result<Rates, Error> {
        let catalogue = Catalogue::read(&files)?;
        for warning in catalogue.unused(&targets, &pools) {
            tracing::warn!("{warning}");
        }
        let rates = Rates::new(Settings { catalogue, tiers, files, volumes: Vec::new() }, targets, pools);
        let settings = rates.settings.lock();
        settings.catalogue.check_tiers(&settings.tiers, |subject| rates.exists(subject))?;
        drop(settings);
        Ok(rates)
    }

    fn new(settings: Settings, targets: Vec<String>, pools: Vec<String>) -> Rates {
        let scheduler = Scheduler::default();
        let limiters = Limiters::new(&scheduler, qos::Time::ORIGIN, targets, pools);
        Rates {
            origin: clock::steady(),
            scheduler,
            limiters,
            is_limiting: AtomicBool::new(false),
            settings: Mutex::new(settings),
            copies: Copies::default(),
            changed: OnceLock::new(),
        }
    }

    /// Sets what wakes a loop after each change of limits. Only the first call counts.
    pub(crate) fn on_change(&self, changed: Box<dyn Fn() + Send + Sync>) {
        let _ = self.changed.set(changed);
    }

    /// Whether anything is limited.
    #[inline]
    pub(crate) fn is_limiting(&self) -> bool {
        self.is_limiting.load(Ordering::Relaxed)
    }

    /// Returns the limiter of a client, which its connections keep: a new one if `of` is none or outdated.
    pub(crate) fn limiter_of(&self, origin: IpAddr, of: &mut OfClient) -> Option<Arc<Limiter>> {
        self.limiters.client(&self.scheduler, self.now(), origin, of)
    }

    /// Returns what a call passes; none if it passes no limit.
    pub(crate) fn charged(&self, charge: &Charge, asker: &Asker<'_>) -> Option<Charged> {
        Charged::new(&self.limiters, charge, asker)
    }

    /// Admits a call, or has it wait under this token. It may wait several times: whenever it is released, it goes on.
    pub(crate) fn admit(&self, charged: &mut Charged, token: Token) -> Verdict {
        charged.pass(&self.scheduler, self.now(), token)
    }

    /// Has a call that was released go on to the limits that it has not passed yet. It is never refused there.
    pub(crate) fn go_on(&self, charged: &mut Charged, token: Token) -> Verdict {
        charged.note_passed();
        charged.pass(&self.scheduler, self.now(), token)
    }

    /// Corrects what was charged by what the call did: bytes that it did not move are given back, and those that it moved without
    /// waiting for them are owed.
    pub(crate) fn settle(&self, charged: &Charged, summary: &CallSummary) {
        self.settle_moved(charged, summary.moved());
    }

    fn settle_moved(&self, charged: &Charged, moved: impl Iterator<Item = MovedIn> + Clone) {
        charged.settle(&self.scheduler, self.now(), &self.limiters, moved);
    }

    /// Gives back the bytes of a call that will not be executed.
    pub(crate) fn give_back(&self, charged: &Charged) {
        charged.give_back(&self.scheduler, self.now());
    }

    /// Returns when a call may be released.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let since = |time: qos::Time| time.since(qos::Time::ORIGIN);
        self.scheduler.next_deadline().map(|time| self.origin.plus(since(time)))
    }

    /// Adds to `out` the calls that may go on now, and who may try again.
    pub(crate) fn release(&self, out: &mut Vec<Released>) {
        if self.scheduler.next_deadline().is_some() {
            self.scheduler.release(self.now(), out);
            self.take_released_copies(out);
        }
    }

    /// Forgets a call that waits, whose connection is closed.
    pub(crate) fn forget(&self, token: Token) {
        self.scheduler.forget(self.now(), token);
    }

    /// Serves other volumes, or volumes of other sizes. What is set for those that are gone is forgotten with the next change.
    pub(crate) fn serve(&self, volumes: Vec<VolumeSize>) {
        let mut settings = self.settings.lock();
        let after = Settings { volumes, ..settings.clone() };
        if let Err(error) = after.check_shares(&settings) {
            tracing::warn!("{error}; sizes have changed");
        }
        *settings = after;
        self.put_in_force(&settings);
    }

    /// Checks that a volume can have another size, bytes, in which its tier gives it another share of what its pool has.
    ///
    /// # Errors
    /// Volumes would have more than their pool.
    pub(crate) fn check_size(&self, id: VolumeId, size: u64) -> Result<(), Error> {
        let settings = self.settings.lock();
        let mut after = settings.clone();
        after.volumes.iter_mut().filter(|volume| volume.id == id).for_each(|volume| volume.size = size);
        after.check_shares(&settings)
    }

    /// Knows other tiers.
    ///
    /// # Errors
    /// A tier in use would be gone, or volumes would have more than their pool. Those in force stay.
    pub(crate) fn set_tiers(&self, tiers: Tiers) -> Result<(), Error> {
        let mut settings = self.settings.lock();
        settings.catalogue.check_tiers(&tiers, |subject| self.exists(subject))?;
        let after = Settings { tiers, ..settings.clone() };
        after.check_shares(&settings)?;
        *settings = after;
        self.put_in_force(&settings);
        Ok(())
    }

    /// Returns the tiers.
    pub(crate) fn tiers(&self) -> Tiers {
        self.settings.lock().tiers.clone()
    }

    /// Changes what is set for one target, pool, volume, client, or all other clients. In force when it returns, and durable.
    ///
    /// # Errors
    /// There is no such object, a limit is out of bounds, volumes would have more than their pool, or the file cannot be
    /// written. What is set for an object that is no more can be removed, and nothing else.
    pub(crate) fn change(&self, kind: Kind, name: &str, change: &SettingChange) -> Result<Limited, Error> {
        let mut settings = self.settings.lock();
        let subject = self.subject(&settings, kind, name)?;
        let mut after = settings.clone();
        let setting = change.apply(after.catalogue.setting(&subject))?;
        if !self.exists(&subject) && !setting.is_empty() {
            let Error { kind, sentence } = self.not_found(&settings, kind, name);
            return Err(Error {
                kind,
                sentence: format!("{sentence}; what is set for it can only be reset"),
            });
        }
        after.catalogue.set(&subject, setting);
        after.catalogue.forget_volumes(|id| settings.volumes.iter().any(|volume| volume.id == id));
        after.limits(&subject)?;
        after.check_shares(&settings)?;
        after.catalogue.write(&settings.files)?;
        *settings = after;
        self.put_in_force(&settings);
        Ok(self.describe(&settings, &subject, kind, name))
    }

    /// Returns the names of the targets, by number.
    pub(crate) fn target_names(&self) -> Vec<&str> {
        self.limiters.target_names()
    }

    /// Lists what has limits, by kind and name.
    pub(crate) fn list(&self) -> Vec<Limited> {
        let settings = self.settings.lock();
        let named = settings.catalogue.subjects().into_iter().filter_map(|subject| {
            let (kind, name) = settings.name_of(&subject)?;
            Some(self.describe(&settings, &subject, kind, &name))
        });
        let mut list: Vec<Limited> = named.collect();
        list.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        list
    }

    /// Returns what is set for one object, and what follows.
    ///
    /// # Errors
    /// There is no such object.
    pub(crate) fn show(&self, kind: Kind, name: &str) -> Result<Limited, Error> {
        let settings = self.settings.lock();
        let subject = self.subject(&settings, kind, name)?;
        Ok(self.describe(&settings, &subject, kind, name))
    }

    fn describe(&self, settings: &Settings, subject: &Subject, kind: Kind, name: &str) -> Limited {
        let setting = settings.catalogue.setting(subject);
        let is_unused = !self.exists(subject);
        // What is in force was checked when it was set.
        let limits = if is_unused { Limits::NONE } else { settings.limits(subject).unwrap_or_default() };
        let counters = self.limiters.counters(&self.scheduler, self.now(), subject);
        let in_force = InForce { limits, counters };
        Limited { kind, name: name.to_owned(), setting, in_force, is_unused }
    }

    /// Whether the target or the pool of a subject exists.
    fn exists(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Target(name) => self.limiters.has_target(name),
            Subject::Pool(name) => self.limiters.has_pool(name),
            Subject::Volume(_) | Subject::Client(_) | Subject::OtherClients => true,
        }
    }

    /// Finds what a name of a kind names: also what exists no more, as long as something is set for it.
    fn subject(&self, settings: &Settings, kind: Kind, name: &str) -> Result<Subject, Error> {
        let named = match kind {
            Kind::Target => Some(Subject::Target(name.to_owned())),
            Kind::Pool => Some(Subject::Pool(name.to_owned())),
            Kind::Volume => settings.volume(name).map(|volume| Subject::Volume(volume.id)),
            Kind::Client => return Subject::client(name).map_err(Error::usage),
        };
        let is_known =
            |subject: &Subject| self.exists(subject) || !settings.catalogue.setting(subject).is_empty();
        named.filter(is_known).ok_or_else(|| self.not_found(settings, kind, name))
    }

    fn not_found(&self, settings: &Settings, kind: Kind, name: &str) -> Error {
        let known: Vec<&str> = match kind {
            Kind::Target => self.limiters.target_names(),
            Kind::Pool => self.limiters.pool_names(),
            Kind::Volume => settings.volumes.iter().map(|volume| &*volume.name).collect(),
            Kind::Client => Vec::new(),
        };
        let sentence = format!("there is no {} {name:?}{}", kind.name(), names::others(&known, name));
        Error { kind: ErrorKind::NotFound, sentence }
    }

    /// Returns the time as limiters count it.
    fn now(&self) -> qos::Time {
        qos::Time::ORIGIN + clock::steady().since(self.origin)
    }

    fn wake_a_loop(&self) {
        if let Some(changed) = self.changed.get() {
            changed();
        }
    }

    /// Has limiters follow the settings.
    fn put_in_force(&self, settings: &Settings) {
        let limits = |subject: &Subject| settings.limits(subject).unwrap_or_default();
        let clients = settings.catalogue.clients();
        self.limiters.follow(&self.scheduler, self.now(), &settings.volumes, limits, &clients);
        self.wake_a_loop();
        self.is_limiting.store(!settings.catalogue.is_empty(), Ordering::Relaxed);
    }
}

impl Settings {
    fn volume(&self, name: &str) -> Option<&VolumeSize> {
        self.volumes.iter().find(|volume| *volume.name == *name)
    }

    /// Returns the kind and the name of a subject; none of a volume that is not served.
    fn name_of(&self, subject: &Subject) -> Option<(Kind, String)> {
        Some(match subject {
            Subject::Target(name) => (Kind::Target, name.clone()),
            Subject::Pool(name) => (Kind::Pool, name.clone()),
            Subject::Volume(id) => {
                let volume = self.volumes.iter().find(|volume| volume.id == *id)?;
                (Kind::Volume, volume.name.to_string())
            }
            Subject::Client(_) | Subject::OtherClients => (Kind::Client, subject.client_name()),
        })
    }

    /// Returns the limits that follow from what is set for a subject.
    ///
    /// # Errors
    /// Its tier does not exist, or depends on a size.
    fn limits(&self, subject: &Subject) -> Result<Limits, Error> {
        let size = match subject {
            Subject::Volume(id) => {
                self.volumes.iter().find(|volume| volume.id == *id).map(|volume| volume.size)
            }
            _ => None,
        };
        self.catalogue.setting(subject).in_force(&self.tiers, size)
    }

    /// Checks that volumes have together at most what their pool has, or at least do not exceed it by more than `before`.
    fn check_shares(&self, before: &Settings) -> Result<(), Error> {
        let pools: BTreeSet<&str> = self.volumes.iter().map(|volume| &*volume.pool).collect();
        for pool in pools {
            self.shares(pool).check_after(&before.shares(pool)).map_err(|error| {
                Error::usage(format!("the limits of pool {pool:?} do not suffice: {error}"))
            })?;
        }
        Ok(())
    }

    fn shares(&self, pool: &str) -> Shares {
        // What is in force was checked when it was set.
        let limits = |subject| self.limits(&subject).unwrap_or_default();
        let volumes = self.volumes.iter().filter(|volume| &*volume.pool == pool);
        Shares {
            pool: limits(Subject::Pool(pool.to_owned())),
            volumes: volumes.map(|volume| limits(Subject::Volume(volume.id))).collect(),
        }
    }
}
