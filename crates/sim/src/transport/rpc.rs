//! Clients that send RPC records through the NFS service and decode its replies, so that codec, dispatch, credentials
//! and the reply cache are judged together with the engine.
//!
//! Each client has an address of its own and keeps every handle: a handle that changes is a fault. A retransmission
//! repeats the same bytes.

mod decode;
mod encode;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use nfs::charge::CopyTerms;
use nfs::service::{Connection, ConnectionId, Incoming, IncomingRecord, Outcome, ReplyBuffer, Service};
use volume::Volume;
use volume::ids::Ino;
use volume::request::{Access, Durability};
use volume::time::Time;
use wire::mount3;
use wire::nfs3::{self, Procedure};
use wire::rpc::{AuthSys, Groups};

use super::{CallStatus, DirectTransport, Replayed, Reply, ResolvedCall, Transport};
use crate::call::{Call, Operation, Success, User};
use crate::rpc::{PATH, call_header, encoded, results, service};

/// READDIR bytes with room for many names of any length.
const ROOM_MAX: u32 = 8192;

/// Clients that reach a volume through the NFS service.
#[derive(Debug, Default)]
pub struct RpcTransport {
    /// The service of the volume that was called last.
    service: Option<(Arc<Volume>, Service)>,
    /// The handles seen, by inode number.
    handles: BTreeMap<u64, Vec<u8>>,
    /// Makes the calls that NFSv3 lacks.
    engine: DirectTransport,
    /// Breaks a promise on purpose: each transmission gets an xid of its own. The last one used.
    new_xids: Option<u32>,
}

/// The outcome of one attempt.
enum Exchange {
    /// The results, and the durability that the reply waits for.
    Results(Vec<u8>, Durability),
    Again(CallStatus),
}

/// A call as it is sent.
struct Message {
    xid: u32,
    program: u32,
    procedure: u32,
    client: u8,
    user: User,
    arguments: Vec<u8>,
}

impl Message {
    fn of(operation: &Operation, procedure: Procedure, arguments: Vec<u8>) -> Message {
        let Operation { id, client, user, .. } = *operation;
        Message { xid: id, program: nfs3::PROGRAM, procedure: procedure.code(), client, user, arguments }
    }

    /// Returns the record, without its mark.
    fn record(&self) -> Result<Vec<u8>, String> {
        let who = self.user.credentials();
        let groups = Groups::new(&who.groups).ok_or("a user of too many groups")?;
        let name = [b'c', b'0' + self.client];
        let caller = AuthSys { stamp: 7, machine_name: &name, uid: who.uid, gid: who.gid, groups };
        let mut record = call_header(self.xid, self.program, 3, self.procedure, caller);
        record.extend_from_slice(&self.arguments);
        Ok(record)
    }

    fn connection(&self) -> Connection {
        // Each call uses another port, as after a reconnect.
        let port = 600 + u16::from(self.xid.to_le_bytes()[0]);
        let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        Connection {
            peer: SocketAddr::new(address(10 + self.client), port),
            local: SocketAddr::new(address(1), 2049),
            id: ConnectionId(u64::from(self.xid)),
        }
    }
}

impl RpcTransport {
    /// Returns clients whose retransmissions have an xid of their own, which breaks a promise on purpose.
    #[must_use]
    pub fn with_new_xids() -> RpcTransport {
        RpcTransport { new_xids: Some(1 << 30), ..RpcTransport::default() }
    }

    /// Attempts a call.
    fn exchange(
        &mut self,
        volume: &Arc<Volume>,
        message: &Message,
        now: i64,
        access: Access,
    ) -> Result<Exchange, String> {
        if !self.service.as_ref().is_some_and(|(served, _)| Arc::ptr_eq(served, volume)) {
            self.service = Some((Arc::clone(volume), service(volume)?));
        }
        let (_, service) = self.service.as_ref().expect("made above");
        let (record, connection) = (message.record()?, message.connection());
        let record = &IncomingRecord::decode(&record);
        let incoming = Incoming {
            record,
            connection,
            now: Time::from_nanos(now).into(),
            access,
            copy_terms: CopyTerms::Free,
        };
        let mut reply = ReplyBuffer::default();
        let outcome = service.handle(&incoming, &mut None, &mut reply);
        let out = reply.into_bytes();
        Ok(match outcome {
            Outcome::Reply { after, .. } => {
                let after = after.map_or(Durability::NOW, |wait| wait.durability);
                Exchange::Results(results(&out, message.xid)?.to_vec(), after)
            }
            Outcome::WouldBlock if out.is_empty() => Exchange::Again(CallStatus::WouldBlock),
            Outcome::Busy(_) | Outcome::Later if out.is_empty() => Exchange::Again(CallStatus::Busy),
            other => return Err(format!("{} bytes of a reply, and {other:?}", out.len())),
        })
    }

    /// Learns the root's handle.
    fn mount(&mut self, volume: &Arc<Volume>, now: i64) -> Result<(), String> {
        if self.handles.contains_key(&Ino::ROOT.0) {
            return Ok(());
        }
        let message = Message {
            xid: 0,
            program: mount3::PROGRAM,
            procedure: mount3::Procedure::Mnt.code(),
            client: 0,
            user: User::ROOT,
            arguments: encoded(&mount3::DirPath(PATH.as_bytes())),
        };
        match self.exchange(volume, &message, now, Access::Blocking)? {
            Exchange::Results(bytes, _) => {
                let handle = decode::mounted(&bytes)?;
                self.handles.insert(Ino::ROOT.0, handle);
                Ok(())
            }
            Exchange::Again(attempt) => Err(format!("MNT: {attempt:?}")),
        }
    }

    fn handle(&self, ino: u64) -> Result<&[u8], String> {
        self.handles.get(&ino).map(Vec::as_slice).ok_or_else(|| format!("inode {ino} never showed a handle"))
    }

    /// Learns the handles that a reply shows.
    fn note(&mut self, shown: Vec<(u64, Vec<u8>)>) -> Result<(), String> {
        for (ino, handle) in shown {
            let known = self.handles.entry(ino).or_insert_with(|| handle.clone());
            if *known != handle {
                return Err(format!("the handle of inode {ino} is {handle:02x?}, was {known:02x?}"));
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        volume: &Arc<Volume>,
        call: &ResolvedCall,
        now: i64,
        access: Access,
        listing_bytes: Option<u32>,
    ) -> Result<CallStatus, String> {
        self.mount(volume, now)?;
        let (procedure, arguments) = encode::arguments(self, call, listing_bytes)?;
        let mut message = Message::of(&call.operation, procedure, arguments);
        if let Some(xid) = self.new_xids.as_mut() {
            *xid += 1;
            message.xid = *xid;
        }
        let (bytes, after) = match self.exchange(volume, &message, now, access)? {
            Exchange::Results(bytes, after) => (bytes, after),
            Exchange::Again(attempt) => return Ok(attempt),
        };
        let context = |wrong: String| format!("{}: {wrong}", procedure.name());
        let listing_bytes = encode::listing_bytes(call, listing_bytes);
        if listing_bytes.is_some() && decode::is_too_small(&bytes) {
            return self
                .call_with_room(volume, call, now, access, listing_bytes.unwrap_or(0))
                .map_err(context);
        }
        if listing_bytes.is_some_and(|listing_bytes| bytes.len() > 4 + listing_bytes as usize) {
            return Err(context(format!("{} bytes, more than the client allowed", bytes.len() - 4)));
        }
        let told = decode::read(&call.operation.call, volume.id().0, &bytes).map_err(context)?;
        self.note(told.handles)?;
        let (outcome, failure_attributes) = (told.outcome, told.failure_attributes);
        let (state, replayed) = (Vec::new(), Replayed::Unknown);
        Ok(CallStatus::Done(Box::new(Reply { outcome, failure_attributes, state, after, replayed })))
    }

    /// Lists again with enough room, after the server answered that one name does not fit into `refused` bytes.
    fn call_with_room(
        &mut self,
        volume: &Arc<Volume>,
        call: &ResolvedCall,
        now: i64,
        access: Access,
        refused: u32,
    ) -> Result<CallStatus, String> {
        if refused >= ROOM_MAX {
            return Err(format!("{refused} bytes are too small for one name"));
        }
        let mut attempt = self.call(volume, call, now, access, Some(ROOM_MAX))?;
        if let CallStatus::Done(reply) = &mut attempt
            && let Ok(Success::Listing { entries, end, .. }) = &mut reply.outcome
        {
            let Call::ReadDirectory { plus, entries_max, .. } = call.operation.call else {
                return Err("NFS3ERR_TOOSMALL".to_owned());
            };
            let first = entries.first().map_or(0, |entry| decode::entry_bytes(entry, plus));
            if decode::EMPTY_BYTES + first <= refused {
                return Err(format!("NFS3ERR_TOOSMALL, but {first} bytes and an end fit into {refused}"));
            }
            *end &= entries.len() <= usize::from(entries_max);
            entries.truncate(usize::from(entries_max));
        }
        Ok(attempt)
    }
}

impl Transport for RpcTransport {
    fn attempt(&mut self, volume: &Arc<Volume>, call: &ResolvedCall, now: i64, access: Access) -> CallStatus {
        if let Call::EngineOnly(_) = call.operation.call {
            let attempt = self.engine.attempt(volume, call, now, access);
            if let CallStatus::Done(reply) = &attempt
                && let Ok(Success::Created { object, .. }) = &reply.outcome
            {
                self.handles.insert(object.ino, volume.handle(Ino(object.ino)).to_bytes().to_vec());
            }
            return attempt;
        }
        self.call(volume, call, now, access, None).unwrap_or_else(CallStatus::Wrong)
    }

    fn disconnect(&mut self) {
        self.service = None;
    }

    fn fork(&self) -> Box<dyn Transport> {
        Box::new(RpcTransport {
            service: None,
            handles: self.handles.clone(),
            engine: self.engine.clone(),
            new_xids: self.new_xids,
        })
    }
}
