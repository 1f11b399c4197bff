//! REMOVE (RFC 1813 section 3.3.12): removes a name of an object other than a directory. RMDIR has results of the same
//! form.

use volume::request::Request;
use volume::results::Removed;
use wire::nfs3::{NfsStat3, RemoveArgs, RemoveOk, RemoveRes, WccData};
use wire::xdr::{Encode, Encoder};

use crate::attributes::unchanged;
use crate::call::{Call, Handled, Object};
use crate::rpc_cache::{Once, ToJournal, once};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: RemoveArgs<'_> = call.arguments()?;
    let directory = call.object(args.object.dir)?;
    let _in_flight = call.recaller().name(&directory, args.object.name.0)?;
    let post_op = call.recaller().post_op(&directory);
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let removed = directory.volume.remove(request, directory.ino, args.object.name.0, encode);
            removed.inspect(|removed| post_op.removed(&removed.value))
        },
        succeed: |removed: &_, out: &mut Encoder<'_>| succeeded(&directory, removed, out),
        fail: |after: &mut _| Ok(unchanged(directory.shown(after)?)),
    };
    once(call, &directory, out, operation)
}

/// Writes the result of a success.
pub(super) fn succeeded(directory: &Object<'_>, removed: &Removed, out: &mut Encoder<'_>) {
    RemoveRes::Ok(RemoveOk { dir_wcc: directory.wcc(&removed.directory) }).encode(out);
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, WccData::NONE);
}
