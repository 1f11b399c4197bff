//! Changes the owner and mode of a volume's root directory while no server has the volume open.

use std::time::Duration;

use store::Directory;
use volume::attributes::{Attributes, SetAttributes};
use volume::ids::Ino;
use volume::request::{Access, Credentials, Journaled, Request};

use crate::clock::now;
use crate::error::Error;
use crate::volumes;

/// Memory of a volume that is opened to change its root directory, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// Attributes to give to the root directory of a volume. `None` keeps the current value, or the default of a new volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The permission bits, the low 12.
    pub mode: Option<u16>,
}

/// Opens a volume, changes its root directory, and closes the volume. Returns the root directory's attributes.
///
/// # Errors
/// The volume is in use, or cannot be opened or closed.
pub fn set_root(directory: &Directory, name: &str, root: Root) -> Result<Attributes, Error> {
    let served = volumes::open(directory, name, None, MEMORY_BYTES, Duration::ZERO)?;
    let volume = served.volume;
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Blocking, key: None };
    let set = SetAttributes {
        mode: root.mode.map(u32::from),
        uid: root.uid,
        gid: root.gid,
        ..SetAttributes::default()
    };
    let changed = volume.set_attributes(&request, Ino::ROOT, &set, None, &mut |_| Journaled::default());
    let closed = volume.close(now());
    let failed = |why: String| Error::failed(format!("cannot change the root directory of {name:?}: {why}"));
    let wcc = changed.map_err(|failure| failed(failure.error.to_string()))?;
    closed.map_err(|error| failed(error.to_string()))?;
    Ok(wcc.value.after)
}
