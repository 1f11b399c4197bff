//! Listings of one large directory, from its first name to its last, repeated. Each name counts as an operation, so
//! the rate is in names; the latency is that of a call, which returns many names.

use super::actor::{Actor, Begun, OperationCount};
use super::{Plan, Setup};
use crate::client::Handle;
use crate::client::cause::Cause;
use crate::client::outbox::{CallTag, Outbox};
use crate::client::reply::Reply;
use crate::client::request::{Position, Request};
use crate::error::LoadError;

/// The size of a reply.
const REPLY_BYTES: u32 = 128 << 10;

/// Files that are created at a time.
const MADE_AT_A_TIME: u64 = 10_000;

/// A listing in progress.
#[derive(Clone, Copy, Default)]
struct Listing {
    position: Position,
    /// Names so far, without `.` and `..`.
    names: u64,
    /// Names in the last reply.
    arrived: u64,
}

struct Readdir {
    directory: Handle,
    names: u64,
    plus: bool,
    listings: Vec<Listing>,
}

impl Actor for Readdir {
    fn enter(&mut self, _: usize) {
        self.listings.fill(Listing::default());
    }

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        self.send(lane, 0, out);
        Begun::Started
    }

    fn send(&mut self, lane: usize, _: u32, out: &mut Outbox<'_>) {
        let Listing { position, .. } = self.listings[lane];
        let (directory, plus, bytes) = (&self.directory, self.plus, REPLY_BYTES);
        out.call(CallTag::default(), &Request::Readdir { directory, position, bytes, plus });
    }

    fn reply(&mut self, lane: usize, _: u32, reply: Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        let listing = &mut self.listings[lane];
        let before = listing.names;
        let mut entries = 0;
        let listed = reply.listed(self.plus, &mut |cookie, name| {
            listing.position.cookie = cookie;
            entries += 1;
            listing.names += u64::from(name != b"." && name != b"..");
        })?;
        listing.arrived = listing.names - before;
        listing.position.verifier = listed.verifier;
        if !listed.eof {
            let words = "READDIR: no entries before the end";
            return if entries == 0 { Err(Cause::Wrong(words)) } else { Ok(0) };
        }
        let is_complete = listing.names == self.names;
        *listing = Listing { arrived: listing.arrived, ..Listing::default() };
        if is_complete { Ok(0) } else { Err(Cause::Wrong("READDIR: names are missing or listed twice")) }
    }

    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount {
        let listing = &mut self.listings[lane];
        let operations = listing.arrived;
        if !succeeded {
            *listing = Listing::default();
        }
        OperationCount { operations, phase: None }
    }
}

pub(super) fn plan(setup: &mut Setup<'_>, names: u64, plus: bool) -> Result<Plan, LoadError> {
    let directory = setup.client.make_directory(&setup.directory, "names")?;
    let mut made = 0;
    while made < names {
        let until = names.min(made + MADE_AT_A_TIME);
        let wanted: Vec<(Handle, String)> =
            (made..until).map(|name| (directory, format!("name-{name:08}"))).collect();
        setup.client.make_closed_files(&wanted)?;
        made = until;
        setup.has_made(made, names)?;
    }
    let listings = vec![Listing::default(); setup.depth as usize];
    let actor =
        |_| Box::new(Readdir { directory, names, plus, listings: listings.clone() }) as Box<dyn Actor>;
    Ok(Plan::timed((0..setup.threads).map(actor).collect()))
}
