//! Opening and closing an existing file, repeated: OPEN and CLOSE, or in NFSv3 what a client does instead: LOOKUP and ACCESS.
//! Each operation in flight has a file of its own.

use super::actor::{Actor, Begun, OperationCount};
use super::{Plan, Setup};
use crate::client::Handle;
use crate::client::cause::Cause;
use crate::client::outbox::{CallTag, Outbox};
use crate::client::reply::{Plain, Reply};
use crate::client::request::{File, Place, Request};
use crate::error::LoadError;

#[derive(Clone, Debug)]
struct Lane {
    name: String,
    /// The file, once it is open.
    file: Option<File>,
}

struct OpenClose {
    directory: Handle,
    lanes: Vec<Lane>,
}

impl Actor for OpenClose {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        self.lanes[lane].file = None;
        self.send(lane, 0, out);
        Begun::Started
    }

    fn send(&mut self, lane: usize, _: u32, out: &mut Outbox<'_>) {
        let Lane { name, file } = &self.lanes[lane];
        let place = Place { directory: &self.directory, name: name.as_bytes() };
        let request = match file {
            None => Request::Open(place),
            Some(file) if out.has_opens() => Request::Close(file),
            Some(file) => Request::Access(&file.handle),
        };
        out.call(CallTag::default(), &request);
    }

    fn reply(&mut self, lane: usize, _: u32, reply: Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        if self.lanes[lane].file.is_some() {
            return reply.plain(if out.has_opens() { Plain::Close } else { Plain::Access }).map(|()| 0);
        }
        let file = reply.opened()?.file.ok_or(Cause::Wrong("OPEN: no handle in the reply"))?;
        self.lanes[lane].file = Some(file);
        self.send(lane, 0, out);
        Ok(0)
    }

    fn ended(&mut self, _: usize, _: bool) -> OperationCount {
        OperationCount::ONE
    }
}

/// Makes the files, and a state machine for each thread.
pub(super) fn plan(setup: &mut Setup<'_>) -> Result<Plan, LoadError> {
    let mut actors: Vec<Box<dyn Actor>> = Vec::new();
    for thread in 0..setup.threads {
        let names: Vec<(Handle, String)> =
            (0..setup.depth).map(|lane| (setup.directory, format!("f{thread}-{lane}"))).collect();
        setup.client.make_closed_files(&names)?;
        setup.has_made(u64::from(thread) + 1, u64::from(setup.threads))?;
        let lanes = names.into_iter().map(|(_, name)| Lane { name, file: None }).collect();
        actors.push(Box::new(OpenClose { directory: setup.directory, lanes }));
    }
    Ok(Plan::timed(actors))
}
