//! Repairs a volume while no server has it open.

use std::sync::Arc;

use store::Directory;
use volume::media::Media;
use volume::repair::Repaired;

use crate::clock::now;
use crate::error::Error;
use crate::volumes;

/// Memory of a volume that is opened to be repaired, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// Repairs a volume, and lists at most `changes_max` changes.
///
/// # Errors
/// The volume is in use, or cannot be repaired.
pub fn repair(directory: &Directory, name: &str, changes_max: usize) -> Result<Repaired, Error> {
    let media = Arc::new(directory.open_volume(name, None)?);
    let options = volumes::options(media.as_ref(), name, MEMORY_BYTES)?;
    let media: Arc<dyn Media> = media;
    volume::repair::repair(&media, &options, changes_max, now())
        .map_err(|error| Error::failed(format!("cannot repair the volume {name:?}: {error}")))
}
