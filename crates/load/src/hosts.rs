//! Measuring with several client hosts: an agent on each, and one coordinator that starts them together and adds up
//! what they counted.
//!
//! An agent executes what an authenticated coordinator asks for, and only against servers that its own operator allowed.
//! Clocks are not compared: every agent reports that it is ready, then the coordinator sends the start, and round trips
//! bound the difference between the starts. Results are merged as counts and histograms, so percentiles are exact.

mod agent;
mod coordinator;
mod deadline;
mod line;
mod merge;
mod protocol;
mod token;

pub use agent::{Agent, Allowed};
pub use coordinator::{Combined, Coordinator, Failure, measure_on};
pub(crate) use line::Direction;
pub use line::{Peer, resolve};
pub use merge::merge;
pub use token::Token;

#[cfg(test)]
mod tests;
