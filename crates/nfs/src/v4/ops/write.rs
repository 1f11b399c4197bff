//! WRITE (RFC 8881 section 18.32): writes a file. It may be repeated, so no result is remembered.

use volume::results::Stability;
use wire::nfs4::{NfsStat4, StableHow4, WriteArgs, WriteOk, WriteRes};
use wire::xdr::{Encode as _, Encoder};

use crate::admission::AwaitedLimit;
use crate::limits::fits_a_file;
use crate::state::stateids::IoMode;
use crate::summary::Transferred;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::regular;
use crate::v4::turns::BYTES_OF_WEIGHT_1;

pub(crate) fn run<'c>(compound: &mut Compound<'c>, args: &WriteArgs<'c>, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    if file.export.read_only {
        return Err(NfsStat4::Rofs.into());
    }
    let length = u64::try_from(args.data.len()).expect("limited by the decoder");
    let _in_flight = regular::check_io(compound, &file, args.stateid, IoMode::Write)?;
    if !fits_a_file(args.offset, length) {
        return Err(NfsStat4::Fbig.into());
    }
    let data = compound.data(args.data)?;
    let written = file.volume.write(&file.request(), file.ino, args.offset, data, stability(args.stable));
    let written = compound.answered(file.volume, written).map_err(|stop| match stop {
        OpStop::Busy(_) => {
            OpStop::Busy(AwaitedLimit::of_write(args.stable == StableHow4::Unstable, args.data.len()))
        }
        other => other,
    })?;
    compound.note_change();
    compound.add_weight(args.data.len(), BYTES_OF_WEIGHT_1);
    compound.note_transferred(file.volume, Transferred::written(written.count));
    WriteRes::Ok(WriteOk {
        count: written.count,
        committed: stable_how(written.committed),
        writeverf: written.verifier.0,
    })
    .encode(out);
    Ok(())
}

fn stability(stable: StableHow4) -> Stability {
    match stable {
        StableHow4::Unstable => Stability::Unstable,
        StableHow4::DataSync => Stability::DataSync,
        StableHow4::FileSync => Stability::FileSync,
    }
}

pub(crate) fn stable_how(stability: Stability) -> StableHow4 {
    match stability {
        Stability::Unstable => StableHow4::Unstable,
        Stability::DataSync => StableHow4::DataSync,
        Stability::FileSync => StableHow4::FileSync,
    }
}
