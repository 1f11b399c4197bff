//! Listings of very many names come in replies of a bounded number, whatever the client has room for.

use std::collections::BTreeSet;
use std::sync::Arc;

use nfs::exports::Export;
use nfs::limits::NAMES_MAX;
use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::request::{Access, Credentials, Request};
use wire::nfs4::*;

use crate::directories::{readdir, readdirplus};
use crate::support::{Server, open_export, root};
use crate::v4::support::{compound, getattr, putfh, stops_and_goes_on};

/// More names than two replies have room for.
const NAMES: usize = 2 * NAMES_MAX + 100;

/// Makes a directory of [`NAMES`] names of one file. Returns its handle.
fn long_directory(server: &Server) -> wire::nfs3::FileHandle3<'static> {
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    let file = server.create(root(), server.root(), "file", 0o644);
    server.commit();
    let ino = |handle: wire::nfs3::FileHandle3<'_>| Handle::parse(handle.as_bytes()).unwrap().ino;
    let (who, now) = (Credentials::root(), server.time());
    for number in 0..NAMES {
        let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
        let name = format!("name {number}");
        let nothing = &mut |_: &_| Arc::<[u8]>::from([]).into();
        server.volume.link(&request, ino(file), ino(dir), name.as_bytes(), nothing).unwrap();
    }
    server.volume.step_commit(now);
    dir
}

/// The names of one reply with their cookies, and whether it was the last one.
type Listed = (Vec<(Vec<u8>, u64)>, bool);

/// Lists everything. Returns how many names each reply had.
fn list_all(mut list: impl FnMut(u64) -> Listed) -> (Vec<usize>, BTreeSet<Vec<u8>>) {
    let (mut counts, mut seen, mut cookie) = (Vec::new(), BTreeSet::new(), 0);
    loop {
        let (names, eof) = list(cookie);
        counts.push(names.len());
        for (name, at) in names {
            assert!(seen.insert(name), "no name comes twice");
            cookie = at;
        }
        if eof {
            return (counts, seen);
        }
    }
}

#[test]
fn listings_of_nfs3_have_a_bounded_number_of_names() {
    let server = Server::new();
    let dir = long_directory(&server);
    let (counts, seen) = list_all(|cookie| {
        let (_, listed) = readdir(&server, dir, cookie, 1 << 20);
        let listed = listed.unwrap();
        let names = listed.entries.iter().map(|entry| (entry.name.0.to_vec(), entry.cookie));
        (names.collect(), listed.eof)
    });
    assert_eq!((counts, seen.len()), (vec![NAMES_MAX, NAMES_MAX, 102], NAMES + 2));
    let (counts, seen) = list_all(|cookie| {
        let (_, listed) = readdirplus(&server, dir, cookie, 1 << 20, 1 << 20);
        let listed = listed.unwrap();
        let names = listed.entries.iter().map(|entry| (entry.name.0.to_vec(), entry.cookie));
        (names.collect(), listed.eof)
    });
    assert_eq!((counts, seen.len()), (vec![NAMES_MAX, NAMES_MAX, 102], NAMES + 2));
}

fn readdir4(cookie: u64, attributes: &[Attr4]) -> ArgOp4<'static> {
    let attr_request = AttrMask::of(attributes);
    let (cookieverf, dircount, maxcount) = ([0; 8], 0, 1 << 20);
    ArgOp4::Readdir(ReaddirArgs { cookie, cookieverf, dircount, maxcount, attr_request })
}

fn list4(server: &Server, before: &[ArgOp4<'_>], cookie: u64, attributes: &[Attr4]) -> Listed {
    let results = compound(server, &[before, &[readdir4(cookie, attributes)]].concat());
    let ResOp4::Readdir(Ok(listed)) = results.last() else { panic!("{:?}", results.status) };
    let names = listed.entries.iter().map(|entry| (entry.name.0.to_vec(), entry.cookie));
    (names.collect(), listed.eof)
}

#[test]
fn listings_of_nfs4_have_a_bounded_number_of_names() {
    let server = Server::new();
    let dir = long_directory(&server);
    for attributes in [&[Attr4::Fileid][..], &[Attr4::Fileid, Attr4::Size]] {
        let to_dir = [putfh(dir.as_bytes())];
        let (counts, seen) = list_all(|cookie| list4(&server, &to_dir, cookie, attributes));
        assert_eq!((counts, seen.len()), (vec![NAMES_MAX, NAMES_MAX, 100], NAMES));
    }
}

#[test]
fn the_pseudo_root_lists_a_bounded_number_of_names() {
    let exports = (1..NAMES_MAX + 10).map(|number| Export::new(format!("/{number}"), VolumeId(1)));
    let server = Server::with(std::iter::once(open_export()).chain(exports).collect());
    let (counts, _) = list_all(|cookie| list4(&server, &[ArgOp4::Putrootfh], cookie, &[Attr4::Fileid]));
    assert_eq!(counts, [NAMES_MAX, 10]);
}

/// Otherwise six of them would keep a thread for 15,000 names.
#[test]
fn a_short_compound_gives_its_turn_up_after_each_long_listing() {
    let server = Server::new();
    let dir = long_directory(&server);
    let list = || readdir4(0, &[Attr4::Fileid]);
    let stops = |operations: &[ArgOp4<'_>]| {
        let (stops, results) = stops_and_goes_on(&server, operations);
        assert_eq!((results.status, results.all.len()), (NfsStat4::Ok, operations.len()));
        stops
    };
    let dir = putfh(dir.as_bytes());
    let first = stops(&[dir, list()]);
    assert!(first <= 1, "it may read media");
    assert_eq!(stops(&[dir, list(), getattr(&[Attr4::Size])]), first, "nothing long follows");
    assert_eq!(stops(&[dir, list(), list(), list(), getattr(&[Attr4::Size])]), first + 2);
}
