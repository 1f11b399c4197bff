//! PATHCONF (RFC 1813 section 3.3.20): POSIX limits of names and links.

use volume::limits::NAME_BYTES_MAX;
use wire::nfs3::{NfsStat3, PathconfArgs, PathconfOk, PathconfRes, PostOpAttr};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: PathconfArgs<'_> = call.arguments()?;
    let object = call.object(args.object)?;
    match object.volume.attributes(&object.request(), object.ino) {
        Ok(promised) => {
            PathconfRes::Ok(PathconfOk {
                obj_attributes: Some(object.fattr3(&promised.value)),
                linkmax: promised.value.file_type.links_max(),
                name_max: u32::try_from(NAME_BYTES_MAX).expect("255 fits"),
                no_trunc: true,
                chown_restricted: true,
                case_insensitive: false,
                case_preserving: true,
            })
            .encode(out);
            Ok(object.after(promised.after))
        }
        Err(failure) => object.fail(&failure, out, |attributes| attributes),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
