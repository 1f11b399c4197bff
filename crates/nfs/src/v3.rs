//! NFS version 3 (RFC 1813 section 3): one procedure per file, named as the RFC names it.
//!
//! Each file has `run`, which executes a call and writes its result, and `failed`, which writes a failure without
//! attributes. Changes go through [`crate::rpc_cache::once`], except WRITE, which is idempotent.

use wire::nfs3::{Failed, NfsStat3};
use wire::xdr::{Encode, Encoder};

use crate::call::Operation;

mod access;
mod commit;
mod create;
mod fsinfo;
mod fsstat;
mod getattr;
mod link;
mod lookup;
mod mkdir;
mod mknod;
pub(crate) mod null;
mod pathconf;
mod read;
mod readdir;
mod readdirplus;
mod readlink;
mod remove;
mod rename;
mod rmdir;
mod setattr;
mod symlink;
mod write;

/// The procedures in the order of their numbers ([`wire::nfs3::Procedure`]).
pub(crate) static OPERATIONS: [Operation; 22] = [
    null::OPERATION,
    Operation { run: getattr::run, failed: Some(getattr::failed), changes: false },
    Operation { run: setattr::run, failed: Some(setattr::failed), changes: true },
    Operation { run: lookup::run, failed: Some(lookup::failed), changes: false },
    Operation { run: access::run, failed: Some(access::failed), changes: false },
    Operation { run: readlink::run, failed: Some(readlink::failed), changes: false },
    Operation { run: read::run, failed: Some(read::failed), changes: false },
    Operation { run: write::run, failed: Some(write::failed), changes: true },
    Operation { run: create::run, failed: Some(create::failed), changes: true },
    Operation { run: mkdir::run, failed: Some(mkdir::failed), changes: true },
    Operation { run: symlink::run, failed: Some(symlink::failed), changes: true },
    Operation { run: mknod::run, failed: Some(mknod::failed), changes: true },
    Operation { run: remove::run, failed: Some(remove::failed), changes: true },
    Operation { run: rmdir::run, failed: Some(rmdir::failed), changes: true },
    Operation { run: rename::run, failed: Some(rename::failed), changes: true },
    Operation { run: link::run, failed: Some(link::failed), changes: true },
    Operation { run: readdir::run, failed: Some(readdir::failed), changes: false },
    Operation { run: readdirplus::run, failed: Some(readdirplus::failed), changes: false },
    Operation { run: fsstat::run, failed: Some(fsstat::failed), changes: false },
    Operation { run: fsinfo::run, failed: Some(fsinfo::failed), changes: false },
    Operation { run: pathconf::run, failed: Some(pathconf::failed), changes: false },
    Operation { run: commit::run, failed: Some(commit::failed), changes: false },
];

/// Writes a failure.
fn fail(out: &mut Encoder<'_>, status: NfsStat3, body: impl Encode) {
    Failed { status, body }.encode(out);
}
