//! RMDIR (RFC 1813 section 3.3.13): removes an empty directory.

use volume::request::Request;
use wire::nfs3::RmdirArgs;
use wire::xdr::Encoder;

use crate::attributes::unchanged;
use crate::call::{Call, Handled};
use crate::rpc_cache::{Once, ToJournal, once};
use crate::v3::remove;
pub(super) use crate::v3::remove::failed;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: RmdirArgs<'_> = call.arguments()?;
    let directory = call.object(args.object.dir)?;
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            directory.volume.remove_directory(request, directory.ino, args.object.name.0, encode)
        },
        succeed: |removed: &_, out: &mut Encoder<'_>| remove::succeeded(&directory, removed, out),
        fail: |after: &mut _| Ok(unchanged(directory.shown(after)?)),
    };
    once(call, &directory, out, operation)
}
