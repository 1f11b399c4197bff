//! Several client hosts: an agent on each, and one coordinator that lets them begin together and adds up what they
//! counted.
//!
//! An agent runs what an authenticated coordinator asks for, and only against servers that its own operator has allowed.
//! No clock is compared: every agent says that it is ready, then the coordinator says go, and how far apart they began is
//! bounded by round trips. Results are merged as counts and histograms, so that percentiles are exact.

mod agent;
mod coordinator;
mod line;
mod merge;
mod protocol;
mod token;

pub use agent::{Agent, Allowed};
pub use coordinator::Coordinator;
pub(crate) use line::Direction;
pub use line::{Peer, resolve};
pub use merge::merge;
pub use token::Token;

/// Characters of another host's text that are printable.
const TEXT_MAX: usize = 1000;

/// Text of others, fit to be printable.
fn printable(text: &str) -> String {
    text.chars().take(TEXT_MAX).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
