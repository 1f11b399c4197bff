//! The volume engine: a state machine over ordered key-value records, with file data beside them.
//!
//! It starts no thread and reads no clock: operations are called, background work is driven in steps. Below it is
//! [`media`], the seam to real or simulated devices; above it are protocols, which call [`Volume`]. `ARCHITECTURE.md` has
//! the map, `docs/format.md` every byte.

mod access;
mod apply;
mod attempt;
pub mod attributes;
pub mod bytes;
mod cache;
mod change;
pub mod check;
mod checkpoint;
mod cleaner;
pub mod codec;
mod commit;
mod dirty;
pub mod dump;
pub mod entry;
mod file_map;
pub mod handle;
#[cfg(test)]
mod hooks;
pub mod ids;
pub mod index;
mod inodes;
pub mod journal;
pub mod key;
mod layers;
pub mod limits;
mod mapping;
pub mod media;
mod memtable;
mod name_cache;
mod names;
mod open;
mod ops;
mod orphans;
pub mod record;
mod replies;
pub mod request;
pub mod results;
#[cfg(test)]
mod scenarios;
mod segments;
mod space;
pub mod state;
pub mod time;
mod usage;
pub mod volume;
mod write_back;

pub use open::{CreateOptions, OpenError};
pub use volume::{Options, Progress, Volume};
