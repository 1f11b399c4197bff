//! The calls that wait, and the order in which they are released, under one lock.
//!
//! A flow waits at one gate at a time: the one that refused its first call. When its turn comes there, all its gates are asked
//! again. If all admit, all are charged; if another refuses, nothing is charged, and the flow moves to the queue of that gate,
//! where later calls of others cannot overtake it: its first call keeps each place that it has ever taken. The gate goes on with
//! the next flow, so that none is idle because its first flow waits elsewhere.
//!
//! Two gates that are both busy could refuse a flow in turn for ever, as each is open only for the moment in which it serves
//! another. So a flow whose turn it is at one gate, and that is first at another one too, passes there as an overdraft, if the
//! call before was none. That shifts calls and adds nothing to the rate: it is one call more than the burst, at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use crate::call::ClientId;
use crate::call::{Call, Counters, Released, Token, Verdict};
use crate::charges::Charges;
use crate::fault::{Fault, is_planted};
use crate::flow::{Flow, FlowKey, Held, Place};
use crate::gate::{DEBT_MAX, Terms, Ticks};
use crate::limiter::{GateId, Limiter, Passage, byte_passages, passages};
use crate::limits::{Dimension, Limits};
use crate::queue::{OWED_MAX, Queue, Room};
use crate::time::Time;

/// Calls that one step releases at most, to bound the time for which the lock is held.
pub const RELEASED_MAX: usize = 256;

/// Flows that one turn of a gate moves to other gates at most, for the same reason.
const MOVES_MAX: usize = 16;

/// When a gate goes on that has moved that many. Its calls lose nothing, as half a burst is longer.
const RETRY: Duration = Duration::from_millis(1);

/// How soon a flow that has moved is tried again: not in the same step, or flows could move in circles in it.
const MOVE_DELAY: Duration = Duration::from_micros(50);

/// For how long a queue remembers what clients were served after it is empty. Clients with few calls leave it empty while
/// they receive replies, and keep their shares.
const LINGER: Duration = Duration::from_millis(100);

/// Whether a call may be refused a place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// If too much of its client waits there.
    WithoutRoom,
    /// Never: it has passed other limiters.
    Never,
}

/// A gate that refused a call.
struct Refused {
    id: GateId,
    limiter: Arc<Limiter>,
    units: u32,
}

impl Refused {
    fn by(passage: &Passage<'_>) -> Refused {
        Refused { id: passage.id(), limiter: Arc::clone(passage.limiter), units: passage.units }
    }
}

/// All calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// The queues of busy gates.
    queues: BTreeMap<GateId, Queue>,
    flows: BTreeMap<FlowKey, Flow>,
    /// The flow of each call.
    calls: BTreeMap<Token, FlowKey>,
    /// When something is to be done at which gate.
    turns: BTreeSet<(Time, GateId)>,
    /// Places that were ever taken.
    places: u64,
    /// No place in a queue that was dropped has a higher tag. Calls that wait elsewhere may still have such places, which must
    /// not be behind those in a new queue of that gate.
    tags: u64,
    /// Whom to tell that there is room.
    rooms: Vec<Room>,
}

impl Backlog {
    /// Returns when the next step is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if self.rooms.is_empty() { self.turns.first().map(|(time, _)| *time) } else { Some(Time::ORIGIN) }
    }

    /// Admits a call, or lets it wait.
    pub(crate) fn admit(&mut self, now: Time, call: &Call<'_>, refusal: Refusal) -> Verdict {
        let key = FlowKey::of(call);
        let held = Held { token: call.token, bytes: call.cost.bytes, since: now };
        let Some(mut flow) = self.flows.remove(&key) else {
            return self.admit_first(now, Flow::new(key, call.limiters, held), call, refusal);
        };
        let queue = self.queues.get_mut(&flow.gate).expect("a flow waits in a queue");
        let units = u64::from(call.cost.units(queue.dimension));
        let is_full =
            refusal == Refusal::WithoutRoom && queue.refuses(key.client, units, call.token.event_loop);
        if !is_full {
            queue.hold(key.client, units, 1);
            flow.push(held);
            self.calls.insert(call.token, key);
        }
        self.flows.insert(key, flow);
        if is_full { Verdict::Full } else { Verdict::Held }
    }

    /// Admits the only call of a flow, or lets it wait.
    fn admit_first(&mut self, now: Time, mut flow: Flow, call: &Call<'_>, refusal: Refusal) -> Verdict {
        let Err(refused) = self.run(now, &mut flow, None) else { return Verdict::Admitted };
        let queue = self.queue(now, &refused);
        let (client, units) = (flow.key.client, u64::from(refused.units));
        if refusal == Refusal::WithoutRoom && queue.refuses(client, units, call.token.event_loop) {
            return Verdict::Full;
        }
        self.calls.insert(call.token, flow.key);
        self.enqueue(now, flow, &refused, now);
        Verdict::Held
    }

    /// Charges a call that is never held. Where others wait, it is charged only as far as it is within the share of its client:
    /// whoever sends very many passes, but takes nothing from others.
    pub(crate) fn charge_debt(&mut self, now: Time, call: &Call<'_>) {
        for passage in passages(call.limiters, call.cost) {
            let gate = passage.gate();
            let Some(queue) = self.queues.get_mut(&passage.id()) else {
                gate.charge_debt(now, gate.ticks(u64::from(passage.units)), Duration::ZERO);
                continue;
            };
            let units = queue.take_debt(call.client, passage.units);
            queue.excuse(gate.charge_debt(now, gate.ticks(units), DEBT_MAX));
        }
    }

    /// Charges bytes that a call has already moved. They delay every call that waits, but do not change their order: the client that
    /// owes them waits with its next call, and its turn comes after those of the others.
    pub(crate) fn owe(&mut self, now: Time, call: &Call<'_>) {
        for passage in byte_passages(call.limiters, call.cost) {
            let gate = passage.gate();
            let beyond = if is_planted(Fault::ForgiveOwed) { DEBT_MAX } else { OWED_MAX };
            gate.charge_debt(now, gate.ticks(u64::from(passage.units)), beyond);
            if let Some(queue) = self.queues.get_mut(&passage.id()) {
                queue.take_owed(call.client, passage.units);
            }
        }
    }

    /// Gives back bytes that a call was charged for and did not move. They keep their part in the client's share: with it, a
    /// client whose calls give back everything would always be first.
    pub(crate) fn refund(&mut self, now: Time, call: &Call<'_>) {
        for passage in byte_passages(call.limiters, call.cost) {
            let gate = passage.gate();
            gate.refund(gate.ticks(u64::from(passage.units)));
            if self.queues.contains_key(&passage.id()) {
                self.reschedule(now, passage.id(), now);
            }
        }
    }

    /// Does what is due: adds calls that may go on, at most [`RELEASED_MAX`], and loops whose calls find room now.
    pub(crate) fn release(&mut self, now: Time, out: &mut Vec<Released>) {
        let end = out.len() + RELEASED_MAX;
        while let Some(&(time, id)) = self.turns.first()
            && time <= now
            && out.len() < end
        {
            self.turn(now, id, out, end);
        }
        let room = |(event_loop, client)| Released::Room { event_loop, client };
        out.extend(self.rooms.drain(..).map(room));
    }

    /// Forgets a call, if it waits.
    pub(crate) fn forget(&mut self, now: Time, token: Token) -> bool {
        let Some(key) = self.calls.remove(&token) else { return false };
        let flow = self.flows.remove(&key).expect("a held call has a flow");
        let index = flow.calls.iter().position(|call| call.token == token).expect("its flow holds it");
        let gate = flow.gate;
        if index == 0 {
            self.return_places(&flow, std::iter::empty());
        }
        if is_planted(Fault::ForgetForgets) {
            self.flows.insert(key, flow);
            return true;
        }
        self.take_out(now, flow, index);
        self.reschedule(now, gate, now);
        true
    }

    /// Changes the limits of a limiter. If they are the same, nothing changes: whoever sets those of all volumes again disturbs
    /// no queue.
    pub(crate) fn change(&mut self, now: Time, limiter: &Arc<Limiter>, limits: &Limits) {
        if !limiter.set(now, limits) {
            return;
        }
        for dimension in Dimension::ALL {
            let id = GateId { limiter: limiter.id(), dimension };
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            queue.is_overdrawn = true;
            self.bring_forward(id);
            if !is_planted(Fault::IgnoreChanges) {
                self.reschedule(now, id, now);
            }
        }
    }

    /// Adds what waits at a limiter.
    pub(crate) fn count(&self, now: Time, limiter: &Limiter, counters: &mut Counters) {
        for dimension in Dimension::ALL {
            let index = dimension.index();
            counters.throttled[index] = limiter.throttled(dimension);
            if let Some(queue) = self.queues.get(&GateId { limiter: limiter.id(), dimension }) {
                counters.throttled[index] += queue.throttled(now);
                counters.held[index] = queue.held_calls();
            }
        }
    }

    /// Releases the calls at a gate whose turn has come.
    fn turn(&mut self, now: Time, id: GateId, out: &mut Vec<Released>, end: usize) {
        let mut moves = 0;
        loop {
            let Some((_, key)) = self.queues[&id].first() else { return self.end_turn(now, id) };
            if out.len() == end {
                return self.set_turn(id, now);
            }
            if moves == MOVES_MAX {
                return self.set_turn(id, now + RETRY);
            }
            let mut flow = self.flows.remove(&key).expect("a queue holds flows that exist");
            match self.run(now, &mut flow, Some(id)) {
                Ok(()) => out.push(self.finish_head(now, flow)),
                Err(refused) if refused.id == id => {
                    self.flows.insert(key, flow);
                    return self.reschedule(now, id, now + Duration::from_nanos(1));
                }
                Err(refused) => {
                    moves += 1;
                    self.leave(now, &flow);
                    self.enqueue(now, flow, &refused, now + MOVE_DELAY);
                }
            }
        }
    }

    /// Drops the queue of a gate that was empty for long enough.
    fn end_turn(&mut self, now: Time, id: GateId) {
        let empty_since = self.queues[&id].empty_since().unwrap_or(now);
        let end = empty_since + LINGER;
        if end > now {
            return self.set_turn(id, end);
        }
        if let Some(queue) = self.queues.remove(&id) {
            self.tags = self.tags.max(queue.last_tag());
            if let Some(time) = queue.turn {
                self.turns.remove(&(time, id));
            }
        }
    }

    /// Charges the first call of a flow if all gates admit it. `turn` is the gate whose turn it is.
    ///
    /// # Errors
    /// A gate that refuses; nothing is charged then.
    fn run(&mut self, now: Time, flow: &mut Flow, turn: Option<GateId>) -> Result<(), Refused> {
        let limiters = std::mem::take(&mut flow.limiters);
        let cost = flow.head_cost();
        let charged = self.charge(now, flow, turn, passages(&limiters, cost));
        if charged.is_ok() {
            for passage in passages(&limiters, cost) {
                self.serve(flow, turn, &passage);
            }
            self.return_places(flow, passages(&limiters, cost));
        }
        flow.limiters = limiters;
        charged
    }

    fn charge<'l>(
        &self,
        now: Time,
        flow: &Flow,
        turn: Option<GateId>,
        passages: impl Iterator<Item = Passage<'l>> + Clone,
    ) -> Result<(), Refused> {
        for passage in passages.clone() {
            let cost = passage.gate().ticks(u64::from(passage.units));
            let terms = self.terms(flow, turn, passage.id());
            if !terms.is_some_and(|terms| passage.gate().admits(now, cost, terms)) {
                return Err(Refused::by(&passage));
            }
        }
        let mut charges = Charges::default();
        for passage in passages {
            let terms = self.terms(flow, turn, passage.id());
            if !terms.is_some_and(|terms| charges.add(now, &passage, terms)) {
                charges.undo();
                return Err(Refused::by(&passage));
            }
        }
        Ok(())
    }

    /// Returns how a gate judges the first call of a flow; `None` if others come first there.
    fn terms(&self, flow: &Flow, turn: Option<GateId>, id: GateId) -> Option<Terms> {
        if turn.is_some() && turn != Some(id) && is_planted(Fault::PassClosedGates) {
            return Some(Terms::Fits(Ticks(u64::MAX)));
        }
        let Some(queue) = self.queues.get(&id) else { return Some(Terms::Fits(Ticks(0))) };
        if turn == Some(id) {
            return Some(Terms::Fits(queue.excused));
        }
        let Some((first, _)) = queue.first() else { return Some(Terms::Fits(Ticks(0))) };
        let units = flow.head_cost().units(id.dimension);
        let next = Place { tag: queue.next_tag(flow.key.client), units, number: u64::MAX };
        if first < flow.place(id).unwrap_or(next) {
            return None;
        }
        let is_overdraft = turn.is_some() && !queue.is_overdrawn;
        Some(if is_overdraft { Terms::Overdraft } else { Terms::Fits(Ticks(0)) })
    }

    /// Notes at a gate that the first call of a flow was served.
    fn serve(&mut self, flow: &Flow, turn: Option<GateId>, passage: &Passage<'_>) {
        let id = passage.id();
        let terms = self.terms(flow, turn, id);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.is_overdrawn = terms == Some(Terms::Overdraft);
        let taken = flow.place(id);
        let place = taken.unwrap_or_else(|| queue.take_place(flow.key.client, passage.units, 0));
        queue.serve(place.tag);
        if turn == Some(id) {
            queue.excused = Ticks(0);
        }
    }

    /// Takes the first call, which was charged, out of its flow.
    fn finish_head(&mut self, now: Time, flow: Flow) -> Released {
        let call = self.take_out(now, flow, 0);
        self.calls.remove(&call.token);
        Released::Call { token: call.token, waited: now.since(call.since) }
    }

    /// Takes a call out of a flow, which waits where it did if it has others.
    fn take_out(&mut self, now: Time, mut flow: Flow, index: usize) -> Held {
        let id = flow.gate;
        let place = flow.place(id).expect("it has a place where it waits");
        let call = flow.remove(index).expect("callers name calls of the flow");
        let units = u64::from(flow.key.cost(call.bytes).units(id.dimension));
        let queue = self.queues.get_mut(&id).expect("a flow waits in a queue");
        queue.let_go(flow.key.client, units, 1, &mut self.rooms);
        if index == 0 {
            queue.remove(now, place);
        }
        if flow.calls.is_empty() {
            return call;
        }
        if index == 0 {
            self.insert(now, flow, now);
        } else {
            self.flows.insert(flow.key, flow);
        }
        call
    }

    /// Lets a flow wait at the gate that refused it. If it is the first there, its turn is not before `earliest`.
    fn enqueue(&mut self, now: Time, mut flow: Flow, refused: &Refused, earliest: Time) {
        let (units, calls) = flow.held(refused.id.dimension);
        self.queue(now, refused).hold(flow.key.client, units, calls);
        flow.gate = refused.id;
        self.insert(now, flow, earliest);
    }

    /// Gives a flow its place in the queue of its gate.
    fn insert(&mut self, now: Time, mut flow: Flow, earliest: Time) {
        let id = flow.gate;
        let queue = self.queues.get_mut(&id).expect("a flow waits in a queue");
        let place = flow.place(id).unwrap_or_else(|| {
            self.places += 1;
            let place = queue.take_place(flow.key.client, flow.head_cost().units(id.dimension), self.places);
            flow.set_place(id, place);
            place
        });
        queue.insert(now, place, flow.key);
        let is_first = queue.first().is_some_and(|(first, _)| first == place);
        self.flows.insert(flow.key, flow);
        if is_first {
            self.reschedule(now, id, earliest);
        }
    }

    /// Takes a flow out of the queue where it waits.
    fn leave(&mut self, now: Time, flow: &Flow) {
        let queue = self.queues.get_mut(&flow.gate).expect("a flow waits in a queue");
        let (units, calls) = flow.held(flow.gate.dimension);
        queue.remove(now, flow.place(flow.gate).expect("it has a place where it waits"));
        queue.let_go(flow.key.client, units, calls, &mut self.rooms);
    }

    /// Gives back the places of a first call at gates that do not charge it, because it is forgotten, or because their limits
    /// were removed: else, as soon as there are limits again, its client would wait until others were served as much.
    fn return_places<'l>(&mut self, flow: &Flow, charged: impl Iterator<Item = Passage<'l>> + Clone) {
        let cost = flow.head_cost();
        for (id, _) in flow.places() {
            if charged.clone().any(|passage| passage.id() == *id) {
                continue;
            }
            if let Some(queue) = self.queues.get_mut(id) {
                queue.give_back(flow.key.client, cost.units(id.dimension));
            }
        }
    }

    /// Brings clients forward at a gate whose rate may be lower now. What calls that are never held have put them behind is bounded
    /// as time at the rate, but tags count units, which take longer now. The places that a client has taken come on top of the
    /// bound, in their order, so that clients without such calls stay where they are.
    fn bring_forward(&mut self, id: GateId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let most = queue.behind_max();
        let mut clients = BTreeMap::new();
        let place = |flow: &Flow| Some((flow.place(id)?, flow.key));
        let mut places: Vec<(Place, FlowKey)> = self.flows.values().filter_map(place).collect();
        places.sort_unstable();
        for (place, key) in places {
            let flow = self.flows.get_mut(&key).expect("it has a place");
            let most = clients.entry(key.client).or_insert(most);
            let earlier = Place { tag: place.tag.min(*most), ..place };
            *most = most.saturating_add(u64::from(flow.head_cost().units(id.dimension)));
            flow.set_place(id, earlier);
            if flow.gate == id {
                queue.replace(place, earlier);
            }
        }
        queue.lower_tags(&clients, most);
    }

    fn queue(&mut self, now: Time, refused: &Refused) -> &mut Queue {
        let tags = self.tags;
        let queue = || Queue::new(Arc::clone(&refused.limiter), refused.id.dimension, tags, now);
        self.queues.entry(refused.id).or_insert_with(queue)
    }

    /// Sets the turn of a gate by its first flow, not before `earliest`.
    fn reschedule(&mut self, now: Time, id: GateId, earliest: Time) {
        let queue = &self.queues[&id];
        let time = match queue.first() {
            Some((_, key)) => {
                let units = self.flows[&key].head_cost().units(id.dimension);
                queue.gate().opens_at(queue.gate().ticks(u64::from(units)), queue.excused)
            }
            None => now + LINGER,
        };
        self.set_turn(id, time.max(earliest));
    }

    fn set_turn(&mut self, id: GateId, time: Time) {
        let queue = self.queues.get_mut(&id).expect("a gate with turns has a queue");
        if let Some(old) = queue.turn.replace(time) {
            self.turns.remove(&(old, id));
        }
        self.turns.insert((time, id));
    }
}

#[cfg(test)]
impl Backlog {
    /// Returns whose calls wait at which gates.
    pub(crate) fn held(&self) -> Vec<(GateId, Vec<(ClientId, u64)>)> {
        self.queues.iter().map(|(id, queue)| (*id, queue.holders().collect())).collect()
    }

    /// Returns the number of calls that wait, or what is inconsistent.
    pub(crate) fn check(&self) -> Result<usize, String> {
        let in_flows: usize = self.flows.values().map(|flow| flow.calls.len()).sum();
        if in_flows != self.calls.len() {
            return Err(format!("{in_flows} calls in flows, {} by token", self.calls.len()));
        }
        if let Some(queue) = self.queues.values().find(|queue| !queue.is_consistent()) {
            return Err(format!("the counts of a queue are wrong: {queue:?}"));
        }
        if self.turns.len() != self.queues.len() {
            return Err(format!("{} turns of {} queues", self.turns.len(), self.queues.len()));
        }
        Ok(in_flows)
    }
}
