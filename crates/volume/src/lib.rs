//! The volume engine: a state machine over ordered key-value records, with file data beside them.
//!
//! It starts no thread and reads no clock: operations are called, background work is driven in steps. Below it is
//! [`media`], the seam to real or simulated devices; above it are protocols, which call [`Volume`]s, the file
//! systems of a [`Pool`]. `ARCHITECTURE.md` has
//! the map, `docs/format.md` every byte.

mod api;
mod background;
pub mod bytes;
mod cache;
mod count;
mod encoding;
mod file;
#[cfg(test)]
mod hooks;
pub mod journal;
pub mod limits;
pub mod media;
mod offline;
mod open;
mod ops;
pub mod options;
pub mod planted;
pub mod pool;
mod quotas;
#[cfg(test)]
mod scenarios;
mod schedule;
mod segments;
mod tables;
mod transaction;
pub mod volume;
mod volumes;

pub use api::{attributes, handle, ids, quotas as quota, request, results, state, time, trees};
pub use background::Progress;
pub use count::count;
pub use encoding::{codec, entry, key, record};
pub use offline::{check, copy, dump, files, repair};
pub use open::{CreateOptions, OpenError, VolumeOptions};
pub use options::Options;
pub use pool::Pool;
pub use tables::index;
pub use volume::Volume;
