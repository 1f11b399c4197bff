//! The journal: the truth about recent changes, in a ring of fixed length.
//!
//! Batches of entries follow each other and name each other: each carries the checksum of its predecessor, the next
//! sequence number, and the last sequence that was known durable when it was written. A batch never wraps around the
//! end of the ring: what does not fit before the end is written behind the ring's header block. No mark says so, as a
//! mark could be lost when the batch is not: recovery looks at both places, and only the successor of the batch before
//! can be found there.
//!
//! The index names the place where replay begins: an [`Anchor`], the last batch that a checkpoint covers. That batch is
//! kept until the next checkpoint, as proof that index and journal belong together while nothing follows it.
//!
//! Order: `append` writes, `sync` makes durable. After one of them failed nothing is written any more: what media hold
//! then is unknown, and a later sync that succeeds would prove nothing.

use crate::api::ids::{Generation, Seq};

pub mod format;
pub(crate) mod group_commit;
mod recovery;
mod ring;

pub use recovery::{RecoverError, Recovered};
pub use ring::{AppendError, Batch, Ring};

use format::BatchHeader;

/// Takes each entry of a replay, with its sequence and the generation that wrote it; an error ends the replay.
pub type Apply<'a> = &'a mut dyn FnMut(Seq, Generation, &[u8]) -> Result<(), String>;

/// Is shown each entry with its batch and sequence; an error ends the reading.
pub type Visit<'a> = &'a mut dyn FnMut(&BatchHeader, Seq, &[u8]) -> Result<(), String>;
