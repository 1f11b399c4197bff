//! Who is connected, and what clients hold.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nfs::link_local::{self, Shown};
use nfs::service::Holding;
use nfs::summary::Protocol;

use crate::clock;
use crate::counters::census::{Census, Connected};
use crate::http::Response;
use crate::limits::CENSUS_MAX;

use super::problem::Problem;
use super::types::{Client, ClientList};
use super::{Api, Asked, json};

/// Lists clients, in pages.
pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let after: Option<IpAddr> = match asked.request.parameter("after") {
        None => None,
        Some(text) => Some(link_local::parse(text).ok_or_else(|| {
            Problem::new(422, format!("`after` is an address, not {text:?}: pass `next` of the page before"))
        })?),
    };
    let measured = &api.source.measured;
    let census = measured.counters.iter().map(|counters| &counters.census);
    let connected = Census::take(census, CENSUS_MAX);
    let holdings = measured.protocol.service().holdings(clock::steady());
    json(200, &page(connected, holdings, after, asked.page_length()?))
}

/// Returns a page of all clients.
fn page(
    connected: impl IntoIterator<Item = (IpAddr, Connected)>,
    holdings: Vec<Holding>,
    after: Option<IpAddr>,
    most: usize,
) -> ClientList {
    let mut clients: BTreeMap<IpAddr, (Connected, Vec<Holding>)> = BTreeMap::new();
    for (address, connected) in connected {
        clients.entry(address).or_default().0 = connected;
    }
    for holding in holdings {
        clients.entry(holding.address.to_canonical()).or_default().1.push(holding);
    }
    let mut rest = clients.into_iter().filter(|(address, _)| after.is_none_or(|after| *address > after));
    let found: Vec<_> = rest.by_ref().take(most).collect();
    let next = rest.next().and(found.last()).map(|(address, _)| Shown(*address).to_string());
    let clients = found.iter().map(|(address, (connected, held))| shown(*address, connected, held));
    ClientList { clients: clients.collect(), next }
}

fn shown(address: IpAddr, connected: &Connected, held: &[Holding]) -> Client {
    let used = Protocol::ALL.iter().filter(|protocol| connected.protocols & (1 << **protocol as u32) > 0);
    let mut protocols: Vec<String> = used.map(|protocol| protocol.name().to_owned()).collect();
    for holding in held {
        if !protocols.iter().any(|known| known == holding.protocol) {
            protocols.push(holding.protocol.to_owned());
        }
    }
    let idle = if connected.connections > 0 {
        connected.idle
    } else {
        held.iter().map(|holding| holding.idle).min().unwrap_or_default()
    };
    let sum = |count: fn(&Holding) -> u64| held.iter().map(count).sum();
    Client {
        address: Shown(address).to_string(),
        protocols,
        connections: connected.connections,
        calls: connected.calls,
        bytes: connected.bytes,
        idle_seconds: idle.as_secs(),
        sessions: sum(|holding| holding.sessions),
        stateids: sum(|holding| holding.stateids),
        locked_ranges: sum(|holding| holding.locked_ranges),
        delegations: sum(|holding| holding.delegations),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pages_hold_each_client_once() {
        let address = |number: u8| IpAddr::from([192, 0, 2, number]);
        let connected = (1..8).map(|number| {
            let connected = Connected { connections: 1, calls: number.into(), ..Connected::default() };
            (address(number), connected)
        });
        let holding = |number| Holding {
            address: address(number),
            protocol: "nfs4.1",
            sessions: 1,
            stateids: 2,
            locked_ranges: 3,
            delegations: 4,
            idle: Duration::from_secs(7),
        };
        let holdings = vec![holding(7), holding(9), holding(9)];
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let list = page(connected.clone(), holdings.clone(), after, 3);
            assert!(list.clients.len() <= 3);
            seen.extend(list.clients);
            let Some(next) = list.next else { break };
            after = Some(next.parse().unwrap());
        }
        assert_eq!(seen.len(), 8);
        let (seventh, ninth) = (&seen[6], &seen[7]);
        assert_eq!((seventh.calls, seventh.delegations, seventh.idle_seconds), (7, 4, 0));
        assert_eq!((ninth.connections, ninth.sessions, ninth.idle_seconds), (0, 2, 7));
        assert_eq!(ninth.protocols, ["nfs4.1"]);
    }
}
