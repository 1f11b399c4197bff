//! A server without network and threads: the NFS service, a volume in memory, and the steps of the server's threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs::charge::CopyTerms;
use nfs::service::{Connection, ConnectionId, Incoming, IncomingRecord, Outcome, ReplyBuffer, Service, Wait};
use sim::{compound, rpc};
use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::media::memory::MemoryMedia;
use volume::quota::{Limit, Limits, Owner, QuotaKind};
use volume::request::{Access, Durable};
use volume::time::Time;
use volume::{CreateOptions, Options, Pool, Progress, Volume, VolumeOptions};
use wire::mount3::{self, DirPath, MntRes};
use wire::nfs3::{self, Procedure};
use wire::nfs4::{self, ArgOp4};
use wire::record::MARK_BYTES;
use wire::rpc::{AuthSys, Groups, SUCCESS_BYTES};
use wire::xdr::{Encode, Encoder, decode_all};

const START_SECONDS: i64 = 1_700_000_000;
const MEMORY_BYTES: u64 = 256 << 20;
const SEGMENT_BYTES: u64 = 16 << 20;
const LOG_BYTES: usize = 64 << 20;
const DEVICE_BYTES: u64 = 8 << 30;

/// The record of a call, without its mark.
pub(crate) type Record = Vec<u8>;

/// The server and the state of its only client.
pub(crate) struct Server {
    media: Arc<MemoryMedia>,
    volume: Arc<Volume>,
    service: Service,
    connection: Connection,
    /// The user and the group that call.
    caller: u32,
    now: Time,
    xid: u32,
    reply: ReplyBuffer,
    waits: Vec<Wait>,
}

fn open(media: &Arc<MemoryMedia>, now: Time) -> Result<(Arc<Volume>, Service), String> {
    let options = Options { memory: MEMORY_BYTES, segment_bytes: SEGMENT_BYTES, cache_seed: Some(0) };
    let volume = Volume::open(Arc::clone(media) as _, &options, now)
        .map(Arc::new)
        .map_err(|error| error.to_string())?;
    let service = rpc::service(&volume)?;
    Ok((volume, service))
}

impl Server {
    /// Returns a server with an empty volume.
    pub(crate) fn new() -> Result<Server, String> {
        let media = MemoryMedia::always_powered(LOG_BYTES, DEVICE_BYTES);
        let now = Time::from_parts(START_SECONDS, 0);
        let options = CreateOptions {
            pool: volume::ids::PoolId(1),
            journal_id: [2; 16],
            volume: VolumeOptions {
                id: VolumeId(1),
                name: "main".to_owned(),
                size: None,
                handle_secret: [1; 16],
                root_mode: 0o755,
                root_owner: (0, 0),
            },
            now,
        };
        Pool::create(media.as_ref(), &options).map_err(|error| error.to_string())?;
        let (volume, service) = open(&media, now)?;
        let address = |last| SocketAddr::from(([192, 0, 2, last], 900));
        let connection = Connection { peer: address(1), local: address(2), id: ConnectionId(1) };
        let (reply, waits) = (ReplyBuffer::default(), Vec::new());
        Ok(Server { media, volume, service, connection, caller: 0, now, xid: 0, reply, waits })
    }

    /// Reopens the volume: nothing is in memory.
    pub(crate) fn reopened(self) -> Result<Server, String> {
        self.volume.close(self.now).map_err(|error| error.to_string())?;
        let Server { media, volume, service, connection, caller, now, xid, reply, waits } = self;
        drop((volume, service));
        let (volume, service) = open(&media, now)?;
        Ok(Server { media, volume, service, connection, caller, now, xid, reply, waits })
    }

    /// Has another user and group make the calls.
    pub(crate) fn set_caller(&mut self, caller: u32) {
        self.caller = caller;
    }

    /// Makes an empty directory a quota tree.
    pub(crate) fn make_tree(&mut self, directory: &[u8]) -> Result<Owner, String> {
        let handle = Handle::parse(directory).ok_or("not a handle")?;
        let made = self.volume.create_tree(handle.ino, self.now).map_err(|error| format!("{error:?}"))?;
        Ok(Owner::new(QuotaKind::Tree, made.0.root.0))
    }

    /// Limits what owners use, to more than they ever will.
    pub(crate) fn limit(&mut self, owners: [Owner; 4]) -> Result<(), String> {
        let most = Limit { soft: Some(1 << 50), hard: Some(1 << 60) };
        let limits = Some(Limits { bytes: most, inodes: most });
        for owner in owners {
            self.volume.set_quota(owner, limits, self.now).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Returns the record of an NFSv3 call.
    pub(crate) fn record(&mut self, procedure: Procedure, arguments: &impl Encode) -> Record {
        self.record_of(nfs3::PROGRAM, nfs3::VERSION, procedure.code(), |out| arguments.encode(out))
    }

    /// Returns the record of an NFSv4.2 COMPOUND.
    pub(crate) fn compound(&mut self, operations: &[ArgOp4<'_>]) -> Record {
        self.record_of(nfs4::PROGRAM, nfs4::VERSION, nfs4::Procedure::Compound.code(), |out| {
            compound::encode(out, 2, operations);
        })
    }

    fn record_of(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        arguments: impl FnOnce(&mut Encoder<'_>),
    ) -> Record {
        self.xid += 1;
        let groups = Groups::default();
        let (uid, gid) = (self.caller, self.caller);
        let caller = AuthSys { stamp: 1, machine_name: b"client", uid, gid, groups };
        let mut record = rpc::call_header(self.xid, program, version, procedure, caller);
        let mut encoder = Encoder::new(&mut record);
        arguments(&mut encoder);
        record
    }

    /// Executes calls that are in flight together, and lets their replies leave.
    pub(crate) fn serve(&mut self, records: &[Record]) -> Result<(), String> {
        for record in records {
            self.execute(record)?;
        }
        self.finish_group()
    }

    fn execute(&mut self, record: &[u8]) -> Result<(), String> {
        self.now = self.now.plus(Duration::from_micros(1));
        self.reply.bytes.clear();
        self.reply.tail.clear();
        let record = &IncomingRecord::decode(record);
        let mut progress = None;
        for access in [Access::Cached, Access::Blocking] {
            let incoming = Incoming {
                record,
                connection: self.connection,
                now: self.now.into(),
                access,
                copy_terms: CopyTerms::Free,
            };
            match self.service.handle(&incoming, &mut progress, &mut self.reply) {
                Outcome::Reply { after, .. } => {
                    self.waits.extend(after);
                    return Ok(());
                }
                Outcome::WouldBlock => {}
                other => return Err(format!("no reply: {other:?}")),
            }
        }
        Err("a call that may block would block".to_owned())
    }

    /// Runs the steps of the volume's threads: write-back if a COMMIT waits for it, and a commit.
    fn finish_group(&mut self) -> Result<(), String> {
        while self.volume.step_commit(self.now) == Progress::Worked {}
        let is_waiting = |wait: &Wait| wait.pool.durability(wait.durability) == Durable::NotYet;
        while self.waits.iter().any(is_waiting)
            && self.volume.step_write_back(self.now, false, true) == Progress::Worked
        {}
        for wait in self.waits.drain(..) {
            if wait.pool.durability(wait.durability) != Durable::Yes {
                return Err("a reply may not leave after all steps were done".to_owned());
            }
        }
        Ok(())
    }

    /// Writes back all unstable data.
    pub(crate) fn write_back(&mut self) {
        while self.volume.step_write_back(self.now, true, true) == Progress::Worked {}
    }

    /// Makes a checkpoint if anything has changed.
    pub(crate) fn checkpoint(&mut self) {
        while self.volume.step_checkpoint(self.now, true) == Progress::Worked {}
    }

    /// Makes one call. Returns its results, without the header.
    pub(crate) fn call(&mut self, record: &Record) -> Result<Vec<u8>, String> {
        self.serve(std::slice::from_ref(record))?;
        let results = self.reply.bytes.get(MARK_BYTES + SUCCESS_BYTES..).ok_or("a reply without results")?;
        let mut results = results.to_vec();
        self.reply.tail.iter().for_each(|slice| results.extend_from_slice(slice));
        Ok(results)
    }

    /// Returns the handle of the root directory.
    pub(crate) fn mount(&mut self) -> Result<Vec<u8>, String> {
        let mnt = mount3::Procedure::Mnt.code();
        let record = self.record_of(mount3::PROGRAM, mount3::VERSION, mnt, |out| {
            DirPath(rpc::PATH.as_bytes()).encode(out)
        });
        let results = self.call(&record)?;
        let mounted: MntRes<'_> = decode_all(&results).map_err(|error| error.to_string())?;
        mounted.map(|it| it.fhandle.as_bytes().to_vec()).map_err(|status| format!("MNT: {status:?}"))
    }

    /// Whether the last reply reports success; a reply to NULL has no results.
    pub(crate) fn succeeded(&self) -> bool {
        match self.reply.bytes.get(MARK_BYTES + SUCCESS_BYTES..) {
            Some([]) => true,
            Some(results) => results.starts_with(&[0; 4]),
            None => false,
        }
    }
}
