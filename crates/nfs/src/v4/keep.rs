//! The volumes of a service as the place where state is kept.

use volume::ids::VolumeId;
use volume::request::{Durability, Error};
use volume::state::StateChange;
use volume::time::Time;

use crate::service::Service;
use crate::v4::state::ids::FileId;
use crate::v4::state::{Context, Keep};

impl Service {
    /// What a question to the state machine comes with.
    pub(crate) fn context(&self, now: Time) -> Context<'_> {
        Context { keep: self, now }
    }
}

impl Keep for Service {
    fn home(&self) -> VolumeId {
        self.volumes().map(|volume| volume.id()).min().unwrap_or_default()
    }

    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<Durability, Error> {
        // A volume that is not served any more takes nothing; its state goes with it when it is served again.
        self.volume(volume).ok_or(Error::Stale)?.change_state(changes)
    }

    fn hold(&self, _file: FileId) {}

    fn release(&self, _file: FileId) {}

    fn handle(&self, file: FileId) -> Box<[u8]> {
        self.volume(file.volume)
            .map_or_else(Box::default, |volume| volume.handle(file.ino).to_bytes()[..].into())
    }
}
