//! Names of objects. `docs/format.md` describes what they hold.

use volume::ids::SegmentId;

/// The size of an object in bytes: of the ring, of a segment, and of packed index blocks at most.
pub(crate) const OBJECT_BYTES: u64 = 4 << 20;
pub(crate) const OBJECT_USIZE: usize = 4 << 20;
const _: () = assert!(OBJECT_USIZE as u64 == OBJECT_BYTES);

/// The object that says who owns the namespace.
pub(crate) const LEASE: &str = "lease";

/// The object whose pairs are the pools of the namespace: their names and formats.
pub(crate) const POOLS: &str = "pools";

/// The object with the addresses of a group's clients.
pub(crate) const CONNECTIONS: &str = "connections";

/// The object with the nodes and groups of a cluster.
pub(crate) const CLUSTER: &str = "cluster";

/// The object whose pairs are what each node of a cluster says of itself.
pub(crate) const NODES: &str = "nodes";

/// How many objects share the catalogue of a pool's segments.
pub(crate) const CATALOGUE_OBJECTS: u64 = 16;

/// The objects of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolNames {
    /// The number that identifies it.
    pub(crate) id: u64,
}

impl PoolNames {
    /// An object of the journal's ring.
    pub(crate) fn ring(self, number: u64) -> String {
        format!("{:016x}/journal/{number:05}", self.id)
    }

    /// The object that says which index is in use.
    pub(crate) fn indexes(self) -> String {
        format!("{:016x}/indexes", self.id)
    }

    /// The object that says where the blocks of an index are.
    pub(crate) fn head(self, index: u64) -> String {
        format!("{:016x}/index/{index}/head", self.id)
    }

    /// An object with blocks of an index.
    pub(crate) fn blocks(self, index: u64, epoch: u64, number: u64) -> String {
        format!("{:016x}/index/{index}/{epoch:x}-{number:x}", self.id)
    }

    /// An object of the catalogue of segments.
    pub(crate) fn catalogue(self, number: u64) -> String {
        format!("{:016x}/segments/{number:02x}", self.id)
    }

    /// The object of the catalogue that lists a segment.
    pub(crate) fn catalogue_of(self, segment: SegmentId) -> String {
        self.catalogue(segment.0 % CATALOGUE_OBJECTS)
    }

    /// An object of a segment that was created in `epoch`.
    pub(crate) fn segment(self, segment: SegmentId, epoch: u64, number: u64) -> String {
        format!("{:016x}/segment/{:016x}-{epoch:x}/{number:x}", self.id, segment.0)
    }
}
