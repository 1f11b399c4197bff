//! A file that is being opened stays, whatever happens to its names meanwhile.

use std::rc::Rc;

use volume::ids::Ino;
use volume::volume::Volume;
use wire::nfs4::NfsStat4;

use crate::call::Object;
use crate::v4::context::{Compound, Stop, Target};

/// Keeps a file until the state machine does, see [`Volume::hold`].
pub(super) struct Staying<'c> {
    volume: &'c Volume,
    ino: Ino,
}

impl<'c> Staying<'c> {
    pub(super) fn new(volume: &'c Volume, ino: Ino) -> Staying<'c> {
        volume.hold(ino);
        Staying { volume, ino }
    }

    /// The same of an object.
    pub(super) fn of(object: &Object<'c>) -> Staying<'c> {
        Staying::new(object.volume, object.ino)
    }
}

impl Drop for Staying<'_> {
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
) -> Result<(Target<'c>, Option<Staying<'c>>), Stop> {
    loop {
        let found = compound.find(directory, name)?;
        let Target::Stored(file) = &found else { return Ok((found, None)) };
        let staying = Staying::of(file);
        let looked = file.volume.attributes(&file.request(), file.ino);
        match compound.answered(file.volume, looked) {
            Ok(_) => return Ok((found, Some(staying))),
            Err(Stop::Status(NfsStat4::Stale)) => {}
            Err(stop) => return Err(stop),
        }
    }
}
