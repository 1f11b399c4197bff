//! The queue before a gate: clients in the order of start-time fair queueing (Goyal, Vin and Cheng, 1996).
//!
//! Each client has a *finish tag*: the units that it was served here. Its next call starts at this tag, or at the queue's
//! virtual time, the start tag of the call served last, if that is later, so an idle client saves up no share. The lowest
//! start tag goes first, so clients get equal shares whatever the number of their connections and the size of their calls. A client
//! that comes now and then starts at the virtual time, as do those whose turn it is. Among equal tags the smallest call goes first, so
//! that its call does not wait for a large one of each of the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{ClientId, LoopId};
use crate::fault::{Fault, is_planted};
use crate::flow::{FlowKey, Place};
use crate::gate::{Gate, Ticks};
use crate::limiter::Limiter;
use crate::limits::Dimension;
use crate::time::Time;

/// What may wait at a gate, as time that it takes to pass. Clients share it evenly, but each may have one call. A client must
/// neither wait until it sends its calls again, nor find the queue full of other clients' calls.
pub const HELD_MAX: Duration = Duration::from_secs(4);

/// For how long a limiter lets nothing pass because of bytes that were moved before they were charged. A call that is held
/// this long after those before it is answered well before clients take a server for gone, and before leases end. More
/// than this is moved at once only by calls whose size the server could not foresee; the rest is not owed.
pub const OWED_MAX: Duration = HELD_MAX;

/// How far its calls that are never held may put a client's other calls behind those of others, as time at the rate. This is at
/// least what the largest call takes at the lowest rate, which is how far a call that waited may put its client behind.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// Accounts that are kept before those without meaning are looked for.
const ACCOUNTS_MIN: usize = 64;

/// What refused calls wait for: that this client has room here, for connections of this loop.
pub(crate) type Room = (LoopId, ClientId);

/// What a queue knows of a client.
#[derive(Debug, Default)]
struct Account {
    /// The finish tag of its last call, units.
    finish: u64,
    held_units: u64,
    held_calls: u64,
    /// How often its first call came to wait.
    #[cfg(test)]
    spells: u64,
    /// Loops whose calls were refused.
    refused: Vec<LoopId>,
}

/// The flows that wait at a gate.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) dimension: Dimension,
    waiting: BTreeMap<Place, FlowKey>,
    accounts: BTreeMap<ClientId, Account>,
    /// Clients with held calls.
    holders: u64,
    held_calls: u64,
    virtual_time: u64,
    /// Accounts at which the next search for those without meaning begins.
    accounts_max: usize,
    /// What calls that are never held have added to the debt since the last release: it delays the next call, not the first
    /// one of the queue, or calls that nobody can hold would hold all others for ever.
    pub(crate) excused: Ticks,
    /// Whether the debt may be higher than calls that fit leave it: the last call passed as an overdraft, or the limits have
    /// changed, or the queue is new, and what happened before is not known.
    pub(crate) is_overdrawn: bool,
    /// When something is to be done here.
    pub(crate) turn: Option<Time>,
    /// When the queue was last found empty, or not empty.
    changed: Time,
}

impl Queue {
    /// Makes the queue of a gate that is busy from now on. Its places have this tag, or higher ones.
    pub(crate) fn new(limiter: Arc<Limiter>, dimension: Dimension, virtual_time: u64, now: Time) -> Queue {
        limiter.gate(dimension).set_busy(true);
        Queue {
            limiter,
            dimension,
            waiting: BTreeMap::new(),
            accounts: BTreeMap::new(),
            holders: 0,
            held_calls: 0,
            virtual_time,
            accounts_max: ACCOUNTS_MIN,
            excused: Ticks(0),
            is_overdrawn: true,
            turn: None,
            changed: now,
        }
    }

    pub(crate) fn gate(&self) -> &Gate {
        self.limiter.gate(self.dimension)
    }

    pub(crate) fn first(&self) -> Option<(Place, FlowKey)> {
        self.waiting.first_key_value().map(|(place, key)| (*place, *key))
    }

    /// Returns a tag that no place here exceeds.
    pub(crate) fn last_tag(&self) -> u64 {
        self.accounts.values().map(|account| account.finish).fold(self.virtual_time, u64::max)
    }

    pub(crate) fn held_calls(&self) -> u64 {
        self.held_calls
    }

    /// Returns since when nothing waits.
    pub(crate) fn empty_since(&self) -> Option<Time> {
        self.waiting.is_empty().then_some(self.changed)
    }

    /// Returns for how long calls have been waiting.
    pub(crate) fn throttled(&self, now: Time) -> Duration {
        if self.waiting.is_empty() { Duration::ZERO } else { now.since(self.changed) }
    }

    /// Returns the start tag of a client's next call.
    pub(crate) fn next_tag(&self, client: ClientId) -> u64 {
        let finish = self.accounts.get(&client).map_or(0, |account| account.finish);
        if is_planted(Fault::FirstComeFirstServed) { 0 } else { finish.max(self.virtual_time) }
    }

    /// Gives a call of the client its place, and advances the client's finish tag.
    pub(crate) fn take_place(&mut self, client: ClientId, units: u32, number: u64) -> Place {
        let tag = self.next_tag(client);
        self.accounts.entry(client).or_default().finish = tag.saturating_add(u64::from(units));
        Place { tag, units: if is_planted(Fault::FirstComeFirstServed) { 0 } else { units }, number }
    }

    /// Takes a call that is not served here off a client's finish tag.
    pub(crate) fn give_back(&mut self, client: ClientId, units: u32) {
        if let Some(account) = self.accounts.get_mut(&client) {
            account.finish = account.finish.saturating_sub(u64::from(units));
        }
    }

    /// Returns the highest tag to which calls that are never held may advance a client's finish tag.
    pub(crate) fn behind_max(&self) -> u64 {
        self.virtual_time.saturating_add(self.gate().units(BEHIND_MAX))
    }

    /// Advances a client's finish tag for a call that is never held, but not beyond [`BEHIND_MAX`]. Returns by how many units. A tag
    /// at that bound advances only as others are served, which is its client's share.
    pub(crate) fn take_debt(&mut self, client: ClientId, units: u32) -> u64 {
        let tag = self.next_tag(client);
        let most = tag.max(self.behind_max());
        let finish = tag.saturating_add(u64::from(units)).min(most);
        self.accounts.entry(client).or_default().finish = finish;
        finish - tag
    }

    /// Advances a client's finish tag for bytes that it moved without waiting for its turn.
    pub(crate) fn take_owed(&mut self, client: ClientId, units: u32) {
        let most = self.virtual_time.saturating_add(self.gate().units(OWED_MAX));
        let tag = self.next_tag(client);
        let finish = tag.saturating_add(u64::from(units)).min(most.max(tag));
        if !is_planted(Fault::ForgetOwedShare) {
            self.accounts.entry(client).or_default().finish = finish;
        }
        self.is_overdrawn |= !is_planted(Fault::OverdrawOwed);
    }

    /// Lowers finish tags to those of these clients, or to that of all others.
    pub(crate) fn lower_tags(&mut self, clients: &BTreeMap<ClientId, u64>, others: u64) {
        for (client, account) in &mut self.accounts {
            account.finish = account.finish.min(clients.get(client).copied().unwrap_or(others));
        }
    }

    /// Notes what a call that is never held has added to the debt.
    pub(crate) fn excuse(&mut self, ticks: Ticks) {
        self.excused = Ticks(self.excused.0.saturating_add(ticks.0));
    }

    /// Moves the virtual time to the start tag of a call that is served.
    pub(crate) fn serve(&mut self, tag: u64) {
        self.virtual_time = self.virtual_time.max(tag);
    }

    /// Whether a client may not have another call wait here. If so, the loop will be told when it may.
    pub(crate) fn refuses(&mut self, client: ClientId, units: u64, event_loop: LoopId) -> bool {
        let held = self.accounts.get(&client).filter(|account| account.held_calls > 0);
        let is_full =
            held.is_some_and(|held| self.gate().ticks(held.held_units.saturating_add(units)) > self.share());
        if is_full {
            let refused = &mut self.accounts.entry(client).or_default().refused;
            if !refused.contains(&event_loop) {
                refused.push(event_loop);
            }
        }
        is_full
    }

    /// Returns the cost of the calls that a client may have waiting here.
    fn share(&self) -> Ticks {
        Ticks(Ticks::of(HELD_MAX).0 / self.holders.max(1))
    }

    /// Lets a flow wait.
    pub(crate) fn insert(&mut self, now: Time, place: Place, key: FlowKey) {
        if self.waiting.is_empty() {
            self.changed = now;
        }
        self.waiting.insert(place, key);
    }

    /// Has a flow wait at another place.
    pub(crate) fn replace(&mut self, place: Place, by: Place) {
        let key = self.waiting.remove(&place).expect("a flow waits at its place");
        self.waiting.insert(by, key);
    }

    /// Lets a flow wait no more.
    pub(crate) fn remove(&mut self, now: Time, place: Place) {
        self.waiting.remove(&place);
        if self.waiting.is_empty() {
            self.limiter.add_throttled(self.dimension, now.since(self.changed));
            self.changed = now;
        }
    }

    /// Counts calls that a client has waiting here from now on.
    pub(crate) fn hold(&mut self, client: ClientId, units: u64, calls: u64) {
        let account = self.accounts.entry(client).or_default();
        self.holders += u64::from(account.held_calls == 0);
        #[cfg(test)]
        if account.held_calls == 0 {
            account.spells += 1;
        }
        account.held_units += units;
        account.held_calls += calls;
        self.held_calls += calls;
    }

    /// Counts calls that wait here no more, and adds whom to tell that there is room again.
    pub(crate) fn let_go(&mut self, client: ClientId, units: u64, calls: u64, rooms: &mut Vec<Room>) {
        self.held_calls -= calls;
        let share = self.share();
        let account = self.accounts.get_mut(&client).expect("held calls have an account");
        account.held_units -= units;
        account.held_calls -= calls;
        let has_room = self.limiter.gate(self.dimension).ticks(account.held_units).0 <= share.0 / 2;
        if has_room && !is_planted(Fault::KeepRoomSecret) {
            rooms.extend(account.refused.drain(..).map(|event_loop| (event_loop, client)));
        }
        self.holders -= u64::from(account.held_calls == 0);
        self.drop_accounts();
    }

    /// Drops accounts that say nothing, once there are many.
    fn drop_accounts(&mut self) {
        if self.accounts.len() > self.accounts_max {
            let virtual_time = self.virtual_time;
            self.accounts.retain(|_, account| account.held_calls > 0 || account.finish > virtual_time);
            self.accounts_max = ACCOUNTS_MIN.max(2 * self.accounts.len());
        }
    }

    /// Returns the clients with calls that wait here, and how often they came to wait.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> impl Iterator<Item = (ClientId, u64)> {
        let held = self.accounts.iter().filter(|(_, account)| account.held_calls > 0);
        held.map(|(client, account)| (*client, account.spells))
    }

    /// Whether the counts agree with each other.
    #[cfg(test)]
    pub(crate) fn is_consistent(&self) -> bool {
        let held: u64 = self.accounts.values().map(|account| account.held_calls).sum();
        let holders = u64::try_from(self.holders().count());
        let is_idle = |account: &Account| account.held_calls == 0;
        held == self.held_calls
            && holders == Ok(self.holders)
            && self.waiting.is_empty() == (held == 0)
            && self
                .accounts
                .values()
                .filter(|account| is_idle(account))
                .all(|account| account.held_units == 0 && account.refused.is_empty())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.gate().set_busy(false);
    }
}
