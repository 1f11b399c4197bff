//! What the nodes of a cluster know of each other: objects in the default namespace of the pool, and a few in the namespace of each
//! group, beside its pools. Nothing here is fenced: the object `cluster` is replaced only by who read its last version, and leases
//! likewise; all else is a hint.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use cluster::LEASE_BYTES;

use crate::error::Error;
use crate::librados::{Cluster, Notified, Pool, Watch};
use crate::local;
use crate::location::Location;
use crate::names::{CLUSTER, CONNECTIONS, LEASE, NODES};
use crate::namespace::{Connection, SHUT_OUT_SECONDS};
use crate::objects::{Objects, Step, change_now, read_whole};
use crate::tenancy::release_for;

/// The longest object `cluster`, bytes: 256 groups with 32 addresses each take less than 1 MiB.
const CLUSTER_BYTES_MAX: usize = 2 << 20;

/// The records of a cluster.
pub struct Board {
    cluster: Arc<Cluster>,
    location: Location,
    objects: Arc<Pool>,
    watch: OnceLock<&'static Watch>,
}

/// The records of a group, and what its owner must be told.
pub struct Group {
    cluster: Arc<Cluster>,
    objects: Arc<Pool>,
}

impl Board {
    /// Connects to the cluster. The location has no namespace: those of its pool are the groups'.
    ///
    /// # Errors
    /// The cluster cannot be used.
    pub fn open(location: &Location) -> Result<Board, Error> {
        let Connection { location, cluster, objects, .. } = Connection::open(location)?;
        Ok(Board { cluster, location, objects, watch: OnceLock::new() })
    }

    /// Reads the object `cluster` with its version; none if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn cluster(&self) -> io::Result<Option<(Vec<u8>, u64)>> {
        read_whole(&*self.objects, CLUSTER, CLUSTER_BYTES_MAX)
    }

    /// Creates the object `cluster`, or replaces this version of it. Returns whether nobody was faster.
    ///
    /// # Errors
    /// It cannot be written, or is too long.
    pub fn set_cluster(&self, version: Option<u64>, bytes: &[u8]) -> io::Result<bool> {
        if bytes.len() > CLUSTER_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the configuration is too long"));
        }
        set_cluster(&*self.objects, version, bytes)
    }

    /// Returns what nodes say of themselves.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn nodes(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Objects::pairs(&*self.objects, NODES)
    }

    /// Replaces what a node says of itself; `None` removes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_node(&self, node: &str, says: Option<&[u8]>) -> io::Result<()> {
        let step = says.map_or(Step::RemovePair(node), |says| Step::PutPair(node, says));
        change_now(&*self.objects, NODES, &[step]).map(drop)
    }

    /// Has `notified` called, which may not wait, whenever somebody notifies. To be called again from time to time, with anything, since
    /// the cluster may have lost the watch.
    ///
    /// # Errors
    /// There is no object `cluster`, or it cannot be watched.
    pub fn watch(&self, notified: impl FnOnce() -> Notified) -> io::Result<()> {
        match self.watch.get() {
            Some(watch) => watch.begin(),
            None => {
                let watch = self.objects.watch(CLUSTER, notified())?;
                // Somebody else may have been faster; both are told then.
                let _ = self.watch.set(watch);
                Ok(())
            }
        }
    }

    /// Tells all who watch that something changed, and waits for them for a moment.
    ///
    /// # Errors
    /// Some could not be told.
    pub fn notify(&self) -> io::Result<()> {
        self.objects.notify(CLUSTER)
    }

    /// Returns the records of the group that has this namespace.
    ///
    /// # Errors
    /// The pool is gone.
    pub fn group(&self, namespace: &str) -> io::Result<Group> {
        let objects = self.cluster.pool(&self.location.pool, namespace)?;
        Ok(Group { cluster: Arc::clone(&self.cluster), objects: Arc::new(objects) })
    }
}

fn set_cluster(objects: &dyn Objects, version: Option<u64>, bytes: &[u8]) -> io::Result<bool> {
    /// The numbers of Linux for an object that exists, and for one of another version; see errno(3).
    const FASTER: [i32; 3] = [17, 34, 75];
    let guard = version.map_or(Step::Create, Step::VersionIs);
    match change_now(objects, CLUSTER, &[guard, Step::Replace(bytes)]) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error().is_some_and(|number| FASTER.contains(&number)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Group {
    /// Reads the lease with its version; none if the group was never served.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn lease(&self) -> io::Result<Option<(Vec<u8>, u64)>> {
        read_whole(&*self.objects, LEASE, LEASE_BYTES)
    }

    /// Reads the list of connections, of at most `bytes_max` bytes; empty if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn connections(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        Ok(read_whole(&*self.objects, CONNECTIONS, bytes_max)?.map(|(bytes, _)| bytes).unwrap_or_default())
    }

    /// Replaces the list of connections.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_connections(&self, bytes: &[u8]) -> io::Result<()> {
        change_now(&*self.objects, CONNECTIONS, &[Step::Replace(bytes)]).map(drop)
    }

    /// Releases the lease of the last process of this machine that had the namespace, which is known to have ended. `local` is
    /// the directory of this machine for the namespace.
    ///
    /// # Errors
    /// The lease cannot be written.
    pub fn release_for_ended(&self, local: &Path) -> io::Result<()> {
        local::instance_of(local).map_or(Ok(()), |instance| release_for(&*self.objects, instance))
    }

    /// Releases the lease of a process that is known to have ended.
    ///
    /// # Errors
    /// The lease cannot be written.
    pub fn release_for(&self, instance: u64) -> io::Result<()> {
        release_for(&*self.objects, instance)
    }

    /// Has the cluster refuse connections, as a lease names them.
    ///
    /// # Errors
    /// No monitor does so.
    pub fn shut_out(&self, addresses: &str) -> io::Result<()> {
        self.cluster.blocklist(addresses, SHUT_OUT_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryObjects;

    #[test]
    fn the_cluster_is_replaced_only_by_who_read_its_last_version() {
        let objects = MemoryObjects::new();
        assert!(set_cluster(&*objects, None, b"one").unwrap());
        assert!(!set_cluster(&*objects, None, b"other").unwrap(), "it exists");
        let (bytes, version) = read_whole(&*objects, CLUSTER, 99).unwrap().unwrap();
        assert_eq!(bytes, b"one");
        assert!(set_cluster(&*objects, Some(version), b"two").unwrap());
        assert!(!set_cluster(&*objects, Some(version), b"late").unwrap());
        assert_eq!(read_whole(&*objects, CLUSTER, 99).unwrap().unwrap().0, b"two");
    }
}
