//! Tests of whole volumes in memory: what clients may rely on, and each fault that was found once.

mod clones;
mod files;
mod holes;
mod limits;
mod locks;
mod memory;
mod names;
mod orphans;
mod reaping;
mod recovery;
mod regressions;
mod state;
mod world;
mod xattrs;
