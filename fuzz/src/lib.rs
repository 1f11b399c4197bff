//! Fuzz targets for everything that takes foreign or damaged bytes apart.
//!
//! A target is a plain function of bytes that panics when something is wrong. The binary `fuzz` drives it with mutations
//! of seeds on any compiler; `guided` hands it to libFuzzer.

pub mod mutation;
pub mod targets;
