//! What the nodes of a cluster share beside the pools of groups: the cluster has it, or a test.

use std::io;
use std::sync::Arc;

use rados::Board;

/// Called for a notification.
pub(crate) type Notified = Box<dyn Fn() + Send + Sync>;

/// The records of a cluster.
pub(crate) trait Records: Send + Sync {
    /// Reads the nodes and groups of the cluster; none before it is initialized.
    fn roster(&self) -> io::Result<Option<Vec<u8>>>;
    /// Reads what each node says of itself.
    fn nodes(&self) -> io::Result<Vec<(String, Vec<u8>)>>;
    /// Replaces what a node says of itself, or removes it.
    fn set_node(&self, node: &str, says: Option<&[u8]>) -> io::Result<()>;
    /// Has a function called, which may not wait, whenever somebody notifies. To be called again from time to time.
    fn watch(&self, notified: &dyn Fn() -> Notified) -> io::Result<()>;
    /// Tells all who watch that something changed, and waits for them for a moment.
    fn notify(&self) -> io::Result<()>;
    /// Returns the records of a group.
    fn group(&self, name: &str) -> io::Result<Arc<dyn GroupRecords>>;
}

/// The records of a group.
pub(crate) trait GroupRecords: Send + Sync {
    /// Reads the lease with its version; none if the group was never served.
    fn lease(&self) -> io::Result<Option<(Vec<u8>, u64)>>;
    /// Reads the list of connections, at most `bytes_max` bytes of it.
    fn connections(&self, bytes_max: usize) -> io::Result<Vec<u8>>;
    /// Replaces the list of connections.
    fn set_connections(&self, list: &[u8]) -> io::Result<()>;
    /// Releases the lease of a process that has ended.
    fn release_for(&self, instance: u64) -> io::Result<()>;
}

impl Records for Board {
    fn roster(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.cluster()?.map(|(bytes, _)| bytes))
    }

    fn nodes(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Board::nodes(self)
    }

    fn set_node(&self, node: &str, says: Option<&[u8]>) -> io::Result<()> {
        Board::set_node(self, node, says)
    }

    fn watch(&self, notified: &dyn Fn() -> Notified) -> io::Result<()> {
        Board::watch(self, notified)
    }

    fn notify(&self) -> io::Result<()> {
        Board::notify(self)
    }

    fn group(&self, name: &str) -> io::Result<Arc<dyn GroupRecords>> {
        Ok(Arc::new(Board::group(self, name)?))
    }
}

impl GroupRecords for rados::Group {
    fn lease(&self) -> io::Result<Option<(Vec<u8>, u64)>> {
        rados::Group::lease(self)
    }

    fn connections(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        rados::Group::connections(self, bytes_max)
    }

    fn set_connections(&self, list: &[u8]) -> io::Result<()> {
        rados::Group::set_connections(self, list)
    }

    fn release_for(&self, instance: u64) -> io::Result<()> {
        rados::Group::release_for(self, instance)
    }
}
