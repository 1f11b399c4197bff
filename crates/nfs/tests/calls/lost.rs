//! Objects whose records the index has lost.

use std::sync::Arc;

use volume::media::memory::MemoryMedia;
use wire::nfs3::NfsStat3;
use wire::nfs4::*;

use crate::directories::readdirplus;
use crate::support::{Server, root};
use crate::v4::support::{compound, handle_at, putfh};

const FILES: usize = 200;

fn name(number: usize) -> String {
    format!("file {number:03}")
}

/// Returns a closed volume with files in the root directory.
fn stored() -> Arc<MemoryMedia> {
    let server = Server::new();
    for number in 0..FILES {
        server.create(root(), server.root(), &name(number), 0o644);
    }
    server.commit();
    server.volume.close(server.time()).unwrap();
    Arc::clone(&server.media)
}

/// Lists the root directory with NFSv3. Returns the names with attributes, and those without.
fn listed(server: &Server) -> Result<[Vec<Vec<u8>>; 2], NfsStat3> {
    let (_, listed) = readdirplus(server, server.root(), 0, 1 << 20, 1 << 20);
    let listed = listed.map_err(|failed| failed.status)?;
    assert!(listed.eof);
    let mut names = [Vec::new(), Vec::new()];
    for entry in listed.entries.iter().filter(|entry| !entry.name.0.starts_with(b".")) {
        assert_eq!(entry.name_attributes.is_some(), entry.name_handle.is_some());
        names[usize::from(entry.name_attributes.is_none())].push(entry.name.0.to_vec());
    }
    Ok(names)
}

fn readdir4(server: &Server, asked: &[Attr4]) -> ResOp4<'static> {
    let args = ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 1 << 20,
        maxcount: 1 << 20,
        attr_request: AttrMask::of(asked),
    };
    *compound(server, &[putfh(handle_at(server, &[])), ArgOp4::Readdir(args)]).last()
}

/// Checks that NFSv4 lists the same names, with the error instead of attributes for those of `unreadable`.
fn check_readdir4(server: &Server, unreadable: &[Vec<u8>]) {
    let asked = [Attr4::Type, Attr4::Size, Attr4::Fileid, Attr4::RdattrError];
    let ResOp4::Readdir(Ok(listed)) = readdir4(server, &asked) else { panic!("not listed") };
    let mut failed = Vec::new();
    for entry in listed.entries.iter() {
        let shown = entry.attrs.decode_values().unwrap();
        if shown.rdattr_error == Some(NfsStat4::Io) {
            assert_eq!(shown.mask(), AttrMask::of(&[Attr4::Fileid, Attr4::RdattrError]));
            failed.push(entry.name.0.to_vec());
        } else {
            assert_eq!(shown.mask(), AttrMask::of(&asked));
        }
    }
    assert_eq!((listed.entries.iter().count(), &failed[..]), (FILES, unreadable));
    // The error of an entry is that of the page if it is not asked for.
    assert!(matches!(readdir4(server, &asked[..3]), ResOp4::Readdir(Err(NfsStat4::Io))));
    // The names alone do not need the objects.
    assert!(matches!(readdir4(server, &asked[2..]), ResOp4::Readdir(Ok(_))));
}

#[test]
fn an_object_whose_record_is_lost_is_listed_without_attributes() {
    const BLOCK: usize = 4096;
    let media = stored();
    let image = media.index_file().bytes();
    let is_used = |block: &usize| image[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
    let all: Vec<Vec<u8>> = (0..FILES).map(|number| name(number).into_bytes()).collect();
    let mut found = 0;
    for block in (2..image.len() / BLOCK).filter(is_used) {
        let media = media.after_kill();
        media.index_file().flip(block * BLOCK + 300, 1);
        let Some(server) = Server::of_damaged(media) else { continue };
        // The names may be lost instead, or the directory.
        let Ok([whole, unreadable]) = listed(&server) else { continue };
        let mut names = [whole, unreadable.clone()].concat();
        names.sort();
        assert_eq!(names, all, "block {block}");
        if !unreadable.is_empty() {
            check_readdir4(&server, &unreadable);
            found += 1;
        }
    }
    assert!(found > 0);
}
