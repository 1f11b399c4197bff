//! FSSTAT (RFC 1813 section 3.3.18): total and free space.

use volume::request::{Answer, Promised};
use volume::results::VolumeStatus;
use wire::nfs3::{Fattr3, FsstatArgs, FsstatOk, FsstatRes, NfsStat3, PostOpAttr};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled, Object};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: FsstatArgs<'_> = call.arguments()?;
    let object = call.object(args.fsroot)?;
    match status(&object) {
        Ok(promised) => {
            let (attributes, status) = &promised.value;
            FsstatRes::Ok(FsstatOk {
                obj_attributes: Some(*attributes),
                tbytes: status.bytes_total,
                fbytes: status.bytes_free,
                abytes: status.bytes_free,
                tfiles: status.inodes_total,
                ffiles: status.inodes_free,
                afiles: status.inodes_free,
                invarsec: 0,
            })
            .encode(out);
            Ok(object.after(promised.after))
        }
        Err(failure) => object.fail(&failure, out, |attributes| attributes),
    }
}

fn status(object: &Object<'_>) -> Answer<(Fattr3, VolumeStatus)> {
    let attributes = object.volume.attributes(&object.request(), object.ino)?;
    let status = object.volume.status_at(&object.request(), object.ino)?;
    Ok(Promised {
        value: (object.fattr3(&attributes.value), status.value),
        after: attributes.after.and(status.after),
    })
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
