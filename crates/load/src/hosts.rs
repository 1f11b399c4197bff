//! Several client hosts: an agent on each, and one coordinator that lets them begin together and adds up what they
//! counted.
//!
//! An agent runs what an authenticated coordinator asks for, and only against servers that its own operator has allowed.
//! No clock is compared: every agent says that it is ready, then the coordinator says go, and how far apart they began is
//! bounded by round trips. Results are merged as counts and histograms, so that percentiles are exact.

mod agent;
mod coordinator;
mod merge;
mod protocol;
mod token;

pub use agent::{Agent, Allowed};
pub use coordinator::Coordinator;
pub use merge::merge;
pub use token::Token;

#[cfg(test)]
mod tests;
