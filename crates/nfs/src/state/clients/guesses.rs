//! How often hosts introduce themselves by the name of a client elsewhere, with a verifier that is not the client's.
//!
//! The verifier proves that an address belongs to a client. But most of its 64 bits can be known: Linux uses the time at which it
//! started. So each origin has few tries.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use volume::time::Time;

/// Wrong verifiers of an origin in a [`WINDOW`]; beyond that, its introductions prove nothing until the window ends. Hosts that
/// share a name have as many, each for its own start.
pub(in crate::state) const WRONG_VERIFIERS_MAX: u32 = 16;

/// How long wrong verifiers are counted, from the first one.
pub(in crate::state) const WINDOW: Duration = Duration::from_secs(60);

/// Origins whose wrong verifiers are counted. While there are as many, those of no other origin are compared.
const ORIGINS_MAX: usize = 4096;

/// The wrong verifiers of each origin.
#[derive(Debug, Default)]
pub(super) struct Guesses(BTreeMap<IpAddr, (Time, u32)>);

impl Guesses {
    /// Returns whether a verifier from `origin` may be compared with those of clients elsewhere.
    pub(super) fn may_try(&self, origin: IpAddr, now: Time) -> bool {
        match self.0.get(&origin) {
            Some((began, wrong)) => *wrong < WRONG_VERIFIERS_MAX || now.since(*began) > WINDOW,
            None => self.0.len() < ORIGINS_MAX,
        }
    }

    /// Counts a wrong verifier.
    pub(super) fn count(&mut self, origin: IpAddr, now: Time) {
        if self.0.len() >= ORIGINS_MAX {
            self.0.retain(|_, (began, _)| now.since(*began) <= WINDOW);
        }
        if self.0.len() >= ORIGINS_MAX && !self.0.contains_key(&origin) {
            return;
        }
        let (began, wrong) = self.0.entry(origin).or_insert((now, 0));
        if now.since(*began) > WINDOW {
            (*began, *wrong) = (now, 0);
        }
        *wrong = wrong.saturating_add(1);
    }
}
