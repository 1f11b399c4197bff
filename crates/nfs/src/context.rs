//! What calls borrow: exports, volumes, and what outlives a change of the configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use foldhash::HashMap;
use volume::handle::Handle;
use volume::ids::{Ino, VolumeId};
use volume::request::Error;
use volume::volume::Volume;

use crate::exports::pseudo::Pseudo;
use crate::exports::{Export, Exports, ExportsError};
use crate::state::SharedState;

use in_progress::InProgress;
use mounts::Mounts;

pub(crate) mod in_progress;
pub(crate) mod mounts;
pub(crate) mod refusals;
mod state_store;

/// What outlives a change of the configuration.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) in_progress: InProgress,
    pub(crate) mounts: Mounts,
    pub(crate) state: SharedState,
    /// Whether calls come as datagrams too.
    pub(crate) has_datagrams: bool,
}

impl Shared {
    /// Creates what a new process has.
    pub(crate) fn new(state: SharedState) -> Shared {
        let (in_progress, mounts) = (InProgress::default(), Mounts::default());
        Shared { in_progress, mounts, state, has_datagrams: false }
    }
}

/// Exports and volumes. They do not change; a new configuration has a context of its own.
#[derive(Debug)]
pub(crate) struct ServiceContext {
    pub(crate) exports: Exports,
    pub(crate) pseudo: Pseudo,
    volumes: HashMap<VolumeId, Arc<Volume>>,
    pub(crate) shared: Arc<Shared>,
}

impl ServiceContext {
    /// Checks that the volume of each export is there.
    pub(crate) fn new(
        exports: Vec<Export>,
        volumes: Vec<Arc<Volume>>,
        shared: Arc<Shared>,
    ) -> Result<ServiceContext, ExportsError> {
        let exports = Exports::new(exports)?;
        let volumes: HashMap<_, _> = volumes.into_iter().map(|volume| (volume.id(), volume)).collect();
        if let Some(export) = exports.iter().find(|export| !volumes.contains_key(&export.volume)) {
            return Err(ExportsError::NoVolume(export.path.clone()));
        }
        let pseudo = Pseudo::new(&exports);
        Ok(ServiceContext { exports, pseudo, volumes, shared })
    }

    /// Returns the volumes, in no particular order.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values()
    }

    /// Returns the volume with this id.
    pub(crate) fn volume(&self, id: VolumeId) -> Option<&Arc<Volume>> {
        self.volumes.get(&id)
    }

    /// Logs that a client at `peer` used a handle of a volume, though no export of the volume admits it.
    pub(crate) fn log_not_admitted(
        &self,
        volume: VolumeId,
        peer: SocketAddr,
        status: &dyn std::fmt::Display,
    ) {
        let Some(export) = self.exports.iter().find(|export| export.volume == volume) else { return };
        if let Some(rule) = export.refuses(peer) {
            refusals::log(peer, export.path.as_bytes(), status, &rule);
        }
    }

    /// Resolves the bytes of a handle for a client at `peer`.
    pub(crate) fn locate(&self, handle: &[u8], peer: SocketAddr) -> Result<Located<'_>, Refused> {
        let handle = Handle::parse(handle).ok_or(Refused::BadHandle)?;
        // The checksum of a volume that is no longer served cannot be verified; its handles count as stale.
        let volume = self.volume(handle.volume).ok_or(Refused::Stale)?;
        let export =
            self.exports.admitting(handle.volume, peer).ok_or(Refused::NotAdmitted(handle.volume))?;
        match volume.resolve(&handle) {
            Ok(ino) => Ok(Located { volume, export, ino }),
            Err(Error::Stale) => Err(Refused::Stale),
            Err(_) => Err(Refused::BadHandle),
        }
    }
}

/// What a handle names, and the export whose rules apply.
pub(crate) struct Located<'a> {
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) export: &'a Export,
    pub(crate) ino: Ino,
}

/// Why a handle cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was not made by this server.
    BadHandle,
    /// The object it names no longer exists here.
    Stale,
    /// No export of the handle's volume admits the client.
    NotAdmitted(VolumeId),
}
