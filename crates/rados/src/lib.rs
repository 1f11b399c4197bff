//! The engine's media on a Ceph cluster: the objects of a namespace of a pool.
//!
//! ```text
//! lease                       who owns the namespace, and in which epoch
//! connections                 clients of a group, for the node that serves it next
//! cluster, nodes              the nodes and groups of a cluster; pairs: what each node says of itself (in the default namespace)
//! pools                       pairs: the names of pools and their formats; settings of the server
//! ID/journal/NNNNN            the log: a ring of objects of 4 MiB, written in full when the pool is created
//! ID/indexes                  which index is in use
//! ID/index/I/head             where the blocks of index I are
//! ID/index/I/EPOCH-N          blocks, written once
//! ID/segments/NN              pairs: the ids of segments, each with its epoch and capacity
//! ID/segment/SEGMENT-EPOCH/N  a part of a segment, written once; in another pool of the cluster, if so chosen
//! ```
//!
//! `ID` stands for the pool's identity. [`Namespace`] is what a data directory is on a local disk, [`RadosMedia`] one pool in it.
//! Objects with `EPOCH` in their names are written once. All others are changed in place, and each such change is refused once
//! another process has taken the namespace. This crate does not interpret the bytes it stores.

mod board;
mod candidacy;
mod error;
mod fence;
mod format;
mod index;
mod journal;
mod librados;
mod local;
mod location;
mod media;
#[cfg(test)]
mod memory;
mod names;
mod namespace;
mod objects;
mod pool;
#[cfg(test)]
mod scenarios;
mod segments;
mod settings;
mod space;
mod tenancy;

pub use board::{Board, Group};
pub use candidacy::{Candidacy, Progress, Told};
pub use error::{Error, ErrorKind};
pub use local::{LOCAL_VARIABLE, STATE_DIRECTORY};
pub use location::Location;
pub use media::RadosMedia;
pub use namespace::{
    Description, Hold, Namespace, NewPool, check_new, describe, list, list_or_none, memory_bytes,
};
pub use objects::Traffic;
pub use settings::Settings;
