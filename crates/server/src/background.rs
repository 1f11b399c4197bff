//! Threads that run the background work of volumes.

pub(crate) mod copies;
pub(crate) mod driver;
mod fullness;
mod quota_news;
