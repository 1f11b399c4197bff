//! CREATE of an empty file, then REMOVE, repeated. All threads share one directory. Where files are opened, creating one
//! is an OPEN and a CLOSE.

use std::fmt::Write as _;

use super::actor::{Actor, Begun, OperationCount};
use super::{Plan, Setup};
use crate::client::Handle;
use crate::client::cause::Cause;
use crate::client::outbox::{CallTag, Outbox};
use crate::client::reply::{Plain, Reply};
use crate::client::request::{File, IfExists, Place, Request};
use crate::error::LoadError;

const PHASES: &[&str] = &["CREATE", "REMOVE"];
const CREATE: u8 = 0;
const REMOVE: u8 = 1;

/// The call that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Close,
    Remove,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    number: u64,
    /// Whether the file exists between operations.
    exists: bool,
    step: Step,
    file: Option<File>,
}

struct CreateRemove {
    directory: Handle,
    thread: u32,
    /// The number of the next file.
    next: u64,
    lanes: Vec<Lane>,
    /// A buffer for names.
    name: String,
}

impl Actor for CreateRemove {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        let state = &mut self.lanes[lane];
        state.step = Step::Remove;
        if !state.exists {
            (state.number, state.step) = (self.next, Step::Create);
            self.next += 1;
        }
        self.send(lane, 0, out);
        Begun::Started
    }

    fn send(&mut self, lane: usize, _: u32, out: &mut Outbox<'_>) {
        let Lane { number, step, file, .. } = &self.lanes[lane];
        self.name.clear();
        write!(self.name, "{}-{number}", self.thread).expect("a String takes any text");
        let place = Place { directory: &self.directory, name: self.name.as_bytes() };
        match (step, file) {
            (Step::Remove, _) => out.call(CallTag::default(), &Request::Remove(place)),
            (Step::Close, Some(file)) => out.call(CallTag::default(), &Request::Close(file)),
            _ => out.call(CallTag::default(), &Request::Create(place, IfExists::Open)),
        }
    }

    fn reply(&mut self, lane: usize, _: u32, reply: Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        match self.lanes[lane].step {
            Step::Remove => reply.plain(Plain::Remove)?,
            Step::Close => reply.plain(Plain::Close)?,
            Step::Create => {
                self.lanes[lane].file = reply.created()?.file;
                if out.has_opens() {
                    self.lanes[lane].step = Step::Close;
                    self.send(lane, 0, out);
                }
            }
        }
        Ok(0)
    }

    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount {
        let state = &mut self.lanes[lane];
        let phase = if state.step == Step::Remove { REMOVE } else { CREATE };
        // The clean-up removes files whose REMOVE failed.
        state.exists = succeeded && phase == CREATE;
        OperationCount { operations: 1, phase: Some(phase) }
    }
}

pub(super) fn plan(setup: &mut Setup<'_>) -> Result<Plan, LoadError> {
    let lane = Lane { number: 0, exists: false, step: Step::Create, file: None };
    let lanes = vec![lane; setup.depth as usize];
    let actors = (0..setup.threads).map(|thread| {
        let (directory, lanes) = (setup.directory, lanes.clone());
        Box::new(CreateRemove { directory, thread, next: 0, lanes, name: String::new() }) as Box<dyn Actor>
    });
    Ok(Plan { phases: PHASES, ..Plan::timed(actors.collect()) })
}
