//! RENAME (RFC 1813 section 3.3.14): moves a name, replacing an existing one.

use volume::request::Request;
use volume::results::Renamed;
use wire::nfs3::{NfsStat3, RenameArgs, RenameFail, RenameOk, RenameRes, WccData};
use wire::xdr::{Encode, Encoder};

use crate::attributes::unchanged;
use crate::call::{Call, Handled, Stop};
use crate::rpc_cache::{Once, ToJournal, once};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: RenameArgs<'_> = call.arguments()?;
    let (from, to) = (call.object(args.from.dir)?, call.object(args.to.dir)?);
    if !from.is_beside(&to) {
        return Err(Stop::Status(NfsStat3::Xdev));
    }
    let _moved = call.recaller().name(&from, args.from.name.0)?;
    let _replaced = call.recaller().name(&to, args.to.name.0)?;
    let post_op = call.recaller().post_op(&to);
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let (name, new_name) = (args.from.name.0, args.to.name.0);
            let renamed = from.volume.rename(request, (from.ino, name), (to.ino, new_name), encode);
            renamed.inspect(|renamed| post_op.moved(&renamed.value))
        },
        succeed: |renamed: &Renamed, out: &mut Encoder<'_>| {
            let (fromdir_wcc, todir_wcc) = (from.wcc(&renamed.from), to.wcc(&renamed.to));
            RenameRes::Ok(RenameOk { fromdir_wcc, todir_wcc }).encode(out);
        },
        fail: |after: &mut _| {
            let fromdir_wcc = unchanged(from.shown(after)?);
            let todir_wcc = if from.ino == to.ino { fromdir_wcc } else { unchanged(to.shown(after)?) };
            Ok(RenameFail { fromdir_wcc, todir_wcc })
        },
    };
    once(call, &from, out, operation)
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, RenameFail { fromdir_wcc: WccData::NONE, todir_wcc: WccData::NONE });
}
