//! The volumes of a service as the place where state is kept.

use volume::ids::VolumeId;
use volume::request::{Durability, Durable, Error};
use volume::state::StateChange;
use volume::time::Time;

use crate::service::Service;
use crate::state::ids::FileId;
use crate::state::restart::Records;
use crate::state::{Context, Keep, Kept};

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

    fn generation(&self) -> u32 {
        self.volume(self.home()).map_or(0, |volume| volume.generation())
    }

    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<Durability, Error> {
        // A volume that is not served any more takes nothing; its state goes with it when it is served again.
        self.volume(volume).ok_or(Error::Stale)?.change_state(changes)
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

    fn durability(&self, kept: Kept) -> Durable {
        // What is not served any more is not waited for.
        self.volume(kept.volume).map_or(Durable::Failed, |volume| volume.durability(kept.after))
    }

    fn handle(&self, file: FileId) -> Box<[u8]> {
        self.volume(file.volume)
            .map_or_else(Box::default, |volume| volume.handle(file.ino).to_bytes()[..].into())
    }
}

impl Service {
    /// Brings back what clients of NFSv4 held when the volumes were last served: to be called once, before the first call
    /// is handled. Reads media.
    ///
    /// # Errors
    /// If the records of a volume cannot be read.
    pub fn restore_state(&self, now: Time) -> Result<(), Error> {
        let mut records = Records::default();
        for volume in self.volumes() {
            let id = volume.id();
            volume.scan_state(&mut |key, value| records.add(id, key, value))?;
            volume.remembered_keys(&mut |key| records.remember_key(&key.0));
        }
        self.shared.state.restore(&self.context(now), records);
        // Who holds files has said so by now.
        self.volumes().for_each(|volume| volume.reap_orphans());
        Ok(())
    }

    /// Gauges and counters of what clients of NFSv4 hold, name and value.
    pub fn state_gauges(&self) -> Vec<(&'static str, u64)> {
        self.shared.state.gauges()
    }
}
