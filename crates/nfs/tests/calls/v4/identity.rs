//! Nobody but a client can use its state: ids cannot be guessed, and knowing one does not suffice.

use std::cell::Cell;
use std::net::SocketAddr;

use nfs::exports::Export;
use wire::nfs4::*;
use wire::rpc::{AuthSys, Credential, Groups};

use super::support::*;
use crate::support::{Client, Server, client, open_export, root};

/// User `uid` of a host.
fn user_at(uid: u32, address: &str) -> Client {
    Client { peer: address.parse().unwrap(), ..client(uid, uid) }
}

/// The superuser of another host.
fn stranger() -> Client {
    user_at(0, "192.0.2.66:900")
}

fn exchange_id(name: &'static [u8], verifier: u8, flags: u32) -> ArgOp4<'static> {
    ArgOp4::ExchangeId(ExchangeIdArgs {
        clientowner: ClientOwner4 { verifier: [verifier; 8], ownerid: OwnerId4(name) },
        flags,
        state_protect: StateProtect4A::None,
        client_impl_id: None,
    })
}

fn create_session(clientid: ClientId4, sequence: u32) -> ArgOp4<'static> {
    let channel = ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: 1 << 16,
        maxresponsesize: 1 << 16,
        maxresponsesize_cached: 1024,
        maxoperations: 16,
        maxrequests: 2,
        rdma_ird: None,
    };
    ArgOp4::CreateSession(CreateSessionArgs {
        clientid,
        sequence,
        flags: create_session_flag::CONN_BACK_CHAN,
        fore_chan_attrs: channel,
        back_chan_attrs: channel,
        cb_program: 1 << 30,
        sec_parms: wire::array::Array::EMPTY,
    })
}

fn destroy_session(sessionid: SessionId4) -> ArgOp4<'static> {
    ArgOp4::DestroySession(DestroySessionArgs { sessionid })
}

fn bind(sessid: SessionId4) -> ArgOp4<'static> {
    let dir = ChannelDirFromClient4::ForeOrBoth;
    ArgOp4::BindConnToSession(BindConnToSessionArgs { sessid, dir, use_conn_in_rdma_mode: false })
}

/// Executes one operation without a session. Returns its status.
fn alone(server: &Server, who: Client, operation: ArgOp4<'_>) -> NfsStat4 {
    compound_as(server, who, 1, &[operation]).status
}

fn introduced(server: &Server, who: Client, name: &'static [u8], verifier: u8) -> ExchangeIdOk<'static> {
    let results = compound_as(server, who, 1, &[exchange_id(name, verifier, 0)]);
    match results.last() {
        ResOp4::ExchangeId(Ok(client)) => *client,
        other => panic!("{other:?}"),
    }
}

/// A client with a session.
struct Session<'s> {
    server: &'s Server,
    who: Client,
    clientid: ClientId4,
    id: SessionId4,
    sequence: Cell<u32>,
}

impl<'s> Session<'s> {
    fn new(server: &'s Server, who: Client, name: &'static [u8], verifier: u8) -> Session<'s> {
        let client = introduced(server, who, name, verifier);
        let create = create_session(client.clientid, client.sequenceid);
        let results = compound_as(server, who, 1, &[create]);
        let ResOp4::CreateSession(Ok(session)) = results.last() else { panic!("{results:?}") };
        let (clientid, id) = (client.clientid, session.sessionid);
        let session = Session { server, who, clientid, id, sequence: Cell::new(0) };
        session.compound(&[ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
        session
    }

    fn sequence(&self, sequenceid: u32, cachethis: bool) -> ArgOp4<'static> {
        let (sessionid, slotid, highest_slotid) = (self.id, 0, 0);
        ArgOp4::Sequence(SequenceArgs { sessionid, sequenceid, slotid, highest_slotid, cachethis })
    }

    /// Executes the next request.
    fn compound(&self, operations: &[ArgOp4<'_>]) -> Results {
        self.sequence.set(self.sequence.get() + 1);
        let all = [&[self.sequence(self.sequence.get(), true)][..], operations].concat();
        compound_as(self.server, self.who, 1, &all)
    }

    /// Executes the next request on behalf of `who`. Returns its status; the request does not count.
    fn as_another(&self, who: Client) -> NfsStat4 {
        let sequence = self.sequence(self.sequence.get() + 1, true);
        compound_as(self.server, who, 1, &[sequence]).status
    }

    fn open(&self, owner: &'static [u8]) -> Results {
        self.compound(&[&to_root()[..], &[open(0, ClientId4(0), owner)]].concat())
    }
}

fn open(seqid: u32, clientid: ClientId4, owner: &'static [u8]) -> ArgOp4<'static> {
    let wants = if seqid == 0 { share_access::WANT_NO_DELEG } else { 0 };
    ArgOp4::Open(OpenArgs {
        seqid,
        share_access: share_access::BOTH | wants,
        share_deny: 0,
        owner: StateOwner4 { clientid, owner: OwnerId4(owner) },
        openhow: None,
        claim: OpenClaim4::Null(Component4(b"file")),
    })
}

fn lock(open_stateid: Stateid4, clientid: ClientId4, seqid: u32) -> ArgOp4<'static> {
    let lock_owner = StateOwner4 { clientid, owner: OwnerId4(b"locker") };
    let locker = OpenToLockOwner4 { open_seqid: seqid, open_stateid, lock_seqid: 0, lock_owner };
    let (locktype, reclaim, locker) = (NfsLockType4::Write, false, Locker4::OpenOwner(locker));
    ArgOp4::Lock(LockArgs { locktype, reclaim, offset: 0, length: 100, locker })
}

use NfsStat4::{
    Access, BadSession, BadStateId, ClidInUse, ConnNotBoundToSession, Ok as Done, Perm, SeqFalseRetry,
    StaleClientId, WrongCred,
};

#[test]
fn strangers_cannot_use_a_session_whose_id_they_know() {
    let server = Server::new();
    let session = Session::new(&server, root(), b"one", 1);
    assert_eq!(session.as_another(stranger()), ConnNotBoundToSession);
    assert_eq!(alone(&server, stranger(), destroy_session(session.id)), ConnNotBoundToSession);
    let other_user = user_at(1000, "192.0.2.66:900");
    assert_eq!(alone(&server, other_user, bind(session.id)), WrongCred);
    let create = create_session(session.clientid, 2);
    assert_eq!(alone(&server, stranger(), create), StaleClientId);
    let destroy = ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid: session.clientid });
    assert_eq!(alone(&server, stranger(), destroy), ConnNotBoundToSession);
    assert_eq!(session.compound(&[]).status, Done, "neither its slot nor its sequence has changed");
}

#[test]
fn other_users_of_a_host_cannot_manage_its_sessions() {
    let server = Server::new();
    let session = Session::new(&server, root(), b"one", 1);
    let user = user_at(1000, "192.0.2.1:40000");
    assert_eq!(alone(&server, user, destroy_session(session.id)), WrongCred);
    assert_eq!(alone(&server, user, bind(session.id)), WrongCred);
    assert_eq!(alone(&server, user, create_session(session.clientid, 2)), ClidInUse);
    let destroy = ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid: session.clientid });
    assert_eq!(alone(&server, user, destroy), WrongCred);
    let args = BackchannelCtlArgs { cb_program: 7, sec_parms: wire::array::Array::EMPTY };
    let results = compound_as(&server, user, 1, &[session.sequence(2, true), ArgOp4::BackchannelCtl(args)]);
    assert_eq!(results.status, WrongCred);
    assert_eq!(results.all.len(), 2, "requests in a session come from any user");
    assert_eq!(alone(&server, root(), destroy_session(session.id)), Done);
}

#[test]
fn remembered_replies_are_only_for_their_principal() {
    let server = Server::new();
    let secret = server.create(root(), server.root(), "file", 0o600);
    server.write(secret, 0, b"a secret").unwrap();
    let session = Session::new(&server, root(), b"one", 1);
    let read = ArgOp4::Read(ReadArgs { stateid: Stateid4::ANONYMOUS, offset: 0, count: 100 });
    let operations = [session.sequence(2, true), putfh(secret.as_bytes()), read];
    let first = compound_as(&server, root(), 1, &operations);
    assert_eq!(first.status, Done);
    assert_eq!(compound_as(&server, root(), 1, &operations).all, first.all);
    assert_eq!(compound_as(&server, user_at(1000, "192.0.2.1:900"), 1, &operations).status, SeqFalseRetry);
    let groups = Groups::new(&[5]).unwrap();
    let sys = AuthSys { stamp: 1, machine_name: b"client", uid: 0, gid: 0, groups };
    let with_group = Client { credential: Credential::Sys(sys), ..root() };
    assert_eq!(compound_as(&server, with_group, 1, &operations).status, SeqFalseRetry);
    assert_eq!(compound_as(&server, stranger(), 1, &operations).status, ConnNotBoundToSession);
}

#[test]
fn another_host_of_the_same_name_is_another_client() {
    let server = Server::new();
    file(&server, "file");
    let one = Session::new(&server, root(), b"one", 1);
    let opened = one.open(b"owner");
    assert_eq!(opened.status, Done);
    let another = Session::new(&server, stranger(), b"one", 2);
    assert_ne!(another.clientid, one.clientid);
    assert_eq!(one.compound(&[]).status, Done, "it keeps its session");
    let update = exchange_id_flag::UPD_CONFIRMED_REC_A;
    let third = user_at(0, "192.0.2.67:900");
    assert_eq!(alone(&server, third, exchange_id(b"one", 3, update)), Perm);
    let user = user_at(1000, "192.0.2.1:900");
    assert_eq!(alone(&server, user, exchange_id(b"one", 1, 0)), ClidInUse);
    assert_eq!(alone(&server, user, exchange_id(b"one", 1, update)), Perm);
    // The client itself has restarted.
    let again = Session::new(&server, root(), b"one", 3);
    assert_eq!(one.compound(&[]).status, BadSession);
    assert_eq!(again.compound(&[]).status, Done);
    assert_eq!(another.compound(&[]).status, Done);
}

/// Programs of unprivileged users can claim to be root, and know the name of the kernel's client, but call from other ports.
#[test]
fn programs_of_a_host_cannot_replace_the_client_of_its_kernel() {
    let server = Server::new();
    file(&server, "file");
    let kernel = Session::new(&server, root(), b"one", 1);
    assert_eq!(kernel.open(b"owner").status, Done);
    let program = user_at(0, "192.0.2.1:50000");
    let impostor = Session::new(&server, program, b"one", 2);
    assert_ne!(impostor.clientid, kernel.clientid);
    assert_eq!(kernel.open(b"owner").status, Done, "it keeps its session");
    assert_ne!(introduced(&server, program, b"one", 1).clientid, kernel.clientid);
    let clientid = kernel.clientid;
    let server = server.restarted();
    let again = introduced(&server, root(), b"one", 1);
    assert_eq!(again.clientid, clientid, "records tell them apart");
    let minor0 = confirmed(&server, root(), b"zero", 1);
    assert_ne!(confirmed(&server, program, b"zero", 2), minor0);
    assert_eq!(confirmed(&server, root(), b"zero", 1), minor0);
}

#[test]
fn clients_have_several_addresses() {
    let server = Server::new();
    let session = Session::new(&server, root(), b"one", 1);
    let second = user_at(0, "198.51.100.1:900");
    let known = introduced(&server, second, b"one", 1);
    assert_eq!(known.clientid, session.clientid);
    assert_ne!(known.flags & exchange_id_flag::CONFIRMED_R, 0);
    let third = user_at(0, "[2001:db8::3]:900");
    assert_eq!(session.as_another(third), ConnNotBoundToSession, "Linux then sends BIND_CONN_TO_SESSION");
    assert_eq!(alone(&server, third, bind(session.id)), Done);
    let from_each = [root(), second, third].map(|who| Session { who, ..Session::cloned(&session) });
    for session in &from_each {
        session.sequence.set(from_each[0].sequence.get());
        assert_eq!(session.compound(&[]).status, Done);
        from_each[0].sequence.set(session.sequence.get());
    }
    // Nothing waits for the records of addresses: a client that is refused binds again.
    server.commit();
    let ids = (session.clientid, session.id, from_each[0].sequence.get());
    let server = server.restarted();
    let session =
        Session { server: &server, who: third, clientid: ids.0, id: ids.1, sequence: Cell::new(ids.2) };
    assert_eq!(session.compound(&[]).status, Done, "records name the addresses");
    assert_eq!(session.as_another(stranger()), ConnNotBoundToSession);
    for number in 0..20 {
        let moved = user_at(0, &format!("203.0.113.{number}:900"));
        assert_eq!(alone(&server, moved, bind(session.id)), Done);
    }
    assert_eq!(session.as_another(root()), Done, "the first address never gives way");
}

impl<'s> Session<'s> {
    fn cloned(other: &Session<'s>) -> Session<'s> {
        let Session { server, who, clientid, id, .. } = *other;
        Session { server, who, clientid, id, sequence: Cell::new(other.sequence.get()) }
    }
}

/// Bits in which two ids differ.
fn distance(one: &[u8], other: &[u8]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

#[test]
fn ids_tell_nothing_about_others() {
    let server = Server::new();
    file(&server, "file");
    let one = Session::new(&server, root(), b"one", 1);
    let two = Session::new(&server, root(), b"two", 1);
    assert!(distance(&one.clientid.0.to_be_bytes(), &two.clientid.0.to_be_bytes()) > 12);
    assert!(distance(&one.id.0, &two.id.0) > 32);
    let stateid = |session: &Session<'_>, owner| match session.open(owner).last() {
        ResOp4::Open(Ok(opened)) => opened.stateid.other,
        other => panic!("{other:?}"),
    };
    assert!(distance(&stateid(&one, b"a"), &stateid(&one, b"b")) > 24);
    // Nor does a conflict tell the id of the holder.
    let opened = one.open(b"c");
    let [.., ResOp4::Open(Ok(own))] = &opened.all[..] else { panic!("{opened:?}") };
    let handle = handle_at(&server, &[lookup("file")]);
    let locked = one.compound(&[putfh(handle), lock(own.stateid, one.clientid, 0)]);
    assert_eq!(locked.status, Done);
    let opened = two.open(b"c");
    let [.., ResOp4::Open(Ok(own))] = &opened.all[..] else { panic!("{opened:?}") };
    let denied = two.compound(&[putfh(handle), lock(own.stateid, two.clientid, 0)]);
    let ResOp4::Lock(Err(LockFail::Denied(denied))) = denied.last() else { panic!("{denied:?}") };
    assert_eq!((denied.owner.clientid, denied.owner.owner.0), (ClientId4(0), &b"locker"[..]));
}

/// A client of NFSv4.0 with an open of "file" and a lock.
pub(super) struct Minor0 {
    clientid: ClientId4,
    pub(super) handle: &'static [u8],
    open: Stateid4,
    /// Its owner has made the request 0.
    pub(super) lock: Stateid4,
}

fn set_client_id(name: &'static [u8], verifier: u8) -> ArgOp4<'static> {
    set_client_id_at(name, verifier, b"0.0.0.0.0.0")
}

/// Introduces a client that is called at this universal address (RFC 5665 section 5.2.3.3).
fn set_client_id_at(name: &'static [u8], verifier: u8, address: &'static [u8]) -> ArgOp4<'static> {
    ArgOp4::SetClientId(SetClientIdArgs {
        client: NfsClientId4 { verifier: [verifier; 8], id: OwnerId4(name) },
        callback: CbClient4 {
            cb_program: 1 << 30,
            cb_location: Netaddr4 { netid: Utf8Str4(b"tcp"), addr: Utf8Str4(address) },
        },
        callback_ident: 1,
    })
}

fn confirmed(server: &Server, who: Client, name: &'static [u8], verifier: u8) -> ClientId4 {
    set_and_confirm(server, who, set_client_id(name, verifier))
}

fn set_and_confirm(server: &Server, who: Client, set_client_id: ArgOp4<'_>) -> ClientId4 {
    let results = compound_as(server, who, 0, &[set_client_id]);
    let ResOp4::SetClientId(SetClientIdRes::Ok(ok)) = results.last() else { panic!("{results:?}") };
    let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
    let confirm = SetClientIdConfirmArgs { clientid, setclientid_confirm };
    let confirm = ArgOp4::SetClientIdConfirm(confirm);
    assert_eq!(compound_as(server, stranger(), 0, &[confirm]).status, StaleClientId);
    assert_eq!(compound_as(server, who, 0, &[confirm]).status, Done);
    clientid
}

pub(super) fn minor0(server: &Server, who: Client) -> Minor0 {
    let handle = file(server, "file");
    let clientid = confirmed(server, who, b"one", 1);
    let results = compound_as(server, who, 0, &[&to_root()[..], &[open(1, clientid, b"owner")]].concat());
    let [.., ResOp4::Open(Ok(opened))] = &results.all[..] else { panic!("{results:?}") };
    let confirm = OpenConfirmArgs { open_stateid: opened.stateid, seqid: 2 };
    let results = compound_as(server, who, 0, &[putfh(handle), ArgOp4::OpenConfirm(confirm)]);
    let ResOp4::OpenConfirm(Ok(confirmed)) = results.last() else { panic!("{results:?}") };
    let open = confirmed.open_stateid;
    let results = compound_as(server, who, 0, &[putfh(handle), lock(open, clientid, 3)]);
    let ResOp4::Lock(Ok(locked)) = results.last() else { panic!("{results:?}") };
    Minor0 { clientid, handle, open, lock: locked.lock_stateid }
}

impl Minor0 {
    fn unlock(&self) -> ArgOp4<'static> {
        let (locktype, lock_stateid) = (NfsLockType4::Write, self.lock);
        ArgOp4::Locku(LockuArgs { locktype, seqid: 1, lock_stateid, offset: 0, length: 100 })
    }

    fn close(&self) -> ArgOp4<'static> {
        ArgOp4::Close(CloseArgs { seqid: 4, open_stateid: self.open })
    }

    fn downgrade(&self) -> ArgOp4<'static> {
        let (open_stateid, share_access) = (self.open, share_access::READ);
        ArgOp4::OpenDowngrade(OpenDowngradeArgs { open_stateid, seqid: 4, share_access, share_deny: 0 })
    }

    fn read(&self) -> ArgOp4<'static> {
        ArgOp4::Read(ReadArgs { stateid: self.open, offset: 0, count: 1 })
    }

    fn status(&self, server: &Server, who: Client, operation: ArgOp4<'static>) -> NfsStat4 {
        compound_as(server, who, 0, &[putfh(self.handle), operation]).status
    }
}

#[test]
fn stateids_of_nfs40_are_useless_elsewhere() {
    let server = Server::new();
    let held = minor0(&server, root());
    let status = |who, operation| held.status(&server, who, operation);
    for operation in [held.unlock(), held.close(), held.downgrade(), held.read()] {
        assert_eq!(status(stranger(), operation), BadStateId);
    }
    assert_eq!(status(stranger(), lock(held.open, held.clientid, 4)), BadStateId);
    let user = user_at(1000, "192.0.2.1:900");
    for operation in [held.unlock(), held.close(), held.downgrade()] {
        assert_eq!(status(user, operation), BadStateId);
    }
    assert_eq!(status(user, held.read()), Done, "files are shared by the users of a host");
    let renew = ArgOp4::Renew(RenewArgs { clientid: held.clientid });
    assert_eq!(compound_as(&server, stranger(), 0, &[renew]).status, StaleClientId);
    assert_eq!(compound_as(&server, user, 0, &[renew]).status, Done);
    let server = server.restarted();
    let status = |who, operation| held.status(&server, who, operation);
    assert_eq!(status(user, held.close()), BadStateId);
    assert_eq!(status(stranger(), held.unlock()), BadStateId);
    assert_eq!(status(root(), held.unlock()), Done);
    assert_eq!(status(root(), held.close()), Done);
}

/// The last reply to an owner is not for others, nor for another request with the same seqid.
#[test]
fn owners_last_replies_are_only_for_their_principal() {
    let server = Server::new();
    let held = minor0(&server, root());
    let again = |who, seqid, owner| {
        let operations = [&to_root()[..], &[open(seqid, held.clientid, owner), ArgOp4::Getfh]].concat();
        compound_as(&server, who, 0, &operations).status
    };
    assert_eq!(again(root(), 4, b"owner"), Done);
    assert_eq!(again(root(), 4, b"owner"), Done);
    let user = user_at(1000, "192.0.2.1:900");
    assert_eq!(again(user, 4, b"owner"), NfsStat4::BadSeqId);
    assert_eq!(held.status(&server, root(), lock(held.open, held.clientid, 4)), NfsStat4::BadSeqId);
}

/// Otherwise a lock owner with a long name would make every remembered denial long.
#[test]
fn a_denial_that_names_a_long_owner_is_not_remembered_in_full() {
    let server = Server::new();
    let held = minor0(&server, root());
    let other = Session::new(&server, user_at(0, "192.0.2.2:900"), b"other", 1);
    let opened = other.open(b"c");
    let [.., ResOp4::Open(Ok(own))] = &opened.all[..] else { panic!("{opened:?}") };
    let lock = |offset, locker| {
        let (locktype, reclaim) = (NfsLockType4::Write, false);
        ArgOp4::Lock(LockArgs { locktype, reclaim, offset, length: 100, locker })
    };
    let lock_owner = StateOwner4 { clientid: other.clientid, owner: OwnerId4(&[b'o'; 1000]) };
    let open_stateid = own.stateid;
    let first = OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
    let locked = other.compound(&[putfh(held.handle), lock(200, Locker4::OpenOwner(first))]);
    assert_eq!(locked.status, Done);
    let further = |offset, lock_seqid| {
        let locker = ExistLockOwner4 { lock_stateid: held.lock, lock_seqid };
        held.status(&server, root(), lock(offset, Locker4::LockOwner(locker)))
    };
    assert_eq!(further(200, 1), NfsStat4::Denied);
    assert_eq!(further(200, 1), NfsStat4::Delay, "it is asked to try again");
    assert_eq!(further(200, 2), NfsStat4::Denied, "the sequence goes on");
    assert_eq!(further(400, 3), Done);
}

#[test]
fn another_host_of_the_same_name_is_another_client_of_nfs40() {
    let server = Server::new();
    let held = minor0(&server, root());
    assert_ne!(confirmed(&server, user_at(0, "192.0.2.67:900"), b"one", 2), held.clientid);
    let user = user_at(1000, "192.0.2.1:900");
    assert_eq!(compound_as(&server, user, 0, &[set_client_id(b"one", 1)]).status, ClidInUse);
    assert_eq!(held.status(&server, root(), held.unlock()), Done, "it keeps its locks");
    // With the same verifier it is the same client, which has moved.
    let moved = user_at(0, "192.0.2.68:900");
    assert_eq!(held.status(&server, moved, held.close()), BadStateId);
    assert_eq!(confirmed(&server, moved, b"one", 1), held.clientid);
    assert_eq!(held.status(&server, moved, held.close()), Done);
}

#[test]
fn hosts_that_no_export_admits_have_no_state() {
    let mut server = Server::new();
    let session = Session::new(&server, root(), b"one", 1);
    let (id, clientid) = (session.id, session.clientid);
    let zero = confirmed(&server, root(), b"zero", 1);
    let admitted = vec!["192.0.2.0/26".parse().unwrap()];
    let refused = |server: &Server, peer: &str| {
        let who = Client { peer: peer.parse::<SocketAddr>().unwrap(), ..root() };
        let sequence =
            SequenceArgs { sessionid: id, sequenceid: 2, slotid: 0, highest_slotid: 0, cachethis: false };
        for operation in [
            exchange_id(b"new", 1, 0),
            create_session(clientid, 2),
            destroy_session(id),
            ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid }),
            bind(id),
            ArgOp4::Sequence(sequence),
        ] {
            assert_eq!(alone(server, who, operation), Access, "{operation:?} from {peer}");
        }
        let confirm = SetClientIdConfirmArgs { clientid: zero, setclientid_confirm: [0; 8] };
        let lock_owner = StateOwner4 { clientid: zero, owner: OwnerId4(b"locker") };
        for operation in [
            set_client_id(b"new", 1),
            ArgOp4::SetClientIdConfirm(confirm),
            ArgOp4::Renew(RenewArgs { clientid: zero }),
            ArgOp4::ReleaseLockowner(ReleaseLockownerArgs { lock_owner }),
        ] {
            assert_eq!(compound_as(server, who, 0, &[operation]).status, Access, "{operation:?} from {peer}");
        }
    };
    server.export(vec![Export { clients: admitted, ..open_export() }]);
    refused(&server, "192.0.2.66:900");
    server.export(vec![Export { privileged_port_required: true, ..open_export() }]);
    refused(&server, "192.0.2.1:1024");
    introduced(&server, root(), b"new", 1);
}

#[test]
fn opening_files_of_an_export_without_delegations_has_no_client_called() {
    for delegations in [true, false] {
        let mut server = Server::new();
        server.export(vec![Export { delegations, ..open_export() }]);
        file(&server, "file");
        let clientid = set_and_confirm(&server, root(), set_client_id_at(b"one", 1, b"192.0.2.1.8.1"));
        let [probe] = &server.service.take_callbacks()[..] else { panic!("one probe") };
        server.service.callback_failed(probe.id, server.clocks());
        server.pass(60);
        let opens = [&to_root()[..], &[open(1, clientid, b"owner")]].concat();
        assert_eq!(compound_as(&server, root(), 0, &opens).status, Done);
        assert_eq!(server.service.take_callbacks().len(), usize::from(delegations));
    }
}
