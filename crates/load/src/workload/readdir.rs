//! Listings of one large directory, from its first name to its last, repeated. Each name counts as an operation, so
//! the rate is in names; the latency is that of a call, which returns many names.

use wire::nfs3::{
    CookieVerf3, Filename3, Procedure, ReaddirArgs, ReaddirRes, ReaddirplusArgs, ReaddirplusRes,
};

use super::actor::{Actor, Begun, Cause, OperationCount, Reply, ok};
use super::{Plan, Setup};
use crate::client::Handle;
use crate::client::outbox::{CallTag, Outbox};
use crate::error::LoadError;

/// The size of a reply.
const REPLY_BYTES: u32 = 128 << 10;

/// Files that are created at a time.
const MADE_AT_A_TIME: u64 = 10_000;

/// A listing in progress.
#[derive(Clone, Copy, Default)]
struct Listing {
    cookie: u64,
    verifier: CookieVerf3,
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

impl Readdir {
    /// Records the entries of a reply. Fails if the listing ends with the wrong number of names.
    fn note<'a>(
        &mut self,
        lane: usize,
        verifier: CookieVerf3,
        entries: impl Iterator<Item = (u64, Filename3<'a>)>,
        eof: bool,
    ) -> Result<u64, Cause> {
        let listing = &mut self.listings[lane];
        let before = listing.names;
        let mut entries_in_reply = 0;
        for (cookie, name) in entries {
            listing.cookie = cookie;
            entries_in_reply += 1;
            listing.names += u64::from(name.0 != b"." && name.0 != b"..");
        }
        listing.arrived = listing.names - before;
        listing.verifier = verifier;
        if !eof {
            let words = "READDIR: no entries before the end";
            return if entries_in_reply == 0 { Err(Cause::Wrong(words)) } else { Ok(0) };
        }
        let complete = listing.names == self.names;
        *listing = Listing { arrived: listing.arrived, ..Listing::default() };
        if complete { Ok(0) } else { Err(Cause::Wrong("READDIR: names are missing or listed twice")) }
    }
}

impl Actor for Readdir {
    fn enter(&mut self, _: usize) {
        self.listings.fill(Listing::default());
    }

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        let Listing { cookie, verifier: cookieverf, .. } = self.listings[lane];
        let (dir, part) = (self.directory.wire(), CallTag { whole: true, ..CallTag::default() });
        if self.plus {
            let (dircount, maxcount) = (REPLY_BYTES, REPLY_BYTES);
            let args = ReaddirplusArgs { dir, cookie, cookieverf, dircount, maxcount };
            out.call(part, Procedure::Readdirplus, &args);
        } else {
            out.call(part, Procedure::Readdir, &ReaddirArgs { dir, cookie, cookieverf, count: REPLY_BYTES });
        }
        Begun::Started
    }

    fn reply(&mut self, lane: usize, _: u32, reply: &Reply<'_>, _: &mut Outbox<'_>) -> Result<u64, Cause> {
        if self.plus {
            let procedure = Procedure::Readdirplus;
            let listed = ok(procedure, reply.decode::<ReaddirplusRes<'_>>(procedure)?)?;
            let entries = listed.entries.iter().map(|entry| (entry.cookie, entry.name));
            self.note(lane, listed.cookieverf, entries, listed.eof)
        } else {
            let listed = ok(Procedure::Readdir, reply.decode::<ReaddirRes<'_>>(Procedure::Readdir)?)?;
            let entries = listed.entries.iter().map(|entry| (entry.cookie, entry.name));
            self.note(lane, listed.cookieverf, entries, listed.eof)
        }
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
        setup.client.make_many(Procedure::Create, &wanted)?;
        made = until;
        setup.has_made(made, names)?;
    }
    let listings = vec![Listing::default(); setup.depth as usize];
    let actor =
        |_| Box::new(Readdir { directory, names, plus, listings: listings.clone() }) as Box<dyn Actor>;
    Ok(Plan::timed((0..setup.threads).map(actor).collect()))
}
