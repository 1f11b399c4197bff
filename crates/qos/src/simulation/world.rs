//! Clients, event loops and the scheduler, by a virtual clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::judge::{Fair, Judge};
use super::plan::{Client, Plan, below};
use super::reference::Reference;
use super::sent::{Connection, Kind, Sent, id};
use crate::call::{ClientId, LoopId, Released, Token, Verdict};
use crate::cost::Cost;
use crate::limiter::{GateId, Limiter, byte_passages, passages};
use crate::limits::{Dimension, Limits};
use crate::queue::OWED_MAX;
use crate::scheduler::Scheduler;
use crate::time::Time;

/// How long all calls that wait may take to go on once no new ones come.
const DRAIN_MAX: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Come(usize),
    Send(usize),
    Done(u64),
    Wake(u16),
    Change(usize),
    Go(usize),
}

/// What is known of a gate.
#[derive(Debug)]
struct Watched {
    limiter: Arc<Limiter>,
    reference: Reference,
    judge: Judge,
}

impl Watched {
    fn new(limiter: &Arc<Limiter>, dimension: Dimension) -> Watched {
        let limiter = Arc::clone(limiter);
        Watched { limiter, reference: Reference::default(), judge: Judge::new(dimension) }
    }
}

pub(super) struct World<'p> {
    plan: &'p Plan,
    rng: Rng,
    now: Time,
    scheduler: Scheduler,
    limiters: Vec<Arc<Limiter>>,
    gates: BTreeMap<GateId, Watched>,
    connections: Vec<Connection>,
    sent: BTreeMap<u64, Sent>,
    calls: u64,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
    /// When each loop wakes up.
    wakes: Vec<Option<Time>>,
    is_over: bool,
    fair: Vec<Fair>,
    /// Whose connections are closed.
    gone: Vec<bool>,
    /// Bytes that each client's calls have moved.
    pub(super) got: Vec<u64>,
    /// The calls of each kind that wait: how many, and since when none of them has gone on.
    waiting: BTreeMap<Kind, (usize, Time)>,
    /// The longest time in which calls waited and none of their kind went on.
    pub(super) longest_stop: Duration,
}

impl<'p> World<'p> {
    pub(super) fn new(plan: &'p Plan, rng: Rng) -> World<'p> {
        let scheduler = Scheduler::default();
        let limiters = plan.limiters.iter().map(|limits| scheduler.limiter(Time::ORIGIN, limits)).collect();
        let mut world = World {
            plan,
            rng,
            now: Time::ORIGIN,
            scheduler,
            limiters,
            gates: BTreeMap::new(),
            connections: Vec::new(),
            sent: BTreeMap::new(),
            calls: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            wakes: vec![None; usize::from(plan.loops)],
            is_over: false,
            fair: plan.clients.iter().map(Client::fair).collect(),
            gone: vec![false; plan.clients.len()],
            got: vec![0; plan.clients.len()],
            waiting: BTreeMap::new(),
            longest_stop: Duration::ZERO,
        };
        for (index, limits) in plan.limiters.iter().enumerate() {
            world.watch(index, limits);
        }
        for (index, client) in plan.clients.iter().enumerate() {
            world.at(Time::ORIGIN + client.comes, Event::Come(index));
            world.at(Time::ORIGIN + client.goes, Event::Go(index));
        }
        for (index, (time, ..)) in plan.changes.iter().enumerate() {
            world.at(Time::ORIGIN + *time, Event::Change(index));
        }
        world
    }

    /// Runs until a time.
    pub(super) fn run_until(&mut self, end: Duration) -> Result<(), String> {
        while let Some(Reverse((time, ..))) = self.events.peek()
            && *time <= Time::ORIGIN + end
        {
            self.step()?;
        }
        Ok(())
    }

    /// Runs to the end of the plan, and checks that nothing is left.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let end = Time::ORIGIN + self.plan.duration;
        let mut events = 0;
        while events < self.plan.events_max && self.now < end && self.step()? {
            events += 1;
        }
        self.is_over = true;
        let end = self.now + DRAIN_MAX;
        while self.now < end && self.step()? {}
        let held = self.scheduler.check()?;
        let waiting = self.sent.len();
        let stalled = self.connections.iter().filter(|connection| connection.stalled.is_some()).count();
        if held + waiting + stalled > 0 {
            return Err(format!(
                "{held} held, {waiting} without a reply, {stalled} stalled connections are left"
            ));
        }
        match self.scheduler.next_deadline() {
            None => self.compare(),
            Some(deadline) => Err(format!("something is due at {deadline:?}, but nothing waits")),
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    /// Handles an event; returns `false` if there is none.
    fn step(&mut self) -> Result<bool, String> {
        let Some(Reverse((time, _, event))) = self.events.pop() else { return Ok(false) };
        self.now = time;
        let outcome = match event {
            Event::Come(client) => {
                self.come(client);
                Ok(())
            }
            Event::Send(connection) => self.send(connection),
            Event::Done(call) => {
                self.done(call);
                Ok(())
            }
            Event::Wake(event_loop) if self.wakes[usize::from(event_loop)] == Some(time) => {
                self.wake(event_loop)
            }
            Event::Wake(_) => return Ok(true),
            Event::Change(index) => self.change(index),
            Event::Go(client) => self.go(client),
        };
        outcome.and_then(|()| self.observe()).map_err(|wrong| format!("at {time:?}, {event:?}: {wrong}"))?;
        if self.scheduled.is_multiple_of(64) {
            self.compare()?;
        }
        Ok(true)
    }

    fn come(&mut self, index: usize) {
        let client = &self.plan.clients[index];
        for number in 0..client.connections {
            let limiters = &client.limiters[number % client.limiters.len()];
            let connection = self.connections.len();
            self.connections.push(Connection {
                client: index,
                event_loop: LoopId(self.rng.u16(..self.plan.loops)),
                limiters: std::iter::once(limiters)
                    .chain(&client.later)
                    .map(|stage| self.stage(stage))
                    .collect(),
                stalled: None,
                unread: 0,
            });
            for _ in 0..client.depth {
                let time = self.now + below(client.latency, &mut self.rng);
                self.at(time, Event::Send(connection));
            }
        }
    }

    fn stage(&self, limiters: &[usize]) -> Vec<Arc<Limiter>> {
        limiters.iter().map(|index| Arc::clone(&self.limiters[*index])).collect()
    }

    fn go(&mut self, index: usize) -> Result<(), String> {
        self.gone[index] = true;
        let connections = &mut self.connections;
        for connection in connections.iter_mut().filter(|connection| connection.client == index) {
            (connection.stalled, connection.unread) = (None, 0);
        }
        let is_its = |sent: &Sent| connections[sent.connection].client == index && sent.is_held;
        let held: Vec<u64> =
            self.sent.iter().filter(|(_, sent)| is_its(sent)).map(|(call, _)| *call).collect();
        for call in held {
            let sent = self.sent.remove(&call).expect("it was just found");
            self.stop_waiting(&sent);
            let event_loop = self.connections[sent.connection].event_loop;
            if !self.scheduler.forget(self.now, Token { event_loop, call }) {
                return Err(format!("call {call} waits, and cannot be forgotten"));
            }
            for stage in 0..sent.stage() {
                self.settle(&sent, stage, 0);
            }
            self.sleep(event_loop);
        }
        Ok(())
    }

    fn change(&mut self, index: usize) -> Result<(), String> {
        let (_, limiter, limits) = &self.plan.changes[index];
        self.observe()?;
        self.scheduler.change(self.now, &self.limiters[*limiter], limits);
        self.watch(*limiter, limits);
        self.sleep(LoopId(0));
        Ok(())
    }

    /// Follows the gates of a limiter from now on, with these limits. Those that never had a limit are not looked at.
    fn watch(&mut self, limiter: usize, limits: &Limits) {
        let limiter = &self.limiters[limiter];
        for dimension in Dimension::ALL {
            let (id, rate) = (GateId { limiter: limiter.id(), dimension }, limits.rate(dimension));
            if rate.is_none() && !self.gates.contains_key(&id) {
                continue;
            }
            let watched = self.gates.entry(id).or_insert_with(|| Watched::new(limiter, dimension));
            watched.reference.set(self.now, rate, limits.burst());
            let debt = watched.reference.debt(self.now);
            watched.judge.restart(self.now, debt);
        }
    }

    fn send(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.connections[index];
        if self.is_over || self.gone[connection.client] {
            return Ok(());
        }
        if connection.stalled.is_some() {
            connection.unread += 1;
            return Ok(());
        }
        let client = &self.plan.clients[connection.client];
        let costs = client.mix.costs(client.size, connection.limiters.len(), &mut self.rng);
        self.try_call(index, costs)
    }

    fn try_call(&mut self, index: usize, costs: Vec<Cost>) -> Result<(), String> {
        self.calls += 1;
        let call = self.calls;
        let connection = &mut self.connections[index];
        let event_loop = connection.event_loop;
        let verdict = self.scheduler.admit(self.now, &connection.call(call, 0, costs[0]));
        if verdict == Verdict::Full {
            connection.stalled = Some(costs);
        } else {
            let sent = Sent { connection: index, costs, passed: Vec::new(), is_held: false };
            self.sent.insert(call, sent);
            self.go_on(call, verdict)?;
        }
        self.sleep(event_loop);
        Ok(())
    }

    /// Has a call pass stages, beginning with one that has judged it, until one holds it. If none does, it is executed.
    fn go_on(&mut self, call: u64, mut verdict: Verdict) -> Result<(), String> {
        while verdict == Verdict::Admitted {
            self.note_passed(call)?;
            let sent = &self.sent[&call];
            let (connection, stage) = (&self.connections[sent.connection], sent.stage());
            let Some(cost) = sent.costs.get(stage) else {
                self.execute(call);
                return Ok(());
            };
            verdict = self.scheduler.go_on(self.now, &connection.call(call, stage, *cost));
        }
        if verdict == Verdict::Full {
            return Err(format!("call {call} is refused on its way"));
        }
        let sent = self.sent.get_mut(&call).expect("it was sent");
        sent.is_held = true;
        let kind = self.connections[sent.connection].kind(sent.costs[sent.stage()], sent.stage());
        self.waiting.entry(kind).or_insert((0, self.now)).0 += 1;
        Ok(())
    }

    /// Notes that a call waits no more.
    fn stop_waiting(&mut self, sent: &Sent) {
        let kind = self.connections[sent.connection].kind(sent.costs[sent.stage()], sent.stage());
        let waiting = self.waiting.get_mut(&kind).expect("it has waited");
        self.longest_stop = self.longest_stop.max(self.now.since(waiting.1));
        *waiting = (waiting.0 - 1, self.now);
        if waiting.0 == 0 {
            self.waiting.remove(&kind);
        }
    }

    /// Notes that a call was charged at a stage.
    fn note_passed(&mut self, call: u64) -> Result<(), String> {
        let sent = self.sent.get_mut(&call).expect("it was sent");
        let (connection, stage) = (&self.connections[sent.connection], sent.stage());
        sent.passed.push(self.now);
        let cost = sent.costs[stage];
        for passage in passages(&connection.limiters[stage], cost) {
            let watched = self.gates.get_mut(&passage.id()).expect("gates with limits are watched");
            let units = u64::from(passage.units);
            let fair = &self.fair[connection.client];
            watched.judge.serve(id(connection.client), i128::from(units), fair);
            let charged = if cost.is_debt_only {
                let gate = passage.gate();
                watched.reference.charge_debt(self.now, units, gate.debt(self.now), gate.is_busy())
            } else {
                watched.reference.charge(self.now, units)
            };
            charged.map_err(|wrong| format!("{:?}: {wrong}", passage.id()))?;
        }
        Ok(())
    }

    /// Executes a call that has passed all stages.
    fn execute(&mut self, call: u64) {
        let latency = self.plan.clients[self.connections[self.sent[&call].connection].client].latency;
        let time = self.now + latency / 2 + below(latency / 2, &mut self.rng);
        self.at(time, Event::Done(call));
    }

    fn done(&mut self, call: u64) {
        let sent = self.sent.remove(&call).expect("it was sent");
        let connection = &self.connections[sent.connection];
        let (index, event_loop) = (connection.client, connection.event_loop);
        let client = &self.plan.clients[index];
        for (stage, cost) in sent.costs.iter().enumerate() {
            let moved = client.mix.moved(*cost, &mut self.rng);
            // At the end nothing more is owed, or the last calls would wait very long.
            let moved = if self.is_over { moved.min(cost.bytes) } else { moved };
            self.settle(&sent, stage, moved);
            self.got[index] += if stage == 0 { u64::from(moved) } else { 0 };
        }
        let time = self.now + below(client.pause, &mut self.rng);
        self.at(time, Event::Send(sent.connection));
        self.sleep(event_loop);
    }

    /// Corrects what a call was charged at a stage by the bytes that it moved.
    fn settle(&mut self, sent: &Sent, stage: usize, moved: u32) {
        let (connection, cost) = (&self.connections[sent.connection], sent.costs[stage]);
        let (client, fair) = (id(connection.client), &self.fair[connection.client]);
        let call = connection.call(0, stage, Cost { bytes: moved.abs_diff(cost.bytes), ..cost });
        let gates: Vec<_> = byte_passages(call.limiters, call.cost)
            .map(|passage| (passage, passage.gate().is_busy()))
            .collect();
        if moved < cost.bytes {
            self.scheduler.refund(self.now, &call);
        } else {
            self.scheduler.owe(self.now, &call);
        }
        for (passage, is_busy) in gates {
            let watched = self.gates.get_mut(&passage.id()).expect("gates with limits are watched");
            let units = u64::from(passage.units);
            let few = |units: u128| i128::try_from(units).expect("no more than were moved");
            if moved < cost.bytes {
                let left = few(watched.reference.refund(self.now, units));
                watched.judge.give_back(left, sent.passed[stage]);
            } else {
                let owed = few(watched.reference.owe(self.now, units));
                let behind_max = is_busy.then(|| i128::from(passage.gate().units(OWED_MAX)));
                watched.judge.owe(client, (i128::from(units), owed), behind_max, fair);
            }
        }
    }

    fn wake(&mut self, event_loop: u16) -> Result<(), String> {
        self.wakes[usize::from(event_loop)] = None;
        let mut released = Vec::new();
        self.scheduler.release(self.now, &mut released);
        for released in released {
            match released {
                Released::Call { token, .. } => {
                    let sent = self.sent.get_mut(&token.call);
                    let Some(sent) = sent.filter(|sent| sent.is_held) else {
                        return Err(format!("{token:?} does not wait, and was released"));
                    };
                    sent.is_held = false;
                    let sent = sent.clone();
                    self.stop_waiting(&sent);
                    self.go_on(token.call, Verdict::Admitted)?;
                    self.sleep(token.event_loop);
                }
                Released::Room { event_loop, client } => self.retry(event_loop, client)?,
            }
        }
        for (id, watched) in &self.gates {
            let judged = watched.judge.judge_use(self.now, watched.reference.rate());
            judged.map_err(|wrong| format!("{id:?}: {wrong}"))?;
        }
        self.sleep(LoopId(event_loop));
        Ok(())
    }

    /// Tries calls again that were refused.
    fn retry(&mut self, event_loop: LoopId, client: ClientId) -> Result<(), String> {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.event_loop != event_loop || id(connection.client) != client {
                continue;
            }
            let Some(costs) = connection.stalled.take() else { continue };
            let unread = std::mem::take(&mut connection.unread);
            self.try_call(index, costs)?;
            for _ in 0..unread {
                self.send(index)?;
            }
        }
        Ok(())
    }

    /// A loop goes to sleep until the deadline that it sees now, and oversleeps, unless it has passed.
    fn sleep(&mut self, event_loop: LoopId) {
        let Some(deadline) = self.scheduler.next_deadline() else { return };
        let late = if deadline > self.now { self.plan.lateness } else { Duration::ZERO };
        let time = self.now.max(deadline) + below(late, &mut self.rng);
        let wake = &mut self.wakes[usize::from(event_loop.0)];
        if wake.is_none_or(|wake| wake > time) {
            *wake = Some(time);
            self.at(time, Event::Wake(event_loop.0));
        }
    }

    /// Judges each gate.
    fn observe(&mut self) -> Result<(), String> {
        let held = self.scheduler.held();
        for (id, watched) in &mut self.gates {
            let clients = held.iter().find(|(gate, _)| *gate == *id).map_or(&[][..], |(_, clients)| clients);
            let debt = || watched.reference.debt(self.now);
            watched
                .judge
                .observe(self.now, debt, clients, &self.fair)
                .map_err(|wrong| format!("{id:?}: {wrong}"))?;
        }
        Ok(())
    }

    /// Compares what gates have charged with what they have let through.
    fn compare(&mut self) -> Result<(), String> {
        for (id, watched) in &mut self.gates {
            let debt = watched.limiter.gate(id.dimension).debt(self.now);
            watched.reference.compare(self.now, debt).map_err(|wrong| format!("{id:?}: {wrong}"))?;
        }
        self.scheduler.check().map(drop)
    }
}
