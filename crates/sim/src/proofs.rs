//! Whole proofs: each runs a seed and returns the first thing that is wrong.

mod boundaries;
mod closed;
pub mod crash;
pub mod damage;
pub mod full_device;
pub mod media_faults;
pub mod model;
pub mod planted;
pub mod repair;
mod requests;
mod shrink;
pub mod trees;
pub mod volumes;

use crate::workload::Event;

/// A failure that replays.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The number of crashes before it.
    pub generation: u32,
    /// What was wrong.
    pub wrong: String,
    /// The events since the last crash.
    pub events: Vec<Event>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}, generation {}: {}", self.seed, self.generation, self.wrong)?;
        writeln!(f, "    let events = [")?;
        for event in &self.events {
            writeln!(f, "        {event:?},")?;
        }
        write!(f, "    ];")
    }
}
