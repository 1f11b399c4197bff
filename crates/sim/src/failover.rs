//! Nodes that take over a group from each other, over one store of objects: the lease machine of the crate `cluster`, with
//! clocks that go wrong, processes that stop and die, and calls and answers that come late or never.
//!
//! # What is judged
//! - **I1** One process executes at any instant: two never have the tenure at once, no epoch executes after a higher one did, and
//!   no reply misses what was acknowledged before its call came.
//! - **I2** Nothing acknowledged is missing for the next owner, and what one owner did not find appears for none after it.
//! - **I3** After an object is sealed, no earlier owner changes it.
//! - **I4** No client sees an error because a process lost its lease.
//! - **I5** The identity that clients see stays the same.
//! - Once nothing fails any more, some process serves the group.
//!
//! # What may happen
//! Calls of one process to one object are executed once and in order, however late, also after the process is gone, as a store
//! does whose client repeats them. Only those of the lease machine and of seals can get lost, or their answers, and answers can
//! come twice. Clocks differ in rate and origin, and go on while a process is stopped.

mod boundaries;
mod faults;
mod journal;
mod judge;
mod network;
mod objects;
mod plan;
mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{Epoch, LeaseRecord, Phase, Time, Watched};
use volume::media::Tenure;

use crate::random::Random;
use judge::Judge;
use network::{Network, nanos};
use objects::{Operation, SimObjects};
use process::{Effect, LEASE, Process};

pub use boundaries::every_boundary;
pub use plan::{Plan, Planted, Tally};

/// How long a group may be without an owner that serves it, once nothing fails any more.
const RECOVERY: Duration = Duration::from_secs(60);

/// Operations that a schedule has at most.
const OPERATIONS_MAX: u64 = 200;

/// What happens at a point in time.
#[derive(Clone, Debug)]
enum Happening {
    /// The store executes the next call of this lane.
    Execute(network::Lane),
    /// An answer arrives at the process that made the call.
    Answer(network::Arrival),
    /// A process looks whether something is due.
    Wake(usize),
    /// Somebody tells a process that the lease changed.
    Notice(usize),
    /// A client calls.
    Call,
    /// Something fails.
    Fault,
    /// A process starts.
    Start(usize),
    /// The agent of a node releases the lease of a process that it saw ending.
    Release(u64),
}

/// A node and its process.
#[derive(Debug)]
struct Node {
    process: Option<Process>,
    /// What its clock shows at the origin of true time, and how many nanoseconds it counts in a microsecond.
    clock_origin: u64,
    clock_rate: u64,
    /// When its process continues, if it is stopped.
    stopped_until: u64,
    /// When it wakes next.
    wake: u64,
    /// What its last process saw of the lease, which the next one goes on with.
    watched: Option<Watched>,
}

impl Node {
    fn local(&self, now: u64) -> Time {
        let counted = u128::from(now) * u128::from(self.clock_rate) / 1000;
        Time::from_nanos(self.clock_origin + u64::try_from(counted).expect("hours"))
    }

    /// Returns the first true time at which the clock shows `local`.
    fn truth(&self, local: Time) -> u64 {
        let counted = u128::from(local.as_nanos().saturating_sub(self.clock_origin)) * 1000;
        u64::try_from(counted.div_ceil(u128::from(self.clock_rate))).unwrap_or(u64::MAX)
    }
}

/// A schedule under way.
struct World {
    plan: Plan,
    random: Random,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    scheduled: u64,
    nodes: Vec<Node>,
    network: Network,
    store: SimObjects,
    judge: Judge,
    tally: Tally,
    last_instance: u64,
    /// When faults end.
    quiet: u64,
    /// Whether an operation that came after that was acknowledged.
    recovered: bool,
    /// The number of operations when it became quiet.
    operations_before: u64,
}

/// Runs the schedule of a seed.
///
/// # Errors
/// What was wrong, and when.
pub fn run(seed: u64, plan: &Plan) -> Result<Tally, String> {
    let mut world = World::new(seed, *plan);
    world.run().map_err(|wrong| format!("seed {seed}, {} ms: {wrong}", world.now / 1_000_000))?;
    Ok(world.finish())
}

impl World {
    fn new(seed: u64, plan: Plan) -> World {
        let mut random = Random::new(seed);
        let error = plan.clock_error_percent * 10;
        let node = |random: &mut Random| Node {
            process: None,
            clock_origin: random.below(nanos(1_000_000)),
            clock_rate: match random.below(4) {
                0 => 1000 - error,
                1 => 1000 + error,
                _ => 1000 - error + random.below(2 * error + 1),
            },
            stopped_until: 0,
            wake: u64::MAX,
            watched: None,
        };
        let count = 2 + random.below(2);
        let nodes: Vec<Node> = (0..count).map(|_| node(&mut random)).collect();
        let quiet = nanos(5000 + random.below(30_000));
        let network = Network::new(random.fork(), nodes.len(), plan.only_hangs);
        let mut world = World {
            plan,
            random,
            now: 0,
            queue: BTreeMap::new(),
            scheduled: 0,
            nodes,
            network,
            store: process::new_group(),
            judge: Judge::default(),
            tally: Tally::default(),
            last_instance: 0,
            quiet,
            recovered: false,
            operations_before: 0,
        };
        for node in 0..world.nodes.len() {
            let at = nanos(world.random.below(1000));
            world.schedule(at, Happening::Start(node));
        }
        world.schedule(nanos(100), Happening::Call);
        world.schedule(nanos(2000), Happening::Fault);
        world
    }

    fn schedule(&mut self, at: u64, what: Happening) {
        self.scheduled += 1;
        self.queue.insert((at.max(self.now), self.scheduled), what);
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some(((at, _), what)) = self.queue.pop_first() {
            self.now = at;
            if self.is_quiet() {
                self.network.calm();
            }
            self.happen(what)?;
            self.check_tenures()?;
            if self.recovered {
                break;
            }
            if at > self.quiet + nanos(u64::try_from(RECOVERY.as_millis()).expect("a minute")) {
                return Err("nobody serves the group, though nothing fails any more".to_owned());
            }
        }
        if self.plan.only_hangs && self.judge.last_epoch() != Epoch(1) {
            return Err("the lease changed hands because the store hung".to_owned());
        }
        Ok(())
    }

    fn finish(self) -> Tally {
        Tally {
            takeovers: self.judge.last_epoch().0.into(),
            executed: self.judge.next_operation(),
            acknowledged: self.judge.acknowledged() as u64,
            lost: self.judge.lost() as u64,
            ..self.tally
        }
    }

    fn happen(&mut self, what: Happening) -> Result<(), String> {
        match what {
            Happening::Execute(lane) => self.execute(lane),
            Happening::Answer(arrival) => self.answer(arrival),
            Happening::Wake(node) if self.nodes[node].wake != self.now => Ok(()),
            Happening::Wake(node) => self.step(node, |_, _| {}),
            Happening::Notice(node) => self.step(node, |process, now| process.on_notice(now)),
            Happening::Call => self.call(),
            Happening::Fault => {
                self.fail();
                Ok(())
            }
            Happening::Start(node) => self.start(node),
            Happening::Release(instance) => self.release(instance),
        }
    }

    /// Two processes never have the tenure at once, stopped or not.
    fn check_tenures(&self) -> Result<(), String> {
        let holds = |node: &&Node| {
            let now = node.local(self.now);
            node.process.as_ref().is_some_and(|process| process.tenure(now) == Tenure::Held)
        };
        let mut holders = self.nodes.iter().filter(holds).filter_map(|node| node.process.as_ref());
        match (holders.next(), holders.next()) {
            (Some(one), Some(other)) => {
                Err(format!("I1: {:?} and {:?} have the tenure at once", one.epoch(), other.epoch()))
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        if self.nodes[node].process.is_some() {
            return Ok(());
        }
        self.last_instance += 1;
        let delay = Duration::from_millis(*self.random.pick(&[0, 0, 700]));
        let now = self.nodes[node].local(self.now);
        let mut process = Process::start(node, self.last_instance, now, delay, self.plan.planted);
        if let Some(watched) = self.nodes[node].watched.take() {
            process.inherit(watched);
        }
        self.nodes[node].process = Some(process);
        self.step(node, |_, _| {})
    }

    /// Lets a process act, unless it is stopped or gone, and deals with what it does.
    fn step(&mut self, node: usize, first: impl FnOnce(&mut Process, Time)) -> Result<(), String> {
        let now = self.nodes[node].local(self.now);
        let stopped_until = self.nodes[node].stopped_until;
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        if stopped_until > self.now {
            self.wake_at(node, stopped_until);
            return Ok(());
        }
        first(process, now);
        let effects = process.step(now);
        let ended = matches!(process.phase(), Phase::Ended(_));
        let wake = process.wake();
        for effect in effects {
            self.take_effect(node, effect)?;
        }
        if ended {
            self.end(node);
        } else if let Some(wake) = wake {
            self.wake_at(node, self.nodes[node].truth(wake));
        }
        Ok(())
    }

    fn wake_at(&mut self, node: usize, at: u64) {
        let at = at.max(self.now);
        if self.nodes[node].wake != at {
            self.nodes[node].wake = at;
            self.schedule(at, Happening::Wake(node));
        }
    }

    fn take_effect(&mut self, node: usize, effect: Effect) -> Result<(), String> {
        let Some(process) = &self.nodes[node].process else { return Ok(()) };
        match effect {
            Effect::Call(request) => {
                let author = process.epoch();
                let is_data = request.object != LEASE;
                let lane = self.network.send(node, process.instance(), author, request);
                let at = self.network.arrival(self.now, node, is_data);
                self.schedule(at, Happening::Execute(lane));
                Ok(())
            }
            Effect::Notify => {
                for other in (0..self.nodes.len()).filter(|other| *other != node) {
                    let at = self.network.arrival(self.now, other, false);
                    self.schedule(at, Happening::Notice(other));
                }
                Ok(())
            }
            Effect::Opened => {
                let journal = process.journal().expect("it opened one");
                self.judge.on_opened(process.epoch(), journal)
            }
            Effect::Reply(reply) => {
                let journal = process.journal().expect("replies show it");
                let is_new = reply.operation.is_some_and(|operation| operation >= self.operations_before);
                self.recovered |= self.is_quiet() && is_new;
                self.judge.on_reply(journal, reply)
            }
            Effect::ErrorReply => Err("I4: a client is told of a lease that was lost".to_owned()),
            // What an owner reads while another one writes means nothing; it ends with its next renewal.
            Effect::Wrong(_) if process.epoch() < self.judge.last_epoch() => Ok(()),
            Effect::Wrong(wrong) => Err(wrong),
        }
    }

    fn is_quiet(&self) -> bool {
        self.now >= self.quiet
    }

    fn execute(&mut self, lane: network::Lane) -> Result<(), String> {
        if let Some(later) = self.network.blocked_until(self.now, &lane) {
            self.schedule(later, Happening::Execute(lane));
            return Ok(());
        }
        let (node, instance) = (lane.node, lane.instance);
        let Some((call, is_lost)) = self.network.take(&lane) else {
            return Ok(());
        };
        if is_lost {
            return Ok(());
        }
        let request = call.request;
        let outcome = self.store.execute(&request.object, &request.operation, call.author)?;
        if let (Operation::Replace(_, bytes), objects::Outcome::Done(_)) = (&request.operation, &outcome) {
            self.judge.on_lease(bytes)?;
        }
        let is_change = matches!(request.operation, Operation::Write { .. });
        self.tally.refused += u64::from(is_change && outcome == objects::Outcome::Refused);
        let is_there = self.nodes[node].process.as_ref().is_some_and(|there| there.instance() == instance);
        self.tally.late += u64::from(!is_there);
        if !is_there {
            return Ok(());
        }
        let purpose = request.purpose;
        for _ in 0..self.network.answers(purpose) {
            let at = self.network.arrival(self.now, node, lane.object != LEASE);
            let outcome = outcome.clone();
            let arrival = network::Arrival { node, instance, purpose, outcome };
            self.schedule(at, Happening::Answer(arrival));
        }
        Ok(())
    }

    fn answer(&mut self, arrival: network::Arrival) -> Result<(), String> {
        let node = arrival.node;
        let blocked = self.network.deaf_until(node).max(self.nodes[node].stopped_until);
        if blocked > self.now {
            self.schedule(blocked, Happening::Answer(arrival));
            return Ok(());
        }
        self.step(node, |process, now| {
            if process.instance() == arrival.instance {
                process.on_answer(now, arrival.purpose, arrival.outcome);
            }
        })
    }

    /// A client calls some process, which executes the call if it may.
    fn call(&mut self) -> Result<(), String> {
        let pause = nanos(10 + self.random.below(150));
        self.schedule(self.now + pause, Happening::Call);
        if self.is_quiet() && self.operations_before == 0 {
            self.operations_before = self.judge.next_operation();
        }
        let node = self.random.index(self.nodes.len());
        let now = self.nodes[node].local(self.now);
        let Some(process) = &self.nodes[node].process else { return Ok(()) };
        if self.nodes[node].stopped_until > self.now {
            return Ok(());
        }
        if !process.can_execute(now) {
            self.tally.paused += u64::from(process.phase() == Phase::Owner);
            return Ok(());
        }
        let has_room = self.is_quiet() || self.judge.next_operation() < OPERATIONS_MAX;
        let operation = (has_room && self.random.chance(2, 3)).then(|| self.judge.next_operation());
        self.tally.reads += u64::from(operation.is_none());
        self.judge.on_execution(process.epoch(), operation)?;
        let before = self.judge.acknowledged();
        self.step(node, |process, _| process.execute(operation, before))
    }

    /// The agent of a node releases a lease in the name of a process that has ended.
    fn release(&mut self, instance: u64) -> Result<(), String> {
        let read = self.store.execute(LEASE, &Operation::Read, Epoch::NONE)?;
        let objects::Outcome::Read(version, bytes) = read else { return Err("no lease".to_owned()) };
        let record = LeaseRecord::decode(&bytes).map_err(|damage| damage.to_string())?;
        if let Some(released) = record.released_for(instance) {
            let replace = Operation::Replace(version, released.encode());
            self.store.execute(LEASE, &replace, Epoch::NONE)?;
        }
        Ok(())
    }
}
