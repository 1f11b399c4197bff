//! Tests of whole volumes in memory: the guarantees for clients, and regressions.

mod clones;
mod damage;
mod damaged_index;
mod files;
mod holes;
mod index_replacement;
mod limits;
mod locks;
mod long_maps;
mod long_runs;
mod lost_mappings;
mod lost_records;
mod memory;
mod mixed_copies;
mod moves;
mod names;
mod orphans;
mod reaping;
mod received;
mod recovery;
mod regressions;
mod state;
mod world;
mod xattrs;
