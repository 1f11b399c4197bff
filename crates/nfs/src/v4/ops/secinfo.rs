//! SECINFO (RFC 8881 section 18.29): returns the security flavors for the object of a name in the current directory.

use wire::nfs4::{NfsStat4, Secinfo4, SecinfoArgs, SecinfoOk};
use wire::rpc::{AUTH_NONE, AUTH_SYS};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done, OpStop, Target};
use crate::v4::names;

pub(crate) fn run(compound: &mut Compound<'_>, args: &SecinfoArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let found = match *compound.named()? {
        Target::Pseudo(node) => {
            let name = names::check(args.name)?;
            compound.beneath(node, name)?.ok_or(OpStop::Status(NfsStat4::NoEnt))?
        }
        Target::Stored(directory) => {
            compound.check_directory(&directory)?;
            let name = names::check(args.name)?;
            compound.find(&directory, name)?.0
        }
    };
    answer(compound, &found, out)
}

/// Encodes the flavors for an object, the best first. Afterwards there is no current filehandle, except in NFSv4.0 (RFC
/// 8881 section 2.6.3.1.1.8).
pub(crate) fn answer(compound: &mut Compound<'_>, target: &Target<'_>, out: &mut Encoder<'_>) -> Done {
    let (sys, none) = (Secinfo4::Flavor(AUTH_SYS), Secinfo4::Flavor(AUTH_NONE));
    let flavors: &[Secinfo4<'_>] = match target {
        Target::Stored(object) if object.export.auth_sys_required => &[sys],
        _ => &[sys, none],
    };
    NfsStat4::Ok.encode(out);
    SecinfoOk::new(flavors).expect("two flavors are within the limit").encode(out);
    if compound.minor > 0 {
        compound.current = None;
        compound.current_stateid = None;
    }
    Ok(())
}
