//! A server that is killed and started again: its clients go on as if nothing had happened.

use wire::nfs4::*;

use super::session::Session;
use super::support::{lookup, putfh, to_root};
use crate::support::Server;

fn open(owner: &'static [u8], deny: u32, how: Option<Createhow4<'static>>) -> ArgOp4<'static> {
    ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: deny,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(owner) },
        openhow: how,
        claim: OpenClaim4::Null(Component4(b"file")),
    })
}

fn lock(open_stateid: Stateid4) -> ArgOp4<'static> {
    let lock_owner = StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"locker") };
    let locker = OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
    ArgOp4::Lock(LockArgs {
        locktype: NfsLockType4::Write,
        reclaim: false,
        offset: 0,
        length: 100,
        locker: Locker4::OpenOwner(locker),
    })
}

fn lockt() -> ArgOp4<'static> {
    let owner = StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"another") };
    ArgOp4::Lockt(LocktArgs { locktype: NfsLockType4::Write, offset: 0, length: 1, owner })
}

#[test]
fn a_client_goes_on_with_what_it_holds() {
    let server = Server::new();
    let session = Session::new(&server);
    session.compound(&[ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
    let create = Some(Createhow4::Guarded(Fattr4::EMPTY));
    let opening = [&to_root()[..], &[open(b"owner", share_deny::WRITE, create), ArgOp4::Getfh]].concat();
    let opened = session.compound(&opening);
    let [.., ResOp4::Open(Ok(open_ok)), ResOp4::Getfh(Ok(handle))] = &opened.all[..] else {
        panic!("{opened:?}")
    };
    let (stateid, handle) = (open_ok.stateid, handle.object.as_bytes());
    let (id, sequence) = session.known();

    // The reply was lost, and the request comes again: it is answered as before, though the file exists by now.
    let server = server.restarted();
    let session = Session::resumed(&server, (id, sequence - 1));
    let again = session.compound(&opening);
    let [.., ResOp4::Open(Ok(open_again)), _] = &again.all[..] else { panic!("{again:?}") };
    assert_eq!(open_again.stateid, stateid);

    let locked = session.on(handle, &[lock(stateid)]);
    let ResOp4::Lock(Ok(locked)) = locked.last() else { panic!("{locked:?}") };
    let known = session.known();
    let server = server.restarted();
    let session = Session::resumed(&server, known);
    assert_eq!(session.on(handle, &[lockt()]).status, NfsStat4::Denied);
    let other = [&to_root()[..], &[open(b"other", share_deny::NONE, None)]].concat();
    assert_eq!(session.compound(&other).status, NfsStat4::ShareDenied);
    let unlock = ArgOp4::Locku(LockuArgs {
        locktype: NfsLockType4::Write,
        seqid: 0,
        lock_stateid: locked.lock_stateid,
        offset: 0,
        length: 100,
    });
    assert_eq!(session.compound(&[putfh(handle), unlock]).status, NfsStat4::Ok);
    assert_eq!(session.on(handle, &[lockt()]).status, NfsStat4::Ok);
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: stateid });
    assert_eq!(session.on(handle, &[close]).status, NfsStat4::Ok);
    assert_eq!(session.compound(&other).status, NfsStat4::Ok);
    assert_eq!(session.compound(&[&to_root()[..], &[lookup("file")]].concat()).status, NfsStat4::Ok);
}
