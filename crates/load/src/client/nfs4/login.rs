//! A client as the server knows it: its ID, its lease and its sessions.

use std::thread::sleep;
use std::time::Duration;

use wire::limits::DATA_BYTES_MAX;
use wire::nfs4::compound::CompoundArgsEncoder;
use wire::nfs4::{
    ArgOp4, Attr4, AttrMask, BindConnToSessionArgs, BindConnToSessionOk, CallbackSecParms4, ChannelAttrs4,
    ChannelDirFromClient4, ClientId4, ClientOwner4, CreateSessionArgs, CreateSessionOk, DestroyClientIdArgs,
    DestroySessionArgs, ExchangeIdArgs, ExchangeIdOk, GetattrArgs, GetattrOk, GetfhOk, NfsStat4, OpNum4,
    OwnerId4, PROGRAM, Procedure, ReclaimCompleteArgs, SecParms4, SessionId4, StateProtect4A, Utf8Str4,
    VERSION, create_session_flag,
};

use super::results::Results;
use super::session::{Answer, Session};
use crate::client::cause::{Cause, Status};
use crate::client::transport::Transport;
use crate::client::{DELAY, DELAYS_MAX, Handle};
use crate::error::LoadError;
use crate::random::fresh_seed;

/// Slots that are asked for at most, as many as the Linux client allows.
pub(crate) const SLOTS_MAX: u32 = 1024;

/// Slots of the session that prepares and cleans up.
const PREPARATION_SLOTS: u32 = 64;

/// What a request or reply takes besides file data, at most.
const OVERHEAD_BYTES: u32 = 8 << 10;
/// The largest reply that the server must cache, as the Linux client asks for.
const CACHED_BYTES: u32 = 4096;
/// The operations of the longest COMPOUND, with room for more.
const OPERATIONS: u32 = 8;

/// The program of callbacks, which are never made: no session has a channel for them.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// The lease if the server does not state one.
const LEASE: Duration = Duration::from_secs(60);

/// Returns the slots to ask for, for this many calls in flight.
pub(crate) fn slots_for(calls: u64) -> u32 {
    u32::try_from(calls).unwrap_or(u32::MAX).clamp(1, SLOTS_MAX)
}

/// A client ID with the session that prepares and cleans up.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) minor: u32,
    /// The client's name for itself. The same name with a new verifier tells the server that the client has restarted, so
    /// that the server drops all state of the earlier one.
    name: String,
    clientid: ClientId4,
    /// The sequence ID of the next CREATE_SESSION.
    next_sequence: u32,
    pub(crate) session: Session,
    /// The sessions of the load.
    others: Vec<SessionId4>,
    /// The largest READ and WRITE of all sessions.
    pub(crate) read_bytes: u32,
    pub(crate) write_bytes: u32,
    pub(crate) lease: Duration,
}

impl Login {
    /// Makes the client known to the server, as `name`, and makes the session that prepares. State of an earlier client of
    /// this name is dropped.
    pub(crate) fn new(transport: &mut Transport, minor: u32, name: String) -> Result<Self, LoadError> {
        let exchange = ArgOp4::ExchangeId(ExchangeIdArgs {
            clientowner: ClientOwner4 {
                verifier: fresh_seed().to_be_bytes(),
                ownerid: OwnerId4(name.as_bytes()),
            },
            flags: 0,
            state_protect: StateProtect4A::None,
            client_impl_id: None,
        });
        let known = |mut results: Results<'_>| {
            let ok = results.next::<ExchangeIdOk<'_>>(OpNum4::ExchangeId)?;
            Ok((ok.clientid, ok.sequenceid))
        };
        let (clientid, next_sequence) = call(transport, minor, &exchange, &known)?;
        let mut this = Self {
            minor,
            name,
            clientid,
            next_sequence,
            session: Session::new(SessionId4::default(), 1),
            others: Vec::new(),
            read_bytes: u32::MAX,
            write_bytes: u32::MAX,
            lease: LEASE,
        };
        this.session = this.create_session(transport, PREPARATION_SLOTS)?;
        let complete = ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let done = |mut results: Results<'_>| results.next::<()>(OpNum4::ReclaimComplete);
        this.in_session(transport, &[complete], &done)?;
        Ok(this)
    }

    /// Returns the client's name for itself.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes sessions for the load.
    pub(crate) fn create_sessions(
        &mut self,
        transport: &mut Transport,
        count: u32,
        slots: u32,
    ) -> Result<Vec<Session>, LoadError> {
        let mut sessions = Vec::new();
        for _ in 0..count {
            let session = self.create_session(transport, slots)?;
            self.others.push(session.id);
            sessions.push(session);
        }
        Ok(sessions)
    }

    fn create_session(&mut self, transport: &mut Transport, slots: u32) -> Result<Session, LoadError> {
        let bytes = u32::try_from(DATA_BYTES_MAX).expect("a MiB") + OVERHEAD_BYTES;
        let create = ArgOp4::CreateSession(CreateSessionArgs {
            clientid: self.clientid,
            sequence: self.next_sequence,
            flags: create_session_flag::PERSIST,
            fore_chan_attrs: channel(bytes, OPERATIONS, slots),
            back_chan_attrs: channel(CACHED_BYTES, 2, 1),
            cb_program: CALLBACK_PROGRAM,
            sec_parms: SecParms4::new(&[CallbackSecParms4::None]).expect("one is not too many"),
        });
        let created = |mut results: Results<'_>| results.next::<CreateSessionOk>(OpNum4::CreateSession);
        let CreateSessionOk { sessionid, fore_chan_attrs: fore, .. } =
            call(transport, self.minor, &create, &created)?;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        if fore.maxoperations < OPERATIONS {
            let most = fore.maxoperations;
            return Err(LoadError::new(format!("the server allows only {most} operations in a COMPOUND")));
        }
        self.read_bytes = self.read_bytes.min(fore.maxresponsesize.saturating_sub(OVERHEAD_BYTES));
        self.write_bytes = self.write_bytes.min(fore.maxrequestsize.saturating_sub(OVERHEAD_BYTES));
        Ok(Session::new(sessionid, fore.maxrequests.min(slots)))
    }

    /// Returns the root of the server's name space, and learns the duration of the lease.
    pub(crate) fn root(&mut self, transport: &mut Transport) -> Result<Handle, LoadError> {
        let lease = ArgOp4::Getattr(GetattrArgs { attr_request: AttrMask::of(&[Attr4::LeaseTime]) });
        let root = |mut results: Results<'_>| {
            results.next::<()>(OpNum4::Putrootfh)?;
            let handle = Handle::of(results.next::<GetfhOk<'_>>(OpNum4::Getfh)?.object.as_bytes());
            let attributes = results.next::<GetattrOk<'_>>(OpNum4::Getattr)?.obj_attributes;
            Ok((handle, attributes.decode_values().ok().and_then(|values| values.lease_time)))
        };
        let (root, lease_s) =
            self.in_session(transport, &[ArgOp4::Putrootfh, ArgOp4::Getfh, lease], &root)?;
        self.lease = lease_s.map_or(LEASE, |seconds| Duration::from_secs(u64::from(seconds.max(1))));
        Ok(root)
    }

    /// Renews the lease: a lone SEQUENCE.
    pub(crate) fn renew(&mut self, transport: &mut Transport) -> Result<(), LoadError> {
        self.in_session(transport, &[], &|_| Ok(()))
    }

    /// Makes a call in the session that prepares.
    fn in_session<T>(
        &mut self,
        transport: &mut Transport,
        ops: &[ArgOp4<'_>],
        decode: &dyn Fn(Results<'_>) -> Result<T, Cause>,
    ) -> Result<T, LoadError> {
        for _ in 0..DELAYS_MAX {
            let slot = self.session.take().ok_or_else(|| LoadError::new("the session has no free slot"))?;
            let sequence = ArgOp4::Sequence(self.session.sequence(slot));
            let ops: Vec<ArgOp4<'_>> = std::iter::once(sequence).chain(ops.iter().copied()).collect();
            let reply = send(transport, self.minor, &ops)?;
            match self.session.replied(slot, &reply, 0)? {
                Answer::Delayed(_) => sleep(DELAY),
                Answer::Results(results) => {
                    return decode(results).map_err(|cause| LoadError::new(cause.explained()));
                }
            }
        }
        Err(delayed())
    }

    /// Destroys the sessions and the client. State that is left keeps the client alive until its lease ends.
    pub(crate) fn log_out(&mut self, transport: &mut Transport) -> Result<(), LoadError> {
        for sessionid in self.others.drain(..).chain([self.session.id]) {
            let destroy = ArgOp4::DestroySession(DestroySessionArgs { sessionid });
            let done = |mut results: Results<'_>| results.next::<()>(OpNum4::DestroySession);
            call(transport, self.minor, &destroy, &done)?;
        }
        let destroy = ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid: self.clientid });
        call(transport, self.minor, &destroy, &|mut results: Results<'_>| {
            results.next::<()>(OpNum4::DestroyClientId)
        })
    }
}

/// Binds a connection to a session, for calls to the server.
pub(crate) fn bind(transport: &mut Transport, minor: u32, sessid: SessionId4) -> Result<(), LoadError> {
    let (dir, use_conn_in_rdma_mode) = (ChannelDirFromClient4::Fore, false);
    let bind = ArgOp4::BindConnToSession(BindConnToSessionArgs { sessid, dir, use_conn_in_rdma_mode });
    call(transport, minor, &bind, &|mut results: Results<'_>| {
        results.next::<BindConnToSessionOk>(OpNum4::BindConnToSession).map(|_| ())
    })
}

/// Returns the limits of a channel.
const fn channel(bytes: u32, maxoperations: u32, maxrequests: u32) -> ChannelAttrs4 {
    ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: bytes,
        maxresponsesize: bytes,
        maxresponsesize_cached: CACHED_BYTES,
        maxoperations,
        maxrequests,
        rdma_ird: None,
    }
}

/// Makes a call of one operation outside of sessions, again as long as the server asks for patience.
fn call<T>(
    transport: &mut Transport,
    minor: u32,
    op: &ArgOp4<'_>,
    decode: &dyn Fn(Results<'_>) -> Result<T, Cause>,
) -> Result<T, LoadError> {
    for _ in 0..DELAYS_MAX {
        let reply = send(transport, minor, std::slice::from_ref(op))?;
        match Results::new(&reply, 0).and_then(decode) {
            Err(Cause::Status(_, Status::V4(NfsStat4::Delay | NfsStat4::Grace))) => sleep(DELAY),
            decoded => return decoded.map_err(|cause| LoadError::new(cause.explained())),
        }
    }
    Err(delayed())
}

fn delayed() -> LoadError {
    let seconds = (DELAY * DELAYS_MAX).as_secs();
    LoadError::new(format!("the server has asked for patience for {seconds} s (NFS4ERR_DELAY)"))
}

/// Sends a COMPOUND, and returns the bytes of its results.
fn send(transport: &mut Transport, minor: u32, ops: &[ArgOp4<'_>]) -> Result<Vec<u8>, LoadError> {
    let results = transport.call((PROGRAM, VERSION, Procedure::Compound.code()), &|out| {
        let mut compound = CompoundArgsEncoder::begin(out, Utf8Str4(b""), minor);
        ops.iter().for_each(|op| compound.push(op));
        compound.finish();
    })?;
    results.map_err(|stat| LoadError::new(format!("the server did not execute COMPOUND of NFSv4: {stat}")))
}
