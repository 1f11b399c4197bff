//! GETATTR (RFC 1813 section 3.3.1): returns the attributes of an object.

use wire::nfs3::{GetattrArgs, GetattrOk, GetattrRes, NfsStat3};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled};
use crate::recall::Right;
use crate::state::delegations::ConflictKind;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: GetattrArgs<'_> = call.arguments()?;
    let object = call.object(args.object)?;
    drop(call.recaller().object(&object, ConflictKind::Read, Right::None)?);
    match object.volume.attributes(&object.request(), object.ino) {
        Ok(promised) => {
            let obj_attributes = object.fattr3(&promised.value);
            GetattrRes::Ok(GetattrOk { obj_attributes }).encode(out);
            Ok(object.after(promised.after))
        }
        Err(failure) => {
            failed(crate::status::nfs3(failure.error)?, out);
            Ok(object.after(failure.after))
        }
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, ());
}
