//! OPEN: what it does to files that others have open.

use wire::nfs4::*;

use super::session::Session;
use super::support::*;
use crate::support::Server;

/// OPEN of "file" to read, which cuts it if `cuts`.
fn open(cuts: bool, share_deny: u32) -> ArgOp4<'static> {
    let size = cuts.then(|| fattr(&Attributes4 { size: Some(0), ..Attributes4::default() }));
    ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::READ | if share_deny == 0 { 0 } else { share_access::WANT_NO_DELEG },
        share_deny,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"owner") },
        openhow: size.map(Createhow4::Unchecked),
        claim: OpenClaim4::Null(Component4(b"file")),
    })
}

fn opened(session: &Session<'_>, operation: ArgOp4<'_>) -> Results {
    session.compound(&[&to_root()[..], &[operation]].concat())
}

fn size(server: &Server, handle: &[u8]) -> u64 {
    attributes_of(server, handle, &[Attr4::Size]).size.unwrap()
}

fn write(server: &Server, handle: &'static [u8], data: &[u8]) {
    let handle = wire::nfs3::FileHandle3::new(handle).unwrap();
    server.write(handle, 0, data).unwrap();
}

#[test]
fn who_cuts_a_file_writes_it_whatever_it_is_opened_for() {
    let server = Server::new();
    let handle = file(&server, "file");
    write(&server, handle, b"data");
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let results = opened(&one, open(false, share_deny::WRITE));
    let ResOp4::Open(Ok(denying)) = results.last() else { panic!("{results:?}") };
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::ShareDenied);
    assert_eq!(size(&server, handle), 4);
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: denying.stateid });
    assert_eq!(one.on(handle, &[close]).status, NfsStat4::Ok);
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Ok);
    assert_eq!(size(&server, handle), 0);
}

#[test]
fn who_cuts_a_file_recalls_what_others_read_by() {
    let server = Server::new();
    let handle = file(&server, "file");
    write(&server, handle, b"data");
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let results = opened(&one, open(false, share_deny::NONE));
    let ResOp4::Open(Ok(found)) = results.last() else { panic!("{results:?}") };
    let OpenDelegation4::Read(delegation) = &found.delegation else { panic!("{found:?}") };
    assert_eq!(opened(&two, open(false, share_deny::NONE)).status, NfsStat4::Ok, "both read");
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Delay);
    assert_eq!(size(&server, handle), 4);
    let back = ArgOp4::Delegreturn(DelegreturnArgs { deleg_stateid: delegation.stateid });
    assert_eq!(one.on(handle, &[back]).status, NfsStat4::Ok);
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Ok);
}
