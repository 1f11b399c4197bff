//! COMMIT (RFC 8881 section 18.3): makes unstable data stable. The reply waits for that.

use wire::nfs4::{CommitArgs, CommitOk, CommitRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::limits::fits_a_file;
use crate::v4::context::{Compound, Done};
use crate::v4::regular;

pub(crate) fn run(compound: &mut Compound<'_>, args: &CommitArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    regular::check(compound, &file)?;
    if !fits_a_file(args.offset, u64::from(args.count)) {
        return Err(NfsStat4::Inval.into());
    }
    let committed = file.volume.commit(&file.request(), file.ino, args.offset, args.count);
    let committed = compound.answered(file.volume, committed)?;
    CommitRes::Ok(CommitOk { writeverf: committed.verifier.0 }).encode(out);
    Ok(())
}
