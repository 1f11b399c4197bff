//! NFS version 4 with its minor versions 0 (RFC 7530, RFC 7531), 1 (RFC 8881, RFC 5662) and 2 (RFC 7862, RFC 7863), and
//! extended attributes (RFC 8276).
//!
//! Types have the names of the RFCs in the casing of Rust; each group of operations has a file. The result of an operation
//! is a [`Res4`]: `Ok` with the body that follows NFS4_OK, or a [`Failure`], in most cases a bare [`NfsStat4`]. [`compound`]
//! decodes and encodes COMPOUNDs, [`callback`] is the callback program of clients. [`ReadEncoder`] and [`ReaddirEncoder`]
//! build results of READ and READDIR in place.
//!
//! Fields are on the wire in the order of their declaration.

#[macro_use]
mod operations;
#[macro_use]
mod outcome;

mod attributes;
mod bitmap;
pub mod callback;
mod client;
pub mod compound;
mod copy;
mod data;
mod delegation;
mod getattr;
mod handle;
mod lock;
mod namespace;
mod op;
mod open;
mod pnfs;
mod readdir;
mod session;
mod sparse;
mod status;
#[cfg(test)]
mod tests;
mod types;
mod xattr;

pub use attributes::*;
pub use bitmap::Bitmap4;
pub use client::*;
pub use copy::*;
pub use data::*;
pub use delegation::*;
pub use getattr::*;
pub use handle::*;
pub use lock::*;
pub use namespace::*;
pub use op::*;
pub use open::*;
pub use outcome::{Failure, Outcome, Res4};
pub use pnfs::*;
pub use readdir::*;
pub use session::*;
pub use sparse::*;
pub use status::NfsStat4;
pub use types::*;
pub use xattr::*;

/// The program number.
pub const PROGRAM: u32 = 100_003;
/// The version number.
pub const VERSION: u32 = 4;

xdr! {
    /// The procedures (RFC 8881 section 16). NULL has no arguments and no results.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Execute operations in order until one fails; see [`compound`].
        Compound = 1,
    }
}
