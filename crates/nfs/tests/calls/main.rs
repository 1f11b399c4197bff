//! Whole calls against a real volume in memory: bytes in, bytes out, as clients see them.

#![expect(clippy::unwrap_used, reason = "a failure here fails the test")]
#![expect(clippy::result_large_err, reason = "the size of results is that of the wire types")]

mod attributes;
mod directories;
mod durability;
mod exports;
mod files;
mod locks;
mod malformed;
mod mounts;
mod names;
mod retransmission;
mod support;
mod v4;
