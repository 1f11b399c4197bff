//! Keeps a file that is being opened, whatever happens to its names.

use std::rc::Rc;

use volume::ids::Ino;
use volume::volume::Volume;
use wire::nfs4::NfsStat4;

use crate::call::Object;
use crate::v4::context::{Compound, OpStop, Target};

/// Keeps a file until the shared state does, see [`Volume::hold`].
pub(super) struct FileHold<'c> {
    volume: &'c Volume,
    ino: Ino,
}

impl<'c> FileHold<'c> {
    pub(super) fn new(volume: &'c Volume, ino: Ino) -> FileHold<'c> {
        volume.hold(ino);
        FileHold { volume, ino }
    }

    /// Keeps the file of an object.
    pub(super) fn of(object: &Object<'c>) -> FileHold<'c> {
        FileHold::new(object.volume, object.ino)
    }
}

impl Drop for FileHold<'_> {
    fn drop(&mut self) {
        self.volume.release(self.ino);
    }
}

/// Looks up a name in a directory, and holds the file. If another file replaces it before that, the lookup repeats: the
/// name always names some file.
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
