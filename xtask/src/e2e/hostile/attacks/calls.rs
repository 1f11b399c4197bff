//! Calls that take the server long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::compound::{Compound, op};
use super::super::rpc::{Caller, Failure, Link, NFS4};
use super::super::{Scene, places};
use crate::nfs::Arguments;

/// Connections.
const CONNECTIONS: usize = 60;
/// Connections of a flood, and COMPOUNDs in flight on each.
const FLOODING: usize = 20;
const FLOOD: usize = 500;
/// Threads that serve them; each sends on all its connections before it reads replies.
const THREADS: usize = 4;
/// COMPOUNDs in flight on each connection.
const WINDOW: usize = 20;
/// Operations of a COMPOUND.
const OPERATIONS: usize = 100;

/// Sends the longest COMPOUNDs on many connections, many at a time.
pub(super) fn long_compounds(scene: &Scene) -> Result<String, String> {
    compounds(scene, 244, (CONNECTIONS, WINDOW), &[attributes(), lookups()])
}

/// Sends as many COMPOUNDs as a socket takes, on fewer connections.
pub(super) fn floods(scene: &Scene) -> Result<String, String> {
    compounds(scene, 249, (FLOODING, FLOOD), &[lookups()])
}

/// Sends COMPOUNDs on this number of connections, so many at a time on each.
fn compounds(
    scene: &Scene,
    host: u8,
    (connections, window): (usize, usize),
    calls: &[Arguments],
) -> Result<String, String> {
    let answered = AtomicUsize::new(0);
    let work = || -> Result<(), Failure> {
        let from = Caller::unprivileged(places::neighbour(host), 0);
        let mut links = Vec::new();
        for _ in 0..connections / THREADS {
            links.push(Link::open(from)?);
        }
        while scene.goes_on() {
            for link in &mut links {
                for call in calls.iter().cycle().take(window) {
                    link.send(NFS4, 1, call)?;
                }
            }
            for link in &mut links {
                for _ in 0..window {
                    link.receive()?.1?;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        // A connection that the server closes is no harm.
        threads.into_iter().for_each(|thread| _ = thread.join());
    });
    Ok(format!("{} COMPOUNDs answered", answered.into_inner()))
}

/// GETATTRs of all attributes.
fn attributes() -> Arguments {
    let mut compound = Compound::new(0);
    compound.op(op::PUTROOTFH);
    for _ in 1..OPERATIONS {
        compound.op(op::GETATTR).word(2).word(0xffff_ffff).word(0xffff_ffff);
    }
    compound.arguments()
}

/// LOOKUPs, which take few bytes.
fn lookups() -> Arguments {
    let mut compound = Compound::new(0);
    for _ in 0..OPERATIONS / 2 {
        compound.op(op::PUTROOTFH);
        compound.op(op::LOOKUP).opaque(b"main");
    }
    compound.arguments()
}
