//! Takes the lease of a namespace, renews it, and gives it up: does what the machine of crate `cluster` asks for.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::{
    Action, Answer, End, Epoch, Event, Handover, Identity, LEASE_BYTES, Lease, LeaseRecord, Phase, TERM,
    Time, Version,
};
use rustix::time::{ClockId, clock_gettime};
use volume::media::Tenure;

use crate::candidacy::{Candidacy, Progress};
use crate::fence::{OnLost, is_fenced};
use crate::names::{LEASE, POOLS};
use crate::objects::{Objects, Step, change_now, read_whole};

/// How often a paused thread looks whether it may go on.
const PAUSE: Duration = Duration::from_millis(5);

/// How long giving the lease up may take. It runs out by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The deadline of a lease that has ended.
const ENDED: u64 = 0;

/// What the driver does for the machine, beside the lease object.
pub(crate) trait Takeover: Send + Sync {
    /// Seals all objects that are changed in place, in this epoch.
    fn seal(&self, epoch: u64) -> io::Result<()>;
    /// Has the cluster refuse the connections of a process that may still run. Nobody waits for this.
    fn shut_out(&self, addresses: &str);
}

/// The lease of a namespace, held by this process.
pub(crate) struct Tenancy {
    objects: Arc<dyn Objects>,
    takeover: Arc<dyn Takeover>,
    lease: Mutex<Lease>,
    /// Wakes the thread before the machine has something to do.
    stirred: Condvar,
    /// Until when this process may execute, nanoseconds of `CLOCK_BOOTTIME`.
    deadline: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Why the objects cannot be sealed, whenever it is tried.
    unsealable: Mutex<Option<io::Error>>,
    candidacy: Candidacy,
    on_lost: OnLost,
}

impl fmt::Debug for Tenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenancy").field("tenure", &self.tenure()).finish_non_exhaustive()
    }
}

/// Why a lease was not taken.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// There is no lease object.
    Missing,
    /// This node renews it.
    InUse(String),
    /// It ended at once.
    Ended(End),
    /// The cluster does not answer as it should.
    Failed(io::Error),
}

/// Creates the catalogue of pools and the lease object, unless they are there.
pub(crate) fn create(objects: &dyn Objects, identity: &Identity) -> io::Result<()> {
    let record = LeaseRecord::unowned(identity.clone()).encode();
    let first = u64::from(Epoch::NONE.0);
    for (object, steps) in
        [(POOLS, [Step::Create, Step::SetEpoch(first)]), (LEASE, [Step::Create, Step::Replace(&record)])]
    {
        match change_now(objects, object, &steps) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => drop(created?),
        }
    }
    Ok(())
}

/// Releases the lease of a process that is known to have ended.
pub(crate) fn release_for(objects: &dyn Objects, instance: u64) -> io::Result<()> {
    let Some((bytes, version)) = read_whole(objects, LEASE, LEASE_BYTES)? else { return Ok(()) };
    let released = LeaseRecord::decode(&bytes).ok().and_then(|record| record.released_for(instance));
    let Some(released) = released else { return Ok(()) };
    change_now(objects, LEASE, &[Step::VersionIs(version), Step::Replace(&released.encode())]).map(drop)
}

impl Tenancy {
    /// Takes the lease, and renews it from now on. Watches another process's lease until it has run out; gives up if it is renewed,
    /// unless the candidate is patient.
    pub(crate) fn take(
        objects: Arc<dyn Objects>,
        takeover: Arc<dyn Takeover>,
        identity: Identity,
        candidacy: Candidacy,
        on_lost: OnLost,
    ) -> Result<Arc<Tenancy>, NotTaken> {
        candidacy.tell(Progress::Standing { instance: identity.instance() });
        let mut lease = Lease::new(identity, now());
        if let Some(watched) = candidacy.watched {
            lease.inherit(watched);
        }
        lease.stand(now(), candidacy.delay);
        let tenancy = Arc::new(Tenancy {
            objects,
            takeover,
            lease: Mutex::new(lease),
            stirred: Condvar::new(),
            deadline: AtomicU64::new(1),
            thread: Mutex::default(),
            unsealable: Mutex::default(),
            candidacy,
            on_lost,
        });
        tenancy.run_until_owner()?;
        let driven = Arc::clone(&tenancy);
        let thread = thread::Builder::new().name("rados lease".to_owned()).spawn(move || driven.drive());
        *tenancy.thread.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(thread.map_err(NotTaken::Failed)?);
        Ok(tenancy)
    }

    /// Returns the epoch in which this process has the lease.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lease().epoch().unwrap_or(Epoch::NONE)
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_until_owner(&self) -> Result<(), NotTaken> {
        let mut first: Option<(u64, String)> = None;
        loop {
            let wake = self.turn();
            if let Some(error) = self.unsealable.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(NotTaken::Failed(error));
            }
            let lease = self.lease();
            match lease.phase() {
                Phase::Owner => return Ok(()),
                Phase::Ended(End::Missing) => return Err(NotTaken::Missing),
                Phase::Ended(end) => return Err(NotTaken::Ended(end)),
                Phase::Standby | Phase::Sealing | Phase::GivingUp => {}
            }
            if let Some(damage) = lease.damage() {
                return Err(NotTaken::Ended(End::Damaged(damage)));
            }
            if let (Phase::Standby, Some((record, _))) = (lease.phase(), lease.seen(now())) {
                let node = record.owner.node().to_string();
                let (counter, watched) = first.get_or_insert_with(|| {
                    if record.state == cluster::LeaseState::Held {
                        tracing::info!(holder = node, "watching the lease of another process");
                    }
                    (record.counter, node.clone())
                });
                let is_renewed = *counter != record.counter && *watched == node;
                if is_renewed && !self.candidacy.is_patient {
                    return Err(NotTaken::InUse(node));
                }
            }
            drop(lease);
            thread::sleep(wake.map_or(PAUSE, |wake| wake.since(now())));
        }
    }

    /// Does all that is due. Returns when there is something to do again; never, after the lease ended.
    fn turn(&self) -> Option<Time> {
        loop {
            let mut lease = self.lease();
            let action = lease.poll(now());
            self.publish(&lease);
            let Some(action) = action else { return lease.wake() };
            let previous = lease.seen(now()).map(|(record, _)| record.clone());
            drop(lease);
            let Some(event) = self.perform(action, previous.as_ref()) else { continue };
            let mut lease = self.lease();
            lease.on_event(now(), event);
            self.publish(&lease);
        }
    }

    /// Tells other threads until when this process may execute.
    fn publish(&self, lease: &Lease) {
        let deadline = match lease.phase() {
            Phase::Ended(_) => ENDED,
            _ => lease.executes_until().map_or(1, Time::as_nanos),
        };
        let before = self.deadline.swap(deadline, Ordering::AcqRel);
        if let (Some(until), true) = (lease.executes_until(), before != deadline) {
            let sent = until.as_nanos().saturating_sub(u64::try_from(TERM.as_nanos()).unwrap_or(u64::MAX));
            self.candidacy.tell(Progress::Renewed { at: sent });
        }
    }

    fn perform(&self, action: Action, previous: Option<&LeaseRecord>) -> Option<Event> {
        let (call, answer) = match action {
            Action::Read { call } => (
                call,
                match read_whole(&*self.objects, LEASE, LEASE_BYTES) {
                    Ok(Some((bytes, version))) => Answer::Read { version: Version(version), bytes },
                    Ok(None) => Answer::Missing,
                    Err(error) => answer_to(&error),
                },
            ),
            Action::Write { call, version, record } => {
                let steps = [Step::VersionIs(version.0), Step::Replace(&record.encode())];
                let answer = match change_now(&*self.objects, LEASE, &steps) {
                    Ok(version) => Answer::Written { version: Version(version) },
                    Err(error) => answer_to(&error),
                };
                let is_taken = previous.is_some_and(|previous| previous.epoch != record.epoch);
                if let (Answer::Written { .. }, Some(previous), true) = (&answer, previous, is_taken)
                    && previous.state == cluster::LeaseState::Held
                {
                    self.takeover.shut_out(previous.owner.addresses());
                }
                (call, answer)
            }
            Action::Seal { call, epoch } => (
                call,
                match self.takeover.seal(epoch.0.into()) {
                    Ok(()) => Answer::Sealed,
                    Err(error) => {
                        let answer = answer_to(&error);
                        if error.kind() == io::ErrorKind::InvalidData {
                            *self.unsealable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                        answer
                    }
                },
            ),
            // Nobody watches: other nodes read the lease.
            Action::Notify => return None,
        };
        Some(Event::Answer { call, answer })
    }

    /// Renews the lease until it ends.
    fn drive(&self) {
        loop {
            let wake = self.turn();
            let lease = self.lease();
            match lease.phase() {
                Phase::Ended(End::GivenUp) => return,
                Phase::Ended(end) => {
                    drop(lease);
                    return (self.on_lost)(&end.to_string());
                }
                _ => {}
            }
            let pause = wake.map_or(PAUSE, |wake| wake.since(now()));
            drop(self.stirred.wait_timeout(lease, pause));
        }
    }

    /// Returns whether this process may execute and answer calls.
    pub(crate) fn tenure(&self) -> Tenure {
        match self.deadline.load(Ordering::Acquire) {
            ENDED => Tenure::Lost,
            deadline if now().as_nanos() < deadline => Tenure::Held,
            _ => Tenure::Paused,
        }
    }

    /// Returns when this process may execute: at once unless it is paused, never if the lease ended.
    pub(crate) fn wait(&self) {
        while self.tenure() != Tenure::Held {
            thread::sleep(PAUSE);
        }
    }

    /// Lets others take the lease at once. Nothing of the namespace may be open. If the cluster does not answer, the lease runs out.
    pub(crate) fn give_up(&self) {
        self.lease().give_up(now(), Handover::Release);
        self.stirred.notify_all();
        let until = now() + PATIENCE;
        while self.tenure() != Tenure::Lost && now() < until {
            thread::sleep(PAUSE);
        }
    }
}

/// What an error of the lease object means to the machine.
fn answer_to(error: &io::Error) -> Answer {
    /// The numbers of Linux for an object of another version; see errno(3).
    const OTHER_VERSION: [i32; 2] = [34, 75];
    match error.raw_os_error() {
        Some(number) if OTHER_VERSION.contains(&number) => Answer::Refused,
        Some(108) => Answer::Blocked,
        _ if is_fenced(error) => Answer::Refused,
        _ if error.kind() == io::ErrorKind::NotFound => Answer::Missing,
        _ => Answer::Failed,
    }
}

/// Returns the time of the clock that goes on while the machine sleeps.
pub(crate) fn now() -> Time {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Time::from_nanos(u64::try_from(nanos).expect("the machine was booted after its clock began"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Instant;

    use super::*;
    use crate::candidacy::Told;
    use crate::memory::MemoryObjects;

    /// Counts what it is asked for.
    #[derive(Default)]
    struct Counter {
        seals: Mutex<Vec<u64>>,
        shut_out: Mutex<Vec<String>>,
        is_damaged: bool,
    }

    impl Takeover for Counter {
        fn seal(&self, epoch: u64) -> io::Result<()> {
            self.seals.lock().unwrap().push(epoch);
            if self.is_damaged { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
        }

        fn shut_out(&self, addresses: &str) {
            self.shut_out.lock().unwrap().push(addresses.to_owned());
        }
    }

    fn identity(node: &str, instance: u64) -> Identity {
        Identity::new(cluster::Name::new(node).unwrap(), instance, &format!("address of {node}")).unwrap()
    }

    struct World {
        objects: Arc<MemoryObjects>,
        counter: Arc<Counter>,
        lost: Arc<AtomicUsize>,
    }

    impl World {
        fn new(is_damaged: bool) -> World {
            let objects = MemoryObjects::new();
            create(&*objects, &identity("creator", 9)).unwrap();
            create(&*objects, &identity("again", 10)).unwrap();
            let counter = Arc::new(Counter { is_damaged, ..Counter::default() });
            World { objects, counter, lost: Arc::default() }
        }

        fn take(&self, node: &str, instance: u64) -> Result<Arc<Tenancy>, NotTaken> {
            self.take_as(node, instance, Candidacy::default())
        }

        fn take_as(&self, node: &str, instance: u64, candidacy: Candidacy) -> Result<Arc<Tenancy>, NotTaken> {
            let objects: Arc<dyn Objects> = Arc::<MemoryObjects>::clone(&self.objects);
            let takeover: Arc<dyn Takeover> = Arc::<Counter>::clone(&self.counter);
            let lost = Arc::clone(&self.lost);
            let on_lost: OnLost = Arc::new(move |_| {
                lost.fetch_add(1, Ordering::SeqCst);
            });
            Tenancy::take(objects, takeover, identity(node, instance), candidacy, on_lost)
        }
    }

    #[test]
    fn a_lease_that_is_renewed_is_refused_and_one_that_was_given_up_is_taken_at_once() {
        let world = World::new(false);
        let first = world.take("a", 1).unwrap();
        assert_eq!((first.tenure(), first.epoch()), (Tenure::Held, Epoch(1)));
        let refused = world.take("b", 2).unwrap_err();
        assert!(matches!(&refused, NotTaken::InUse(node) if node == "a"), "{refused:?}");
        first.wait();
        first.give_up();
        assert_eq!(first.tenure(), Tenure::Lost);
        let start = Instant::now();
        let second = world.take("b", 2).unwrap();
        assert!(start.elapsed() < cluster::WATCH);
        assert_eq!(second.epoch(), Epoch(2));
        assert_eq!(*world.counter.seals.lock().unwrap(), [1, 2]);
        assert!(world.counter.shut_out.lock().unwrap().is_empty());
        second.give_up();
        assert_eq!(world.lost.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_silent_owner_is_replaced_and_shut_out_and_one_known_to_be_dead_is_not_waited_for() {
        let world = World::new(false);
        let first = world.take("a", 1).unwrap();
        // The cluster answers nobody: the owner falls silent, and pauses.
        world.objects.set_changes_left(Some(0));
        thread::sleep(cluster::TERM + Duration::from_millis(200));
        assert_eq!(first.tenure(), Tenure::Paused);
        // Another machine writes the lease while the first one is still unable to.
        let (bytes, version) = read_whole(&*world.objects, LEASE, LEASE_BYTES).unwrap().unwrap();
        let held = LeaseRecord::decode(&bytes).unwrap();
        assert!(held.released_for(7).is_none() && version > 0);
        let other = LeaseRecord { owner: identity("c", 3), epoch: Epoch(2), ..held };
        world.objects.set_changes_left(Some(1));
        while change_now(&*world.objects, LEASE, &[Step::Replace(&other.encode())]).is_err() {
            // The owner's renewal was the change that was let through.
            world.objects.set_changes_left(Some(1));
        }
        world.objects.set_changes_left(None);
        let end = Instant::now() + Duration::from_secs(5);
        while world.lost.load(Ordering::SeqCst) == 0 && Instant::now() < end {
            thread::sleep(PAUSE);
        }
        assert_eq!((world.lost.load(Ordering::SeqCst), first.tenure()), (1, Tenure::Lost));
        // It is silent, since nobody renews it: it is watched, then taken.
        let start = Instant::now();
        let second = world.take("b", 2).unwrap();
        assert!(start.elapsed() >= cluster::WATCH);
        assert_eq!(*world.counter.shut_out.lock().unwrap(), ["address of c"]);
        second.give_up();
        // One whose process is known to have ended is not watched.
        change_now(&*world.objects, LEASE, &[Step::Replace(&other.encode())]).unwrap();
        release_for(&*world.objects, 4).unwrap();
        release_for(&*world.objects, 3).unwrap();
        let start = Instant::now();
        world.take("b", 5).unwrap().give_up();
        assert!(start.elapsed() < cluster::WATCH);
    }

    #[test]
    fn a_patient_candidate_stands_until_the_lease_is_released_and_tells_how_far_it_is() {
        let world = World::new(false);
        let first = world.take("a", 1).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heard);
        let told = Told(Arc::new(move |progress| noted.lock().unwrap().push(progress)));
        let candidacy = Candidacy { is_patient: true, told: Some(told), ..Candidacy::default() };
        thread::scope(|scope| {
            let second = scope.spawn(|| world.take_as("b", 2, candidacy).unwrap());
            thread::sleep(cluster::WATCH + Duration::from_millis(500));
            assert_eq!(*heard.lock().unwrap(), [Progress::Standing { instance: 2 }]);
            assert!(!second.is_finished(), "the owner renews its lease");
            let released = now();
            first.give_up();
            let second = second.join().unwrap();
            assert_eq!(second.epoch(), Epoch(2));
            thread::sleep(cluster::RENEWAL * 2);
            let heard = heard.lock().unwrap();
            let renewals: Vec<u64> = heard
                .iter()
                .filter_map(|progress| match progress {
                    Progress::Renewed { at } => Some(*at),
                    Progress::Standing { .. } => None,
                })
                .collect();
            assert!(renewals.len() >= 2 && renewals.is_sorted(), "{heard:?}");
            assert!(renewals[0] >= released.as_nanos(), "counted from when it was sent");
            second.give_up();
        });
    }

    #[test]
    fn a_namespace_that_cannot_be_sealed_is_refused() {
        let refused = World::new(true).take("a", 1).unwrap_err();
        assert!(matches!(&refused, NotTaken::Failed(error) if error.kind() == io::ErrorKind::InvalidData));
        let missing = World { objects: MemoryObjects::new(), ..World::new(false) };
        assert!(matches!(missing.take("a", 1).unwrap_err(), NotTaken::Missing));
    }
}
