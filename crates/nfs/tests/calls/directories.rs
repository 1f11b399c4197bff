//! READDIR and READDIRPLUS list every name once, within the client's limits.

use std::collections::BTreeSet;

use wire::nfs3::*;
use wire::nfs4::{self, ArgOp4, Attr4, AttrMask, NfsStat4, ResOp4};

use crate::support::{Call, Server, client, encoded, place, results, root};
use crate::v4::support::{compound_as, putfh};

const NAMES: usize = 60;

/// A directory of names with lengths from 1 to [`NAMES`].
fn directory(server: &Server) -> (FileHandle3<'static>, BTreeSet<Vec<u8>>) {
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    let mut names: BTreeSet<Vec<u8>> = (1..=NAMES).map(|length| vec![b'n'; length]).collect();
    for name in &names {
        server.create(root(), dir, std::str::from_utf8(name).unwrap(), 0o644);
    }
    names.extend([b".".to_vec(), b"..".to_vec()]);
    (dir, names)
}

/// Lists once. Returns the length of the resok body, and the result.
pub(crate) fn readdir(
    server: &Server,
    dir: FileHandle3<'_>,
    cookie: u64,
    count: u32,
) -> (usize, ReaddirRes<'static>) {
    let args = encoded(&ReaddirArgs { dir, cookie, cookieverf: [0; 8], count });
    send(server, Procedure::Readdir, &args)
}

pub(crate) fn readdirplus(
    server: &Server,
    dir: FileHandle3<'_>,
    cookie: u64,
    dircount: u32,
    maxcount: u32,
) -> (usize, ReaddirplusRes<'static>) {
    let args = encoded(&ReaddirplusArgs { dir, cookie, cookieverf: [0; 8], dircount, maxcount });
    send(server, Procedure::Readdirplus, &args)
}

fn send<T: wire::xdr::Decode<'static>>(server: &Server, procedure: Procedure, args: &[u8]) -> (usize, T) {
    let xid = server.next_xid();
    let call = Call { xid, program: PROGRAM, version: 3, procedure: procedure.code(), args };
    let reply = server.rpc(root(), call);
    (reply.1.len() - 4, results(reply))
}

#[test]
fn every_name_is_listed_once_at_any_count() {
    let server = Server::new();
    let (dir, names) = directory(&server);
    for count in [188, 200, 256, 511, 1024, 4096, 1 << 20, u32::MAX] {
        let (mut cookie, mut seen) = (0, Vec::new());
        loop {
            let (bytes, res) = readdir(&server, dir, cookie, count);
            let res = res.unwrap();
            assert!(bytes <= count as usize, "{bytes} of {count}");
            assert_eq!(res.dir_attributes, Some(server.getattr(dir)));
            for entry in res.entries {
                seen.push(entry.name.0.to_vec());
                cookie = entry.cookie;
            }
            if res.eof {
                break;
            }
            assert!(res.entries.iter().next().is_some(), "each reply makes progress");
        }
        assert_eq!(seen.len(), names.len(), "count {count}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), names);
    }
}

#[test]
fn listings_fill_the_count() {
    let server = Server::new();
    let (dir, _) = directory(&server);
    let (whole, res) = readdir(&server, dir, 0, 1 << 20);
    assert!(res.unwrap().eof);
    let mut last = 0;
    for count in 100..=u32::try_from(whole).unwrap() {
        let (bytes, res) = readdir(&server, dir, 0, count);
        match res {
            Ok(res) => {
                let entries = res.entries.iter().count();
                assert!(entries >= last, "more room never shows fewer names");
                assert!(bytes <= count as usize);
                // The longest name takes 84 bytes, so at most that remains unused.
                assert!(res.eof || count as usize - bytes < 84, "{bytes} of {count}");
                assert_eq!(res.eof, count as usize == whole);
                last = entries;
            }
            Err(refused) => {
                assert_eq!(refused.status, NfsStat3::TooSmall);
                assert_eq!(refused.body, Some(server.getattr(dir)));
                // An empty list takes 104 bytes, `.` another 28.
                assert!(count < 132);
            }
        }
    }
}

#[test]
fn listings_need_room_for_the_end() {
    let server = Server::new();
    let (dir, _) = directory(&server);
    let (_, res) = readdir(&server, dir, 0, 1 << 20);
    let last = res.unwrap().entries.iter().last().unwrap().cookie;
    let (bytes, res) = readdir(&server, dir, last, 104);
    let res = res.unwrap();
    assert_eq!((bytes, res.eof, res.entries.iter().count()), (104, true, 0));
    let (_, res) = readdir(&server, dir, last, 103);
    assert_eq!(res.unwrap_err().status, NfsStat3::TooSmall);
}

#[test]
fn who_may_not_search_a_directory_sees_nothing_of_exports_beneath_it() {
    let server = Server::with_second_at("/main/sub");
    let covered = server.getattr(server.mkdir(root(), server.root(), "sub", 0o755)).fileid;
    let new_attributes = Sattr3 { mode: Some(0o744), ..Sattr3::default() };
    let set = SetattrArgs { object: server.root(), new_attributes, guard: None };
    server.call::<SetattrRes>(root(), Procedure::Setattr, &set).unwrap();
    for more in [&[Attr4::Filehandle, Attr4::RdattrError][..], &[]] {
        let args = nfs4::ReaddirArgs {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 4096,
            attr_request: AttrMask::of(more) | AttrMask::of(&[Attr4::Fileid]),
        };
        for (who, may_search) in [(root(), true), (client(1000, 1000), false)] {
            let operations = [putfh(server.root().as_bytes().to_vec().leak()), ArgOp4::Readdir(args)];
            let ResOp4::Readdir(Ok(listed)) = *compound_as(&server, who, 0, &operations).last() else {
                panic!("not listed")
            };
            let shown = listed.entries.iter().next().unwrap().attrs.decode_values().unwrap();
            assert_eq!(shown.filehandle.is_some(), may_search && !more.is_empty());
            assert_eq!(shown.fileid, Some(if may_search { 1 } else { covered }));
        }
    }
}

/// Without the right to search the directory, LOOKUP is refused: READDIRPLUS and READDIR of NFSv4 must not be a way around it.
#[test]
fn who_may_not_search_a_directory_gets_names_only() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o744);
    let file = server.getattr(server.create(root(), dir, "file", 0o644)).fileid;
    let other = client(1000, 1000);
    let args = ReaddirplusArgs { dir, cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096 };
    let listed: ReaddirplusRes<'_> = server.call(other, Procedure::Readdirplus, &args);
    let listed = listed.unwrap();
    assert_eq!(listed.entries.iter().count(), 3);
    for entry in listed.entries.iter() {
        assert!(entry.name_attributes.is_none() && entry.name_handle.is_none());
    }
    let listed: ReaddirplusRes<'_> = server.call(root(), Procedure::Readdirplus, &args);
    assert!(listed.unwrap().entries.iter().all(|entry| entry.name_handle.is_some()));

    let readdir = |asked: &[Attr4]| {
        let args = nfs4::ReaddirArgs {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 4096,
            attr_request: AttrMask::of(asked),
        };
        let operations = [putfh(dir.as_bytes().to_vec().leak()), ArgOp4::Readdir(args)];
        *compound_as(&server, other, 0, &operations).last()
    };
    let ResOp4::Readdir(Ok(listed)) = readdir(&[Attr4::Filehandle, Attr4::Size, Attr4::RdattrError]) else {
        panic!("not listed")
    };
    let shown: Vec<_> = listed.entries.iter().map(|entry| entry.attrs.decode_values().unwrap()).collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].rdattr_error, Some(NfsStat4::Access));
    assert_eq!(shown[0].mask(), AttrMask::of(&[Attr4::RdattrError]));
    assert!(matches!(readdir(&[Attr4::Filehandle]), ResOp4::Readdir(Err(NfsStat4::Access))));
    // What the directory itself says is shown.
    for asked in
        [&[Attr4::Fileid, Attr4::MountedOnFileid][..], &[Attr4::Fileid, Attr4::Size, Attr4::RdattrError]]
    {
        let ResOp4::Readdir(Ok(listed)) = readdir(asked) else { panic!("{asked:?}") };
        let shown = listed.entries.iter().next().unwrap().attrs.decode_values().unwrap();
        assert_eq!(shown.fileid, Some(file), "{asked:?}");
        assert_eq!(shown.mounted_on_fileid, asked.contains(&Attr4::MountedOnFileid).then_some(file));
    }
}

#[test]
fn readdirplus_matches_lookup() {
    let server = Server::new();
    let (dir, names) = directory(&server);
    for (dircount, maxcount) in
        [(u32::MAX, 512), (100, 1 << 20), (0, 1 << 20), (u32::MAX, u32::MAX), (512, 4096)]
    {
        let (mut cookie, mut seen) = (0, BTreeSet::new());
        loop {
            let (bytes, res) = readdirplus(&server, dir, cookie, dircount, maxcount);
            let res = res.unwrap();
            assert!(bytes <= maxcount as usize);
            let entries: Vec<_> = res.entries.iter().collect();
            let names_bytes: usize =
                entries.iter().map(|entry| 20 + entry.name.0.len().next_multiple_of(4)).sum();
            assert!(names_bytes <= dircount as usize || entries.len() == 1);
            for entry in &entries {
                let attributes = entry.name_attributes.unwrap();
                assert_eq!(attributes.fileid, entry.fileid);
                assert_eq!(server.getattr(entry.name_handle.unwrap()), attributes);
                assert!(seen.insert(entry.name.0.to_vec()));
                cookie = entry.cookie;
            }
            if res.eof {
                break;
            }
            assert!(!entries.is_empty());
        }
        assert_eq!(seen, names);
    }
    let (_, res) = readdirplus(&server, dir, 0, 4096, 200);
    let refused = res.unwrap_err();
    assert_eq!((refused.status, refused.body), (NfsStat3::TooSmall, Some(server.getattr(dir))));
}

#[test]
fn removing_listed_names_skips_none() {
    let server = Server::new();
    let (dir, names) = directory(&server);
    let (mut cookie, mut seen) = (0, BTreeSet::new());
    loop {
        let (_, res) = readdir(&server, dir, cookie, 300);
        let res = res.unwrap();
        for entry in res.entries {
            assert!(seen.insert(entry.name.0.to_vec()));
            cookie = entry.cookie;
            if !entry.name.0.starts_with(b".") {
                let name = std::str::from_utf8(entry.name.0).unwrap();
                let removed: RemoveRes =
                    server.call(root(), Procedure::Remove, &RemoveArgs { object: place(dir, name) });
                removed.unwrap();
            }
        }
        if res.eof {
            break;
        }
    }
    assert_eq!(seen, names);
}

#[test]
fn large_directories_take_many_batches() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    for number in 0..1500 {
        server.create(root(), dir, &format!("{number}"), 0o644);
    }
    let (_, res) = readdir(&server, dir, 0, 1 << 20);
    let res = res.unwrap();
    assert_eq!((res.entries.iter().count(), res.eof), (1502, true));
    let (_, res) = readdirplus(&server, dir, 0, 1 << 20, 1 << 20);
    let res = res.unwrap();
    assert_eq!((res.entries.iter().count(), res.eof), (1502, true));
}

#[test]
fn only_directories_and_their_cookies_are_listed() {
    let server = Server::new();
    let (dir, _) = directory(&server);
    let file = server.lookup(root(), dir, "n").unwrap();
    let (_, res) = readdir(&server, file, 0, 4096);
    let refused = res.unwrap_err();
    assert_eq!((refused.status, refused.body), (NfsStat3::NotDir, Some(server.getattr(file))));
    for cookie in [1 << 40, u64::MAX] {
        assert_eq!(readdir(&server, dir, cookie, 4096).1.unwrap_err().status, NfsStat3::BadCookie);
        assert_eq!(readdirplus(&server, dir, cookie, 4096, 4096).1.unwrap_err().status, NfsStat3::BadCookie);
    }
}
