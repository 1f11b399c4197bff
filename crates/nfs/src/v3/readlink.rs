//! READLINK (RFC 1813 section 3.3.5): reads a symbolic link.

use wire::nfs3::{NfsPath3, NfsStat3, PostOpAttr, ReadlinkArgs, ReadlinkOk, ReadlinkRes};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ReadlinkArgs<'_> = call.arguments()?;
    let link = call.object(args.symlink)?;
    match link.volume.read_link(&link.request(), link.ino) {
        Ok(promised) => {
            ReadlinkRes::Ok(ReadlinkOk {
                symlink_attributes: Some(link.fattr3(&promised.value.attributes)),
                data: NfsPath3(&promised.value.target),
            })
            .encode(out);
            Ok(link.after(promised.after))
        }
        Err(failure) => link.fail(&failure, out, |attributes| attributes),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
