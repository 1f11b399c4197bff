//! The NFS service with the wall clock: what event loops serve.

pub(crate) mod calls;
pub(crate) mod commits;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nfs::admission::{AwaitedLimit, Needs};
use nfs::service::{
    CallId, ConnectionId, Incoming, IncomingRecord, Outcome, Progress, ReplyBuffer, Service, Wait,
};
use volume::Volume;
use volume::request::Durable;
use wire::mount3::{self, MountStat3};
use wire::record::MARK_BYTES;
use wire::rpc::SUCCESS_BYTES;
use wire::xdr::{Decode as _, Decoder};

use crate::clock::now;

use calls::Calls;
use commits::Commits;

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
        let start = reply.bytes.len();
        let outcome = self.service.handle(incoming, progress, reply);
        if matches!(outcome, Outcome::Reply { .. }) {
            log_mount(incoming, reply.bytes.get(start..).unwrap_or_default());
        }
        outcome
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

/// Logs each attempt to mount, granted or refused.
fn log_mount(incoming: &Incoming<'_>, reply: &[u8]) {
    let Ok((header, arguments)) = incoming.record.call() else { return };
    let mount = mount3::Procedure::Mnt as u32;
    if header.program != mount3::PROGRAM || header.procedure != mount {
        return;
    }
    let Ok(path) = mount3::DirPath::decode(&mut Decoder::new(arguments)) else { return };
    let path = String::from_utf8_lossy(path.0);
    let client = incoming.connection.peer.ip();
    match reply.get(MARK_BYTES + SUCCESS_BYTES..).and_then(|result| result.first_chunk()) {
        Some([0, 0, 0, 0]) => tracing::info!(%client, %path, "export mounted"),
        Some(code) => {
            // The variants are the names of RFC 1813 without their prefix.
            let status = MountStat3::from_code(u32::from_be_bytes(*code))
                .map(|status| format!("MNT3ERR_{status:?}").to_uppercase());
            tracing::warn!(%client, %path, status, "mount refused");
        }
        None => {}
    }
}
