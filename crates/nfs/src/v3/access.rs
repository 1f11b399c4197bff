//! ACCESS (RFC 1813 section 3.3.4): checks permissions of the caller.

use volume::results::AccessMask;
use wire::nfs3::{AccessArgs, AccessOk, AccessRes, NfsStat3, PostOpAttr, access};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled};

/// The permissions that a read-only export does not grant.
const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: AccessArgs<'_> = call.arguments()?;
    let object = call.object(args.object)?;
    let refused = if object.export.read_only { CHANGES } else { 0 };
    let wanted = AccessMask(args.access & access::ALL & !refused);
    match object.volume.access(&object.request(), object.ino, wanted) {
        Ok(promised) => {
            let obj_attributes = Some(object.fattr3(&promised.value.attributes));
            let access = promised.value.granted.0 & wanted.0;
            AccessRes::Ok(AccessOk { obj_attributes, access }).encode(out);
            Ok(object.after(promised.after))
        }
        Err(failure) => object.fail(&failure, out, |attributes| attributes),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
