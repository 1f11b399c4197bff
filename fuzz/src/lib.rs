//! Fuzz targets for all code that decodes foreign or damaged bytes.
//!
//! A target is a function of bytes that panics if something is wrong. The program `fuzz` drives targets with mutated
//! seeds on any compiler; `guided` passes them to libFuzzer.

pub mod mutation;
pub mod targets;
