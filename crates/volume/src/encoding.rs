//! Keys, records and journal entries as bytes (`docs/format.md`).

pub mod anchor;
pub mod codec;
pub mod entry;
pub mod key;
pub mod record;
