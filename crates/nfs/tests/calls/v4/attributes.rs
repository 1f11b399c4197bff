//! GETATTR, SETATTR, VERIFY, NVERIFY, ACCESS.

use wire::nfs4::*;

use super::support::*;
use crate::support::{Server, client, root};

fn set(attributes: &Attributes4<'_>) -> ArgOp4<'static> {
    ArgOp4::Setattr(SetattrArgs { stateid: Stateid4::ANONYMOUS, obj_attributes: fattr(attributes) })
}

fn set_on(server: &Server, file: &[u8], attributes: &Attributes4<'_>) -> (NfsStat4, AttrMask) {
    let results = compound(server, &[putfh(file), set(attributes)]);
    match results.last() {
        ResOp4::Setattr(res) => (res.status, res.attrsset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_supported_attribute_is_shown() {
    let server = Server::new();
    let file = file(&server, "file");
    let supported = attributes_of(&server, file, &[Attr4::SupportedAttrs]).supported_attrs.unwrap();
    for attribute in supported.iter() {
        if matches!(attribute, Attr4::TimeAccessSet | Attr4::TimeModifySet) {
            assert_eq!(status_of(&server, &[putfh(file), getattr(&[attribute])]), NfsStat4::Inval);
        } else {
            let shown = attributes_of(&server, file, &[attribute]).mask();
            assert_eq!(shown, AttrMask::of(&[attribute]), "{attribute:?}");
        }
    }
    // The mandatory attributes (RFC 7530 section 5.6).
    for number in (0..=11).chain([19]) {
        assert!(supported.bitmap().contains(number), "{number}");
    }
    // Unsupported attributes are omitted.
    let shown = attributes_of(&server, file, &[Attr4::Mimetype, Attr4::Size]);
    assert_eq!(shown.mask(), AttrMask::of(&[Attr4::Size]));
}

#[test]
fn attributes_are_set_and_shown() {
    let server = Server::new();
    let file = file(&server, "file");
    let time = NfsTime4 { seconds: -5, nseconds: 7 };
    let wanted = Attributes4 {
        size: Some(10),
        mode: Some(0o4750),
        owner: Some(Utf8Str4(b"1000")),
        owner_group: Some(Utf8Str4(b"100")),
        time_access_set: Some(SetTime4::SetToServerTime),
        time_modify_set: Some(SetTime4::SetToClientTime(time)),
        ..Attributes4::default()
    };
    let before = attributes_of(&server, file, &[Attr4::Change]).change;
    assert_eq!(set_on(&server, file, &wanted), (NfsStat4::Ok, wanted.mask()));
    let all = [Attr4::Size, Attr4::Mode, Attr4::Owner, Attr4::OwnerGroup, Attr4::TimeModify, Attr4::Change];
    let shown = attributes_of(&server, file, &all);
    assert_eq!((shown.size, shown.mode), (wanted.size, wanted.mode));
    assert_eq!((shown.owner, shown.owner_group), (wanted.owner, wanted.owner_group));
    assert_eq!(shown.time_modify, Some(time));
    assert!(shown.change > before);
}

#[test]
fn unsettable_attributes_get_their_status() {
    let server = Server::new();
    let file = file(&server, "file");
    let none = Attributes4::default();
    let cases = [
        (Attributes4 { fileid: Some(9), ..none }, NfsStat4::Inval),
        (Attributes4 { hidden: Some(true), ..none }, NfsStat4::AttrNotSupp),
        (Attributes4 { mode: Some(0o10000), ..none }, NfsStat4::Inval),
        (Attributes4 { owner: Some(Utf8Str4(b"somebody@example.org")), ..none }, NfsStat4::BadOwner),
        (Attributes4 { owner_group: Some(Utf8Str4(b"-1")), ..none }, NfsStat4::BadOwner),
        (Attributes4 { owner: Some(Utf8Str4(b"4294967295")), ..none }, NfsStat4::BadOwner),
        (
            Attributes4 {
                time_modify_set: Some(SetTime4::SetToClientTime(NfsTime4 {
                    seconds: 0,
                    nseconds: 1_000_000_000,
                })),
                ..none
            },
            NfsStat4::Inval,
        ),
    ];
    for (wanted, expected) in cases {
        assert_eq!(set_on(&server, file, &wanted), (expected, AttrMask::EMPTY), "{wanted:?}");
    }
    let mismatch = Fattr4 { attrmask: AttrMask::of(&[Attr4::Size]), attr_vals: &[1, 2, 3, 4] };
    let damaged = ArgOp4::Setattr(SetattrArgs { stateid: Stateid4::ANONYMOUS, obj_attributes: mismatch });
    assert_eq!(status_of(&server, &[putfh(file), damaged]), NfsStat4::BadXdr);
    let dir = handle_at(&server, &[create("dir", CreateType4::Dir)]);
    assert_eq!(set_on(&server, dir, &Attributes4 { size: Some(1), ..none }).0, NfsStat4::IsDir);
}

#[test]
fn acls_follow_the_mode() {
    let server = Server::new();
    let file = file(&server, "file");
    let shown = attributes_of(&server, file, &[Attr4::Acl]).acl.unwrap();
    assert_eq!(
        shown.iter().map(|ace| ace.who.0.to_vec()).collect::<Vec<_>>(),
        [b"OWNER@".to_vec(), b"GROUP@".to_vec(), b"EVERYONE@".to_vec()]
    );
    set_on(&server, file, &Attributes4 { mode: Some(0o1600), ..Attributes4::default() });
    let (status, _) = set_on(&server, file, &Attributes4 { acl: Some(shown), ..Attributes4::default() });
    assert_eq!(status, NfsStat4::Ok);
    assert_eq!(attributes_of(&server, file, &[Attr4::Mode]).mode, Some(0o1644));
    let named = [Nfsace4 { ace_type: 0, flag: 0, access_mask: 1, who: Utf8Str4(b"1000") }];
    let acl = wire::array::Array::new(&named);
    let (status, _) = set_on(&server, file, &Attributes4 { acl, ..Attributes4::default() });
    assert_eq!(status, NfsStat4::AttrNotSupp);
}

#[test]
fn verify_passes_for_equal_attributes() {
    let server = Server::new();
    let file = file(&server, "file");
    let same = fattr(&attributes_of(&server, file, &[Attr4::Size, Attr4::Mode, Attr4::Owner, Attr4::Change]));
    let other = fattr(&Attributes4 { size: Some(99), ..Attributes4::default() });
    let verify = |obj_attributes| ArgOp4::Verify(VerifyArgs { obj_attributes });
    let nverify = |obj_attributes| ArgOp4::Nverify(VerifyArgs { obj_attributes });
    assert_eq!(status_of(&server, &[putfh(file), verify(same)]), NfsStat4::Ok);
    assert_eq!(status_of(&server, &[putfh(file), verify(other)]), NfsStat4::NotSame);
    assert_eq!(status_of(&server, &[putfh(file), nverify(same)]), NfsStat4::Same);
    assert_eq!(status_of(&server, &[putfh(file), nverify(other)]), NfsStat4::Ok);
    let unknown = fattr(&Attributes4 { hidden: Some(true), ..Attributes4::default() });
    assert_eq!(status_of(&server, &[putfh(file), verify(unknown)]), NfsStat4::AttrNotSupp);
    let error = fattr(&Attributes4 { rdattr_error: Some(NfsStat4::Ok), ..Attributes4::default() });
    assert_eq!(status_of(&server, &[putfh(file), nverify(error)]), NfsStat4::Inval);
}

#[test]
fn access_follows_the_mode() {
    let server = Server::new();
    let file = file(&server, "file");
    let ask = |who, handle: &'static [u8]| {
        let args = ArgOp4::Access(AccessArgs { access: 0x3f });
        match compound_as(&server, who, 0, &[putfh(handle), args]).last() {
            ResOp4::Access(Ok(found)) => (found.supported, found.access),
            other => panic!("{other:?}"),
        }
    };
    let (of_file, of_directory) = (0x2d, 0x1f);
    assert_eq!(ask(client(7, 7), file), (of_file, access::READ));
    assert_eq!(ask(root(), handle_at(&server, &[])), (of_directory, of_directory));
    let top = compound(&server, &[ArgOp4::Putrootfh, ArgOp4::Getfh]);
    let ResOp4::Getfh(Ok(top)) = top.last() else { panic!("{top:?}") };
    assert_eq!(ask(root(), top.object.as_bytes()), (of_directory, access::READ | access::LOOKUP));
}
