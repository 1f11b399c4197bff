//! What machines leave each other beside the pools of a group: files in its data directory, or records of its namespace.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use store::{CLAIM_TERM, Claim};

use crate::records::GroupRecords;

/// The name of the file with the list of connections in the data directory.
const NAME: &str = "connections";

/// Where a group's machines meet.
#[derive(Clone)]
pub(crate) enum Shared {
    /// The data directory, on a device that a cluster manager gives to one machine at a time.
    Directory(PathBuf),
    /// Records in a Ceph cluster, where a lease says which machine has the group.
    Records(Arc<dyn GroupRecords>),
}

impl Shared {
    /// Reads the list of connections, of at most `bytes_max` bytes.
    pub(crate) fn connections(&self, bytes_max: usize) -> io::Result<String> {
        match self {
            Shared::Directory(data) => read(&data.join(NAME), bytes_max),
            Shared::Records(records) => {
                String::from_utf8(records.connections(bytes_max)?).map_err(io::Error::other)
            }
        }
    }

    /// Replaces the list of connections.
    pub(crate) fn set_connections(&self, list: &str) -> io::Result<()> {
        match self {
            Shared::Directory(data) => store::replace_file(&data.join(NAME), list.as_bytes()),
            Shared::Records(records) => records.set_connections(list.as_bytes()),
        }
    }

    /// Releases what a server had that was killed: `instance` is what the lease calls it, if it said so.
    pub(crate) fn release(&self, node: &str, instance: Option<u64>) -> io::Result<()> {
        match (self, instance) {
            (Shared::Directory(data), _) => Claim::release_for(data, node),
            (Shared::Records(records), Some(instance)) => records.release_for(instance),
            (Shared::Records(_), None) => Ok(()),
        }
    }

    /// Returns how long after its last renewal a server may answer, if another machine may take the group over then without this
    /// one's doing.
    pub(crate) fn term(&self) -> Option<Duration> {
        match self {
            Shared::Directory(_) => None,
            Shared::Records(_) => Some(CLAIM_TERM),
        }
    }
}

/// Reads the file. The agent may be the superuser, and the directory another user's, who may have put anything there.
fn read(path: &Path, bytes_max: usize) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    file.take(u64::try_from(bytes_max).unwrap_or(u64::MAX)).read_to_string(&mut text)?;
    Ok(text)
}
