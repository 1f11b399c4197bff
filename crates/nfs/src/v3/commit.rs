//! COMMIT (RFC 1813 section 3.3.21): makes unstable data stable. The reply waits for it.

use wire::nfs3::{CommitArgs, CommitOk, CommitRes, NfsStat3, WccData};
use wire::xdr::{Encode, Encoder};

use crate::attributes::unchanged;
use crate::call::{Call, Handled};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: CommitArgs<'_> = call.arguments()?;
    let file = call.object(args.file)?;
    match file.volume.commit(&file.request(), file.ino, args.offset, args.count) {
        Ok(promised) => {
            let committed = &promised.value;
            CommitRes::Ok(CommitOk { file_wcc: file.wcc(&committed.file), verf: committed.verifier.0 })
                .encode(out);
            Ok(file.after(promised.after))
        }
        Err(failure) => file.fail(&failure, out, unchanged),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, WccData::NONE);
}
