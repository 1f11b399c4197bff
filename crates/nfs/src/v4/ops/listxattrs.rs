//! LISTXATTRS (RFC 8276 section 8.4.3): lists the names of extended attributes.

use volume::limits::XATTRS_PER_FILE_MAX;
use wire::nfs4::{Component4, ListxattrsArgs, ListxattrsEncoder, NfsStat4};
use wire::xdr::Encoder;

use crate::limits::{DIRECTORY_BYTES_MAX, NAMES_AT_ONCE_MAX};
use crate::v4::context::{Compound, Done, Target};
use crate::v4::turns::XATTRS_OF_WEIGHT_1;

pub(crate) fn run(compound: &mut Compound<'_>, args: &ListxattrsArgs, out: &mut Encoder<'_>) -> Done {
    let maxcount = usize::try_from(args.maxcount.min(DIRECTORY_BYTES_MAX)).expect("1 MiB fits");
    let maxcount = maxcount.min(compound.room(out.position() + 4));
    if maxcount < ListxattrsEncoder::EMPTY_BYTES {
        return Err(NfsStat4::TooSmall.into());
    }
    let object = match compound.target()? {
        Target::Pseudo(_) => {
            ListxattrsEncoder::begin(out, maxcount).finish(args.cookie, true);
            return Ok(());
        }
        Target::Stored(object) => object,
    };
    let names = object.volume.list_xattrs(&object.request(), object.ino, args.cookie, NAMES_AT_ONCE_MAX);
    let names = compound.answered(object.volume, names)?;
    // The volume passes all names before the cookie again.
    let skipped = usize::try_from(args.cookie).unwrap_or(usize::MAX).min(XATTRS_PER_FILE_MAX);
    compound.add_weight(skipped + names.names.len(), XATTRS_OF_WEIGHT_1);
    let mut result = ListxattrsEncoder::begin(out, maxcount);
    let fitting = names.names.iter().take_while(|name| result.push(Component4(name))).count();
    if fitting == 0 && !names.names.is_empty() {
        result.abandon();
        return Err(NfsStat4::TooSmall.into());
    }
    let eof = names.end && fitting == names.names.len();
    result.finish(args.cookie.saturating_add(u64::try_from(fitting).unwrap_or(u64::MAX)), eof);
    Ok(())
}
