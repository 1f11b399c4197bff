//! How clients share what is bounded: each resource has a bound in all, and a share for each origin and each client.
//!
//! A part of each bound is reserved ([`RESERVED`]): every origin (see [`origin`]: an IPv4 address, or an IPv6 /64 network) has its
//! least from there ([`LEASTS`]). Of the rest, an origin may hold at most [`HELD_PER_FREE`] times what is free, and a client at
//! most that many times what is free to its origin. So shares need no configuration and shrink as others come: one origin
//! alone gets three quarters of the rest, and of `n` that take all they get at the same time, each gets `3 / (3n + 1)`. A holder
//! of more than its share keeps that, and gets nothing more.
//! (A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998.)
//!
//! That rule is made for queues, which drain. State does not: origins that come one after another each take three quarters of what
//! is left, so a few of them take nearly all of the rest. Others have their least, whenever they come, as long as there are no more
//! of them than the reserve is enough for: 64, or fewer where what is of use is more.
//!
//! A client that holds hardly anything ([`FREE_PER_HELD`], or [`Resource::least`]) gets more even if its origin has its
//! share, up to a bound ([`HELD_PER_FREE_AT_MOST`]): a neighbour in the same network, or behind the same address translation,
//! may have taken that.
//!
//! A check and the taking that follows are not one step, so calls that are executed at the same time may together take
//! slightly more than a share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use volume::time::Time;

use crate::connection::origin;
use crate::state::config::Config;
use crate::state::ids::Other;
use crate::state::shares::recall_costs::RecallCosts;

mod recall_costs;

/// One part in this many of a bound is reserved: every origin has its least from there.
const RESERVED: u64 = 4;

/// The least of an origin is one part in this many of what is reserved, or what is of use if that is more.
const LEASTS: u64 = 64;

/// How many times what is free, and not reserved, an origin may hold.
const HELD_PER_FREE: u64 = 3;

/// A client may hold one part in this many of what is free, whatever its origin holds.
const FREE_PER_HELD: u64 = 64;

/// How many times what is free, and not reserved, an origin may hold so that each of its clients gets the least that is of use.
const HELD_PER_FREE_AT_MOST: u64 = 7;

/// How long to wait before looking again for clients that can give way to those of an origin that has some.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long to wait before an origin may displace another one again that has no more than it wants itself.
const SWAP_AGAIN: Duration = Duration::from_secs(5);

/// Origins that are remembered, for each client that there may be, before those without clients are forgotten.
const ORIGINS_PER_CLIENT: u64 = 4;

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Confirmed clients, with their names.
    Clients,
    /// Clients that are not confirmed yet.
    Unconfirmed,
    /// Memory of the first session of each client, with one slot and its cached reply, in bytes.
    SessionBytes,
    /// Memory of further slots and sessions, in bytes.
    SlotBytes,
    /// Memory of opens, lock states and owners, with the last replies of owners, and of remembered grants, in bytes.
    StateBytes,
    /// Locked ranges.
    Ranges,
    /// Places in queues for locks, and locks granted from there that their owners may not know of.
    Waiters,
    /// Delegations.
    Delegations,
    /// Memory of calls to clients and hosts, in bytes.
    CallBytes,
    /// Copies that go on after their reply.
    Copies,
}

const RESOURCES: usize = 10;

impl Resource {
    /// The least of it that is of use to a client: a few opens and locks with their owners, a call, one of what is counted.
    const fn least(self) -> u64 {
        match self {
            Resource::Clients | Resource::Unconfirmed | Resource::SessionBytes | Resource::SlotBytes => 0,
            Resource::StateBytes => 8 << 10,
            Resource::CallBytes => 2 << 10,
            Resource::Ranges => 4,
            Resource::Waiters | Resource::Delegations | Resource::Copies => 1,
        }
    }

    /// The least of it that is of use to an origin: a host may be one client with sessions and one of NLM.
    const fn least_of_origin(self) -> u64 {
        match self {
            Resource::Clients | Resource::Unconfirmed => 2,
            Resource::SessionBytes => 16 << 10,
            _ => self.least(),
        }
    }
}

/// A number for each resource.
#[derive(Debug, Default)]
struct Counts([AtomicU64; RESOURCES]);

impl Counts {
    fn of(&self, resource: Resource) -> &AtomicU64 {
        self.0.get(resource as usize).expect("a number for each resource")
    }

    fn get(&self, resource: Resource) -> u64 {
        self.of(resource).load(Ordering::Relaxed)
    }
}

/// The bounds, and what all clients hold.
#[derive(Debug)]
struct Totals {
    config: Config,
    held: Counts,
    /// What origins hold beyond their least.
    beyond_least: Counts,
}

impl Totals {
    fn bound(&self, resource: Resource) -> u64 {
        self.config.bound_of(resource)
    }

    fn free(&self, resource: Resource) -> u64 {
        self.bound(resource).saturating_sub(self.held.get(resource))
    }

    /// Returns what origins may hold beyond their least.
    fn bound_unreserved(&self, resource: Resource) -> u64 {
        let bound = self.bound(resource);
        bound - bound / RESERVED
    }

    fn shared(&self, resource: Resource) -> Shared {
        let free = self.free(resource);
        // The count of an origin changes first, so what is taken and given back at once may be subtracted before it is added.
        let beyond_least = self.beyond_least.get(resource).cast_signed().max(0).cast_unsigned();
        let unreserved = self.bound_unreserved(resource).saturating_sub(beyond_least);
        Shared { free, unreserved: unreserved.min(free), least: self.least(resource) }
    }

    /// Returns what every origin may have.
    fn least(&self, resource: Resource) -> u64 {
        least(self.bound(resource), resource.least_of_origin())
    }

    fn is_short(&self, resource: Resource) -> bool {
        self.shared(resource).unreserved < self.bound_unreserved(resource).div_ceil(8)
    }
}

/// When something was last done, in nanoseconds.
#[derive(Debug)]
struct Last(AtomicI64);

impl Last {
    fn never() -> Last {
        Last(AtomicI64::new(i64::MIN))
    }

    /// Returns whether it may be done again.
    fn is_due(&self, now: Time, after: Duration) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        now.nanos() < last || now.since(Time::from_nanos(last)) >= after
    }

    fn note(&self, now: Time) {
        self.0.store(now.nanos(), Ordering::Relaxed);
    }
}

/// What one origin holds.
#[derive(Debug)]
pub(super) struct Origin {
    address: IpAddr,
    held: Counts,
    /// Whether it was refused something lately because of its share.
    refused: AtomicBool,
    /// When clients that can give way to it were last looked for.
    looked: Last,
    /// When it last displaced a client of an origin that had no more.
    swapped: Last,
    /// Before this time it gets no delegations, as others waited too long for one, in nanoseconds.
    delegated_from: AtomicI64,
    /// What led, or may lead, to that.
    recall_costs: Mutex<RecallCosts>,
}

impl Origin {
    fn returns_delegations(&self, now: Time) -> bool {
        self.delegated_from.load(Ordering::Relaxed) <= now.nanos()
    }
}

/// What one client holds, as part of what its origin and all hold.
#[derive(Debug)]
pub(crate) struct Holder {
    /// None for an origin without regard to its clients.
    own: Option<Counts>,
    origin: Arc<Origin>,
    totals: Arc<Totals>,
}

/// What is left of a resource.
struct Shared {
    free: u64,
    /// Of it, what is not reserved.
    unreserved: u64,
    /// What every origin may have.
    least: u64,
}

impl Shared {
    /// Returns how much more an origin may take that holds `held`.
    fn room(&self, held: u64) -> u64 {
        let more = room(self.unreserved, held.saturating_sub(self.least));
        self.least.saturating_sub(held).saturating_add(more).min(self.free)
    }
}

/// Returns what every origin may have of a bound. `useful` is what is of use to it.
fn least(bound: u64, useful: u64) -> u64 {
    let reserved = bound / RESERVED;
    (reserved / LEASTS).max(useful.min(reserved))
}

/// Returns how much more an origin may take of something that is counted singly. The origin holds `held`, and others hold `others`.
/// How much of that is within their least is not known, so all of it counts as if it were beyond.
pub(crate) fn room_of_origin(bound: u64, others: u64, held: u64) -> u64 {
    let free = bound.saturating_sub(held + others);
    let unreserved = free.saturating_sub(bound / RESERVED);
    Shared { free, unreserved, least: least(bound, 1) }.room(held)
}

/// Returns how much more somebody may take who holds `held`.
pub(crate) fn room(free: u64, held: u64) -> u64 {
    room_within(HELD_PER_FREE, free, held)
}

fn room_within(held_per_free: u64, free: u64, held: u64) -> u64 {
    free.min(free.saturating_mul(held_per_free).saturating_sub(held))
}

impl Holder {
    /// Returns how much more of a resource the client may take.
    pub(crate) fn room(&self, resource: Resource) -> u64 {
        let shared = self.totals.shared(resource);
        let of_origin = shared.room(self.origin.held.get(resource));
        match (&self.own, resource) {
            (None, _) | (_, Resource::Clients | Resource::Unconfirmed) => of_origin,
            (Some(own), _) => {
                let own = own.get(resource);
                room(of_origin, own)
                    .max(self.little(resource, &shared, own))
                    .max(self.useful(resource, &shared, own))
            }
        }
    }

    /// Returns how much more of a resource a client that holds hardly anything may take although its neighbours have the share of
    /// their origin. What they hold limits this too, as an origin can have any number of clients.
    fn little(&self, resource: Resource, shared: &Shared, own: u64) -> u64 {
        let of_origin = self.origin.held.get(resource);
        let beyond_least = of_origin.saturating_sub(shared.least);
        let part = (shared.unreserved / FREE_PER_HELD).saturating_sub(own);
        let is_least_due = own <= of_origin / 2;
        let least = if is_least_due { resource.least().saturating_sub(own) } else { 0 };
        part.max(least).min(room_within(HELD_PER_FREE_AT_MOST, shared.unreserved, beyond_least))
    }

    /// Returns how much more a client may take that has less than what is of use, if its origin has less than its least.
    fn useful(&self, resource: Resource, shared: &Shared, own: u64) -> u64 {
        let of_origin = shared.least.saturating_sub(self.origin.held.get(resource));
        resource.least().saturating_sub(own).min(of_origin).min(shared.free)
    }

    /// Returns whether the client may take `amount` of a resource. If not, its origin is remembered as one that needs
    /// what its silent clients hold.
    pub(crate) fn may_take(&self, resource: Resource, amount: u64) -> bool {
        let fits = amount <= self.room(resource);
        if !fits {
            self.origin.refused.store(true, Ordering::Relaxed);
        }
        fits
    }

    /// Counts `amount` of a resource, whatever the share: check first.
    pub(crate) fn take(&self, resource: Resource, amount: u64) {
        let before = self.origin.held.of(resource).fetch_add(amount, Ordering::Relaxed);
        let beyond = self.beyond_least(resource, before, before + amount);
        self.totals.beyond_least.of(resource).fetch_add(beyond, Ordering::Relaxed);
        for counts in self.counts() {
            counts.of(resource).fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Returns `amount` of a resource.
    pub(crate) fn give_back(&self, resource: Resource, amount: u64) {
        let before = self.origin.held.of(resource).fetch_sub(amount, Ordering::Relaxed);
        let beyond = self.beyond_least(resource, before.saturating_sub(amount), before);
        self.totals.beyond_least.of(resource).fetch_sub(beyond, Ordering::Relaxed);
        for counts in self.counts() {
            counts.of(resource).fetch_sub(amount, Ordering::Relaxed);
        }
    }

    /// Returns how much of the difference between two amounts that an origin holds is beyond its least.
    fn beyond_least(&self, resource: Resource, less: u64, more: u64) -> u64 {
        let least = self.totals.least(resource);
        more.saturating_sub(least) - less.saturating_sub(least)
    }

    /// The counts besides that of the origin.
    fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.own.iter().chain([&self.totals.held])
    }

    /// Returns the origin.
    pub(crate) fn origin(&self) -> IpAddr {
        self.origin.address
    }

    /// Returns whether the origin holds more of a resource than any client may, although it is short.
    pub(crate) fn holds_much_of_short(&self, resource: Resource) -> bool {
        let shared = self.totals.shared(resource);
        let held = self.held_by_origin(resource);
        // Until what is reserved is used up, what an origin holds within its least is of no use to others.
        let is_of_use = held > shared.least || shared.free == shared.unreserved;
        self.totals.is_short(resource) && is_of_use && held > shared.unreserved / FREE_PER_HELD
    }

    /// Returns how much of a resource the client itself holds.
    pub(crate) fn held(&self, resource: Resource) -> u64 {
        self.own.as_ref().map_or(0, |own| own.get(resource))
    }

    /// Returns how much of a resource the whole origin holds.
    pub(crate) fn held_by_origin(&self, resource: Resource) -> u64 {
        self.origin.held.get(resource)
    }

    /// Returns whether the origin was refused something since [`Shares::forget_idle`].
    pub(crate) fn was_refused(&self) -> bool {
        self.origin.refused.load(Ordering::Relaxed)
    }

    /// Notes that a conflict began a recall of a delegation.
    pub(crate) fn begin_recall(&self, since: Time, other: Other) {
        self.origin.recall_costs.lock().begin(since, other);
    }

    /// Notes that a recall has ended, or has another time now. Returns whether a conflict began it.
    pub(crate) fn end_recall(&self, since: Time, other: Other) -> bool {
        self.origin.recall_costs.lock().end(since, other)
    }

    /// Whether a conflict began a recall that has not ended.
    pub(crate) fn is_awaited(&self, since: Time, other: Other) -> bool {
        self.origin.recall_costs.lock().has(since, other)
    }

    /// Counts for how long others have waited for delegations of the origin. `is_silent` says that the holder of the one in
    /// question may have been cut off. Returns whether that was too long.
    pub(crate) fn count_recalls(&self, now: Time, is_silent: bool) -> bool {
        self.returns_delegations(now)
            && self.origin.recall_costs.lock().count(now, is_silent, &self.totals.config)
    }

    /// Returns whether the clients of the origin have returned their delegations in time lately.
    pub(crate) fn returns_delegations(&self, now: Time) -> bool {
        self.origin.returns_delegations(now)
    }

    /// Lets the clients of the origin get no delegations before `time`.
    pub(crate) fn delegate_from(&self, time: Time) {
        self.origin.delegated_from.store(time.nanos(), Ordering::Relaxed);
    }

    /// Returns whether to look for clients that can give way to this one; once per second and origin, as it takes time.
    pub(crate) fn may_look(&self, now: Time) -> bool {
        let is_due = self.origin.looked.is_due(now, LOOK_AGAIN);
        if is_due {
            self.origin.looked.note(now);
        }
        is_due
    }

    /// Returns whether the origin may displace another one that has no more than it wants itself; once in a while.
    pub(crate) fn may_swap(&self, now: Time) -> bool {
        self.origin.swapped.is_due(now, SWAP_AGAIN)
    }

    /// Notes that it did.
    pub(crate) fn note_swap(&self, now: Time) {
        self.origin.swapped.note(now);
    }
}

/// An amount of a resource that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    holder: Arc<Holder>,
    resource: Resource,
    amount: u64,
}

impl Held {
    /// Takes `amount` of a resource, whatever the share: check first.
    pub(crate) fn new(holder: &Arc<Holder>, resource: Resource, amount: u64) -> Held {
        holder.take(resource, amount);
        Held { holder: Arc::clone(holder), resource, amount }
    }

    /// Takes `amount` of a resource if the share allows it.
    pub(crate) fn within_share(holder: &Arc<Holder>, resource: Resource, amount: u64) -> Option<Held> {
        (amount <= holder.room(resource)).then(|| Held::new(holder, resource, amount))
    }

    /// Returns the origin that it counts for.
    pub(crate) fn origin(&self) -> IpAddr {
        self.holder.origin()
    }

    /// Replaces `before` of it by `after`.
    pub(crate) fn exchange(&mut self, before: u64, after: u64) {
        self.holder.take(self.resource, after);
        self.holder.give_back(self.resource, before);
        self.amount = self.amount + after - before;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holder.give_back(self.resource, self.amount);
    }
}

/// All resources, and the origins that hold any.
#[derive(Debug)]
pub(crate) struct Shares {
    totals: Arc<Totals>,
    origins: Mutex<HashMap<IpAddr, Arc<Origin>>>,
}

impl Shares {
    /// Creates shares of these bounds.
    pub(crate) fn new(config: &Config) -> Shares {
        let totals =
            Totals { config: config.clone(), held: Counts::default(), beyond_least: Counts::default() };
        Shares { totals: Arc::new(totals), origins: Mutex::default() }
    }

    /// Returns a holder for a new client at this address.
    pub(crate) fn holder(&self, address: IpAddr) -> Arc<Holder> {
        Arc::new(Holder { own: Some(Counts::default()), ..self.origin_of(address) })
    }

    /// Returns the origin of an address, without regard to its clients.
    pub(crate) fn origin_of(&self, address: IpAddr) -> Holder {
        let address = origin(address);
        let mut origins = self.origins.lock();
        if origins.len() as u64 >= ORIGINS_PER_CLIENT * self.totals.bound(Resource::Clients) {
            origins.retain(|_, origin| Arc::strong_count(origin) > 1);
        }
        let known = origins.entry(address).or_insert_with(|| {
            Arc::new(Origin {
                address,
                held: Counts::default(),
                refused: AtomicBool::new(false),
                looked: Last::never(),
                swapped: Last::never(),
                delegated_from: AtomicI64::new(i64::MIN),
                recall_costs: Mutex::default(),
            })
        });
        let (origin, totals) = (Arc::clone(known), Arc::clone(&self.totals));
        Holder { own: None, origin, totals }
    }

    /// Returns how much of a resource is held in all.
    pub(crate) fn held(&self, resource: Resource) -> u64 {
        self.totals.held.get(resource)
    }

    /// Returns how much of a resource is free.
    pub(crate) fn free(&self, resource: Resource) -> u64 {
        self.totals.free(resource)
    }

    /// Returns how much of a resource is free, and not reserved.
    pub(crate) fn unreserved(&self, resource: Resource) -> u64 {
        self.totals.shared(resource).unreserved
    }

    /// Returns how much of a resource every origin may have.
    pub(crate) fn least(&self, resource: Resource) -> u64 {
        self.totals.least(resource)
    }

    /// Returns whether less than an eighth of the part of a resource that is not reserved is free.
    pub(crate) fn is_short(&self, resource: Resource) -> bool {
        self.totals.is_short(resource)
    }

    /// Returns the number of origins that have clients, or had lately.
    pub(crate) fn origins(&self) -> usize {
        self.origins.lock().len()
    }

    /// Forgets origins without clients, but not those for whose delegations others have waited lately, and which were refused
    /// something.
    pub(crate) fn forget_idle(&self, now: Time) {
        self.origins.lock().retain(|_, origin| {
            origin.refused.store(false, Ordering::Relaxed);
            let config = &self.totals.config;
            Arc::strong_count(origin) > 1
                || !origin.returns_delegations(now)
                || origin.recall_costs.lock().matter(now, config)
        });
    }
}
