//! Whole calls against a real volume in memory: bytes in, bytes out, as clients see them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::result_large_err, reason = "results are as large as the wire's types make them")]

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
