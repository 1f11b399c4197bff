//! The journal: the truth about recent changes, in a ring of fixed length.
//!
//! Batches of entries form a chain: each carries the checksum of its predecessor, the next sequence number, and the
//! last sequence that was known durable when it was written. A batch never wraps around the end of the ring: if it
//! does not fit before the end, it is written right after the ring's header block. No mark says so, as a mark could
//! be lost while the batch is not: recovery looks at both positions, and only the successor of the previous batch can
//! be valid there.
//!
//! The index stores where replay begins: an [`Anchor`](crate::encoding::anchor::Anchor), the last batch that a
//! checkpoint covers. That batch is kept until the next checkpoint; while nothing follows it, it proves that index
//! and journal belong together.
//!
//! `append` writes, `sync` makes durable. After either failed nothing more is written: the state of the media is
//! unknown, and a later sync that succeeds would prove nothing.

use crate::api::ids::{Generation, Seq};

pub mod format;
pub(crate) mod group_commit;
mod recovery;
mod ring;

pub use recovery::{RecoverError, Recovered};
pub use ring::{AppendError, Batch, Ring};

use format::BatchHeader;

/// Receives each entry of a replay, with its sequence and the generation that wrote it; an error ends the replay.
pub type Apply<'a> = &'a mut dyn FnMut(Seq, Generation, &[u8]) -> Result<(), String>;

/// Receives each entry with its batch and sequence; an error ends the reading.
pub type Visit<'a> = &'a mut dyn FnMut(&BatchHeader, Seq, &[u8]) -> Result<(), String>;
