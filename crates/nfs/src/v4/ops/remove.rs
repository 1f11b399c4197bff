//! REMOVE (RFC 8881 section 18.25): removes a name, of a directory or of any other object.

use volume::attributes::FileType;
use volume::request::Request;
use volume::results::Removed;
use wire::nfs4::{RemoveArgs, RemoveOk, RemoveRes};
use wire::xdr::{Encode as _, Encoder};

use crate::rpc_cache::ToJournal;
use crate::v4::context::{Compound, Done};
use crate::v4::names;
use crate::v4::once::{Once4, change_info, once};

pub(crate) fn run(compound: &mut Compound<'_>, args: &RemoveArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let directory = compound.changeable()?;
    compound.check_directory(&directory)?;
    let name = names::check(args.target)?;
    let _in_flight = compound.recaller().name(&directory, name)?;
    let post_op = compound.recaller().post_op(&directory);
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            // The engine has two operations for this one.
            let found = directory.volume.lookup(request, directory.ino, name)?;
            let removed = match found.value.attributes.file_type {
                FileType::Directory => {
                    directory.volume.remove_directory(request, directory.ino, name, encode)
                }
                _ => directory.volume.remove(request, directory.ino, name, encode),
            };
            removed.inspect(|removed| post_op.removed(&removed.value))
        },
        succeed: |removed: &Removed, out: &mut Encoder<'_>| {
            RemoveRes::Ok(RemoveOk { cinfo: change_info(&removed.directory) }).encode(out);
        },
        current: |_: &Removed| None,
    };
    once(compound, &directory, out, once_only)
}
