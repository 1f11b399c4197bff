//! The limiters of a server. Each lives as long as its target, pool, volume or client, so that no change of a limit forgets what
//! was charged.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use qos::{Counters, Dimension, LIMITERS_MAX, Limiter, Limits, Scheduler, Time};
use volume::ids::VolumeId;

use super::catalogue::Subject;

/// The fewest clients that are looked at to forget those that left.
const CLIENTS_SWEPT_MIN: usize = 256;

/// A volume, as tiers see it.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSize {
    pub(crate) id: VolumeId,
    pub(crate) name: Arc<str>,
    /// The name of its pool.
    pub(crate) pool: Arc<str>,
    /// Bytes: its size, or what its pool has.
    pub(crate) size: u64,
}

/// The limiters of a volume and of its pool.
#[derive(Clone)]
struct OfVolume {
    volume: Arc<Limiter>,
    pool: Arc<Limiter>,
}

/// What a connection knows of its client's limiter.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfClient {
    /// The settings of clients that it was found with; zero before any.
    generation: u64,
    limiter: Option<Arc<Limiter>>,
}

/// A limiter with the name of what it limits.
type Named = (String, Arc<Limiter>);

pub(super) struct Limiters {
    /// By the number of the listen address.
    targets: Vec<Named>,
    pools: Vec<Named>,
    volumes: ArcSwap<HashMap<VolumeId, OfVolume>>,
    clients: Mutex<Clients>,
    /// Grows with each change of the settings of clients.
    generation: AtomicU64,
}

#[derive(Default)]
struct Clients {
    limiters: HashMap<IpAddr, Arc<Limiter>>,
    /// Those that are set, and that of all others.
    limits: HashMap<IpAddr, Limits>,
    others: Limits,
    /// The number of limiters at which those of clients without connections are removed.
    swept_at: usize,
    /// For how long calls waited of clients that have left or have limits of their own now, nanoseconds by dimension; less what those
    /// that have none any more waited when they had.
    before: [i128; Dimension::COUNT],
}

impl Clients {
    fn limits(&self, origin: IpAddr) -> Limits {
        self.limits.get(&origin).copied().unwrap_or(self.others)
    }

    /// Returns the sum of the counters of clients without limits of their own. What was counted stays when they leave.
    fn others_together(&self, count: impl Fn(&Limiter) -> Counters) -> Counters {
        let others = self.limiters.iter().filter(|(origin, _)| !self.limits.contains_key(*origin));
        let (mut waited, mut sum) = (self.before, Counters::default());
        for (_, limiter) in others {
            let counters = count(limiter);
            add(&mut waited, &counters, 1);
            sum.held.iter_mut().zip(counters.held).for_each(|(sum, held)| *sum += held);
        }
        sum.throttled = waited.map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)));
        sum
    }

    /// Removes the limiters of clients without connections.
    fn sweep(&mut self, count: impl Fn(&Limiter) -> Counters) {
        let Clients { limiters, limits, before, .. } = self;
        limiters.retain(|origin, limiter| {
            let stays = Arc::strong_count(limiter) > 1;
            if !stays && !limits.contains_key(origin) {
                add(before, &count(limiter), 1);
            }
            stays
        });
        self.swept_at = 2 * self.limiters.len();
    }

    /// Sets other limits.
    fn set(&mut self, own: HashMap<IpAddr, Limits>, others: Limits, count: impl Fn(&Limiter) -> Counters) {
        for (origin, limiter) in &self.limiters {
            match (self.limits.contains_key(origin), own.contains_key(origin)) {
                (false, true) => add(&mut self.before, &count(limiter), 1),
                (true, false) => add(&mut self.before, &count(limiter), -1),
                _ => {}
            }
        }
        (self.limits, self.others) = (own, others);
    }
}

/// Adds for how long calls waited, or takes it away.
fn add(waited: &mut [i128; Dimension::COUNT], counters: &Counters, sign: i128) {
    for (sum, one) in waited.iter_mut().zip(counters.throttled) {
        *sum += sign * i128::try_from(one.as_nanos()).unwrap_or(i128::MAX);
    }
}

impl Limiters {
    pub(super) fn new(
        scheduler: &Scheduler,
        now: Time,
        targets: Vec<String>,
        pools: Vec<String>,
    ) -> Limiters {
        let named = |names: Vec<String>| -> Vec<Named> {
            names.into_iter().map(|name| (name, scheduler.limiter(now, &Limits::NONE))).collect()
        };
        Limiters {
            targets: named(targets),
            pools: named(pools),
            volumes: ArcSwap::default(),
            clients: Mutex::default(),
            generation: AtomicU64::new(1),
        }
    }

    pub(super) fn has_target(&self, name: &str) -> bool {
        of_name(&self.targets, name).is_some()
    }

    pub(super) fn has_pool(&self, name: &str) -> bool {
        of_name(&self.pools, name).is_some()
    }

    pub(super) fn target_names(&self) -> Vec<&str> {
        self.targets.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(super) fn pool_names(&self) -> Vec<&str> {
        self.pools.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the limiters that apply to a call, those that limit something.
    pub(super) fn of_call(
        &self,
        target: u32,
        volume: Option<VolumeId>,
        client: Option<&Arc<Limiter>>,
    ) -> Vec<Arc<Limiter>> {
        let mut found = Vec::with_capacity(LIMITERS_MAX);
        found.extend(self.of_target(target).filter(limits).cloned());
        self.add_volume(volume, &mut found);
        found.extend(client.filter(limits).cloned());
        found
    }

    /// Returns the limiter of a target.
    pub(super) fn of_target(&self, target: u32) -> Option<&Arc<Limiter>> {
        let number = usize::try_from(target).ok()?;
        self.targets.get(number).map(|(_, limiter)| limiter)
    }

    /// Returns the limiters of a volume and its pool, those that limit something.
    pub(super) fn of_volume(&self, volume: Option<VolumeId>) -> Vec<Arc<Limiter>> {
        let mut found = Vec::new();
        self.add_volume(volume, &mut found);
        found
    }

    fn add_volume(&self, volume: Option<VolumeId>, found: &mut Vec<Arc<Limiter>>) {
        let volumes = self.volumes.load();
        if let Some(OfVolume { volume, pool }) = volume.and_then(|id| volumes.get(&id)) {
            found.extend([pool, volume].into_iter().filter(limits).cloned());
        }
    }

    /// Returns the counters of a subject. Those of all clients without limits of their own are added up.
    pub(super) fn counters(&self, scheduler: &Scheduler, now: Time, subject: &Subject) -> Counters {
        let limiter = match subject {
            Subject::Target(name) => of_name(&self.targets, name),
            Subject::Pool(name) => of_name(&self.pools, name),
            Subject::Volume(id) => self.volumes.load().get(id).map(|found| Arc::clone(&found.volume)),
            Subject::Client(origin) => self.clients.lock().limiters.get(origin).cloned(),
            Subject::OtherClients => {
                return self.clients.lock().others_together(|limiter| scheduler.counters(now, limiter));
            }
        };
        limiter.map(|limiter| scheduler.counters(now, &limiter)).unwrap_or_default()
    }

    /// Returns the limiter of a client, if it has limits.
    pub(super) fn client(
        &self,
        scheduler: &Scheduler,
        now: Time,
        origin: IpAddr,
        of: &mut OfClient,
    ) -> Option<Arc<Limiter>> {
        let generation = self.generation.load(Ordering::Acquire);
        if of.generation != generation {
            *of = OfClient { generation, limiter: self.find_client(scheduler, now, origin) };
        }
        of.limiter.clone()
    }

    fn find_client(&self, scheduler: &Scheduler, now: Time, origin: IpAddr) -> Option<Arc<Limiter>> {
        let mut clients = self.clients.lock();
        let limits = clients.limits(origin);
        if limits == Limits::NONE && !clients.limiters.contains_key(&origin) {
            return None;
        }
        if clients.limiters.len() >= clients.swept_at.max(CLIENTS_SWEPT_MIN) {
            clients.sweep(|limiter| scheduler.counters(now, limiter));
        }
        let limiter = clients.limiters.entry(origin).or_insert_with(|| scheduler.limiter(now, &limits));
        Some(Arc::clone(limiter))
    }

    /// Has all limiters follow what is set. `clients` are those with limits of their own, and the limits of each other one.
    pub(super) fn follow(
        &self,
        scheduler: &Scheduler,
        now: Time,
        volumes: &[VolumeSize],
        limits: impl Fn(&Subject) -> Limits,
        clients: &[IpAddr],
    ) {
        let follow = |limiter: &Arc<Limiter>, limits: Limits| scheduler.change(now, limiter, &limits);
        for (name, limiter) in &self.targets {
            follow(limiter, limits(&Subject::Target(name.clone())));
        }
        for (name, limiter) in &self.pools {
            follow(limiter, limits(&Subject::Pool(name.clone())));
        }
        let (before, mut after) = (self.volumes.load(), HashMap::new());
        for served in volumes {
            let Some(pool) = of_name(&self.pools, &served.pool) else { continue };
            let known = before.get(&served.id).map(|found| Arc::clone(&found.volume));
            let volume = known.unwrap_or_else(|| scheduler.limiter(now, &Limits::NONE));
            follow(&volume, limits(&Subject::Volume(served.id)));
            after.insert(served.id, OfVolume { volume, pool });
        }
        self.volumes.store(Arc::new(after));
        let own = clients.iter().map(|origin| (*origin, limits(&Subject::Client(*origin)))).collect();
        self.follow_clients(scheduler, now, own, limits(&Subject::OtherClients));
    }

    fn follow_clients(&self, scheduler: &Scheduler, now: Time, own: HashMap<IpAddr, Limits>, others: Limits) {
        let mut clients = self.clients.lock();
        if clients.limits == own && clients.others == others {
            return;
        }
        clients.set(own, others, |limiter| scheduler.counters(now, limiter));
        for (origin, limiter) in &clients.limiters {
            scheduler.change(now, limiter, &clients.limits(*origin));
        }
        self.generation.fetch_add(1, Ordering::Release);
    }
}

fn of_name(all: &[Named], name: &str) -> Option<Arc<Limiter>> {
    all.iter().find(|(known, _)| known == name).map(|(_, limiter)| Arc::clone(limiter))
}

fn limits(limiter: &&Arc<Limiter>) -> bool {
    limiter.is_limited()
}
