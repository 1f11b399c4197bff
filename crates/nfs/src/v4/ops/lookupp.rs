//! LOOKUPP (RFC 8881 section 18.14): makes the parent of the current directory current.

use wire::nfs4::{LookuppRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::exports::pseudo::Node;
use crate::v4::context::{Compound, Done, OpStop, Target};

pub(crate) fn run(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Done {
    let parent = parent(compound)?;
    compound.set_current(parent)?;
    LookuppRes::Ok(()).encode(out);
    Ok(())
}

/// Returns the parent of the current directory.
///
/// # Errors
/// NFS4ERR_NOENT at the root of the pseudo file system.
pub(crate) fn parent<'c>(compound: &mut Compound<'c>) -> Result<Target<'c>, OpStop> {
    let directory = match compound.target()? {
        Target::Pseudo(node) => return above(compound, node),
        Target::Stored(directory) => directory,
    };
    compound.check_lookup(&directory)?;
    if let Some(node) = compound.covered(directory.volume.id(), directory.ino) {
        return above(compound, node);
    }
    let found = directory.volume.lookup(&directory.request(), directory.ino, b"..");
    let found = compound.answered(directory.volume, found)?;
    Ok(Target::Stored(directory.beside(found.attributes.ino)))
}

fn above<'c>(compound: &Compound<'c>, node: &'c Node) -> Result<Target<'c>, OpStop> {
    let parent = compound.service.pseudo.node(node.parent).filter(|parent| parent.fileid != node.fileid);
    compound.entered(parent.ok_or(OpStop::Status(NfsStat4::NoEnt))?)
}
