//! FSINFO (RFC 1813 section 3.3.19): capabilities and preferred sizes.

use volume::limits::{FILE_BYTES_MAX, TRANSFER_BYTES_MAX};
use wire::nfs3::{FsinfoArgs, FsinfoOk, FsinfoRes, NfsStat3, NfsTime3, PostOpAttr, properties};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled};
use crate::limits::{DIRECTORY_BYTES_PREFERRED, TRANSFER_MULTIPLE};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: FsinfoArgs<'_> = call.arguments()?;
    let object = call.object(args.fsroot)?;
    match object.volume.attributes(&object.request(), object.ino) {
        Ok(promised) => {
            FsinfoRes::Ok(FsinfoOk {
                obj_attributes: Some(object.fattr3(&promised.value)),
                rtmax: TRANSFER_BYTES_MAX,
                rtpref: TRANSFER_BYTES_MAX,
                rtmult: TRANSFER_MULTIPLE,
                wtmax: TRANSFER_BYTES_MAX,
                wtpref: TRANSFER_BYTES_MAX,
                wtmult: TRANSFER_MULTIPLE,
                dtpref: DIRECTORY_BYTES_PREFERRED,
                maxfilesize: FILE_BYTES_MAX,
                time_delta: NfsTime3 { seconds: 0, nanoseconds: 1 },
                properties: properties::LINK
                    | properties::SYMLINK
                    | properties::HOMOGENEOUS
                    | properties::CANSETTIME,
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
