//! A takeover step by step: what the old owner had sent is executed at every boundary between two steps of the new one, and the
//! new one crashes at every step, so that a third takes over from both.

use std::collections::VecDeque;
use std::time::Duration;

use cluster::{Epoch, Phase, Time};

use super::journal::{Journal, Request};
use super::judge::Judge;
use super::objects::{Operation, Outcome, SimObjects};
use super::process::{Effect, Process, new_group};
use super::{Planted, Tally};

/// Steps after which a takeover must be over.
const STEPS_MAX: usize = 100;

/// What the old owner has under way beside an entry and a renewal.
const UNDER_WAY: [Checkpointing; 3] = [Checkpointing::Object, Checkpointing::Head, Checkpointing::Removal];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checkpointing {
    /// A checkpoint.
    Object,
    /// The head that names it.
    Head,
    /// The removal of the one before.
    Removal,
}

/// One way of a takeover.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    planted: Planted,
    checkpointing: Checkpointing,
    /// The step before which each call of the old owner is executed: of the checkpoint, the entry, the renewal.
    at: [usize; 3],
    /// The step before which the new owner crashes.
    crash: Option<usize>,
    /// How many steps later what it had sent is executed.
    late: usize,
    /// Whether the calls that the new owner has under way at the same time are executed in reverse order.
    reverse: bool,
}

/// Tries every boundary. Returns how many ways of a takeover there are, and what happened in them.
///
/// # Errors
/// The way in which something went wrong, and what.
pub fn every_boundary(planted: Planted) -> Result<(u64, Tally), String> {
    let (mut ways, mut tally) = (0, Tally::default());
    for checkpointing in UNDER_WAY {
        for reverse in [false, true] {
            let calm =
                Crossing { planted, checkpointing, at: [0, 0, STEPS_MAX], crash: None, late: 0, reverse };
            let steps = calm.run(&mut tally)?;
            for number in 0..(steps + 2).pow(3) {
                let at = [number, number / (steps + 2), number / (steps + 2).pow(2)];
                Crossing { at: at.map(|at| at % (steps + 2)), ..calm }.run(&mut tally)?;
                ways += 1;
            }
            for crash in 0..=steps {
                let with_crash = Crossing { crash: Some(crash), ..calm };
                let all = with_crash.run(&mut tally)? + 2;
                for number in 0..all * 9 {
                    let (checkpoint, entry, late) = (number % all, number / all % 3, number / all / 3);
                    let entry = [0, checkpoint, all - 1][entry];
                    // What the crashed owner sent is executed at once, in the middle of the next takeover, or after it.
                    let late = [0, 7, STEPS_MAX][late];
                    Crossing { at: [checkpoint, entry, checkpoint], late, ..with_crash }.run(&mut tally)?;
                    ways += 1;
                }
            }
        }
    }
    Ok((ways, tally))
}

impl Crossing {
    /// Returns the number of steps that the takeovers took.
    fn run(&self, tally: &mut Tally) -> Result<usize, String> {
        let mut bench = Bench::new(self.planted);
        let result = self.cross(&mut bench).map_err(|wrong| format!("{self:?}: {wrong}"));
        let acknowledged = bench.judge.acknowledged() as u64;
        tally.takeovers += u64::from(bench.judge.last_epoch().0);
        tally.executed += bench.judge.next_operation();
        tally.acknowledged += acknowledged;
        tally.lost += bench.judge.lost() as u64;
        tally.refused += bench.refused;
        result
    }

    fn cross(&self, bench: &mut Bench) -> Result<usize, String> {
        let mut old = bench.owner_with_calls_under_way(self.checkpointing)?;
        let mut waiting: Vec<(usize, Call)> = self.at.into_iter().zip(old.calls.drain(..)).collect();
        let mut new = bench.taker(1)?;
        let mut crashed: Vec<(usize, Call)> = Vec::new();
        let mut steps = 0;
        loop {
            // What the old owner sends after an answer came to it is executed before the next step.
            while let Some(call) = old.calls.pop_front() {
                bench.execute(&mut old, call)?;
            }
            while let Some(due) = waiting.iter().position(|(at, _)| *at <= steps) {
                let (_, call) = waiting.remove(due);
                bench.execute(&mut old, call)?;
            }
            while let Some(due) = crashed.iter().position(|(at, _)| *at <= steps) {
                let (_, call) = crashed.remove(due);
                bench.execute_late(&call)?;
            }
            if self.crash == Some(steps) {
                let sent = new.calls.drain(..);
                crashed.extend(sent.map(|call| (steps + 1 + self.late, call)));
                new = bench.taker(2)?;
            }
            let next = if self.reverse { new.calls.pop_back() } else { new.calls.pop_front() };
            match next {
                Some(call) => bench.execute(&mut new, call)?,
                None if bench.serve(&mut new)? => break,
                None => bench.wait(&mut new)?,
            }
            steps += 1;
            if steps > STEPS_MAX {
                return Err("the takeover does not end".to_owned());
            }
        }
        while let Some((_, call)) = waiting.pop() {
            bench.execute(&mut old, call)?;
        }
        while let Some((_, call)) = crashed.pop() {
            bench.execute_late(&call)?;
        }
        // The next owner finds everything as well.
        let mut last = bench.taker(3)?;
        while !bench.serve(&mut last)? {
            match last.calls.pop_front() {
                Some(call) => bench.execute(&mut last, call)?,
                None => bench.wait(&mut last)?,
            }
        }
        Ok(steps)
    }
}

/// A call under way.
#[derive(Clone, Debug)]
struct Call {
    author: Epoch,
    request: Request,
}

/// A process with the calls that it has under way.
struct Actor {
    process: Process,
    calls: VecDeque<Call>,
    /// Operations that it executed.
    executed: u64,
}

/// Processes, a store and a clock that all share.
struct Bench {
    planted: Planted,
    store: SimObjects,
    judge: Judge,
    now: Time,
    refused: u64,
}

impl Bench {
    fn new(planted: Planted) -> Bench {
        Bench { planted, store: new_group(), judge: Judge::default(), now: Time::ORIGIN, refused: 0 }
    }

    /// Starts a process that stands, and lets time pass until it takes the lease: this is its first call under way.
    fn taker(&mut self, node: usize) -> Result<Actor, String> {
        let instance = 100 + node as u64;
        let process = Process::start(node, instance, self.now, Duration::ZERO, self.planted);
        let mut actor = Actor { process, calls: VecDeque::new(), executed: 0 };
        loop {
            self.step(&mut actor)?;
            match actor.calls.pop_front() {
                Some(call) if matches!(call.request.operation, Operation::Replace(..)) => {
                    actor.calls.push_front(call);
                    return Ok(actor);
                }
                Some(call) => self.execute(&mut actor, call)?,
                None => self.wait(&mut actor)?,
            }
        }
    }

    /// Lets time pass until something is due, if the process has nothing under way.
    fn wait(&mut self, actor: &mut Actor) -> Result<(), String> {
        if actor.calls.is_empty() {
            self.now = actor.process.wake().ok_or("a taker gave up")?.max(self.now);
            self.step(actor)?;
        }
        Ok(())
    }

    /// Returns an owner that has three calls under way: of a checkpoint, of an entry, of a renewal.
    fn owner_with_calls_under_way(&mut self, checkpointing: Checkpointing) -> Result<Actor, String> {
        let mut owner = self.taker(0)?;
        let checkpoints = if checkpointing == Checkpointing::Removal { 2 } else { 1 };
        while owner.executed < 5 * checkpoints {
            while let Some(call) = owner.calls.pop_front() {
                self.execute(&mut owner, call)?;
            }
            self.operate(&mut owner)?;
        }
        // The last entry before the checkpoint.
        self.next_call(&mut owner)?;
        let before = match checkpointing {
            Checkpointing::Object => 0,
            Checkpointing::Head => 1,
            Checkpointing::Removal => 2,
        };
        for _ in 0..before {
            self.next_call(&mut owner)?;
        }
        self.operate(&mut owner)?;
        self.now = owner.process.wake().ok_or("an owner ended")?;
        self.step(&mut owner)?;
        if owner.calls.len() == 3 { Ok(owner) } else { Err(format!("under way are {:?}", owner.calls)) }
    }

    fn next_call(&mut self, actor: &mut Actor) -> Result<(), String> {
        let call = actor.calls.pop_front().ok_or("nothing is under way")?;
        self.execute(actor, call)
    }

    /// Executes an operation and a read, once the process has opened the group. Returns whether both were answered.
    fn serve(&mut self, actor: &mut Actor) -> Result<bool, String> {
        if !actor.process.journal().is_some_and(Journal::is_open) || !actor.calls.is_empty() {
            return Ok(false);
        }
        if actor.executed > 0 {
            return Ok(true);
        }
        self.operate(actor)?;
        Ok(false)
    }

    fn operate(&mut self, actor: &mut Actor) -> Result<(), String> {
        if !actor.process.can_execute(self.now) {
            return Err(format!("{:?} cannot execute", actor.process.phase()));
        }
        let before = self.judge.acknowledged();
        for operation in [Some(self.judge.next_operation()), None] {
            self.judge.on_execution(actor.process.epoch(), operation)?;
            actor.process.execute(operation, before);
        }
        actor.executed += 1;
        self.step(actor)
    }

    /// Executes a call and gives the process its answer.
    fn execute(&mut self, actor: &mut Actor, call: Call) -> Result<(), String> {
        let outcome = self.execute_late(&call)?;
        actor.process.on_answer(self.now, call.request.purpose, outcome);
        self.step(actor)
    }

    /// Executes a call whose process is gone.
    fn execute_late(&mut self, call: &Call) -> Result<Outcome, String> {
        let Request { object, operation, .. } = &call.request;
        let outcome = self.store.execute(object, operation, call.author)?;
        match (operation, &outcome) {
            (Operation::Replace(_, bytes), Outcome::Done(_)) => self.judge.on_lease(bytes)?,
            (Operation::Write { .. }, Outcome::Refused) => self.refused += 1,
            _ => {}
        }
        Ok(outcome)
    }

    fn step(&mut self, actor: &mut Actor) -> Result<(), String> {
        if matches!(actor.process.phase(), Phase::Ended(_)) {
            return Ok(());
        }
        for effect in actor.process.step(self.now) {
            let process = &actor.process;
            match effect {
                Effect::Call(request) => actor.calls.push_back(Call { author: process.epoch(), request }),
                Effect::Opened => {
                    let journal = process.journal().ok_or("nothing was opened")?;
                    self.judge.on_opened(process.epoch(), journal)?;
                }
                Effect::Reply(reply) => {
                    let journal = process.journal().ok_or("nothing was opened")?;
                    self.judge.on_reply(journal, reply)?;
                }
                Effect::ErrorReply => return Err("I4: a client is told of a lease that was lost".to_owned()),
                Effect::Wrong(wrong) if process.epoch() == self.judge.last_epoch() => return Err(wrong),
                Effect::Wrong(_) | Effect::Notify => {}
            }
        }
        Ok(())
    }
}
