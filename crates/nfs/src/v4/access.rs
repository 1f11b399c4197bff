//! ACCESS (RFC 8881 section 18.1): which of the permissions asked about the caller has.

use volume::attributes::FileType;
use volume::results::AccessMask;
use wire::nfs4::{AccessArgs, AccessOk, AccessRes, access};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done, Target};

/// What NFSv3 knows too, and the engine.
const KNOWN: u32 =
    access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE | access::EXECUTE;

/// The permissions that a read-only export grants nobody.
const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE;

pub(super) fn run(compound: &mut Compound<'_>, args: &AccessArgs, out: &mut Encoder<'_>) -> Done {
    let target = compound.target()?;
    let (supported, granted) = match &target {
        Target::Pseudo(_) => {
            let supported = args.access & of_type(FileType::Directory);
            (supported, supported & (access::READ | access::LOOKUP))
        }
        Target::Stored(object) => {
            let wanted = AccessMask(args.access & KNOWN);
            let found = object.volume.access(&object.request(), object.ino, wanted);
            let found = compound.answered(object.volume, found)?;
            let refused = if object.export.read_only { CHANGES } else { 0 };
            let supported = args.access & of_type(found.attributes.file_type);
            (supported, found.granted.0 & supported & !refused)
        }
    };
    AccessRes::Ok(AccessOk { supported, access: granted }).encode(out);
    Ok(())
}

/// The permissions that mean something for this type (RFC 8881 section 18.1.3).
fn of_type(file_type: FileType) -> u32 {
    match file_type {
        FileType::Directory => KNOWN & !access::EXECUTE,
        _ => KNOWN & !(access::LOOKUP | access::DELETE),
    }
}
