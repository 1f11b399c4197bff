//! Keeps a file that is being opened, whatever happens to its names.

use volume::ids::Ino;
use volume::results::{AccessMask, Accessible};
use volume::volume::Volume;
use wire::nfs4::NfsStat4;

use crate::call::Object;
use crate::v4::context::{Compound, OpStop};

/// Keeps a file until the shared state does, see [`Volume::hold`].
pub(super) struct FileHold<'c> {
    volume: &'c Volume,
    ino: Ino,
    is_handed_over: bool,
}

impl<'c> FileHold<'c> {
    pub(super) fn new(volume: &'c Volume, ino: Ino) -> FileHold<'c> {
        volume.hold(ino);
        FileHold::taken(volume, ino)
    }

    /// Ends a hold that was taken.
    fn taken(volume: &'c Volume, ino: Ino) -> FileHold<'c> {
        FileHold { volume, ino, is_handed_over: false }
    }

    /// Keeps the file of an object.
    pub(super) fn of(object: &Object<'c>) -> FileHold<'c> {
        FileHold::new(object.volume, object.ino)
    }
}

impl FileHold<'_> {
    /// Leaves the hold to the shared state, which ends it.
    pub(super) fn hand_over(mut self) {
        self.is_handed_over = true;
    }
}

impl Drop for FileHold<'_> {
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.volume.release(self.ino);
        }
    }
}

/// A file that was looked up in a directory.
pub(super) struct Found<'c> {
    pub(super) file: Object<'c>,
    /// The change value of the directory.
    pub(super) change: u64,
    pub(super) hold: FileHold<'c>,
    pub(super) access: Accessible,
}

/// What OPEN asks about.
const WANTED: AccessMask = AccessMask(AccessMask::READ | AccessMask::EXECUTE | AccessMask::MODIFY);

/// Looks up a name in a directory, and holds the file.
///
/// # Errors
/// NFS4ERR_ISDIR for exports, and those of the engine.
pub(super) fn find<'c>(
    compound: &mut Compound<'c>,
    directory: &Object<'c>,
    name: &[u8],
) -> Result<Found<'c>, OpStop> {
    if compound.export_at(directory, name)?.is_some() {
        return Err(NfsStat4::IsDir.into());
    }
    let volume = directory.volume;
    let found = volume.lookup_and_hold(&directory.request(), directory.ino, name, WANTED);
    let found = compound.answered(volume, found)?;
    let ino = found.object.attributes.ino;
    let (file, hold) = (directory.beside(ino), FileHold::taken(volume, ino));
    Ok(Found { file, change: found.directory.change, hold, access: found.object })
}

/// Returns what the caller may do with a file that is held.
pub(super) fn access<'c>(compound: &mut Compound<'c>, file: &Object<'c>) -> Result<Accessible, OpStop> {
    compound.answered(file.volume, file.volume.access(&file.request(), file.ino, WANTED))
}
