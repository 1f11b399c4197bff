//! Calls that take the server long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::compound::{Compound, op};
use super::super::rpc::{Caller, Failure, Link, NFS4};
use super::super::{Scene, places};
use crate::nfs::Arguments;

/// Connections.
const CONNECTIONS: usize = 60;
/// Threads that serve them; each sends on all its connections before it reads replies.
const THREADS: usize = 4;
/// COMPOUNDs in flight on each connection.
const WINDOW: usize = 20;
/// Operations of a COMPOUND.
const OPERATIONS: usize = 100;

/// Sends the longest COMPOUNDs on many connections, many at a time.
pub(super) fn long_compounds(scene: &Scene) -> Result<String, String> {
    let (calls, answered) = ([attributes(), lookups()], AtomicUsize::new(0));
    let work = || -> Result<(), Failure> {
        let from = Caller::unprivileged(places::neighbour(244), 0);
        let mut links = Vec::new();
        for _ in 0..CONNECTIONS / THREADS {
            links.push(Link::open(from)?);
        }
        while scene.goes_on() {
            for link in &mut links {
                for call in calls.iter().cycle().take(WINDOW) {
                    link.send(NFS4, 1, call)?;
                }
            }
            for link in &mut links {
                for _ in 0..WINDOW {
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
