//! NFSv3 hosts and NFSv4 clients on the same files.

use wire::nfs3::FileHandle3;
use wire::nfs4::*;
use wire::nlm4::{Fsh4Mode, Nlm4Stats, Procedure, TestReply};

use crate::support::{Client, Server, client};
use crate::v4::opens::{open as reading, opened};
use crate::v4::session::Session;
use crate::v4::support::{compound, putfh};

use super::{Process, WHOLE, answer, called, file_of, granted, lock, process, share, test, unlock, wait};

/// An NFSv4.0 client with an open file.
struct Opened {
    client: ClientId4,
    open: Stateid4,
    file: &'static [u8],
}

fn results(server: &Server, operations: &[ArgOp4<'_>]) -> Vec<ResOp4<'static>> {
    compound(server, operations).all
}

fn introduce(server: &Server) -> ClientId4 {
    let nowhere = Netaddr4 { netid: Utf8Str4(b"tcp"), addr: Utf8Str4(b"0.0.0.0.0.0") };
    let args = SetClientIdArgs {
        client: NfsClientId4 { verifier: *b"verifier", id: OwnerId4(b"four") },
        callback: CbClient4 { cb_program: 0x4000_0000, cb_location: nowhere },
        callback_ident: 1,
    };
    let all = results(server, &[ArgOp4::SetClientId(args)]);
    let [ResOp4::SetClientId(Ok(set))] = &*all else { panic!("{all:?}") };
    let args =
        SetClientIdConfirmArgs { clientid: set.clientid, setclientid_confirm: set.setclientid_confirm };
    assert_eq!(compound(server, &[ArgOp4::SetClientIdConfirm(args)]).status, NfsStat4::Ok);
    set.clientid
}

fn open_args(client: ClientId4, seqid: u32, share_deny: u32) -> ArgOp4<'static> {
    let owner = StateOwner4 { clientid: client, owner: OwnerId4(b"opener") };
    let claim = OpenClaim4::Null(Component4(b"file"));
    ArgOp4::Open(OpenArgs { seqid, share_access: 3, share_deny, owner, openhow: None, claim })
}

fn open(server: &Server, file: FileHandle3<'static>) -> Opened {
    let client = introduce(server);
    let root = server.root();
    let all = results(server, &[putfh(root.as_bytes()), open_args(client, 1, 0)]);
    let [_, ResOp4::Open(Ok(opened))] = &*all else { panic!("{all:?}") };
    let args = OpenConfirmArgs { open_stateid: opened.stateid, seqid: 2 };
    let all = results(server, &[putfh(file.as_bytes()), ArgOp4::OpenConfirm(args)]);
    let [_, ResOp4::OpenConfirm(Ok(confirmed))] = &*all else { panic!("{all:?}") };
    Opened { client, open: confirmed.open_stateid, file: file.as_bytes() }
}

impl Opened {
    fn lock(&self, server: &Server, seqid: u32, owner: &'static [u8]) -> Result<Stateid4, NfsStat4> {
        let locker = Locker4::OpenOwner(OpenToLockOwner4 {
            open_seqid: seqid,
            open_stateid: self.open,
            lock_seqid: 1,
            lock_owner: StateOwner4 { clientid: self.client, owner: OwnerId4(owner) },
        });
        let (locktype, reclaim) = (NfsLockType4::Write, false);
        let args = LockArgs { locktype, reclaim, offset: 0, length: u64::MAX, locker };
        let found = compound(server, &[putfh(self.file), ArgOp4::Lock(args)]);
        match found.last() {
            ResOp4::Lock(Ok(locked)) => Ok(locked.lock_stateid),
            _ => Err(found.status),
        }
    }

    fn unlock(&self, server: &Server, lock_stateid: Stateid4) {
        let locktype = NfsLockType4::Write;
        let args = LockuArgs { locktype, seqid: 2, lock_stateid, offset: 0, length: u64::MAX };
        assert_eq!(compound(server, &[putfh(self.file), ArgOp4::Locku(args)]).status, NfsStat4::Ok);
    }
}

#[test]
fn nfsv4_and_nlm_see_each_others_locks() {
    let server = Server::new();
    let file = file_of(&server);
    let three = process(1, 7);
    let four = open(&server, file);
    assert_eq!(lock(&server, three, file, (5, 5, true)), Nlm4Stats::Granted);
    assert_eq!(four.lock(&server, 3, b"locker"), Err(NfsStat4::Denied));
    let owner = StateOwner4 { clientid: four.client, owner: OwnerId4(b"tester") };
    let args = LocktArgs { locktype: NfsLockType4::Read, offset: 0, length: u64::MAX, owner };
    let found = compound(&server, &[putfh(file.as_bytes()), ArgOp4::Lockt(args)]);
    let ResOp4::Lockt(Err(LockFail::Denied(denied))) = found.last() else { panic!("{found:?}") };
    assert_eq!((denied.offset, denied.length), (5, 5));
    assert_eq!(unlock(&server, three, file, WHOLE), Nlm4Stats::Granted);
    let locked = four.lock(&server, 4, b"locker").unwrap();
    assert_eq!(lock(&server, three, file, (5, 5, false)), Nlm4Stats::Denied);
    let TestReply::Denied(holder) = test(&server, three, file, WHOLE) else { panic!("free") };
    assert_eq!((holder.svid, holder.oh.as_bytes(), holder.l_len), (0, &b"locker"[..], 0));
    // A waiter is called when the other protocol unlocks.
    assert_eq!(wait(&server, three, file, (5, 5, true)), Nlm4Stats::Blocked);
    assert!(called(&server).is_empty());
    four.unlock(&server, locked);
    answer(&server, &granted(&server, "192.0.2.1").0, Nlm4Stats::Granted);
    assert_eq!(four.lock(&server, 5, b"other"), Err(NfsStat4::Denied));
}

/// Whoever may only read a file cannot have the delegations of its other readers recalled.
#[test]
fn a_test_for_an_exclusive_lock_recalls_only_what_its_caller_could_lock() {
    let server = Server::new();
    let file = file_of(&server);
    let reader = Session::of(&server, b"reader");
    let results = opened(&reader, reading(false, share_deny::NONE));
    let ResOp4::Open(Ok(found)) = results.last() else { panic!("{results:?}") };
    assert!(matches!(found.delegation, OpenDelegation4::Read(_)), "{found:?}");
    let owner = process(2, 7);
    let other = Process { who: Client { peer: owner.who.peer, ..client(1000, 1000) }, ..owner };
    assert!(matches!(test(&server, other, file, WHOLE), TestReply::Stat(Nlm4Stats::Granted)));
    assert!(called(&server).is_empty());
    assert!(matches!(test(&server, owner, file, WHOLE), TestReply::Stat(Nlm4Stats::DeniedGracePeriod)));
}

#[test]
fn nfsv4_and_nlm_locks_survive_a_restart() {
    let server = Server::new();
    let file = file_of(&server);
    let three = process(1, 7);
    let four = open(&server, file);
    let locked = four.lock(&server, 3, b"locker").unwrap();
    let server = server.restarted();
    assert_eq!(lock(&server, three, file, WHOLE), Nlm4Stats::Denied);
    four.unlock(&server, locked);
    assert_eq!(lock(&server, three, file, WHOLE), Nlm4Stats::Granted);
    let server = server.restarted();
    assert_eq!(four.lock(&server, 4, b"other"), Err(NfsStat4::Denied));
}

#[test]
fn nfsv4_opens_and_nlm_shares_deny_each_other() {
    let server = Server::new();
    let file = file_of(&server);
    let three = process(1, 7);
    let client = introduce(&server);
    let root = server.root();
    let try_open = |seqid: u32, deny: u32| {
        compound(&server, &[putfh(root.as_bytes()), open_args(client, seqid, deny)]).status
    };
    assert_eq!(share(&server, three, file, Procedure::Share, Fsh4Mode::DenyWrite), Nlm4Stats::Granted);
    assert_eq!(try_open(1, 0), NfsStat4::ShareDenied);
    assert_eq!(share(&server, three, file, Procedure::Unshare, Fsh4Mode::DenyWrite), Nlm4Stats::Granted);
    assert_eq!(try_open(2, 1), NfsStat4::Ok);
    assert_eq!(share(&server, three, file, Procedure::Share, Fsh4Mode::DenyNone), Nlm4Stats::Denied);
    // Locks do not conflict with shares.
    assert_eq!(lock(&server, three, file, WHOLE), Nlm4Stats::Granted);
}
