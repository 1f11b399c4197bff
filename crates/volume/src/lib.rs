//! The volume engine: a state machine over ordered key-value records, with file data beside them.

pub mod attributes;
pub mod handle;
pub mod ids;
pub mod index;
pub mod journal;
pub mod limits;
pub mod media;
pub mod request;
pub mod results;
pub mod time;
pub mod volume;
