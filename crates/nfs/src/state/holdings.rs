//! What a client holds, for operators.

use std::net::IpAddr;
use std::time::Duration;

use volume::time::Time;

use super::clients::client::{Client, ClientProtocol};
use super::shares::Resource;

/// What a client of NFSv4 holds, or a host by NLM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Where it comes from.
    pub address: IpAddr,
    /// `nfs4.0`, `nfs4.1` (and later), or `nlm`.
    pub protocol: &'static str,
    /// Its sessions.
    pub sessions: u64,
    /// Its stateids: of opens, lock states and delegations.
    pub stateids: u64,
    /// Ranges that it has locked.
    pub locked_ranges: u64,
    /// Its delegations.
    pub delegations: u64,
    /// How long it has sent nothing.
    pub idle: Duration,
}

impl Client {
    /// Returns what it holds.
    pub(super) fn holding(&self, now: Time) -> Holding {
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (sessions, stateids) = {
            let inner = self.inner.lock();
            (wide(inner.sessions.len()), wide(inner.entries.len()))
        };
        Holding {
            address: self.address,
            protocol: match self.version {
                ClientProtocol::V40 => "nfs4.0",
                ClientProtocol::Sessions => "nfs4.1",
                ClientProtocol::Nlm => "nlm",
            },
            sessions,
            stateids,
            locked_ranges: self.holder.held(Resource::Ranges),
            delegations: self.delegations.load(std::sync::atomic::Ordering::Relaxed).into(),
            idle: self.idle(now),
        }
    }
}
