//! Creates, changes and deletes volumes while the server runs. The exports follow: by default, each volume is exported.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nfs::service::Service;
use volume::Volume;

use crate::clock;
use crate::config;
use crate::error::{Error, ErrorKind};
use crate::pools::volumes_of;
use crate::reload::Reloader;
use crate::volumes;
use crate::volumes::quotas;
use crate::volumes::quotas::{QuotaChange, QuotaInfo, QuotaKind, QuotaList};
use crate::volumes::trees;
use crate::volumes::trees::{NewTree, TreeInfo, TreeList, Which};
use crate::volumes::{NewVolume, VolumeChange, VolumeInfo};

/// Most time that the deletion of a volume waits for calls that began before. The engine refuses what they do later.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Interval between checks of whether they have ended.
const PAUSE: Duration = Duration::from_millis(1);

impl Reloader {
    /// Returns the volumes, sorted by name.
    ///
    /// # Errors
    /// One cannot be examined.
    pub(crate) fn volumes(&self) -> Result<Vec<VolumeInfo>, Error> {
        let volumes = volumes_of(&self.pools);
        let mut infos = volumes.iter().map(|volume| self.describe(volume)).collect::<Result<Vec<_>, _>>()?;
        infos.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(infos)
    }

    /// Returns a volume.
    ///
    /// # Errors
    /// There is none with this name, or it cannot be examined.
    pub(crate) fn volume(&self, name: &str) -> Result<VolumeInfo, Error> {
        self.describe(&volumes::find(&self.pools, name)?)
    }

    /// Creates a volume.
    ///
    /// # Errors
    /// Those of [`volumes::create`].
    pub(crate) fn create_volume(&self, new: &NewVolume) -> Result<VolumeInfo, Error> {
        let in_force = self.config.lock();
        let (volume, after) = volumes::create(&self.pools, new)?;
        volumes::wait_durable(&volume, after)?;
        self.serve(&in_force.export, volumes_of(&self.pools))?;
        tracing::info!(volume = new.name, volume_id = %volume.id(), "volume created");
        self.describe(&volume)
    }

    /// Changes a volume.
    ///
    /// # Errors
    /// The configuration names a volume that would get another name, its tier would give it more than its pool has, and those of
    /// [`volumes::change`].
    pub(crate) fn change_volume(&self, name: &str, change: &VolumeChange) -> Result<VolumeInfo, Error> {
        let in_force = self.config.lock();
        let volume = volumes::find(&self.pools, name)?;
        if change.name.as_ref().is_some_and(|new| new != name) {
            self.check_not_configured(&in_force.export, name, "renamed")?;
        }
        if let Some(size) = change.size_bytes.flatten().filter(|bytes| *bytes > 0) {
            self.rates.check_size(volume.id(), size)?;
        }
        let changes = volumes::change(&self.pools, &volume, change)?;
        if changes.is_empty() {
            return self.describe(&volume);
        }
        for after in changes {
            volumes::wait_durable(&volume, after)?;
        }
        self.serve(&in_force.export, volumes_of(&self.pools))?;
        let VolumeChange { name: new_name, size_bytes, root } = change;
        tracing::info!(
            volume = name,
            new_name,
            size_bytes = size_bytes.map(Option::unwrap_or_default),
            uid = root.uid,
            gid = root.gid,
            mode = root.mode.map(|mode| format!("{mode:04o}")),
            "volume changed"
        );
        self.describe(&volume)
    }

    /// Deletes a volume. From then on its handles are stale. Delegations are not recalled, as nothing can be written back any
    /// more.
    ///
    /// # Errors
    /// The configuration exports it, and those of [`volumes::check_deletable`] and [`volumes::delete`].
    pub(crate) fn delete_volume(&self, name: &str) -> Result<(), Error> {
        let in_force = self.config.lock();
        let volume = volumes::find(&self.pools, name)?;
        self.check_not_configured(&in_force.export, name, "deleted")?;
        volumes::check_deletable(&volume)?;
        let mut others = volumes_of(&self.pools);
        others.retain(|other| other.id() != volume.id());
        drain(&self.serve(&in_force.export, others)?);
        let after = match volumes::delete(&volume) {
            Ok(after) => after,
            Err(error) => {
                self.serve(&in_force.export, volumes_of(&self.pools))?;
                return Err(error);
            }
        };
        // The volume still counted when the service without it was put in force.
        self.follow_volumes();
        self.protocol.service().free_state_of(volume.id(), clock::read());
        volumes::wait_durable(&volume, after)?;
        tracing::info!(volume = name, volume_id = %volume.id(), "volume deleted");
        Ok(())
    }

    /// Returns a page of quotas.
    ///
    /// # Errors
    /// There is no such volume, or what is used cannot be read.
    pub(crate) fn quotas(
        &self,
        name: &str,
        kind: QuotaKind,
        from: Option<u64>,
        max: usize,
    ) -> Result<QuotaList, Error> {
        quotas::quotas(&volumes::find(&self.pools, name)?, kind, from, max)
    }

    /// Returns the quota of a user, a group or a tree.
    ///
    /// # Errors
    /// There is no such volume, and those of [`quotas::quota`].
    pub(crate) fn quota(&self, name: &str, kind: QuotaKind, id: u64) -> Result<QuotaInfo, Error> {
        quotas::quota(&volumes::find(&self.pools, name)?, kind, Some(id))
    }

    /// Returns what is set of quotas in a volume.
    ///
    /// # Errors
    /// There is no such volume.
    pub(crate) fn quota_settings(&self, name: &str) -> Result<impl Iterator<Item = quotas::Settings>, Error> {
        Ok(quotas::settings(volumes::find(&self.pools, name)?))
    }

    /// Changes a quota, and returns it.
    ///
    /// # Errors
    /// There is no such volume, and those of [`quotas::set_quota`].
    pub(crate) fn change_quota(&self, name: &str, change: &QuotaChange) -> Result<QuotaInfo, Error> {
        let volume = volumes::find(&self.pools, name)?;
        for after in quotas::set_quota(&volume, change)? {
            volumes::wait_durable(&volume, after)?;
        }
        quotas::quota(&volume, change.kind, change.id)
    }

    /// Returns the quota trees of a volume.
    ///
    /// # Errors
    /// There is no such volume, or they cannot be read.
    pub(crate) fn trees(&self, name: &str, which: Which<'_>, max: usize) -> Result<TreeList, Error> {
        trees::list(&volumes::find(&self.pools, name)?, which, max)
    }

    /// Returns the numbers of the quota trees of a volume.
    ///
    /// # Errors
    /// There is no such volume, or they cannot be read.
    pub(crate) fn tree_numbers(&self, name: &str) -> Result<Vec<u64>, Error> {
        trees::numbers(&volumes::find(&self.pools, name)?)
    }

    /// Makes a directory a quota tree, and returns it.
    ///
    /// # Errors
    /// There is no such volume, and those of [`trees::create`].
    pub(crate) fn create_tree(&self, name: &str, new: &NewTree) -> Result<TreeInfo, Error> {
        let volume = volumes::find(&self.pools, name)?;
        let (id, after) = trees::create(&volume, new)?;
        volumes::wait_durable(&volume, after)?;
        tracing::info!(volume = name, path = new.path, tree = id, "quota tree begun");
        trees::one(&volume, id)?
            .ok_or_else(|| Error::failed(format!("the directory {:?} was removed meanwhile", new.path)))
    }

    /// Deletes a quota tree.
    ///
    /// # Errors
    /// There is no such volume, and those of [`trees::delete`].
    pub(crate) fn delete_tree(&self, name: &str, id: u64) -> Result<(), Error> {
        let volume = volumes::find(&self.pools, name)?;
        volumes::wait_durable(&volume, trees::delete(&volume, id)?)?;
        tracing::info!(volume = name, tree = id, "quota tree deleted");
        Ok(())
    }

    fn describe(&self, volume: &Volume) -> Result<VolumeInfo, Error> {
        let service = self.protocol.service();
        let exports = service.exports().filter(|export| export.volume == volume.id());
        volumes::describe(&self.pools, volume, exports.map(|export| export.path.clone()).collect())
    }

    /// Refuses a change of a volume that the configuration names.
    fn check_not_configured(
        &self,
        exports: &[config::Export],
        name: &str,
        change: &str,
    ) -> Result<(), Error> {
        let Some(export) = exports.iter().find(|export| export.volume == name) else { return Ok(()) };
        let file = self.file.as_ref().map_or_else(String::new, |file| format!(" of {}", file.display()));
        Err(Error {
            kind: ErrorKind::Conflict,
            sentence: format!(
                "the section [[export]] with path = {:?}{file} exports the volume {name:?}, so it cannot be {change}: remove \
                 that section first, and reload the exports",
                export.path
            ),
        })
    }
}

/// Waits until the calls that began with a service that was replaced have ended.
fn drain(replaced: &Arc<Service>) {
    let start = Instant::now();
    while Arc::strong_count(replaced) > 1 && start.elapsed() < DRAIN_MAX {
        thread::sleep(PAUSE);
    }
}
