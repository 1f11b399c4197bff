//! One call, repeated: NULL, GETATTR, ACCESS or LOOKUP.

use super::actor::{Actor, Begun, OperationCount};
use super::{Plan, RateProcedure, Setup};
use crate::client::Handle;
use crate::client::cause::Cause;
use crate::client::outbox::{CallTag, Outbox};
use crate::client::reply::{Plain, Reply};
use crate::client::request::{Place, Request};
use crate::error::LoadError;

struct Null;

impl Actor for Null {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        self.send(lane, 0, out);
        Begun::Started
    }

    fn send(&mut self, _: usize, _: u32, out: &mut Outbox<'_>) {
        out.null();
    }

    fn reply(&mut self, _: usize, _: u32, reply: Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        reply.plain(Plain::Null).map(|()| 0)
    }

    fn ended(&mut self, _: usize, _: bool) -> OperationCount {
        OperationCount::ONE
    }
}

/// Returns the plan of NULL calls.
pub(super) fn plan_null(threads: u32) -> Plan {
    Plan::timed((0..threads).map(|_| Box::new(Null) as Box<dyn Actor>).collect())
}

/// A call that reads attributes or looks up a name.
struct MetadataCall {
    procedure: RateProcedure,
    directory: Handle,
    name: String,
}

impl Actor for MetadataCall {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        self.send(lane, 0, out);
        Begun::Started
    }

    fn send(&mut self, _: usize, _: u32, out: &mut Outbox<'_>) {
        let place = Place { directory: &self.directory, name: self.name.as_bytes() };
        let request = match self.procedure {
            RateProcedure::Getattr => Request::Getattr(&self.directory),
            RateProcedure::Access => Request::Access(&self.directory),
            _ => Request::Lookup(place),
        };
        out.call(CallTag::default(), &request);
    }

    fn reply(&mut self, _: usize, _: u32, reply: Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        match self.procedure {
            RateProcedure::Getattr => reply.plain(Plain::Getattr)?,
            RateProcedure::Access => reply.plain(Plain::Access)?,
            RateProcedure::LookupMissing => match reply.found() {
                Err(cause) if cause.status().is_some_and(|status| status.is_missing()) => {}
                Err(cause) => return Err(cause),
                Ok(_) => return Err(Cause::Wrong("LOOKUP: found a name that does not exist")),
            },
            _ => {
                reply.found()?;
            }
        }
        Ok(0)
    }

    fn ended(&mut self, _: usize, _: bool) -> OperationCount {
        OperationCount::ONE
    }
}

/// Makes one file per thread for LOOKUP, and a state machine for each thread.
pub(super) fn plan(setup: &mut Setup<'_>, procedure: RateProcedure) -> Result<Plan, LoadError> {
    let names: Vec<(Handle, String)> =
        (0..setup.threads).map(|thread| (setup.directory, format!("f{thread}"))).collect();
    if procedure == RateProcedure::Lookup {
        setup.client.make_closed_files(&names)?;
    }
    let actor = |(directory, name)| Box::new(MetadataCall { procedure, directory, name }) as Box<dyn Actor>;
    Ok(Plan::timed(names.into_iter().map(actor).collect()))
}
