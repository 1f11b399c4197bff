//! What event loops serve in earnest: the NFS service, with the wall clock.

pub(crate) mod calls;
pub(crate) mod commits;

use std::sync::Arc;
use std::time::Duration;

use nfs::admission::{self, Resource};
use nfs::service::{Callback, Connection, ConnectionId, Outcome, Progress, Service};
use volume::Volume;
use volume::bytes::Slice;
use volume::request::{Access, Durable};
use wire::mount3;
use wire::record::MARK_BYTES;
use wire::rpc::{SUCCESS_BYTES, decode_call};
use wire::xdr::Decode as _;

use crate::clock::now;
use crate::net::callbacks::Caller;
use crate::protocol::calls::{Calls, HEAD_BYTES, Handled, Head, Wait};
use crate::protocol::commits::Commits;

/// The NFS service and its volumes, by number.
pub(crate) struct Protocol {
    pub(crate) service: Service,
    pub(crate) volumes: Vec<Arc<Volume>>,
    /// Who commits what they journaled, by the same numbers.
    pub(crate) commits: Vec<Arc<Commits>>,
}

impl Calls for Protocol {
    fn handle(
        &self,
        call: &[u8],
        connection: Connection,
        access: Access,
        progress: &mut Option<Progress>,
        out: &mut Vec<u8>,
        tail: &mut Vec<Slice>,
    ) -> Handled {
        let start = out.len();
        let outcome = self.service.handle_in_parts(call, connection, now(), access, progress, out, tail);
        if matches!(outcome, Outcome::Reply { .. }) {
            log_mount(call, connection, out.get(start..).unwrap_or_default());
        }
        outcome.map_wait(|wait| {
            let number = self.volumes.iter().position(|volume| Arc::ptr_eq(volume, &wait.volume));
            let volume = number.expect("the service was given these volumes and no others");
            Wait { volume, after: wait.durability }
        })
    }

    fn reply_bytes_max(&self, call: &[u8]) -> usize {
        admission::reply_bytes_max(call)
    }

    fn lines(&self) -> usize {
        self.volumes.len() * Resource::COUNT
    }

    fn line_of(&self, call: &[u8]) -> Option<usize> {
        let (id, resource) = admission::awaited(call)?;
        let volume = self.volumes.iter().position(|volume| volume.id() == id)?;
        Some(volume * Resource::COUNT + resource.number())
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

    fn durable(&self, wait: Wait) -> Durable {
        self.volumes[wait.volume].durability(wait.after)
    }

    fn failure_reply(&self, head: Head, out: &mut Vec<u8>) {
        // A call's head, then a credential and a verifier of AUTH_NONE: flavor and length, all zeros.
        let mut call = [0; HEAD_BYTES + 16];
        call[..HEAD_BYTES].copy_from_slice(&head.0);
        self.service.failure_reply(&call, out);
    }
}

impl Caller for Protocol {
    fn tick(&self) -> Duration {
        let next = self.service.tick(now());
        // What ended by time was journaled.
        self.commit(false);
        next
    }

    fn take(&self) -> Vec<Callback> {
        self.service.take_callbacks()
    }

    fn failed(&self, callback: u64) {
        self.callback_failed(callback);
    }

    fn answered(&self, record: &[u8]) {
        self.service.callback_answered(record, now());
        self.commit(false);
    }

    fn on_callbacks(&self, notify: Box<dyn Fn() + Send + Sync>) {
        self.service.on_callbacks(notify);
    }
}

/// Mounting is an event that operators want to see, granted or not.
fn log_mount(call: &[u8], connection: Connection, reply: &[u8]) {
    let head = Head::of(call);
    let mount = mount3::Procedure::Mnt as u32;
    if head.program() != mount3::PROGRAM || head.procedure() != mount {
        return;
    }
    let Ok((_, mut arguments)) = decode_call(call) else { return };
    let Ok(path) = mount3::DirPath::decode(&mut arguments) else { return };
    let path = String::from_utf8_lossy(path.0);
    let client = connection.peer.ip();
    match reply.get(MARK_BYTES + SUCCESS_BYTES..).and_then(|result| result.first_chunk()) {
        Some([0, 0, 0, 0]) => tracing::info!(%client, %path, "export mounted"),
        Some(status) => {
            tracing::warn!(%client, %path, status = u32::from_be_bytes(*status), "mount refused");
        }
        None => {}
    }
}
