//! A file that is being opened stays, whatever happens to its names meanwhile.

use std::rc::Rc;

use volume::ids::Ino;
use volume::volume::Volume;
use wire::nfs4::NfsStat4;

use crate::call::Object;
use crate::v4::context::{Compound, OpStop, Target};

/// Keeps a file until the state machine does, see [`Volume::hold`].
pub(super) struct FileHold<'c> {
    volume: &'c Volume,
    ino: Ino,
}

impl<'c> FileHold<'c> {
    pub(super) fn new(volume: &'c Volume, ino: Ino) -> FileHold<'c> {
        volume.hold(ino);
        FileHold { volume, ino }
    }

    /// The same of an object.
    pub(super) fn of(object: &Object<'c>) -> FileHold<'c> {
        FileHold::new(object.volume, object.ino)
    }
}

impl Drop for FileHold<'_> {
    fn drop(&mut self) {
        self.volume.release(self.ino);
    }
}

/// What a name in a directory stands for, and stays as long as what is returned with it. If another file takes the name
/// before that, it is that other file: there is no moment in which the name stands for nothing.
pub(super) fn find<'c>(
    compound: &mut Compound<'c>,
    directory: &Rc<Object<'c>>,
    name: &[u8],
) -> Result<(Target<'c>, Option<FileHold<'c>>), OpStop> {
    loop {
        let found = compound.find(directory, name)?;
        let Target::Stored(file) = &found else { return Ok((found, None)) };
        let hold = FileHold::of(file);
        let looked = file.volume.attributes(&file.request(), file.ino);
        match compound.answered(file.volume, looked) {
            Ok(_) => return Ok((found, Some(hold))),
            Err(OpStop::Status(NfsStat4::Stale)) => {}
            Err(stop) => return Err(stop),
        }
    }
}
