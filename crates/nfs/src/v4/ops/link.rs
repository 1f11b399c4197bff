//! LINK (RFC 8881 section 18.9): adds a name in the current directory for the saved object.

use volume::attributes::FileType;
use volume::request::Request;
use volume::results::Linked;
use wire::nfs4::{LinkArgs, LinkOk, LinkRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::recall::Right;
use crate::rpc_cache::ToJournal;
use crate::state::delegations::ConflictKind;
use crate::v4::context::{Compound, Done};
use crate::v4::names;
use crate::v4::once::{Once4, change_info, once};

pub(crate) fn run(compound: &mut Compound<'_>, args: &LinkArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let directory = compound.changeable()?;
    let object = compound.saved_object_or(NfsStat4::Xdev)?;
    if !object.is_beside(&directory) {
        return Err(NfsStat4::Xdev.into());
    }
    let found = object.volume.attributes(&object.request(), object.ino);
    if compound.answered(object.volume, found)?.file_type == FileType::Directory {
        return Err(NfsStat4::IsDir.into());
    }
    compound.check_directory(&directory)?;
    let name = names::check(args.newname)?;
    let _in_flight = compound.recaller().object(&object, ConflictKind::Modify, Right::AddTo(&directory))?;
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            directory.volume.link(request, object.ino, directory.ino, name, encode)
        },
        succeed: |linked: &Linked, out: &mut Encoder<'_>| {
            LinkRes::Ok(LinkOk { cinfo: change_info(&linked.directory) }).encode(out);
        },
        current: |_: &Linked| None,
    };
    once(compound, &directory, out, once_only)
}
