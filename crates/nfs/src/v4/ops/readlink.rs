//! READLINK (RFC 8881 section 18.24): reads the target of a symbolic link.

use volume::attributes::FileType;
use wire::nfs4::{Linktext4, NfsStat4, ReadlinkOk, ReadlinkRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Done {
    let not_a_link = if compound.minor == 0 { NfsStat4::Inval } else { NfsStat4::WrongType };
    let link = compound.object_or(not_a_link)?;
    let found = compound.answered(link.volume, link.volume.attributes(&link.request(), link.ino))?;
    if found.file_type != FileType::Symlink {
        return Err(not_a_link.into());
    }
    let target = compound.answered(link.volume, link.volume.read_link(&link.request(), link.ino))?;
    ReadlinkRes::Ok(ReadlinkOk { link: Linktext4(&target.target) }).encode(out);
    Ok(())
}
