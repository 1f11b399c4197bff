//! Messages of foreign clients and servers (`golden/README.md`) are decoded, encoded again, and must be the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use wire::mount3::{DirPath, Exports, MntRes, MountList};
use wire::nfs3::*;
use wire::rpc::{CallHeader, Credential, ReplyHeader, decode_call};
use wire::xdr::{Decode, Decoder, Encode, Encoder};
use wire::{mount3, nfs3};

/// Decodes all that is left as `T` and encodes it behind what `out` holds.
fn again<'a, T: Decode<'a> + Encode>(input: &mut Decoder<'a>, out: &mut Vec<u8>) {
    let value = T::decode(input).expect("decodes");
    input.finish().expect("nothing follows");
    value.encode(&mut Encoder::new(out));
}

/// Arguments and results of a procedure of NFSv3.
macro_rules! nfs {
    ($input:expr, $out:expr, $is_call:expr, $args:ty, $res:ty) => {
        if $is_call { again::<$args>($input, $out) } else { again::<$res>($input, $out) }
    };
}

fn nfs3_again(procedure: nfs3::Procedure, call: bool, input: &mut Decoder<'_>, out: &mut Vec<u8>) {
    use nfs3::Procedure as P;
    match procedure {
        P::Null => input.finish().expect("NULL carries nothing"),
        P::Getattr => nfs!(input, out, call, GetattrArgs<'_>, GetattrRes),
        P::Setattr => nfs!(input, out, call, SetattrArgs<'_>, SetattrRes),
        P::Lookup => nfs!(input, out, call, LookupArgs<'_>, LookupRes<'_>),
        P::Access => nfs!(input, out, call, AccessArgs<'_>, AccessRes),
        P::Readlink => nfs!(input, out, call, ReadlinkArgs<'_>, ReadlinkRes<'_>),
        P::Read => nfs!(input, out, call, ReadArgs<'_>, ReadRes<'_>),
        P::Write => nfs!(input, out, call, WriteArgs<'_>, WriteRes),
        P::Create => nfs!(input, out, call, CreateArgs<'_>, CreateRes<'_>),
        P::Mkdir => nfs!(input, out, call, MkdirArgs<'_>, MkdirRes<'_>),
        P::Symlink => nfs!(input, out, call, SymlinkArgs<'_>, SymlinkRes<'_>),
        P::Mknod => nfs!(input, out, call, MknodArgs<'_>, MknodRes<'_>),
        P::Remove => nfs!(input, out, call, RemoveArgs<'_>, RemoveRes),
        P::Rmdir => nfs!(input, out, call, RmdirArgs<'_>, RmdirRes),
        P::Rename => nfs!(input, out, call, RenameArgs<'_>, RenameRes),
        P::Link => nfs!(input, out, call, LinkArgs<'_>, LinkRes),
        P::Readdir => nfs!(input, out, call, ReaddirArgs<'_>, ReaddirRes<'_>),
        P::Readdirplus => nfs!(input, out, call, ReaddirplusArgs<'_>, ReaddirplusRes<'_>),
        P::Fsstat => nfs!(input, out, call, FsstatArgs<'_>, FsstatRes),
        P::Fsinfo => nfs!(input, out, call, FsinfoArgs<'_>, FsinfoRes),
        P::Pathconf => nfs!(input, out, call, PathconfArgs<'_>, PathconfRes),
        P::Commit => nfs!(input, out, call, CommitArgs<'_>, CommitRes),
    }
}

fn mount3_again(procedure: mount3::Procedure, call: bool, input: &mut Decoder<'_>, out: &mut Vec<u8>) {
    use mount3::Procedure as P;
    match (procedure, call) {
        (P::Mnt, true) | (P::Umnt, true) => again::<DirPath<'_>>(input, out),
        (P::Mnt, false) => again::<MntRes<'_>>(input, out),
        (P::Dump, false) => again::<MountList<'_>>(input, out),
        (P::Export, false) => again::<Exports<'_>>(input, out),
        _ => input.finish().expect("carries nothing"),
    }
}

/// Encodes what follows the header of `call` in either direction; other programs' bodies are copied.
fn body_again(header: &CallHeader<'_>, call: bool, input: &mut Decoder<'_>, out: &mut Vec<u8>) {
    match header.program {
        nfs3::PROGRAM => {
            let procedure = nfs3::Procedure::from_code(header.procedure).expect("a procedure of NFSv3");
            nfs3_again(procedure, call, input, out);
        }
        mount3::PROGRAM => {
            let procedure = mount3::Procedure::from_code(header.procedure).expect("a procedure of MOUNT");
            mount3_again(procedure, call, input, out);
        }
        _ => out.extend_from_slice(input.rest()),
    }
}

fn check(name: &str, call: &[u8], reply: &[u8]) {
    let (header, mut input) = decode_call(call).expect(name);
    assert!(!matches!(header.credential, Credential::Other(_)), "{name}: a credential that is understood");
    let mut out = Vec::new();
    header.encode(&mut Encoder::new(&mut out));
    body_again(&header, true, &mut input, &mut out);
    assert_eq!(out, call, "{name}: the call");

    let mut input = Decoder::new(reply);
    let answer = ReplyHeader::decode(&mut input).expect(name);
    assert_eq!(answer.xid, header.xid, "{name}: the reply to the call");
    let mut out = Vec::new();
    answer.encode(&mut Encoder::new(&mut out));
    if answer.is_success() {
        body_again(&header, false, &mut input, &mut out);
    }
    assert_eq!(out, reply, "{name}: the reply");
}

#[test]
fn every_message_survives_decoding_and_encoding() {
    // Cargo runs tests in the folder of their package.
    let root = Path::new("tests/golden");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for folder in ["linux-ganesha", "libnfs-ganesha", "linux-knfsd"] {
        let names = fs::read_dir(root.join(folder))
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("the names are plain"));
        for name in names {
            let Some(pair) = name.strip_suffix("-call.bin") else { continue };
            let read =
                |kind: &str| fs::read(root.join(folder).join(format!("{pair}-{kind}.bin"))).expect("a pair");
            check(&format!("{folder}/{pair}"), &read("call"), &read("reply"));
            let procedure = pair.split_once('-').map_or(pair, |(_, procedure)| procedure);
            *seen.entry(procedure.to_owned()).or_default() += 1;
        }
    }
    for procedure in nfs3::Procedure::ALL {
        let name = procedure.name().to_lowercase();
        assert!(seen.contains_key(&name), "no golden message of {name}: {seen:?}");
    }
    for name in ["mount-null", "mount-mnt", "mount-umnt", "mount-dump", "mount-export"] {
        assert!(seen.contains_key(name), "no golden message of {name}: {seen:?}");
    }
}
