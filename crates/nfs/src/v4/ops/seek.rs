//! SEEK (RFC 7862 section 15.11): finds the next data or hole.

use volume::results::{Sought, SoughtContent};
use wire::nfs4::{DataContent4, NfsStat4, SeekArgs, SeekOk, SeekRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::stateids::IoMode;
use crate::v4::context::{Compound, Done};
use crate::v4::regular;
use crate::v4::state::check_io;

pub(crate) fn run(compound: &mut Compound<'_>, args: &SeekArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.object_or(NfsStat4::WrongType)?;
    let size = regular::check(compound, &file)?.size;
    let stateid = compound.stateid(args.stateid)?;
    drop(check_io(compound, stateid, &file, IoMode::Read)?);
    let content = match DataContent4::from_code(args.what) {
        Some(DataContent4::Data) => SoughtContent::Data,
        Some(DataContent4::Hole) => SoughtContent::Hole,
        None => return Err(NfsStat4::UnionNotSupp.into()),
    };
    let found = loop {
        compound.begin_part()?;
        let at = args.offset + compound.parts.done;
        let sought = file.volume.seek(&file.request(), file.ino, at, content);
        match compound.answered(file.volume, sought)? {
            // The end of the file begins a hole.
            Sought::At(offset) => break SeekOk { eof: offset >= size, offset },
            Sought::End => break SeekOk { eof: true, offset: size },
            Sought::NotBefore(next) => compound.parts.done = next - args.offset,
            Sought::Beyond if compound.parts.is_first() => return Err(NfsStat4::Nxio.into()),
            // The file was truncated during the search.
            Sought::Beyond => break SeekOk { eof: true, offset: size },
        }
    };
    SeekRes::Ok(found).encode(out);
    Ok(())
}
