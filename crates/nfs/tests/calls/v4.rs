//! NFSv4: COMPOUNDs against a real volume in memory.

mod attributes;
mod compound;
mod copies;
mod data;
mod filehandles;
mod identity;
mod minor2;
mod names;
pub(crate) mod opens;
mod parts;
mod restart;
pub(crate) mod session;
pub(crate) mod support;
