//! A file in memory: its inode and lock, its extent map, its unstable data.

pub(crate) mod coverage;
pub(crate) mod dirty;
pub(crate) mod extent_map;
pub(crate) mod inodes;
pub(crate) mod notes;
pub(crate) mod removed_names;
