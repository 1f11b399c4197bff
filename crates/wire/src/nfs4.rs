//! NFS version 4 with its minor versions 0 (RFC 7530, RFC 7531), 1 (RFC 8881, RFC 5662) and 2 (RFC 7862, RFC 7863), and
//! extended attributes (RFC 8276).
//!
//! Types are named as the RFCs name them, in the casing of Rust; one file for each group of operations. The result of an
//! operation is a [`Res4`]: `Ok` with what follows NFS4_OK, or a [`Failure`], nearly always a bare [`NfsStat4`].
//! [`compound`] reads and writes the COMPOUNDs that carry operations, [`callback`] is the program of a client that its
//! servers call. READ and READDIR also have encoders that build
//! their results in place: [`ReadEncoder`], [`ReaddirEncoder`].
//!
//! A field and its neighbours are on the wire in the order in which they are declared.

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
/// The highest minor version.
pub const MINOR_VERSION_MAX: u32 = 2;

xdr_enum! {
    /// The procedures (RFC 8881 section 16). NULL has no arguments and no results.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Operations, one after the other until one fails; see [`compound`].
        Compound = 1,
    }
}
