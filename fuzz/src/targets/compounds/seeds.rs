//! Usual sequences of calls as seeds: each reaches another part of the state.

use sim::compound::{self, channel, create_session, exchange_id, putfh, set_client_id};
use volume::handle::HANDLE_BYTES;
use wire::nfs4::*;
use wire::xdr::Encoder;

use super::super::encoded;
use super::{CLIENTS, REFERENCE, STEP};

/// The kinds of steps; see [`super::World::step`].
const PASS: u8 = 0;
const CLOSE: u8 = 1;
const RESTART: u8 = 2;
const COMPOUND: u8 = 3;

/// A reference to a stateid, `which` from the latest back.
fn stateid(which: u8) -> Stateid4 {
    Stateid4 { seqid: 0, other: reference(2, which) }
}

/// The same stateid with a seqid, for NFSv4.0.
fn counted(which: u8, seqid: u32) -> Stateid4 {
    Stateid4 { seqid, other: reference(2, which) }
}

fn reference<const N: usize>(kind: u8, which: u8) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..6].copy_from_slice(&[REFERENCE.as_slice(), &[kind, which, 0]].concat());
    bytes
}

fn client_id(which: u8) -> ClientId4 {
    ClientId4(u64::from_be_bytes(reference(0, which)))
}

/// A list of steps under construction.
#[derive(Clone, Default)]
struct Steps(Vec<u8>);

impl Steps {
    fn step(mut self, what: u8, client: u8, body: &[u8]) -> Steps {
        if !self.0.is_empty() {
            self.0.extend(STEP);
        }
        self.0.push(what * CLIENTS + client);
        self.0.extend(body);
        self
    }

    fn alone(self, client: u8, minor: u32, operations: &[ArgOp4<'_>]) -> Steps {
        let mut body = Vec::new();
        compound::encode(&mut Encoder::new(&mut body), minor, operations);
        self.step(COMPOUND, client, &body)
    }

    /// A COMPOUND in a slot of the client's session, `which` from the latest back.
    fn in_session(self, client: u8, which: u8, operations: &[ArgOp4<'_>]) -> Steps {
        let sequence = ArgOp4::Sequence(SequenceArgs {
            sessionid: SessionId4(reference(3, which)),
            sequenceid: 1,
            slotid: 0,
            highest_slotid: 0,
            cachethis: true,
        });
        self.alone(client, 2, &[&[sequence], operations].concat())
    }

    /// A client with a session.
    fn join(self, client: u8) -> Steps {
        let flags = create_session_flag::PERSIST | create_session_flag::CONN_BACK_CHAN;
        let channel = channel(1 << 16, 4);
        let name = [client];
        let exchange = exchange_id(&name, [client; 8]);
        let create = create_session(client_id(0), 1, flags, (channel, channel));
        let complete = ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        self.alone(client, 2, &[exchange]).alone(client, 2, &[create]).in_session(client, 0, &[complete])
    }

    /// A client of NFSv4.0.
    fn introduce(self, client: u8) -> Steps {
        let name = [client];
        let set = set_client_id(&name, [client; 8], "10.0.1.1.3.3");
        let confirm = ArgOp4::SetClientIdConfirm(SetClientIdConfirmArgs {
            clientid: client_id(0),
            setclientid_confirm: reference(1, 0),
        });
        self.alone(client, 0, &[set]).alone(client, 0, &[confirm])
    }
}

fn owner(which: u8) -> StateOwner4<'static> {
    StateOwner4 { clientid: client_id(which), owner: OwnerId4(b"owner") }
}

fn root() -> [ArgOp4<'static>; 2] {
    [ArgOp4::Putrootfh, ArgOp4::Lookup(LookupArgs { objname: Component4(b"main") })]
}

/// An OPEN that creates a file in the root, and GETFH.
fn open(attributes: Fattr4<'_>, seqid: u32, access: u32, deny: u32, client: u8) -> Vec<ArgOp4<'_>> {
    let open = ArgOp4::Open(OpenArgs {
        seqid,
        share_access: access,
        share_deny: deny,
        owner: owner(client),
        openhow: Some(CreateHow4::Unchecked(attributes)),
        claim: OpenClaim4::Null(Component4(b"file")),
    });
    [root().as_slice(), &[open, ArgOp4::Getfh]].concat()
}

fn lock(open: Stateid4, open_seqid: u32, client: u8, offset: u64, length: u64) -> ArgOp4<'static> {
    let (open_stateid, lock_owner, lock_seqid) = (open, owner(client), 1);
    let locker = Locker4::OpenOwner(OpenToLockOwner4 { open_seqid, open_stateid, lock_seqid, lock_owner });
    ArgOp4::Lock(LockArgs { locktype: NfsLockType4::Write, reclaim: false, offset, length, locker })
}

fn unlock(lock_stateid: Stateid4, seqid: u32, offset: u64, length: u64) -> ArgOp4<'static> {
    ArgOp4::Locku(LockuArgs { locktype: NfsLockType4::Write, seqid, lock_stateid, offset, length })
}

fn write(stateid: Stateid4) -> ArgOp4<'static> {
    ArgOp4::Write(WriteArgs { stateid, offset: 0, stable: StableHow4::FileSync, data: b"something".into() })
}

fn close(open_stateid: Stateid4, seqid: u32) -> ArgOp4<'static> {
    ArgOp4::Close(CloseArgs { seqid, open_stateid })
}

/// Returns the seeds.
pub(in super::super) fn seeds() -> Vec<Vec<u8>> {
    let mode = encoded(&Attributes4 { mode: Some(0o640), ..Attributes4::default() });
    let attributes: Fattr4<'_> = wire::xdr::decode_all(&mode).expect("encoded just now");
    let handle: [u8; HANDLE_BYTES] = reference(5, 0);
    let both = share_access::BOTH;

    let open_one = Steps::default().join(0).in_session(0, 0, &open(attributes, 0, both, 0, 0));
    let locked = open_one.clone().in_session(0, 0, &[putfh(&handle), lock(stateid(0), 0, 0, 10, 20)]);
    let whole = locked
        .clone()
        .in_session(
            0,
            0,
            &[putfh(&handle), write(stateid(0)), ArgOp4::Commit(CommitArgs { offset: 0, count: 0 })],
        )
        .in_session(0, 0, &[putfh(&handle), unlock(stateid(0), 0, 12, 4)])
        .step(RESTART, 0, &[])
        .in_session(0, 0, &[putfh(&handle), unlock(stateid(0), 0, 0, u64::MAX), close(stateid(1), 0)])
        .alone(0, 2, &[ArgOp4::DestroySession(DestroySessionArgs { sessionid: SessionId4(reference(4, 0)) })])
        .alone(0, 2, &[ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid: client_id(0) })]);
    // Another client conflicts, until the first one has been silent for too long.
    let contended = locked
        .clone()
        .join(1)
        .in_session(1, 0, &open(attributes, 0, both, 0, 0))
        .in_session(1, 0, &[putfh(&handle), lock(stateid(0), 0, 0, 0, u64::MAX)])
        .step(PASS, 0, &[200])
        .in_session(1, 0, &[putfh(&handle), lock(stateid(0), 0, 0, 0, u64::MAX)])
        .in_session(0, 1, &[putfh(&handle), write(stateid(1))]);
    let wants = both | 0x200;
    let recalled = Steps::default()
        .join(0)
        .in_session(0, 0, &open(attributes, 0, wants, 0, 0))
        .join(2)
        .in_session(2, 0, &open(attributes, 0, both, share_deny::NONE, 0))
        .step(CLOSE, 0, &[])
        .step(PASS, 0, &[61])
        .in_session(2, 0, &open(attributes, 0, both, share_deny::WRITE, 0));
    let zero = Steps::default()
        .introduce(0)
        .alone(0, 0, &open(attributes, 1, both, 0, 0))
        .alone(
            0,
            0,
            &[putfh(&handle), ArgOp4::OpenConfirm(OpenConfirmArgs { open_stateid: counted(0, 1), seqid: 2 })],
        )
        .alone(0, 0, &[putfh(&handle), lock(counted(0, 2), 3, 0, 0, 100)])
        .alone(0, 0, &[putfh(&handle), write(counted(0, 1))])
        .step(RESTART, 0, &[])
        .alone(0, 0, &[putfh(&handle), unlock(counted(0, 1), 2, 50, 10)])
        .alone(0, 0, &[ArgOp4::Renew(RenewArgs { clientid: client_id(0) })])
        .alone(0, 0, &[putfh(&handle), unlock(counted(0, 2), 3, 0, u64::MAX)])
        .alone(0, 0, &[putfh(&handle), close(counted(1, 2), 4)])
        .alone(0, 0, &[ArgOp4::ReleaseLockowner(ReleaseLockownerArgs { lock_owner: owner(0) })]);

    let mut seeds: Vec<Vec<u8>> = [whole, contended, recalled, zero].map(|steps| steps.0).into();
    seeds.extend((3..76).map(|code| raw(&open_one, code)));
    seeds
}

/// Any operation on an open file: a stateid, which many start with, and small numbers.
fn raw(before: &Steps, code: u8) -> Vec<u8> {
    let handle: [u8; HANDLE_BYTES] = reference(5, 0);
    let nothing = CommitArgs { offset: 0, count: 0 };
    let steps = before.clone().in_session(0, 0, &[putfh(&handle), ArgOp4::Savefh, ArgOp4::Commit(nothing)]);
    let mut bytes = steps.0;
    // COMMIT is the last operation: its number, an offset and a count.
    bytes.truncate(bytes.len() - 16);
    bytes.extend(u32::from(code).to_be_bytes());
    bytes.extend(encoded(&stateid(0)));
    bytes.extend([0, 0, 0, 1].repeat(24));
    bytes
}
