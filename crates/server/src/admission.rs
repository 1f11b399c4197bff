//! The order in which connections and calls are served, and the memory that they may hold.

pub(crate) mod budget;
pub(crate) mod lines;
pub(crate) mod ready;
