//! SETATTR (RFC 1813 section 3.3.2): sets attributes, guarded by a ctime if the client gives one.

use volume::request::Request;
use wire::nfs3::{NfsStat3, SetattrArgs, SetattrOk, SetattrRes, WccData};
use wire::xdr::{Encode, Encoder};

use crate::attributes::{set_attributes, time, unchanged};
use crate::call::{Call, Handled};
use crate::recall::Right;
use crate::rpc_cache::{Once, ToJournal, once};
use crate::state::delegations::ConflictKind;
use crate::state::stateids::IoMode;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: SetattrArgs<'_> = call.arguments()?;
    let object = call.object(args.object)?;
    let set = set_attributes(&args.new_attributes);
    let _in_flight = match args.new_attributes.size {
        Some(_) => call.check_io(&object, IoMode::Write)?,
        None => {
            // Attributes that cannot be set are refused below.
            let right = set.as_ref().map_or(Right::Write, Right::to_set);
            call.recaller().object(&object, ConflictKind::Modify, right)?
        }
    };
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let (set, guard) = (set?, args.guard.map(time).transpose()?);
            object.volume.set_attributes(request, object.ino, &set, guard, encode)
        },
        succeed: |changed: &_, out: &mut Encoder<'_>| {
            SetattrRes::Ok(SetattrOk { obj_wcc: object.wcc(changed) }).encode(out);
        },
        fail: |after: &mut _| Ok(unchanged(object.shown(after)?)),
    };
    once(call, &object, out, operation)
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, WccData::NONE);
}
