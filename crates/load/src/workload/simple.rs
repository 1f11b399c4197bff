//! One call, repeated: NULL, GETATTR, ACCESS or LOOKUP.

use wire::nfs3::{
    AccessArgs, AccessRes, DirOpArgs3, Filename3, GetattrArgs, GetattrRes, LookupArgs, LookupRes, NfsStat3,
    Procedure, access,
};

use super::actor::{Actor, Begun, Cause, OperationCount, Reply, ok};
use super::{Plan, RateProcedure, Setup};
use crate::client::Handle;
use crate::client::outbox::{CallTag, Outbox};
use crate::error::LoadError;

struct Null;

impl Actor for Null {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, _: usize, out: &mut Outbox<'_>) -> Begun {
        out.null();
        Begun::Started
    }

    fn reply(&mut self, _: usize, _: u32, reply: &Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        reply.decode::<()>(Procedure::Null).map(|()| 0)
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

impl MetadataCall {
    fn place(&self) -> DirOpArgs3<'_> {
        DirOpArgs3 { dir: self.directory.wire(), name: Filename3(self.name.as_bytes()) }
    }
}

impl Actor for MetadataCall {
    fn enter(&mut self, _: usize) {}

    fn begin(&mut self, _: usize, out: &mut Outbox<'_>) -> Begun {
        let part = CallTag::default();
        match self.procedure {
            RateProcedure::Getattr => {
                out.call(part, Procedure::Getattr, &GetattrArgs { object: self.directory.wire() });
            }
            RateProcedure::Access => {
                let args = AccessArgs { object: self.directory.wire(), access: access::ALL };
                out.call(part, Procedure::Access, &args);
            }
            _ => out.call(part, Procedure::Lookup, &LookupArgs { what: self.place() }),
        }
        Begun::Started
    }

    fn reply(&mut self, _: usize, _: u32, reply: &Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        match self.procedure {
            RateProcedure::Getattr => {
                ok(Procedure::Getattr, reply.decode::<GetattrRes>(Procedure::Getattr)?)?;
            }
            RateProcedure::Access => {
                ok(Procedure::Access, reply.decode::<AccessRes>(Procedure::Access)?)?;
            }
            RateProcedure::LookupMissing => match reply.decode::<LookupRes<'_>>(Procedure::Lookup)? {
                Err(failed) if failed.status == NfsStat3::NoEnt => {}
                Err(failed) => return Err(Cause::Status(Procedure::Lookup, failed.status)),
                Ok(_) => return Err(Cause::Wrong("LOOKUP: found a name that does not exist")),
            },
            _ => {
                ok(Procedure::Lookup, reply.decode::<LookupRes<'_>>(Procedure::Lookup)?)?;
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
        setup.client.make_many(Procedure::Create, &names)?;
    }
    let actor = |(directory, name)| Box::new(MetadataCall { procedure, directory, name }) as Box<dyn Actor>;
    Ok(Plan::timed(names.into_iter().map(actor).collect()))
}
