//! Operations of NFSv4.2: COMPOUNDs as the Linux client sends them, in the slots of a session.

use sim::compound::{channel, create_session, exchange_id, putfh};
use wire::nfs4::compound::CompoundResReader;
use wire::nfs4::*;
use wire::xdr::Decoder;

use super::Server;
use super::stream::{After, GROUP, MANY, NAMES, Prepared, SMALL, SOME, Tree};
use super::stream::{name, scattered, scattered_offset};

/// The attributes of a file that the Linux client requests.
const ATTRIBUTES: AttrMask = AttrMask::of(&[
    Attr4::Type,
    Attr4::Change,
    Attr4::Size,
    Attr4::Fsid,
    Attr4::Fileid,
    Attr4::Mode,
    Attr4::Numlinks,
    Attr4::Owner,
    Attr4::OwnerGroup,
    Attr4::Rawdev,
    Attr4::SpaceUsed,
    Attr4::TimeAccess,
    Attr4::TimeMetadata,
    Attr4::TimeModify,
    Attr4::MountedOnFileid,
]);

/// A session of a new client, with a slot for each call in flight.
struct Session {
    id: SessionId4,
    made: usize,
}

fn slots() -> u32 {
    u32::try_from(GROUP).expect("a few")
}

/// Makes a call. Returns what `wanted` extracts from the result of its last operation.
fn call<T>(
    server: &mut Server,
    operations: &[ArgOp4<'_>],
    wanted: impl Fn(ResOp4<'_>) -> Option<T>,
) -> Result<T, String> {
    let record = server.compound(operations);
    let results = server.call(&record)?;
    let wrong = |error: wire::xdr::DecodeError| error.to_string();
    let mut reader = CompoundResReader::new(Decoder::new(&results)).map_err(wrong)?;
    let status = reader.status();
    let last = reader.by_ref().last().ok_or_else(|| format!("no results: {status:?}"))?.map_err(wrong)?;
    wanted(last).ok_or_else(|| format!("the last operation failed: {status:?}"))
}

impl Session {
    fn begin(server: &mut Server, client: &str) -> Result<Session, String> {
        let exchange = exchange_id(client.as_bytes(), [1; 8]);
        let (clientid, sequence) = call(server, &[exchange], |result| match result {
            ResOp4::ExchangeId(Ok(ok)) => Some((ok.clientid, ok.sequenceid)),
            _ => None,
        })?;
        let channel = channel(2 << 20, slots());
        let create = create_session(clientid, sequence, create_session_flag::PERSIST, (channel, channel));
        let id = call(server, &[create], |result| match result {
            ResOp4::CreateSession(Ok(ok)) => Some(ok.sessionid),
            _ => None,
        })?;
        let mut session = Session { id, made: 0 };
        let complete = [session.sequence(), ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })];
        call(server, &complete, |result| matches!(result, ResOp4::ReclaimComplete(Ok(()))).then_some(()))?;
        Ok(session)
    }

    /// Returns the SEQUENCE of the next request.
    fn sequence(&mut self) -> ArgOp4<'static> {
        let (slot, turn) = (self.made % GROUP, self.made / GROUP);
        self.made += 1;
        ArgOp4::Sequence(SequenceArgs {
            sessionid: self.id,
            sequenceid: u32::try_from(turn + 1).expect("a few thousand requests"),
            slotid: u32::try_from(slot).expect("a few slots"),
            highest_slotid: slots() - 1,
            cachethis: false,
        })
    }

    /// Returns calls, each with the operations and on the handle that `of` returns.
    fn calls<'a>(
        &mut self,
        server: &mut Server,
        count: usize,
        of: impl Fn(usize) -> (&'a [u8], Vec<ArgOp4<'a>>),
    ) -> Prepared {
        let mut records = Vec::new();
        for number in 0..count {
            let (handle, on_it) = of(number);
            let mut operations = vec![self.sequence(), putfh(handle)];
            operations.extend(on_it);
            records.push(server.compound(&operations));
        }
        let groups = records.chunks(GROUP).map(<[_]>::to_vec).collect();
        Prepared { count, groups, after: After::Nothing }
    }

    /// Returns the same calls after executing others like them, so that what they need is in memory.
    fn cached<'a>(
        &mut self,
        server: &mut Server,
        count: usize,
        of: impl Fn(usize) -> (&'a [u8], Vec<ArgOp4<'a>>),
    ) -> Result<Prepared, String> {
        let before = self.calls(server, count, &of);
        before.groups.iter().try_for_each(|group| server.serve(group))?;
        Ok(self.calls(server, count, of))
    }

    /// Opens a file by its handle, for reading and writing, without a delegation.
    fn open(&mut self, server: &mut Server, file: &[u8]) -> Result<Stateid4, String> {
        let operations = [self.sequence(), putfh(file), open(OpenClaim4::Fh)];
        call(server, &operations, |result| match result {
            ResOp4::Open(Ok(ok)) => Some(ok.stateid),
            _ => None,
        })
    }
}

fn attributes() -> ArgOp4<'static> {
    ArgOp4::Getattr(GetattrArgs { attr_request: ATTRIBUTES })
}

fn open(claim: OpenClaim4<'_>) -> ArgOp4<'_> {
    ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: 0,
        owner: StateOwner4 { clientid: ClientId4::default(), owner: OwnerId4(b"a process") },
        openhow: None,
        claim,
    })
}

pub(crate) fn getattr(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let mut session = Session::begin(server, "getattr")?;
    session.cached(server, MANY, |number| (&tree.files[number % tree.files.len()], vec![attributes()]))
}

/// Returns the names to look up or open.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| name(scattered(number, NAMES))).collect()
}

fn component(name: &str) -> Component4<'_> {
    Component4(name.as_bytes())
}

pub(crate) fn lookup(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let names = names(MANY);
    Session::begin(server, "lookup")?.cached(server, MANY, |number| {
        let lookup = ArgOp4::Lookup(LookupArgs { objname: component(&names[number]) });
        (&tree.full, vec![lookup, ArgOp4::Getfh, attributes()])
    })
}

pub(crate) fn open_close(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let names = names(SOME);
    Session::begin(server, "open")?.cached(server, SOME, |number| {
        let open = open(OpenClaim4::Null(component(&names[number])));
        let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: Stateid4::CURRENT });
        (&tree.full, vec![open, ArgOp4::Getfh, attributes(), close])
    })
}

pub(crate) fn read(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let mut session = Session::begin(server, "read")?;
    let stateid = session.open(server, &tree.files[0])?;
    session.cached(server, MANY, |number| {
        let offset = scattered_offset(number);
        (&tree.files[0], vec![ArgOp4::Read(ReadArgs { stateid, offset, count: SMALL })])
    })
}

pub(crate) fn write(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let mut session = Session::begin(server, "write")?;
    let opened: Result<Vec<_>, _> = tree.files.iter().map(|file| session.open(server, file)).collect();
    let (stateids, data) = (opened?, vec![7; SMALL as usize]);
    Ok(session.calls(server, SOME, |number| {
        let (file, offset) = (number % tree.files.len(), scattered_offset(number));
        let write =
            WriteArgs { stateid: stateids[file], offset, stable: StableHow4::FileSync, data: (&data).into() };
        (&tree.files[file], vec![ArgOp4::Write(write), attributes()])
    }))
}
