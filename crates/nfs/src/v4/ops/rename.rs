//! RENAME (RFC 8881 section 18.26): moves a name from the saved directory to the current one, replacing a name that
//! exists.

use volume::request::Request;
use volume::results::Renamed;
use wire::nfs4::{NfsStat4, RenameArgs, RenameOk, RenameRes};
use wire::xdr::{Encode as _, Encoder};

use crate::rpc_cache::ToJournal;
use crate::v4::context::{Compound, Done};
use crate::v4::names;
use crate::v4::once::{Once4, change_info, once};

pub(crate) fn run(compound: &mut Compound<'_>, args: &RenameArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let to = compound.changeable()?;
    let from = compound.saved_object_or(NfsStat4::Xdev)?;
    if !from.is_beside(&to) {
        return Err(NfsStat4::Xdev.into());
    }
    compound.check_directory(&from)?;
    compound.check_directory(&to)?;
    let (name, new_name) = (names::check(args.oldname)?, names::check(args.newname)?);
    let _moved = compound.recaller().name(&from, name)?;
    let _replaced = compound.recaller().name(&to, new_name)?;
    let post_op = compound.recaller().post_op(&to);
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let renamed = from.volume.rename(request, (from.ino, name), (to.ino, new_name), encode);
            renamed.inspect(|renamed| post_op.moved(&renamed.value))
        },
        succeed: |renamed: &Renamed, out: &mut Encoder<'_>| {
            let (source_cinfo, target_cinfo) = (change_info(&renamed.from), change_info(&renamed.to));
            RenameRes::Ok(RenameOk { source_cinfo, target_cinfo }).encode(out);
        },
        current: |_: &Renamed| None,
    };
    once(compound, &to, out, once_only)
}
