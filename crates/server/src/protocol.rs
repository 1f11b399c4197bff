//! The NFS service with the clocks: what event loops serve.

pub(crate) mod calls;
pub(crate) mod commits;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use nfs::admission::{Awaited, AwaitedLimit, Needs};
use nfs::charge::Charge;
use nfs::service::{
    ArrivingPayload, CallId, Connection, ConnectionId, Incoming, IncomingRecord, Outcome, Progress,
    ReplyBuffer, Service, Wait,
};
use volume::Pool;
use volume::request::Durable;

use crate::clock;
use crate::data::Hold;

use calls::Calls;
use commits::Commits;

/// How a callback fails that was not begun, which says nothing about the client. No socket fails with this.
pub(crate) const NOT_SENT: io::ErrorKind = io::ErrorKind::ResourceBusy;

/// The NFS service, and the pools of its volumes, by number.
pub(crate) struct Protocol {
    /// The service of the exports and volumes in force.
    service: ArcSwap<Service>,
    pools: Vec<Arc<Pool>>,
    /// Their commits, by the same numbers.
    pub(crate) commits: Vec<Arc<Commits>>,
    /// That on the data directory, if another machine could take it over.
    hold: Option<Hold>,
}

impl Protocol {
    pub(crate) fn new(service: Service, pools: Vec<Arc<Pool>>, hold: Option<Hold>) -> Protocol {
        let commits = pools.iter().map(Commits::of).collect();
        Protocol { service: ArcSwap::from_pointee(service), pools, commits, hold }
    }

    /// Returns the service in force. Do not hold it for long: a reload replaces it.
    pub(crate) fn service(&self) -> Guard<Arc<Service>> {
        self.service.load()
    }

    /// Puts `service`, which [`Service::replaced_by`] made, in force: for calls that begin from now on. Returns the one before,
    /// which is held by the calls that began with it until they end, and by nothing else.
    pub(crate) fn replace(&self, service: Service) -> Arc<Service> {
        let replaced = self.service.swap(Arc::new(service));
        self.service().note_exports(clock::read());
        replaced
    }

    /// Lets time pass for the service. Returns when to call it again at the latest.
    pub(crate) fn tick(&self) -> Duration {
        let next = self.service().tick(clock::read());
        // Commits the journal entries of expired leases.
        self.commit(false);
        next
    }

    /// Takes the reply to a callback over a connection that the server made, or notes that none arrived.
    pub(crate) fn callback_ended(&self, callback: u64, reply: io::Result<Vec<u8>>) {
        match reply {
            Ok(record) => {
                self.service().callback_answered(callback, &record, clock::read());
                self.commit(false);
            }
            Err(error) if error.kind() == NOT_SENT => {
                self.service().callback_not_sent(callback, clock::read())
            }
            Err(_) => self.service().callback_failed(callback, clock::read()),
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
        self.service().handle(incoming, progress, reply)
    }

    fn arriving(&self, start: &[u8], length: usize) -> Option<ArrivingPayload> {
        self.service().arriving(start, length)
    }

    fn needs<'r>(&self, record: &IncomingRecord<'r>) -> Needs<'r> {
        Needs::of(record)
    }

    fn queues(&self) -> usize {
        self.pools.len() * AwaitedLimit::COUNT
    }

    fn queue_of(&self, (id, limit): Awaited) -> Option<usize> {
        let service = self.service();
        let pool = service.volume(id)?.pool();
        // The limits are the pool's.
        let number = self.pools.iter().position(|other| Arc::ptr_eq(other, pool))?;
        Some(number * AwaitedLimit::COUNT + limit.number())
    }

    fn expected_queue(&self, needs: &Needs<'_>, client: &Connection) -> Option<usize> {
        let is_admitted = |awaited: &Awaited| self.service().admits_to(awaited.0, client);
        self.queue_of(needs.awaited().filter(is_admitted)?)
    }

    fn charge(&self, record: &IncomingRecord<'_>, connection: &Connection) -> Option<Charge> {
        self.service().charge(record, connection)
    }

    fn note_held(&self, record: &IncomingRecord<'_>, connection: Connection) {
        self.service().note_held(record, &connection, clock::read());
    }

    fn admits(&self, client: IpAddr) -> bool {
        self.service().admits(client)
    }

    fn connection_closed(&self, connection: ConnectionId) {
        self.service().connection_closed(connection);
    }

    fn callback_failed(&self, callback: u64) {
        self.service().callback_failed(callback, clock::read());
    }

    fn commit(&self, idle: bool) -> bool {
        if idle {
            return self.commits.iter().fold(false, |sum, commits| sum | commits.commit_here());
        }
        for pool in &self.pools {
            pool.wake_commit();
        }
        false
    }

    fn durable(&self, wait: &Wait) -> Durable {
        wait.pool.durability(wait.durability)
    }

    fn await_tenure(&self) {
        if let Some(hold) = &self.hold {
            hold.wait();
        }
    }

    fn failure_reply(&self, call: CallId, out: &mut Vec<u8>) {
        self.service().failure_reply(call, out);
    }
}
