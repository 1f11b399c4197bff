//! Repairs a volume while no server has it open.

use std::path::PathBuf;
use std::sync::Arc;

use store::Directory;
use volume::media::Media;
use volume::repair::Repaired;

use crate::clock::now;
use crate::error::Error;
use crate::volumes;

/// Memory of a volume that is opened to be repaired, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// A repair that was made.
#[derive(Debug)]
pub struct Repair {
    /// What it did.
    pub repaired: Repaired,
    /// The indexes that it replaced, oldest first.
    pub kept: Vec<PathBuf>,
}

/// Repairs a volume, and lists at most `changes_max` changes.
///
/// # Errors
/// The volume is in use, or cannot be repaired.
pub fn repair(directory: &Directory, name: &str, changes_max: usize) -> Result<Repair, Error> {
    let media = Arc::new(directory.open_volume(name, None)?);
    let before = media.damaged_indexes()?;
    let options = volumes::options(media.as_ref(), name, MEMORY_BYTES)?;
    let repaired = {
        let media: Arc<dyn Media> = Arc::clone(&media) as Arc<dyn Media>;
        volume::repair::repair(&media, &options, changes_max, now())
    };
    let repaired =
        repaired.map_err(|error| Error::failed(format!("cannot repair the volume {name:?}: {error}")))?;
    let mut kept = media.damaged_indexes()?;
    kept.retain(|path| !before.contains(path));
    Ok(Repair { repaired, kept })
}
