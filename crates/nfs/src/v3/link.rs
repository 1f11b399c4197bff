//! LINK (RFC 1813 section 3.3.15): adds a name to an object.

use volume::request::Request;
use volume::results::Linked;
use wire::nfs3::{LinkArgs, LinkFail, LinkOk, LinkRes, NfsStat3, WccData};
use wire::xdr::{Encode, Encoder};

use crate::attributes::unchanged;
use crate::call::{Call, Handled, Stop};
use crate::recall::Right;
use crate::rpc_cache::{Once, ToJournal, once};
use crate::state::delegations::ConflictKind;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: LinkArgs<'_> = call.arguments()?;
    let (file, directory) = (call.object(args.file)?, call.object(args.link.dir)?);
    if !file.is_beside(&directory) {
        return Err(Stop::Status(NfsStat3::Xdev));
    }
    let _in_flight = call.recaller().object(&file, ConflictKind::Modify, Right::AddTo(&directory))?;
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            file.volume.link(request, file.ino, directory.ino, args.link.name.0, encode)
        },
        succeed: |linked: &Linked, out: &mut Encoder<'_>| {
            LinkRes::Ok(LinkOk {
                file_attributes: Some(file.fattr3(&linked.attributes)),
                linkdir_wcc: directory.wcc(&linked.directory),
            })
            .encode(out);
        },
        fail: |after: &mut _| {
            let file_attributes = file.shown(after)?;
            Ok(LinkFail { file_attributes, linkdir_wcc: unchanged(directory.shown(after)?) })
        },
    };
    once(call, &file, out, operation)
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, LinkFail { file_attributes: None, linkdir_wcc: WccData::NONE });
}
