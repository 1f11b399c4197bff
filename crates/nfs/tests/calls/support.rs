//! A server of one or two volumes in memory, and clients that call it.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs::charge::CopyTerms;
use nfs::exports::{Export, Squash};
use nfs::service::{
    ClockReading, Connection, ConnectionId, Incoming, IncomingRecord, KeptRecord, Outcome, Progress,
    Receiver, ReplyBuffer, Service, Wait,
};
use volume::ids::{Ino, VolumeId};
use volume::media::memory::MemoryMedia;
use volume::request::{Access, Credentials, Durable, Request};
use volume::time::Time;
use volume::{CreateOptions, OpenError, Options, Pool, Volume, VolumeOptions};
use wire::limits::RECORD_BYTES_MAX;
use wire::nfs3::{self, *};
use wire::record::{Peek, RecordError, peek};
use wire::rpc::{AcceptStat, AuthSys, CallHeader, Credential, Groups, OpaqueAuth, ReplyBody, ReplyHeader};
use wire::xdr::{Decode, Decoder, Encode, Encoder, decode_all};
use wire::{mount3, record};

/// The path of the export that tests use.
pub(crate) const PATH: &str = "/main";

/// A server.
pub(crate) struct Server {
    pub(crate) service: Service,
    pub(crate) volume: Arc<Volume>,
    pub(crate) media: Arc<MemoryMedia>,
    now: Cell<i64>,
    /// Seconds.
    wall_ahead: Cell<i64>,
    xid: Cell<u32>,
    /// How much a COPY may copy.
    pub(crate) copy_terms: Cell<CopyTerms>,
}

/// The address and the credential of a caller.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) credential: Credential<'static>,
}

impl Client {
    pub(crate) fn connection(&self) -> Connection {
        Connection { peer: self.peer, local: "192.0.2.2:2049".parse().unwrap(), id: ConnectionId(1) }
    }
}

/// A client with AUTH_SYS at 192.0.2.1.
pub(crate) fn client(uid: u32, gid: u32) -> Client {
    let groups = Groups::default();
    let credential = Credential::Sys(AuthSys { stamp: 1, machine_name: b"client", uid, gid, groups });
    Client { peer: "192.0.2.1:900".parse().unwrap(), credential }
}

/// The superuser of that client.
pub(crate) fn root() -> Client {
    client(0, 0)
}

/// An export of the volume that allows everything.
pub(crate) fn open_export() -> Export {
    Export { squash: Squash::None, ..Export::new(PATH, VolumeId(1)) }
}

fn create(id: u64) -> (Arc<MemoryMedia>, Arc<Volume>) {
    let media = MemoryMedia::always_powered(16 << 20, 4 << 30);
    let options = CreateOptions {
        pool: volume::ids::PoolId(1),
        journal_id: [7; 16],
        volume: VolumeOptions {
            id: VolumeId(id),
            name: "main".to_owned(),
            size: None,
            handle_secret: [u8::try_from(id).unwrap(); 16],
            root_mode: 0o755,
            root_owner: (0, 0),
        },
        now: Time::from_parts(1_700_000_000, 0),
    };
    Pool::create(media.as_ref(), &options).unwrap();
    let volume = open(&media);
    (media, volume)
}

fn open(media: &Arc<MemoryMedia>) -> Arc<Volume> {
    Arc::new(try_open(media).unwrap())
}

fn try_open(media: &Arc<MemoryMedia>) -> Result<Volume, OpenError> {
    let options = Options { memory: 64 << 20, segment_bytes: 4 << 20, cache_seed: Some(0) };
    Volume::open(Arc::clone(media) as _, &options, Time::from_parts(1_700_000_000, 1))
}

impl Server {
    /// Makes a server with the open export.
    pub(crate) fn new() -> Server {
        Server::with(vec![open_export()])
    }

    /// Makes a server of one volume with these exports.
    pub(crate) fn with(exports: Vec<Export>) -> Server {
        let (media, volume) = create(1);
        let service = Service::new(exports, vec![Arc::clone(&volume)]).unwrap();
        Server {
            service,
            volume,
            media,
            now: Cell::new(1_700_000_001),
            wall_ahead: Cell::new(0),
            xid: Cell::new(1000),
            copy_terms: Cell::new(CopyTerms::Free),
        }
    }

    /// Makes a server of a damaged volume, with the open export, if its root directory can be read.
    pub(crate) fn of_damaged(media: Arc<MemoryMedia>) -> Option<Server> {
        let volume = Arc::new(try_open(&media).ok()?);
        let credentials = Credentials::root();
        let now = Time::from_parts(1_700_000_001, 0);
        let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
        volume.attributes(&request, Ino::ROOT).ok()?;
        let service = Service::new(vec![open_export()], vec![Arc::clone(&volume)]).unwrap();
        Some(Server {
            service,
            volume,
            media,
            now: Cell::new(1_700_000_001),
            wall_ahead: Cell::new(0),
            xid: Cell::new(1000),
            copy_terms: Cell::new(CopyTerms::Free),
        })
    }

    /// Makes a server of two volumes, the second at `/other`.
    pub(crate) fn of_two() -> Server {
        Server::with_second_at("/other")
    }

    /// Makes a server of two volumes, the second at this path.
    pub(crate) fn with_second_at(path: &str) -> Server {
        let mut server = Server::new();
        let (_, other) = create(2);
        let second = Export { squash: Squash::None, ..Export::new(path, VolumeId(2)) };
        let volumes = vec![Arc::clone(&server.volume), other];
        server.service = Service::new(vec![open_export(), second], volumes).unwrap();
        server
    }

    /// Reopens the media as another process would after a kill.
    pub(crate) fn restarted(self) -> Server {
        let Server { service, volume, media, now, wall_ahead, xid, copy_terms } = self;
        drop((service, volume));
        let volume = open(&media);
        let service = Service::new(vec![open_export()], vec![Arc::clone(&volume)]).unwrap();
        let server = Server { service, volume, media, now, wall_ahead, xid, copy_terms };
        server.service.restore_state(server.clocks()).unwrap();
        server
    }

    /// The time of the last call.
    pub(crate) fn time(&self) -> Time {
        let milliseconds = Duration::from_millis(self.now.get().unsigned_abs());
        Time::from_parts(1_700_000_000, 0).plus(milliseconds)
    }

    /// What the clocks show at the last call.
    pub(crate) fn clocks(&self) -> ClockReading {
        let steady = self.time();
        let wall = Time::from_nanos(steady.nanos() + 1_000_000_000 * self.wall_ahead.get());
        ClockReading { wall, steady }
    }

    /// Sets the wall clock ahead of the other by seconds; negative ones set it back.
    pub(crate) fn set_wall_clock(&self, ahead: i64) {
        self.wall_ahead.set(ahead);
    }

    /// Advances the clocks by seconds.
    pub(crate) fn pass(&self, seconds: i64) {
        self.now.set(self.now.get() + seconds * 1000);
    }

    /// Replaces the configuration.
    pub(crate) fn export(&mut self, exports: Vec<Export>) {
        self.service = self.service.replaced_by(exports, vec![Arc::clone(&self.volume)]).unwrap();
    }

    /// Returns an unused xid.
    pub(crate) fn next_xid(&self) -> u32 {
        self.xid.set(self.xid.get() + 1);
        self.xid.get()
    }

    /// Handles a record once, a millisecond after the previous one.
    pub(crate) fn offer(&self, who: Client, record: &[u8], access: Access) -> (Outcome, Vec<u8>) {
        self.offer_again(who, record, access, &mut None)
    }

    /// Handles a record that may have been offered before.
    pub(crate) fn offer_again(
        &self,
        who: Client,
        record: &[u8],
        access: Access,
        progress: &mut Option<Progress>,
    ) -> (Outcome, Vec<u8>) {
        // What a loop reads first from a connection that sends large WRITEs.
        let received = self.receive_stream(&marked(record), 512, 64 << 10).unwrap();
        self.handle(who, &received.first().unwrap().decode(), access, progress)
    }

    /// Handles a record that was received whole.
    pub(crate) fn offer_whole(&self, who: Client, record: &[u8], access: Access) -> (Outcome, Vec<u8>) {
        self.handle(who, &IncomingRecord::decode(record), access, &mut None)
    }

    fn handle(
        &self,
        who: Client,
        record: &IncomingRecord<'_>,
        access: Access,
        progress: &mut Option<Progress>,
    ) -> (Outcome, Vec<u8>) {
        self.now.set(self.now.get() + 1);
        let connection =
            Connection { peer: who.peer, local: "192.0.2.2:2049".parse().unwrap(), id: ConnectionId(1) };
        let mut reply = ReplyBuffer::default();
        let copy_terms = self.copy_terms.get();
        let incoming = Incoming { record, connection, now: self.clocks(), access, copy_terms };
        let outcome = self.service.handle(&incoming, progress, &mut reply);
        (outcome, reply.into_bytes())
    }

    /// Holds a record, as rate limits do.
    pub(crate) fn hold(&self, who: Client, record: &[u8]) {
        self.service.note_held(&IncomingRecord::decode(record), &who.connection(), self.clocks());
    }

    /// Returns the volume whose limits a record counts for.
    pub(crate) fn charged(&self, who: Client, record: &[u8]) -> Option<VolumeId> {
        let charge = self.service.charge(&IncomingRecord::decode(record), &who.connection())?;
        charge.places().next().map(|place| place.volume)
    }

    /// Receives records, with large payloads apart: at first so many bytes, then others in each read.
    pub(crate) fn receive_stream(
        &self,
        mut stream: &[u8],
        first: usize,
        others: usize,
    ) -> Result<Vec<KeptRecord>, RecordError> {
        let mut receiver = Receiver::new(RECORD_BYTES_MAX);
        let (mut records, mut read_bytes) = (Vec::new(), first);
        while !stream.is_empty() {
            let mut input = &stream[..0];
            let received: usize = receiver
                .spaces(read_bytes)
                .iter_mut()
                .map(|space| {
                    let (bytes, rest) = stream.split_at(space.len().min(stream.len()));
                    space[..bytes.len()].copy_from_slice(bytes);
                    stream = rest;
                    bytes.len()
                })
                .sum();
            if received > 0 {
                receiver.received(received);
            } else {
                (input, stream) = stream.split_at(read_bytes.min(stream.len()));
            }
            while !input.is_empty() || receiver.has_completed() {
                let arriving = |start: &[u8], length| self.service.arriving(start, length);
                if let Some(arrived) = receiver.next(&mut input, arriving)? {
                    let record = IncomingRecord::decode_around(arrived.bytes, arrived.payload.as_ref());
                    records.push(record.to_kept());
                }
            }
            read_bytes = others;
        }
        Ok(records)
    }

    /// Executes a record as a server does: runs it again if it would block, and waits until its reply may be sent.
    pub(crate) fn serve(&self, who: Client, record: &[u8]) -> Vec<u8> {
        let (mut access, mut progress) = (Access::Cached, None);
        loop {
            let (outcome, mut out) = self.offer_again(who, record, access, &mut progress);
            match outcome {
                Outcome::Reply { after: None, .. } => return out,
                Outcome::Reply { after: Some(wait), .. } => {
                    self.wait_for(&wait);
                    if wait.pool.durability(wait.durability) == Durable::Failed {
                        out.clear();
                        let id = IncomingRecord::decode(record).id().unwrap();
                        self.service.failure_reply(id, &mut out);
                    }
                    return out;
                }
                Outcome::WouldBlock => access = Access::Blocking,
                Outcome::Busy(_) | Outcome::Later => self.work(&self.volume),
                other => panic!("no reply: {other:?}"),
            }
        }
    }

    /// Waits until it is known whether a reply may be sent.
    pub(crate) fn wait_for(&self, wait: &Wait) {
        while wait.pool.durability(wait.durability) == Durable::NotYet {
            self.work(&wait.pool);
        }
    }

    /// Handles the reply to a callback.
    pub(crate) fn receive(&self, who: Client, record: &[u8]) {
        let (outcome, _) = self.offer(who, record, Access::Cached);
        assert!(matches!(outcome, Outcome::Nothing), "{outcome:?}");
    }

    /// Runs the background steps of the first volume that are due.
    pub(crate) fn commit(&self) {
        self.work(&self.volume);
    }

    /// Runs the background steps that are due.
    fn work(&self, pool: &Pool) {
        let now = Time::from_parts(1_700_000_000 + self.now.get(), 0);
        pool.step_commit(now);
        pool.step_write_back(now, true, true);
        pool.step_checkpoint(now, false);
    }

    /// Calls a procedure. Returns the body of the reply.
    pub(crate) fn rpc(&self, who: Client, call: Call<'_>) -> (ReplyBody<'static>, Vec<u8>) {
        parse(&self.serve(who, &call.record(who)), call.xid)
    }

    /// Calls a procedure of NFS and decodes its result.
    pub(crate) fn call<T: Decode<'static>>(
        &self,
        who: Client,
        procedure: nfs3::Procedure,
        args: &impl Encode,
    ) -> T {
        self.call_as(self.next_xid(), who, procedure, args)
    }

    /// Calls a procedure of NFS with this xid.
    pub(crate) fn call_as<T: Decode<'static>>(
        &self,
        xid: u32,
        who: Client,
        procedure: nfs3::Procedure,
        args: &impl Encode,
    ) -> T {
        let args = encoded(args);
        let call = Call { xid, program: nfs3::PROGRAM, version: 3, procedure: procedure.code(), args: &args };
        results(self.rpc(who, call))
    }

    /// Calls a procedure of MOUNT and decodes its result.
    pub(crate) fn mount<T: Decode<'static>>(
        &self,
        who: Client,
        procedure: mount3::Procedure,
        args: &impl Encode,
    ) -> T {
        let args = encoded(args);
        let call = Call {
            xid: self.next_xid(),
            program: mount3::PROGRAM,
            version: 3,
            procedure: procedure.code(),
            args: &args,
        };
        results(self.rpc(who, call))
    }

    /// Returns the handle of the root directory.
    pub(crate) fn root(&self) -> FileHandle3<'static> {
        self.root_of(PATH)
    }

    /// Mounts `path` and returns its handle.
    pub(crate) fn root_of(&self, path: &str) -> FileHandle3<'static> {
        let path = mount3::DirPath(path.as_bytes());
        let mounted: mount3::MntRes<'_> = self.mount(root(), mount3::Procedure::Mnt, &path);
        mounted.unwrap().fhandle
    }

    /// Creates a file with this mode as `who`.
    pub(crate) fn create(
        &self,
        who: Client,
        dir: FileHandle3<'_>,
        name: &str,
        mode: u32,
    ) -> FileHandle3<'static> {
        let set = Sattr3 { mode: Some(mode), ..Sattr3::default() };
        let how = CreateHow3::Guarded(set);
        let created: CreateRes<'_> =
            self.call(who, nfs3::Procedure::Create, &CreateArgs { place: place(dir, name), how });
        created.unwrap().obj.unwrap()
    }

    /// Makes a directory with this mode as `who`.
    pub(crate) fn mkdir(
        &self,
        who: Client,
        dir: FileHandle3<'_>,
        name: &str,
        mode: u32,
    ) -> FileHandle3<'static> {
        let attributes = Sattr3 { mode: Some(mode), ..Sattr3::default() };
        let args = MkdirArgs { place: place(dir, name), attributes };
        let made: MkdirRes<'_> = self.call(who, nfs3::Procedure::Mkdir, &args);
        made.unwrap().obj.unwrap()
    }

    /// Returns the attributes of an object.
    pub(crate) fn getattr(&self, object: FileHandle3<'_>) -> Fattr3 {
        let res: GetattrRes = self.call(root(), nfs3::Procedure::Getattr, &GetattrArgs { object });
        res.unwrap().obj_attributes
    }

    /// Looks up a name.
    pub(crate) fn lookup(
        &self,
        who: Client,
        dir: FileHandle3<'_>,
        name: &str,
    ) -> Result<FileHandle3<'static>, NfsStat3> {
        let args = LookupArgs { what: place(dir, name) };
        let found: LookupRes<'_> = self.call(who, nfs3::Procedure::Lookup, &args);
        found.map(|found| found.object).map_err(|failed| failed.status)
    }

    /// Writes stably.
    pub(crate) fn write(&self, file: FileHandle3<'_>, offset: u64, data: &[u8]) -> WriteRes {
        let count = u32::try_from(data.len()).unwrap();
        let args = WriteArgs { file, offset, count, stable: StableHow::FileSync, data: data.into() };
        self.call(root(), nfs3::Procedure::Write, &args)
    }

    /// Reads.
    pub(crate) fn read(&self, file: FileHandle3<'_>, offset: u64, count: u32) -> ReadRes<'static> {
        self.call(root(), nfs3::Procedure::Read, &ReadArgs { file, offset, count })
    }
}

/// A call.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    pub(crate) args: &'a [u8],
}

impl Call<'_> {
    /// Encodes its record.
    pub(crate) fn record(&self, who: Client) -> Vec<u8> {
        let Call { xid, program, version, procedure, args } = *self;
        let (credential, verifier) = (who.credential, OpaqueAuth::NONE);
        let mut bytes = encoded(&CallHeader { xid, program, version, procedure, credential, verifier });
        bytes.extend_from_slice(args);
        bytes
    }
}

/// Returns a record with its mark, as one fragment.
pub(crate) fn marked(record: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    record::write_record(&mut stream, |out| out.raw(record));
    stream
}

/// Encodes a value.
pub(crate) fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// A name in a directory.
pub(crate) fn place<'a>(dir: FileHandle3<'a>, name: &'a str) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir, name: Filename3(name.as_bytes()) }
}

/// Splits a marked reply to `xid` into its header and results.
pub(crate) fn parse(out: &[u8], xid: u32) -> (ReplyBody<'static>, Vec<u8>) {
    let Ok(Peek::Complete { record, used }) = peek(out, RECORD_BYTES_MAX) else {
        panic!("no whole record");
    };
    assert_eq!(used, out.len(), "one reply and nothing else");
    assert_eq!(used, record.len() + record::MARK_BYTES);
    let mut input = Decoder::new(record);
    let header = ReplyHeader::decode(&mut input).unwrap();
    assert_eq!(header.xid, xid);
    let body = match header.body {
        ReplyBody::Accepted { stat, .. } => ReplyBody::Accepted { verifier: OpaqueAuth::NONE, stat },
        ReplyBody::Denied(denied) => ReplyBody::Denied(denied),
    };
    (body, input.rest().to_vec())
}

/// Decodes the results of an accepted call, and leaks them so that tests need not hold them.
pub(crate) fn results<T: Decode<'static>>((body, results): (ReplyBody<'static>, Vec<u8>)) -> T {
    assert_eq!(body, ReplyHeader::accepted(0, AcceptStat::Success).body);
    decode_all(results.leak()).unwrap()
}

/// Checks that an operation that failed reports the same attributes before and after it.
pub(crate) fn assert_unchanged(wcc: WccData) -> Fattr3 {
    let after = wcc.after.unwrap();
    assert_eq!(wcc.before, Some(WccAttr::from(after)));
    after
}
