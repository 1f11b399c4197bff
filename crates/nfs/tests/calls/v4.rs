//! NFSv4: COMPOUNDs against a real volume in memory.

mod attributes;
mod compound;
mod data;
mod filehandles;
mod names;
mod support;
