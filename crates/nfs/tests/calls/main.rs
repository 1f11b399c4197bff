//! Whole calls against a volume in memory, as bytes that clients send and receive.

#![expect(clippy::unwrap_used, reason = "a failure here fails the test")]
#![expect(clippy::result_large_err, reason = "the size of results is that of the wire types")]

mod attributes;
mod directories;
mod durability;
mod exports;
mod files;
mod locks;
mod long_listings;
mod lost;
mod malformed;
mod mounts;
mod names;
mod payloads;
mod quotas;
mod retransmission;
mod rights;
mod support;
mod v4;
