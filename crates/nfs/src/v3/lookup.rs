//! LOOKUP (RFC 1813 section 3.3.3): finds the handle of a name.

use wire::nfs3::{LookupArgs, LookupOk, LookupRes, NfsStat3, PostOpAttr};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled, file_handle};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: LookupArgs<'_> = call.arguments()?;
    let directory = call.object(args.what.dir)?;
    match directory.volume.lookup(&directory.request(), directory.ino, args.what.name.0) {
        Ok(promised) => {
            let found = &promised.value;
            let handle = directory.handle_bytes(found.attributes.ino);
            LookupRes::Ok(LookupOk {
                object: file_handle(&handle),
                obj_attributes: Some(directory.fattr3(&found.attributes)),
                dir_attributes: Some(directory.fattr3(&found.directory)),
            })
            .encode(out);
            Ok(directory.after(promised.after))
        }
        Err(failure) => directory.fail(&failure, out, |attributes| attributes),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
