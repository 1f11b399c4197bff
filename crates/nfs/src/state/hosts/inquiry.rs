//! Asks hosts whether they are still there. NLM has no leases, so a host that is gone for good would keep its locks for ever.
//! That does no harm until a shared limit is nearly reached. Then silent hosts are asked, those of the greediest
//! origins first. A host whose lock manager does not answer for a lease loses all that it holds.
//!
//! The call is NLM's NULL: a host that no longer uses locks runs no lock manager, which would answer it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use volume::time::Time;

use crate::connection::origin;
use crate::state::config::Counters;
use crate::state::hosts::Message;
use crate::state::shares::{Resource, room};
use crate::state::{Context, SharedState, StateError};

/// Hosts that are asked at the same time. An origin has its share of them.
const ASKED_MAX: usize = 64;

/// A host is asked if its origin holds at least one part in this many of what that of the greediest silent host does.
const GREEDIEST_PER_GREEDY: u64 = 8;

/// The hosts that are being asked, and since when.
#[derive(Debug, Default)]
pub(super) struct Inquiries(Mutex<BTreeMap<IpAddr, Time>>);

impl Inquiries {
    /// Notes that a host is asked. Returns false if it is already, or if too many are.
    fn begin(&self, host: IpAddr, now: Time) -> bool {
        let mut asked = self.0.lock();
        if asked.len() >= ASKED_MAX || asked.contains_key(&host) {
            return false;
        }
        let of_origin = asked.keys().filter(|other| origin(**other) == origin(host)).count();
        let begins = room((ASKED_MAX - asked.len()) as u64, of_origin as u64) > 0;
        if begins {
            asked.insert(host, now);
        }
        begins
    }

    fn end(&self, host: IpAddr) {
        self.0.lock().remove(&host);
    }

    fn since(&self, host: IpAddr) -> Option<Time> {
        self.0.lock().get(&host).copied()
    }
}

impl SharedState {
    /// Asks hosts that have been silent for a lease, if clients are short of what their origins hold much of, compared with what
    /// is free and with other silent hosts, or their origins were refused something. Others hold too little to help anybody.
    pub(in crate::state) fn ask_hosts(&self, context: &Context<'_>) {
        let kinds = [Resource::Clients, Resource::StateBytes, Resource::Ranges];
        let mut silent = self.clients.all();
        silent.retain(|client| client.host.is_some() && client.idle(context.now) > self.config.lease);
        let kinds = kinds.map(|resource| {
            let held = silent.iter().map(|client| client.holder.held_by_origin(resource));
            (resource, held.max().unwrap_or(0).div_ceil(GREEDIEST_PER_GREEDY))
        });
        silent.retain(|client| {
            let is_greedy = |(resource, least): &(Resource, u64)| {
                client.holder.holds_much_of_short(*resource)
                    && client.holder.held_by_origin(*resource) >= *least
            };
            client.holder.was_refused() || kinds.iter().any(is_greedy)
        });
        silent.sort_by_cached_key(|client| {
            let greed = client.holder.held_by_origin(Resource::Clients);
            (Reverse(greed), Reverse(client.idle(context.now)), client.id)
        });
        for host in silent.iter().filter_map(|client| client.host) {
            if self.hosts.inquiries.begin(host.address, context.now)
                && !self.push_call(Message::inquiry(context.now, host.address))
            {
                self.hosts.inquiries.end(host.address);
            }
        }
    }

    /// Notes that a host answered.
    pub(super) fn host_answered(&self, context: &Context<'_>, host: IpAddr) {
        self.hosts.inquiries.end(host);
        self.clients.at(host).iter().for_each(|client| client.renew(context.now));
    }

    /// Removes what a host holds that did not answer, unless it called meanwhile.
    ///
    /// # Errors
    /// Those of the journal.
    pub(super) fn give_up_host(&self, context: &Context<'_>, host: IpAddr) -> Result<(), StateError> {
        let Some(asked) = self.hosts.inquiries.since(host) else { return Ok(()) };
        let gone = self.clients.at(host);
        if gone.iter().all(|client| client.idle(context.now) >= context.now.since(asked)) {
            self.remove_clients(context, &gone)?;
            Counters::up(&self.counters.hosts_given_up);
        }
        self.hosts.inquiries.end(host);
        Ok(())
    }
}
