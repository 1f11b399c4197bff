//! An NFSv4 server that receives any COMPOUNDs, in any order, from a few clients.
//!
//! An input is a list of steps, separated by [`STEP`]: a COMPOUND of a client, time that passes, a connection that
//! closes, a restart. In a COMPOUND, [references](KnownValues::fill_in) stand for values of earlier replies: client ids,
//! verifiers, stateids, sessions, handles. So a mutated input still names things that exist, or nearly so.
//!
//! The target demands that the server does not panic; that every call is answered with a reply that decodes and
//! respects the limits; that a retransmission in a slot gets the same bytes; and that the state of clients is bounded
//! by the number of operations, survives a restart, and is gone once all clients have expired.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nfs::charge::CopyTerms;
use nfs::limits::COMPOUND_REPLY_BYTES_MAX;
use nfs::service::{
    Connection, ConnectionId, Incoming, IncomingRecord, Outcome, ReplyBuffer, Service,
};
use sim::compound;
use sim::engine::START;
use sim::rpc::{self, call_header, unmarked};
use volume::Volume;
use volume::request::{Access, Durable};
use volume::time::Time;
use wire::nfs4::callback::CbCompoundReader;
use wire::nfs4::{self, NfsStat4, OpNum4, OpenDelegation4, Outcome as _, ResOp4, SessionId4, Stateid4};
use wire::rpc::{AcceptStat, AuthSys, Groups, ReplyBody, ReplyHeader, decode_call};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use super::{Kind, new_volume, work};

mod seeds;

pub(super) use seeds::seeds;

/// Separates two steps.
const STEP: &[u8] = b"\xF7STP";
/// Starts a reference; its kind, index and increment follow.
const REFERENCE: [u8; 3] = *b"\xF7RF";
/// The number of clients, each with an address of its own.
const CLIENTS: u8 = 4;
/// The maximum number of steps of an input.
const STEPS_MAX: usize = 64;
/// Attempts of a call that has to wait.
const ATTEMPTS_MAX: usize = 200;
/// The maximum bytes of a reply besides its results.
const HEAD_BYTES: usize = 64;
/// Longer than the server keeps a silent client.
const EXPIRY: Duration = Duration::from_secs(30 * 3600);
/// Gauges of client state that a restart must not change.
const HELD: [&str; 5] =
    ["nfs4_sessions", "nfs4_opens", "nfs4_lock_states", "nfs4_locked_ranges", "nfs4_delegations"];

/// The values that references stand for.
#[derive(Default)]
struct KnownValues {
    client_ids: Vec<Vec<u8>>,
    verifiers: Vec<Vec<u8>>,
    stateids: Vec<Vec<u8>>,
    sessions: Vec<Vec<u8>>,
    handles: Vec<Vec<u8>>,
    /// The last sequence id of each slot.
    sequences: HashMap<(SessionId4, u32), u32>,
}

impl KnownValues {
    /// Replaces references by known values. A reference is [`REFERENCE`], a kind, an index from the latest value back,
    /// and an increment of the value's first byte. A session is followed by a sequence id, to which the slot's last one
    /// is added, and by the slot.
    fn fill_in(&self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(6).position(|window| window.starts_with(&REFERENCE)) {
            at += found;
            let [kind, which, change] = [bytes[at + 3], bytes[at + 4], bytes[at + 5]];
            let values = match kind {
                0 => &self.client_ids,
                1 => &self.verifiers,
                2 => &self.stateids,
                3 | 4 => &self.sessions,
                _ => &self.handles,
            };
            let value = values.iter().nth_back(usize::from(which) % values.len().max(1));
            if let Some(value) = value
                && let Some(place) = bytes.get_mut(at..at + value.len())
            {
                place.copy_from_slice(value);
                place[0] = place[0].wrapping_add(change);
                if kind == 3 {
                    self.advance_sequence(&mut bytes[at..]);
                }
            }
            at += 6;
        }
    }

    /// Adds the slot's last sequence id to the one after a session id.
    fn advance_sequence(&self, bytes: &mut [u8]) -> Option<()> {
        let session = SessionId4(*bytes.first_chunk()?);
        let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (given, slot) = (number(16)?, number(20)?);
        let last = self.sequences.get(&(session, slot)).copied().unwrap_or(0);
        bytes.get_mut(16..20)?.copy_from_slice(&last.wrapping_add(given).to_be_bytes());
        Some(())
    }

    fn learn(&mut self, result: &ResOp4<'_>) {
        let stateid = |known: &mut Self, stateid: Stateid4| {
            known.stateids.retain(|other| other.as_slice() != stateid.other);
            known.stateids.push(stateid.other.to_vec());
        };
        match result {
            ResOp4::ExchangeId(Ok(ok)) => self.client_ids.push(ok.clientid.0.to_be_bytes().to_vec()),
            ResOp4::SetClientId(Ok(ok)) => {
                self.client_ids.push(ok.clientid.0.to_be_bytes().to_vec());
                self.verifiers.push(ok.setclientid_confirm.to_vec());
            }
            ResOp4::CreateSession(Ok(ok)) => self.sessions.push(ok.sessionid.0.to_vec()),
            ResOp4::Sequence(Ok(ok)) => {
                self.sequences.insert((ok.sessionid, ok.slotid), ok.sequenceid);
            }
            ResOp4::Getfh(Ok(ok)) => self.handles.push(ok.object.as_bytes().to_vec()),
            ResOp4::Lock(Ok(ok)) => stateid(self, ok.lock_stateid),
            ResOp4::Open(Ok(ok)) => {
                match ok.delegation {
                    OpenDelegation4::Read(given) => stateid(self, given.stateid),
                    OpenDelegation4::Write(given) => stateid(self, given.stateid),
                    _ => {}
                }
                stateid(self, ok.stateid);
            }
            _ => {}
        }
    }
}

/// The server, and what its clients know.
struct World {
    volume: Arc<Volume>,
    service: Service,
    known: KnownValues,
    now: Time,
    /// The current connection of each client.
    connections: [u64; CLIENTS as usize],
    xid: u32,
    operations: u64,
    /// The statuses seen.
    seen: Vec<(OpNum4, NfsStat4)>,
}

/// Runs the steps that [`STEP`] separates.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let mut world = World::new();
    let mut rest = bytes;
    for _ in 0..STEPS_MAX {
        let end = rest.windows(STEP.len()).position(|window| window == STEP);
        world.step(&rest[..end.unwrap_or(rest.len())]);
        let Some(end) = end else { break };
        rest = &rest[end + STEP.len()..];
    }
    world.end();
    world.seen.sort_unstable();
    world.seen.dedup();
    Kind::of(world.seen)
}

fn service(volume: &Arc<Volume>, now: Time) -> Service {
    let service = rpc::service(volume).expect("the volume can be exported");
    service.restore_state(now.into()).expect("the state can be read");
    service
}

impl World {
    fn new() -> World {
        let volume = new_volume();
        let now = Time::from_nanos(START + 1_000_000_000);
        World {
            service: service(&volume, now),
            volume,
            known: KnownValues::default(),
            now,
            connections: std::array::from_fn(|client| 1 + client as u64),
            xid: 0,
            operations: 0,
            seen: Vec::new(),
        }
    }

    /// Executes a step: its first byte selects the kind and the client.
    fn step(&mut self, step: &[u8]) {
        let Some((first, body)) = step.split_first() else { return };
        let client = first % CLIENTS;
        match first / CLIENTS {
            0 => self.pass(Duration::from_secs(u64::from(body.first().copied().unwrap_or(1)))),
            1 => self.close(client),
            2 => self.restart(),
            _ => self.compound(client, body),
        }
        self.call_back();
        for (name, count) in self.held() {
            assert!(count <= 4 * self.operations + 1, "{count} {name} after {} operations", self.operations);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        self.service.tick(self.now.into());
    }

    fn close(&mut self, client: u8) {
        let connection = &mut self.connections[usize::from(client)];
        self.service.connection_closed(ConnectionId(*connection));
        *connection += u64::from(CLIENTS);
    }

    fn held(&self) -> Vec<(&'static str, u64)> {
        self.service.state_gauges().into_iter().filter(|(name, _)| HELD.contains(name)).collect()
    }

    /// Restarts the service on the same volume, which has journaled everything.
    fn restart(&mut self) {
        let before = self.held();
        for client in 0..CLIENTS {
            self.close(client);
        }
        self.work();
        self.service = service(&self.volume, self.now);
        assert_eq!(self.held(), before, "a restart changes nothing");
    }

    /// Runs the steps of the server's threads.
    fn work(&self) {
        work(&self.volume, self.now);
    }

    /// Takes callbacks, which must decode, and answers NULL.
    fn call_back(&mut self) {
        for callback in self.service.take_callbacks() {
            let record = unmarked(&callback.record).expect("a callback is one record");
            let (header, input) = decode_call(record).expect("a callback is a call");
            if header.procedure == 0 {
                let mut answer = Vec::new();
                ReplyHeader::accepted(header.xid, AcceptStat::Success).encode(&mut Encoder::new(&mut answer));
                self.service.callback_answered(callback.id, &answer, self.now.into());
                continue;
            }
            let operations = CbCompoundReader::new(input).expect("a callback decodes");
            assert!(operations.filter(Result::is_err).count() == 0, "a callback decodes");
            // The client does not answer, or cannot be reached.
            if callback.id % 2 == 0 {
                self.service.callback_failed(callback.id, self.now.into());
            }
        }
    }

    /// Sends a COMPOUND of a client.
    fn compound(&mut self, client: u8, body: &[u8]) {
        self.xid += 1;
        let caller = AuthSys { stamp: 0, machine_name: b"", uid: 0, gid: 0, groups: Groups::default() };
        let procedure = nfs4::Procedure::Compound.code();
        let mut record = call_header(self.xid, nfs4::PROGRAM, nfs4::VERSION, procedure, caller);
        let at = record.len();
        record.extend_from_slice(body);
        self.known.fill_in(&mut record[at..]);
        self.operations += record.len() as u64 / 4;

        let Some(reply) = self.ask(client, &record) else { return };
        let Some(body) = body_of(&reply, self.xid) else { return };
        let results = compound::decode(body).expect("results decode").1;
        for result in &results {
            self.known.learn(result);
            self.seen.push((result.num(), result.status()));
        }
        if matches!(results.first(), Some(ResOp4::Sequence(Ok(_)))) {
            self.repeat(client, &record, &reply, &results);
        }
    }

    /// Checks that a retransmission in a slot gets the same bytes, as long as the slot exists.
    fn repeat(&mut self, client: u8, record: &[u8], reply: &[u8], results: &[ResOp4<'_>]) {
        self.now = self.now.plus(Duration::from_millis(1));
        let Some(again) = self.ask(client, record) else { return };
        if again == reply {
            return;
        }
        let ended = |result: &ResOp4<'_>| {
            matches!(result, ResOp4::DestroySession(Ok(())) | ResOp4::CreateSession(Ok(_)))
        };
        let body = body_of(&again, self.xid).expect("it was a COMPOUND before");
        let answered = compound::decode(body).expect("results decode").1;
        let last = answered.last().map(|result| (result.num(), result.status()));
        match last {
            Some((_, NfsStat4::RetryUncachedRep)) => {}
            Some((OpNum4::Sequence, NfsStat4::BadSession)) if results.iter().any(ended) => {}
            _ => panic!("the first answer was {results:?}, the retransmission got {answered:?}"),
        }
    }

    /// Executes a call until it is answered and the reply may leave; returns `None` if its connection must close.
    fn ask(&mut self, client: u8, record: &[u8]) -> Option<Vec<u8>> {
        let host = IpAddr::V4(Ipv4Addr::new(10, 0, 1, client));
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 2049);
        let id = ConnectionId(self.connections[usize::from(client)]);
        let connection = Connection { peer: SocketAddr::new(host, 700), local, id };
        let (mut access, mut progress) = (Access::Cached, None);
        for _ in 0..ATTEMPTS_MAX {
            let mut reply = ReplyBuffer::default();
            let record = &IncomingRecord::decode(record);
            let incoming =
                Incoming { record, connection, now: self.now.into(), access, copy_terms: CopyTerms::Free };
            match self.service.handle(&incoming, &mut progress, &mut reply) {
                Outcome::Reply { after, .. } => {
                    let out = reply.into_bytes();
                    self.work();
                    let durable = after.map_or(Durable::Yes, |wait| wait.pool.durability(wait.durability));
                    assert_eq!(durable, Durable::Yes, "committed changes are durable");
                    assert!(out.len() <= COMPOUND_REPLY_BYTES_MAX + HEAD_BYTES, "a reply of {} bytes", out.len());
                    return Some(out);
                }
                Outcome::WouldBlock => access = Access::Blocking,
                Outcome::Busy(_) | Outcome::Later => self.work(),
                Outcome::Nothing => return None,
                Outcome::Close => {
                    self.close(client);
                    return None;
                }
            }
        }
        panic!("the call is not answered");
    }

    /// Lets all clients expire: no state may remain in memory or on media.
    fn end(&mut self) {
        for client in 0..CLIENTS {
            self.close(client);
        }
        for _ in 0..3 {
            self.pass(EXPIRY);
            self.call_back();
        }
        self.work();
        let left: Vec<_> = self.held().into_iter().filter(|(_, count)| *count > 0).collect();
        assert!(left.is_empty(), "{left:?} are held after all clients expired");
        let mut records = Vec::new();
        self.volume.scan_state(&mut |key, _| records.push(key.to_vec())).expect("the state can be read");
        assert!(records.is_empty(), "{records:02x?} are stored after all clients expired");
    }
}

/// Returns the results in a marked reply; `None` if RPC refused the call.
fn body_of(reply: &[u8], xid: u32) -> Option<&[u8]> {
    let mut input = Decoder::new(unmarked(reply).expect("a reply is one record"));
    let header = ReplyHeader::decode(&mut input).expect("a reply decodes");
    assert_eq!(header.xid, xid, "the reply is to this call");
    matches!(header.body, ReplyBody::Accepted { stat: AcceptStat::Success, .. }).then(|| input.rest())
}
