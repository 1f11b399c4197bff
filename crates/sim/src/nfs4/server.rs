//! The server: a service on a volume on simulated media, parked replies, and crashes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nfs::charge::CopyTerms;
use nfs::service::{
    ClockReading, Connection, ConnectionId, Incoming, IncomingRecord, Outcome, Progress, ReplyBuffer,
    Service, Wait,
};
use volume::Volume;
use volume::attributes::SetAttributes;
use volume::handle::Handle;
use volume::ids::Ino;
use volume::request::{Access, Credentials, Durable, Journaled, Request};
use volume::results::CreateHow;
use volume::time::Time;

use crate::engine::list;
use crate::engine::read_bytes;
use crate::engine::{START, Sizes, create, open};
use crate::media::{SimMedia, Survival};
use crate::random::Random;
use crate::rpc;

/// The length of a lease.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Memory for what clients hold: little, so that an adversary reaches the limits, but enough for the slots that clients ask for.
const STATE_BYTES: u64 = 6 << 20;

/// A request in flight.
#[derive(Debug)]
pub(super) struct SentRequest {
    /// The number of the call.
    pub(super) call: usize,
    pub(super) record: Vec<u8>,
    pub(super) connection: Connection,
    /// When the server received it; 0 before that.
    pub(super) received_at: i64,
}

/// A call that must wait.
struct PendingCall {
    sent: SentRequest,
    access: Access,
    progress: Option<Progress>,
}

/// An encoded reply.
pub(super) struct Reply {
    pub(super) call: usize,
    /// When the server received the request.
    pub(super) received_at: i64,
    pub(super) connection: ConnectionId,
    pub(super) bytes: Vec<u8>,
    after: Option<Wait>,
}

/// A running server.
pub(super) struct Server {
    pub(super) media: SimMedia,
    sizes: Sizes,
    volume: Arc<Volume>,
    pub(super) service: Service,
    pending: Vec<PendingCall>,
    parked: Vec<Reply>,
    /// The boundary at which the server dies.
    dies_at: u64,
    /// How far the wall clock is ahead of the other, in nanoseconds.
    wall_ahead: i64,
}

fn service(volume: &Arc<Volume>, clocks: ClockReading) -> Result<Service, String> {
    let service = rpc::service(volume)?.with_lease(LEASE).with_state_bytes(STATE_BYTES);
    service.restore_state(clocks).map_err(|error| format!("restore_state: {error:?}"))?;
    Ok(service)
}

impl Server {
    /// Returns a server on new media, with these files in the root.
    pub(super) fn new(files: &[String], random: &mut Random) -> Result<Server, String> {
        let sizes = Sizes::draw(random);
        let media = SimMedia::new(sizes.log_bytes, sizes.capacity, random.fork());
        create(&media)?;
        let volume = open(&media, &sizes, START)?;
        let credentials = Credentials::root();
        for name in files {
            let now = Time::from_nanos(START + 1_000_000);
            let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
            let how = CreateHow::Guarded(SetAttributes { mode: Some(0o666), ..SetAttributes::default() });
            let mut encode = |_: &_| Journaled::default();
            volume
                .create_file(&request, Ino::ROOT, name.as_bytes(), &how, &mut encode)
                .map_err(|failure| format!("creating {name}: {:?}", failure.error))?;
            volume.step_commit(now);
        }
        let service = service(&volume, Time::from_nanos(START + 2_000_000).into())?;
        let (pending, parked) = (Vec::new(), Vec::new());
        Ok(Server { media, sizes, volume, service, pending, parked, dies_at: u64::MAX, wall_ahead: 0 })
    }

    /// Sets the wall clock ahead of the other, or back.
    pub(super) fn set_wall_clock(&mut self, seconds: i64) {
        self.wall_ahead = seconds * 1_000_000_000;
    }

    /// Returns what the clocks show.
    pub(super) fn clocks(&self, now: i64) -> ClockReading {
        ClockReading { wall: self.wall(now), steady: Time::from_nanos(now) }
    }

    fn wall(&self, now: i64) -> Time {
        Time::from_nanos(now + self.wall_ahead)
    }

    /// Returns the handle of a name in the root.
    pub(super) fn handle_of(&self, name: &str, now: i64) -> Result<Vec<u8>, String> {
        let listed = list(&self.volume, Ino::ROOT.0, now)?;
        let found = listed.iter().find(|entry| entry.name == name.as_bytes());
        let found = found.ok_or_else(|| format!("{name} does not exist"))?;
        Ok(self.volume.handle(Ino(found.ino)).to_bytes().to_vec())
    }

    /// Returns the handle of the root.
    pub(super) fn root(&self) -> Vec<u8> {
        self.volume.handle(Ino::ROOT).to_bytes().to_vec()
    }

    /// Executes a request.
    pub(super) fn take(&mut self, sent: SentRequest, now: i64) -> Result<Option<Reply>, String> {
        let sent = SentRequest { received_at: now, ..sent };
        self.execute(PendingCall { sent, access: Access::Cached, progress: None }, now)
    }

    fn execute(&mut self, mut pending: PendingCall, now: i64) -> Result<Option<Reply>, String> {
        let PendingCall { sent, access, progress } = &mut pending;
        let mut reply = ReplyBuffer::default();
        let record = &IncomingRecord::decode(&sent.record);
        let now = self.clocks(now);
        let incoming = Incoming {
            record,
            connection: sent.connection,
            now,
            access: *access,
            copy_terms: CopyTerms::Free,
        };
        let outcome = self.service.handle(&incoming, progress, &mut reply);
        let bytes = reply.into_bytes();
        match outcome {
            Outcome::Reply { after, .. } => {
                let (call, received_at, connection) = (sent.call, sent.received_at, sent.connection.id);
                return Ok(Some(Reply { call, received_at, connection, bytes, after }));
            }
            Outcome::WouldBlock if bytes.is_empty() => pending.access = Access::Blocking,
            Outcome::Busy(_) | Outcome::Later if bytes.is_empty() => {}
            other => return Err(format!("{} bytes of a reply, and {other:?}", bytes.len())),
        }
        self.pending.push(pending);
        Ok(None)
    }

    /// Executes a request that must be refused before anything has to wait. Returns the reply; none if it was postponed.
    ///
    /// # Errors
    /// Part of it was executed.
    pub(super) fn probe(
        &self,
        record: &[u8],
        connection: Connection,
        now: i64,
    ) -> Result<Option<Vec<u8>>, String> {
        let mut progress = None;
        for access in [Access::Cached, Access::Blocking] {
            let mut reply = ReplyBuffer::default();
            let record = &IncomingRecord::decode(record);
            let incoming =
                Incoming { record, connection, now: self.clocks(now), access, copy_terms: CopyTerms::Free };
            match self.service.handle(&incoming, &mut progress, &mut reply) {
                Outcome::Reply { .. } => return Ok(Some(reply.into_bytes())),
                Outcome::WouldBlock => {}
                _ if progress.is_some() => return Err("it was executed in part".to_owned()),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Resumes one of the calls that wait.
    pub(super) fn resume_one(&mut self, random: &mut Random, now: i64) -> Result<Option<Reply>, String> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let chosen = random.index(self.pending.len());
        let pending = self.pending.swap_remove(chosen);
        self.execute(pending, now)
    }

    /// Returns the number of calls that wait.
    pub(super) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Parks a reply until it may leave.
    pub(super) fn park(&mut self, written: Reply) {
        self.parked.push(written);
    }

    /// Returns the replies that may leave.
    pub(super) fn release(&mut self) -> Result<Vec<Reply>, String> {
        let mut left = Vec::new();
        for written in std::mem::take(&mut self.parked) {
            let state =
                written.after.as_ref().map_or(Durable::Yes, |wait| wait.pool.durability(wait.durability));
            match state {
                Durable::Yes => left.push(written),
                Durable::NotYet => self.parked.push(written),
                Durable::Failed if self.is_dead() => {}
                Durable::Failed => return Err("a reply failed without a fault".to_owned()),
            }
        }
        Ok(left)
    }

    /// Closes a connection: its calls end, or continue without a receiver.
    pub(super) fn close(&mut self, connection: ConnectionId, random: &mut Random) {
        self.service.connection_closed(connection);
        let of_it = |pending: &PendingCall| pending.sent.connection.id == connection;
        self.pending.retain(|pending| !of_it(pending) || random.chance(1, 2));
    }

    /// Runs one of the engine's background steps.
    pub(super) fn background(&self, random: &mut Random, now: i64) {
        let now = self.wall(now);
        match random.below(20) {
            0 => drop(self.volume.step_checkpoint(now, random.chance(1, 4))),
            1 | 2 => drop(self.volume.step_write_back(now, random.chance(1, 2), true)),
            3 => drop(self.volume.step_clean(now, true)),
            _ => drop(self.volume.step_commit(now)),
        }
    }

    /// Runs all background steps.
    pub(super) fn run_all_steps(&self, now: i64) {
        let now = self.wall(now);
        let _ = self.volume.step_write_back(now, true, true);
        let _ = self.volume.step_commit(now);
        let _ = self.volume.step_checkpoint(now, false);
    }

    /// Stops all changes of media after this many boundaries.
    pub(super) fn die_in(&mut self, boundaries: u64) {
        self.dies_at = self.media.boundaries_passed() + boundaries;
        self.media.die_at(self.dies_at);
    }

    /// Cancels the planned death.
    pub(super) fn cancel_death(&mut self) {
        self.dies_at = u64::MAX;
        self.media.die_at(self.dies_at);
    }

    /// Drops a call that waits.
    pub(super) fn forget(&mut self, call: usize) {
        self.pending.retain(|pending| pending.sent.call != call);
    }

    /// Whether the planned boundary was reached.
    pub(super) fn is_dead(&self) -> bool {
        self.media.boundaries_passed() >= self.dies_at
    }

    /// Starts a new process on what a crash leaves of the media.
    pub(super) fn crash(&mut self, random: &mut Random, now: i64) -> Result<Survival, String> {
        let survival = Survival::draw(random);
        let disk = self.media.disk().crash(random, survival);
        self.pending.clear();
        self.parked.clear();
        self.media = SimMedia::of(disk, self.sizes.capacity, random.fork());
        self.dies_at = u64::MAX;
        self.volume = open(&self.media, &self.sizes, self.wall(now).nanos()).map_err(|wrong| {
            format!("after a crash with {survival:?} surviving, the volume does not open: {wrong}")
        })?;
        self.service = service(&self.volume, self.clocks(now))?;
        Ok(survival)
    }

    /// Returns some bytes of a file; `None` if it is gone.
    pub(super) fn bytes_of(&self, handle: &[u8], offset: u64, count: u32, now: i64) -> Option<Vec<u8>> {
        let ino = Handle::parse(handle).and_then(|handle| self.volume.resolve(&handle).ok())?;
        let credentials = Credentials::root();
        let request =
            Request { credentials: &credentials, now: self.wall(now), access: Access::Blocking, key: None };
        for _ in 0..100 {
            match self.volume.read(&request, ino, offset, count) {
                Ok(read) => return Some(read_bytes(&read.value)),
                Err(failure) if failure.error.is_busy() => self.run_all_steps(now),
                Err(_) => return None,
            }
        }
        None
    }

    /// Returns the names in the root.
    pub(super) fn names(&self, now: i64) -> Result<BTreeSet<String>, String> {
        let listed = list(&self.volume, Ino::ROOT.0, now)?;
        let names = listed.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
        Ok(names.filter(|name| name != "." && name != "..").collect())
    }
}
