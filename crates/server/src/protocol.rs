//! The NFS service with the wall clock: what event loops serve.

pub(crate) mod calls;
pub(crate) mod commits;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs::admission::{AwaitedLimit, Needs};
use nfs::service::{
    ArrivingPayload, CallId, ConnectionId, Incoming, IncomingRecord, Outcome, Progress, ReplyBuffer, Service,
    Wait,
};
use volume::Volume;
use volume::request::Durable;

use crate::clock::now;

use calls::Calls;
use commits::Commits;

/// How a callback fails that was not begun, which says nothing about the client. No socket fails with this.
pub(crate) const NOT_SENT: io::ErrorKind = io::ErrorKind::ResourceBusy;

/// The NFS service and its volumes, by number.
pub(crate) struct Protocol {
    pub(crate) service: Service,
    pub(crate) volumes: Vec<Arc<Volume>>,
    /// Their commits, by the same numbers.
    pub(crate) commits: Vec<Arc<Commits>>,
}

impl Protocol {
    /// Lets time pass for the service. Returns when to call it again at the latest.
    pub(crate) fn tick(&self) -> Duration {
        let next = self.service.tick(now());
        // Commits the journal entries of expired leases.
        self.commit(false);
        next
    }

    /// Takes the reply to a callback over a connection that the server made, or notes that none arrived.
    pub(crate) fn callback_ended(&self, callback: u64, reply: io::Result<Vec<u8>>) {
        match reply {
            Ok(record) => {
                self.service.callback_answered(&record, now());
                self.commit(false);
            }
            Err(error) if error.kind() == NOT_SENT => self.service.callback_not_sent(callback, now()),
            Err(_) => self.service.callback_failed(callback, now()),
        }
    }
}

impl Calls for Protocol {
    fn handle(
        &self,
        incoming: &Incoming<'_>,
        progress: &mut Option<Progress>,
        reply: &mut ReplyBuffer,
    ) -> Outcome {
        self.service.handle(incoming, progress, reply)
    }

    fn arriving(&self, start: &[u8], length: usize) -> Option<ArrivingPayload> {
        self.service.arriving(start, length)
    }

    fn needs<'r>(&self, record: &IncomingRecord<'r>) -> Needs<'r> {
        Needs::of(record)
    }

    fn queues(&self) -> usize {
        self.volumes.len() * AwaitedLimit::COUNT
    }

    fn queue_of(&self, needs: &Needs<'_>) -> Option<usize> {
        let (id, limit) = needs.awaited()?;
        let volume = self.volumes.iter().position(|volume| volume.id() == id)?;
        Some(volume * AwaitedLimit::COUNT + limit.number())
    }

    fn admits(&self, client: IpAddr) -> bool {
        self.service.admits(client)
    }

    fn connection_closed(&self, connection: ConnectionId) {
        self.service.connection_closed(connection);
    }

    fn callback_failed(&self, callback: u64) {
        self.service.callback_failed(callback, now());
    }

    fn commit(&self, idle: bool) -> bool {
        if idle {
            return self.commits.iter().fold(false, |sum, commits| sum | commits.commit_here());
        }
        for volume in &self.volumes {
            volume.wake_commit();
        }
        false
    }

    fn durable(&self, wait: &Wait) -> Durable {
        wait.volume.durability(wait.durability)
    }

    fn failure_reply(&self, call: CallId, out: &mut Vec<u8>) {
        self.service.failure_reply(call, out);
    }
}
