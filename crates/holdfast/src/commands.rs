//! The commands, one file each: arguments and execution.

mod accounts;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dump;
pub(crate) mod man;
mod named;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod qos;
pub(crate) mod quota;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod tree;
pub(crate) mod volume;
