//! ACCESS (RFC 8881 section 18.1): tests which of the requested permissions the caller has.

use volume::attributes::FileType;
use volume::results::AccessMask;
use wire::nfs4::{AccessArgs, AccessOk, AccessRes, access};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done, Target};

/// The permissions that NFSv3 and the engine know.
const KNOWN: u32 =
    access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE | access::EXECUTE;

/// The permissions for extended attributes (RFC 8276 section 8.6).
const XATTRS: u32 = access::XAREAD | access::XAWRITE | access::XALIST;

/// The permissions that a read-only export denies.
const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE;

pub(crate) fn run(compound: &mut Compound<'_>, args: &AccessArgs, out: &mut Encoder<'_>) -> Done {
    let target = compound.target()?;
    let xattrs = if compound.minor >= 2 { args.access & XATTRS } else { 0 };
    let (supported, granted) = match &target {
        Target::Pseudo(_) => {
            let supported = args.access & of_type(FileType::Directory);
            (supported, supported & (access::READ | access::LOOKUP))
        }
        Target::Stored(object) => {
            let wanted = AccessMask(args.access & KNOWN | behind(xattrs));
            let found = object.volume.access(&object.request(), object.ino, wanted);
            let found = compound.answered(object.volume, found)?;
            let refused = if object.export.read_only { CHANGES } else { 0 };
            let granted = found.granted.0 & !refused;
            let supported = args.access & of_type(found.attributes.file_type);
            (supported | xattrs, granted & supported | of_xattrs(granted) & xattrs)
        }
    };
    AccessRes::Ok(AccessOk { supported, access: granted }).encode(out);
    Ok(())
}

/// Returns the permissions on which those for extended attributes depend.
fn behind(xattrs: u32) -> u32 {
    let read = if xattrs & (access::XAREAD | access::XALIST) == 0 { 0 } else { access::READ };
    let write = if xattrs & access::XAWRITE == 0 { 0 } else { access::MODIFY };
    read | write
}

/// Returns the permissions for extended attributes that others imply.
fn of_xattrs(granted: u32) -> u32 {
    let read = if granted & access::READ == 0 { 0 } else { access::XAREAD | access::XALIST };
    let write = if granted & access::MODIFY == 0 { 0 } else { access::XAWRITE };
    read | write
}

/// Returns the permissions that apply to this type (RFC 8881 section 18.1.3).
fn of_type(file_type: FileType) -> u32 {
    match file_type {
        FileType::Directory => KNOWN & !access::EXECUTE,
        _ => KNOWN & !(access::LOOKUP | access::DELETE),
    }
}
