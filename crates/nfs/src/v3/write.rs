//! WRITE (RFC 1813 section 3.3.7): writes data. It is idempotent, so no reply is remembered.

use volume::bytes::WriteData;
use volume::request::{Answer, Error};
use volume::results::{Stability, Written};
use wire::nfs3::{NfsStat3, StableHow, WccData, WriteArgs, WriteOk, WriteRes};
use wire::xdr::{Encode, Encoder};

use crate::attributes::unchanged;
use crate::call::{Call, Handled, Object};
use crate::limits::fits_a_file;
use crate::state::stateids::IoMode;
use crate::summary::Transferred;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: WriteArgs<'_> = call.arguments()?;
    let file = call.object(args.file)?;
    let _in_flight = call.check_io(&file, IoMode::Write)?;
    match write(&file, &args, call.data(args.data)?) {
        Ok(promised) => {
            let written = &promised.value;
            call.transferred.set(Transferred::written(written.count));
            WriteRes::Ok(WriteOk {
                file_wcc: file.wcc(&written.file),
                count: written.count,
                committed: stable_how(written.committed),
                verf: written.verifier.0,
            })
            .encode(out);
            Ok(file.after(promised.after))
        }
        Err(failure) => file.fail(&failure, out, unchanged),
    }
}

fn write(file: &Object<'_>, args: &WriteArgs<'_>, data: WriteData<'_>) -> Answer<Written> {
    if file.export.read_only {
        return Err(Error::ReadOnly.into());
    }
    if usize::try_from(args.count) != Ok(data.len()) {
        return Err(Error::Invalid.into());
    }
    if !fits_a_file(args.offset, u64::from(args.count)) {
        return Err(Error::FileTooLarge.into());
    }
    file.volume.write(&file.request(), file.ino, args.offset, data, stability(args.stable))
}

fn stability(stable: StableHow) -> Stability {
    match stable {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

fn stable_how(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, WccData::NONE);
}
