//! The addresses of a group on this machine, and the connections of its clients.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::config::Group;
use crate::connections::{self, List};
use crate::network::Network;
use crate::status::{Phases, milliseconds};

/// What is done with the addresses of a group.
pub(super) struct Addresses {
    pub(super) config: Group,
    pub(super) network: Arc<dyn Network>,
}

impl Addresses {
    /// Ends what remains here of earlier connections, takes the addresses, and tells the neighbours and these clients.
    pub(super) fn take(&self, phases: &mut Phases, clients: &List) -> Result<(), String> {
        let begun = Instant::now();
        self.end_connections()?;
        phases.connections_ms = milliseconds(begun.elapsed());
        for address in &self.config.addresses {
            let held = self.network.hold(*address);
            held.map_err(|error| format!("cannot take the address {address}: {error}"))?;
        }
        self.tell(clients);
        phases.addresses_ms = milliseconds(begun.elapsed()) - phases.connections_ms;
        Ok(())
    }

    /// Returns the connections of clients that there are now.
    pub(super) fn connections(&self) -> List {
        connections::list(&self.config, &*self.network)
    }

    pub(super) fn end_connections(&self) -> Result<(), String> {
        self.config.sockets().try_for_each(|socket: SocketAddr| {
            let ended: io::Result<usize> = self.network.end_connections(socket);
            ended.map(drop).map_err(|error| format!("cannot end the connections of {socket}: {error}"))
        })
    }

    pub(super) fn refresh(&self) {
        for address in &self.config.addresses {
            if let Err(error) = self.network.hold(*address) {
                eprintln!("holdfast: cannot refresh the address {address}: {error}");
            }
        }
    }

    /// Tells the neighbours that the addresses are here, and makes clients notice that their connections are gone.
    pub(super) fn tell(&self, clients: &List) {
        for ip in self.config.ips() {
            if let Err(error) = self.network.announce(ip) {
                eprintln!("holdfast: cannot announce the address {ip}: {error}");
            }
        }
        for (local, client) in clients {
            // Best effort: a client that is not reached finds out by itself, a few seconds later.
            let _ = self.network.tickle(*local, *client);
        }
    }

    pub(super) fn give_up(&self) {
        for address in &self.config.addresses {
            if let Err(error) = self.network.give_up(*address) {
                eprintln!(
                    "holdfast: cannot give up the address {address}: {error}; the kernel removes it within 5 s"
                );
            }
        }
        if let Err(reason) = self.end_connections() {
            eprintln!("holdfast: {reason}");
        }
    }
}
