//! CREATE of an empty file, then REMOVE, repeated. All threads share one directory.

use std::fmt::Write as _;

use wire::nfs3::{
    CreateArgs, CreateHow3, CreateRes, DirOpArgs3, Filename3, Procedure, RemoveArgs, RemoveRes,
};

use super::actor::{Actor, Begun, Cause, OperationCount, Reply, ok};
use super::{Plan, Setup};
use crate::client::outbox::{CallTag, Outbox};
use crate::client::{Handle, mode};
use crate::error::LoadError;

const PHASES: &[&str] = &["CREATE", "REMOVE"];
const CREATE: u8 = 0;
const REMOVE: u8 = 1;

struct CreateRemove {
    directory: Handle,
    thread: u32,
    /// The number of the next file.
    next: u64,
    /// For each lane: the file, and whether it exists.
    files: Vec<(u64, bool)>,
    /// A buffer for names.
    name: String,
}

impl Actor for CreateRemove {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        let (file, is_there) = &mut self.files[lane];
        if !*is_there {
            *file = self.next;
            self.next += 1;
        }
        self.name.clear();
        write!(self.name, "{}-{file}", self.thread).expect("a String takes any text");
        let object = DirOpArgs3 { dir: self.directory.wire(), name: Filename3(self.name.as_bytes()) };
        if *is_there {
            out.call(CallTag::default(), Procedure::Remove, &RemoveArgs { object });
        } else {
            let args = CreateArgs { place: object, how: CreateHow3::Unchecked(mode(0o644)) };
            out.call(CallTag::default(), Procedure::Create, &args);
        }
        Begun::Started
    }

    fn reply(&mut self, lane: usize, _: u32, reply: &Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        if self.files[lane].1 {
            ok(Procedure::Remove, reply.decode::<RemoveRes>(Procedure::Remove)?)?;
        } else {
            ok(Procedure::Create, reply.decode::<CreateRes<'_>>(Procedure::Create)?)?;
        }
        Ok(0)
    }

    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount {
        let (_, is_there) = &mut self.files[lane];
        let phase = if *is_there { REMOVE } else { CREATE };
        // The clean-up removes files whose REMOVE failed.
        *is_there = succeeded && phase == CREATE;
        OperationCount { operations: 1, phase: Some(phase) }
    }
}

pub(super) fn plan(setup: &mut Setup<'_>) -> Result<Plan, LoadError> {
    let files = vec![(0, false); setup.depth as usize];
    let actors = (0..setup.threads).map(|thread| {
        let (directory, files) = (setup.directory, files.clone());
        Box::new(CreateRemove { directory, thread, next: 0, files, name: String::new() }) as Box<dyn Actor>
    });
    Ok(Plan { phases: PHASES, ..Plan::timed(actors.collect()) })
}
