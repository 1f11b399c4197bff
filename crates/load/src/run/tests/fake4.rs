//! A server of NFSv4 in memory for tests: it answers every COMPOUND as if all went well, checks what the client may do with
//! sessions and slots, and goes wrong on request.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use wire::limits::RECORD_BYTES_MAX;
use wire::list::List;
use wire::nfs4::compound::{CompoundEncoder, CompoundReader};
use wire::nfs4::*;
use wire::record::{RecordReader, write_record};
use wire::rpc::{AcceptStat, ReplyHeader, decode_call};
use wire::xdr::{Decoder, Encode as _, Encoder};

use crate::client::{Protocol, Server};

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault4 {
    None,
    /// CREATE_SESSION grants this many slots.
    Slots(u32),
    /// The server wants one slot to be used.
    LowTarget,
    /// Every fifth operation after SEQUENCE and PUTFH is put off.
    Delays,
    /// Every fifth SEQUENCE is put off.
    SequenceDelays,
    /// SEQUENCE fails after some calls.
    BadSession,
    /// SEQUENCE says that state was lost, after some calls.
    StateLost,
    /// The result of SEQUENCE is that of another slot.
    OtherSlot,
    /// GETATTR has the result of another operation.
    OtherResults,
    /// The minor version is unknown.
    Old,
    /// COMPOUNDs are not executed.
    Refused,
    /// Replies end four bytes early.
    Truncated,
    /// Some results are missing.
    FewResults,
    /// Every REMOVE of a file fails.
    NoRemoves,
}

/// Calls after which a fault begins, so that the preparation succeeds.
const FAULTLESS_CALLS: u64 = 60;

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The last sequence ID of each slot, by session.
    sessions: BTreeMap<u8, Vec<u32>>,
    next_session: u8,
    clients: u32,
    opens: i64,
    /// Operations by name.
    pub(crate) operations: BTreeMap<&'static str, u64>,
    /// COMPOUNDs with a SEQUENCE.
    calls: u64,
    /// The slots that were used after the target was lowered.
    pub(crate) late_slots: u32,
    pub(crate) violations: Vec<String>,
}

/// A running server. It ends with the test process.
pub(crate) struct Fake4 {
    pub(crate) server: Server,
    pub(crate) state: Arc<Mutex<State>>,
}

impl Fake4 {
    pub(crate) fn start(fault: Fault4) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream.unwrap(), &shared, fault));
            }
        });
        let server = Server::parse(&format!("{address}:/some/export")).unwrap();
        Self { server: Server { protocol: Protocol::V4_2, ..server }, state }
    }

    /// Returns the numbers of sessions and clients that are left.
    pub(crate) fn left(&self) -> (usize, u32) {
        let state = self.state.lock().unwrap();
        (state.sessions.len(), state.clients)
    }

    pub(crate) fn count(&self, operation: OpNum4) -> u64 {
        self.state.lock().unwrap().operations.get(operation.name()).copied().unwrap_or(0)
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, fault: Fault4) {
    let mut reader = RecordReader::new(RECORD_BYTES_MAX);
    let mut buffer = vec![0; 64 << 10];
    let mut bound = Vec::new();
    loop {
        let bytes = stream.read(&mut buffer).unwrap_or(0);
        if bytes == 0 {
            return;
        }
        let mut out = Vec::new();
        let mut input = &buffer[..bytes];
        while let Some(record) = reader.next(&mut input).unwrap() {
            let (call, args) = decode_call(record).unwrap();
            assert_eq!((call.program, call.version), (PROGRAM, VERSION));
            let mut reply = Vec::new();
            let mut encoder = Encoder::new(&mut reply);
            let mut state = state.lock().unwrap();
            let is_late = state.calls > FAULTLESS_CALLS;
            let is_refused = fault == Fault4::Refused && is_late;
            let stat = if is_refused { AcceptStat::SystemErr } else { AcceptStat::Success };
            ReplyHeader::accepted(call.xid, stat).encode(&mut encoder);
            if !is_refused && call.procedure == Procedure::Compound.code() {
                state.compound(args, fault, &mut bound, &mut encoder);
            }
            if fault == Fault4::Truncated && is_late {
                reply.truncate(reply.len() - 4);
            }
            write_record(&mut out, |out| out.raw(&reply));
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

/// The attributes of everything.
fn attributes() -> Attributes4<'static> {
    Attributes4 {
        file_type: Some(NfsFtype4::Reg),
        change: Some(1),
        size: Some(0),
        lease_time: Some(30),
        fileid: Some(7),
        mode: Some(0o644),
        owner: Some(Utf8Str4(b"0")),
        maxread: Some(1 << 20),
        maxwrite: Some(1 << 20),
        space_avail: Some(1 << 50),
        ..Attributes4::default()
    }
}

const CHANGE: ChangeInfo4 = ChangeInfo4 { atomic: true, before: 1, after: 2 };
const HANDLE: [u8; 100] = [5; 100];

impl State {
    fn compound(&mut self, args: Decoder<'_>, fault: Fault4, bound: &mut Vec<u8>, out: &mut Encoder<'_>) {
        let reader = CompoundReader::new(args).unwrap();
        assert_eq!(reader.minorversion(), 2);
        let mut results = CompoundEncoder::begin(out, reader.tag());
        if fault == Fault4::Old {
            return results.finish_with(NfsStat4::MinorVersMismatch);
        }
        let is_late = self.calls > FAULTLESS_CALLS;
        for op in reader {
            let op = op.unwrap();
            *self.operations.entry(op.num().name()).or_default() += 1;
            if fault == Fault4::FewResults && is_late && results.count() == 2 {
                break;
            }
            let is_put_off = results.count() > 1 && self.calls.is_multiple_of(5);
            if fault == Fault4::Delays && is_late && is_put_off {
                let status = if self.calls.is_multiple_of(2) { NfsStat4::Delay } else { NfsStat4::Grace };
                results.push(op.num(), &Res4::<()>::Err(status));
                break;
            }
            let num = match op.num() {
                OpNum4::Getattr if fault == Fault4::OtherResults && is_late => OpNum4::Access,
                num => num,
            };
            results.push_with(num, |out| self.answer(&op, fault, bound, out));
            if results.status() != NfsStat4::Ok {
                break;
            }
        }
        results.finish();
    }

    /// Appends the result of an operation, and returns its status.
    fn answer(
        &mut self,
        op: &ArgOp4<'_>,
        fault: Fault4,
        bound: &mut Vec<u8>,
        out: &mut Encoder<'_>,
    ) -> NfsStat4 {
        let mut ok = |body: &dyn Fn(&mut Encoder<'_>)| {
            NfsStat4::Ok.encode(out);
            body(out);
            NfsStat4::Ok
        };
        match op {
            ArgOp4::ExchangeId(_) => {
                // A client that restarted has lost its sessions and opens.
                self.clients = 1;
                self.sessions.clear();
                self.opens = 0;
                ok(&|out| exchange(out))
            }
            ArgOp4::CreateSession(args) => {
                let created = self.create_session(args, fault);
                bound.push(created.sessionid.0[0]);
                ok(&|out| created.encode(out))
            }
            ArgOp4::BindConnToSession(args) => {
                bound.push(args.sessid.0[0]);
                let (dir, use_conn_in_rdma_mode) = (ChannelDirFromServer4::Fore, false);
                let bound = BindConnToSessionOk { sessid: args.sessid, dir, use_conn_in_rdma_mode };
                ok(&|out| bound.encode(out))
            }
            ArgOp4::DestroySession(args) => {
                self.sessions.remove(&args.sessionid.0[0]);
                ok(&|_| {})
            }
            ArgOp4::DestroyClientId(_) if self.opens > 0 || !self.sessions.is_empty() => {
                NfsStat4::ClientIdBusy.encode(out);
                NfsStat4::ClientIdBusy
            }
            ArgOp4::DestroyClientId(_) => {
                self.clients -= 1;
                ok(&|_| {})
            }
            ArgOp4::Sequence(args) => match self.sequence(args, fault, bound) {
                Ok(done) => ok(&|out| done.encode(out)),
                Err(status) => {
                    status.encode(out);
                    status
                }
            },
            ArgOp4::Remove(args)
                if fault == Fault4::NoRemoves
                    && args.target.0.contains(&b'-')
                    && !args.target.0.starts_with(b"holdfast") =>
            {
                NfsStat4::NotEmpty.encode(out);
                NfsStat4::NotEmpty
            }
            ArgOp4::Open(_) => {
                self.opens += 1;
                ok(&|out| open(out))
            }
            ArgOp4::Close(args) => {
                self.opens -= 1;
                assert_eq!(args.open_stateid, STATEID);
                ok(&|out| CloseOk { open_stateid: Stateid4::INVALID }.encode(out))
            }
            other => ok(&|out| plain(other, out)),
        }
    }

    fn create_session(&mut self, args: &CreateSessionArgs<'_>, fault: Fault4) -> CreateSessionOk {
        let asked = args.fore_chan_attrs;
        let slots =
            if let Fault4::Slots(slots) = fault { slots.min(asked.maxrequests) } else { asked.maxrequests };
        self.next_session += 1;
        self.sessions.insert(self.next_session, vec![0; slots as usize]);
        CreateSessionOk {
            sessionid: SessionId4([self.next_session; 16]),
            sequence: args.sequence,
            flags: 0,
            fore_chan_attrs: ChannelAttrs4 { maxrequests: slots, ..asked },
            back_chan_attrs: args.back_chan_attrs,
        }
    }

    fn sequence(&mut self, args: &SequenceArgs, fault: Fault4, bound: &[u8]) -> Result<SequenceOk, NfsStat4> {
        let id = args.sessionid.0[0];
        self.calls += 1;
        let is_late = self.calls > FAULTLESS_CALLS;
        let Some(slots) = self.sessions.get_mut(&id) else { return Err(NfsStat4::BadSession) };
        if !bound.contains(&id) {
            self.violations.push(format!("session {id} on a connection that is not bound to it"));
        }
        let highest = u32::try_from(slots.len()).unwrap() - 1;
        let Some(last) = slots.get_mut(args.slotid as usize) else {
            self.violations.push(format!("slot {} of {}", args.slotid, slots.len()));
            return Err(NfsStat4::BadSlot);
        };
        if args.sequenceid != *last + 1 {
            self.violations.push(format!("sequence ID {} after {last}", args.sequenceid));
            return Err(NfsStat4::SeqMisordered);
        }
        match fault {
            Fault4::BadSession if is_late => return Err(NfsStat4::BadSession),
            Fault4::SequenceDelays if self.calls.is_multiple_of(5) => return Err(NfsStat4::Delay),
            _ => *last += 1,
        }
        self.late_slots = self.late_slots.max(if is_late { args.slotid } else { 0 });
        let lost = sequence_status::EXPIRED_ALL_STATE_REVOKED;
        Ok(SequenceOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: if fault == Fault4::OtherSlot && is_late { args.slotid + 1 } else { args.slotid },
            highest_slotid: highest,
            target_highest_slotid: if fault == Fault4::LowTarget { 0 } else { highest },
            status_flags: sequence_status::CB_PATH_DOWN
                | if fault == Fault4::StateLost && is_late { lost } else { 0 },
        })
    }
}

const STATEID: Stateid4 = Stateid4 { seqid: 1, other: [9; 12] };

fn exchange(out: &mut Encoder<'_>) {
    let name = OwnerId4(b"fake");
    ExchangeIdOk {
        clientid: ClientId4(3),
        sequenceid: 1,
        flags: 0,
        state_protect: StateProtect4R::None,
        server_owner: ServerOwner4 { minor_id: 0, major_id: name },
        server_scope: name,
        server_impl_id: None,
    }
    .encode(out);
}

fn open(out: &mut Encoder<'_>) {
    OpenOk {
        stateid: STATEID,
        cinfo: CHANGE,
        rflags: 0,
        attrset: AttrMask::EMPTY,
        delegation: OpenDelegation4::None,
    }
    .encode(out);
}

/// Appends the body of a successful result.
fn plain(op: &ArgOp4<'_>, out: &mut Encoder<'_>) {
    match op {
        ArgOp4::Getattr(args) => {
            attributes().encode_requested(args.attr_request, out);
        }
        ArgOp4::Getfh => GetfhOk { object: FileHandle4::new(&HANDLE).unwrap() }.encode(out),
        ArgOp4::Access(args) => AccessOk { supported: args.access, access: args.access }.encode(out),
        ArgOp4::Create(_) => CreateOk { cinfo: CHANGE, attrset: AttrMask::EMPTY }.encode(out),
        ArgOp4::Remove(_) => RemoveOk { cinfo: CHANGE }.encode(out),
        ArgOp4::Readdir(_) => {
            ReaddirOk { cookieverf: [0; 8], entries: List::new(&[]), eof: true }.encode(out);
        }
        ArgOp4::ReclaimComplete(_) | ArgOp4::Putfh(_) | ArgOp4::Putrootfh | ArgOp4::Lookup(_) => {}
        other => panic!("{other:?}"),
    }
}
