//! Users of the hosts of the well-behaved clients.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::rpc::{Caller, Failure, Link, NFS3};
use super::super::{Scene, places};
use crate::nfs::{Arguments, Procedure};
use crate::process;

/// What each client may do in a second: half of it is more than a well-behaved one does.
const OPERATIONS: &str = "4000";
/// Connections from each host, and calls in flight on each.
const CONNECTIONS: usize = 10;
const WINDOW: usize = 500;
/// The hosts of the well-behaved clients.
const HOSTS: [u8; 2] = [1, 2];

/// Has very many calls wait for the rate limit of a host, from ports that any user may have.
pub(super) fn calls(scene: &Scene) -> Result<String, String> {
    limit(scene, &["--total-ops", OPERATIONS])?;
    let answered = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for host in HOSTS {
            for _ in 0..CONNECTIONS {
                let from = Caller::unprivileged(places::client(host), 1000);
                // A connection that the server closes is no harm.
                scope.spawn(move || _ = getattrs(scene, from, answered));
            }
        }
    });
    limit(scene, &["--reset"])?;
    Ok(format!("{} GETATTRs answered", answered.load(Ordering::Relaxed)))
}

/// Sets the limit of all clients.
fn limit(scene: &Scene, to: &[&str]) -> Result<(), String> {
    let mut command = Command::new(&scene.binary);
    process::output(command.args(["qos", "set", "--all-clients"]).args(to).arg(&scene.data)).map(drop)
}

/// Keeps GETATTRs in flight until the end.
fn getattrs(scene: &Scene, from: Caller, answered: &AtomicUsize) -> Result<(), Failure> {
    let mut link = Link::open(from)?;
    let mut call = Arguments::default();
    call.opaque(&scene.folder);
    for _ in 0..WINDOW {
        link.send(NFS3, Procedure::Getattr as u32, &call)?;
    }
    while scene.goes_on() {
        link.receive()?.1?;
        answered.fetch_add(1, Ordering::Relaxed);
        link.send(NFS3, Procedure::Getattr as u32, &call)?;
    }
    Ok(())
}
