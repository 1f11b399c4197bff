//! Stores the state of clients in the volumes of the service.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use volume::ids::VolumeId;
use volume::request::{Durability, Durable, Error};
use volume::state::{DeferredValue, StateChange, StateKey};

use crate::clocks::ClockReading;
use crate::context::ServiceContext;
use crate::exports::HostAccess;
use crate::state::ids::FileId;
use crate::state::{Context, DurabilityToken, StateStore};

impl ServiceContext {
    /// Returns the context of a call of the state machine.
    pub(crate) fn state_context(&self, now: ClockReading) -> Context<'_> {
        Context { store: self, now: now.steady }
    }
}

impl StateStore for ServiceContext {
    fn home(&self) -> VolumeId {
        self.volumes().map(|volume| volume.id()).min().unwrap_or_default()
    }

    fn generation(&self) -> u32 {
        self.volume(self.home()).map_or(0, |volume| volume.generation())
    }

    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<Durability, Error> {
        match self.volume(volume) {
            Some(volume) => volume.change_state(changes),
            // The records of a deleted volume went with it.
            None if changes.iter().all(|change| change.value.is_none()) => Ok(Durability::NOW),
            None => Err(Error::Stale),
        }
    }

    fn defer(&self, volume: VolumeId, key: StateKey, value: Arc<dyn DeferredValue>) -> Result<(), Error> {
        self.volume(volume).ok_or(Error::Stale)?.defer_state(key, value)
    }

    fn journal_deferred(&self) {
        self.volumes().for_each(|volume| volume.journal_deferred_state());
    }

    fn hold(&self, file: FileId) {
        if let Some(volume) = self.volume(file.volume) {
            volume.hold(file.ino);
        }
    }

    fn release(&self, file: FileId) {
        if let Some(volume) = self.volume(file.volume) {
            volume.release(file.ino);
        }
    }

    fn durability(&self, token: DurabilityToken) -> Durable {
        match self.volume(token.volume) {
            Some(volume) => volume.durability(token.after),
            None if token.after == Durability::NOW => Durable::Yes,
            None => Durable::Failed,
        }
    }

    fn admits(&self, host: IpAddr) -> bool {
        // Whatever port it calls from: port 1 is privileged.
        self.exports.admit(SocketAddr::new(host, 1))
    }

    fn access(&self, host: IpAddr, is_privileged: bool, volume: VolumeId) -> HostAccess {
        let port = if is_privileged { 1 } else { u16::MAX };
        self.exports.access(SocketAddr::new(host, port), volume)
    }

    fn handle(&self, file: FileId) -> Box<[u8]> {
        self.volume(file.volume)
            .map_or_else(Box::default, |volume| volume.handle(file.ino).to_bytes()[..].into())
    }
}
