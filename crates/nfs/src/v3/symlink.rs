//! SYMLINK (RFC 1813 section 3.3.10): creates a symbolic link.

use volume::request::Request;
use wire::nfs3::SymlinkArgs;
use wire::xdr::Encoder;

use crate::attributes::{set_attributes, unchanged};
use crate::call::{Call, Handled};
use crate::rpc_cache::{Once, ToJournal, once};
use crate::v3::create;
pub(super) use crate::v3::create::failed;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: SymlinkArgs<'_> = call.arguments()?;
    let directory = call.object(args.place.dir)?;
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let set = set_attributes(&args.symlink.symlink_attributes)?;
            let (name, target) = (args.place.name.0, args.symlink.symlink_data.0);
            directory.volume.make_symlink(request, directory.ino, name, target, &set, encode)
        },
        succeed: |created: &_, out: &mut Encoder<'_>| create::succeeded(&directory, created, out),
        fail: |after: &mut _| Ok(unchanged(directory.shown(after)?)),
    };
    once(call, &directory, out, operation)
}
