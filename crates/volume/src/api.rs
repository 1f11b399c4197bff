//! What protocols pass to the engine and get back: requests, results, attributes, handles, ids and times.

pub mod attributes;
pub mod handle;
pub mod ids;
pub mod quotas;
pub mod request;
pub mod results;
pub mod state;
pub mod time;
pub mod trees;
