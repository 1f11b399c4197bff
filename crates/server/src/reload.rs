//! Changes what is served while the server runs: exports, when the configuration file is read again, and volumes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nfs::service::Service;
use parking_lot::Mutex;
use volume::Volume;

use crate::config::{self, Config, audience};
use crate::error::Error;
use crate::exports;
use crate::pools::{OpenPool, volumes_of};
use crate::protocol::Protocol;
use crate::rates::Rates;
use crate::rates::limiters::VolumeSize;
use crate::volumes::capacity;

mod pools;
mod volumes;

/// Puts other exports in force.
pub struct Reloader {
    /// The configuration file, if the server was started with one.
    file: Option<PathBuf>,
    /// Its content when the exports in force were read. Held while others are put in force.
    config: Mutex<Config>,
    protocol: Arc<Protocol>,
    pub(crate) rates: Arc<Rates>,
    /// The data directory.
    root: PathBuf,
    pools: Vec<OpenPool>,
    home: Arc<Volume>,
    addresses: Vec<SocketAddr>,
    /// Why the last reload failed, if it did.
    failure: Mutex<Option<String>>,
}

/// What reloading the configuration changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The number of exports in force.
    pub exports: usize,
    /// Keys that have changed and take effect with the next start.
    pub restart_keys: Vec<&'static str>,
}

impl Reloader {
    pub(crate) fn new(
        (file, config): (Option<PathBuf>, Config),
        (protocol, rates): (Arc<Protocol>, Arc<Rates>),
        root: PathBuf,
        (pools, home): (Vec<OpenPool>, Arc<Volume>),
        addresses: Vec<SocketAddr>,
    ) -> Reloader {
        let reloader = Reloader {
            file,
            config: Mutex::new(config),
            protocol,
            rates,
            root,
            pools,
            home,
            addresses,
            failure: Mutex::default(),
        };
        reloader.follow_volumes();
        reloader
    }

    /// Reads the configuration file again and puts its exports and tiers in force, for calls that begin from now on. No
    /// connection is closed, and clients keep what they hold for a lease at least ([`Service::note_exports`]).
    ///
    /// # Errors
    /// There is no file, it has mistakes or lost its last export, an export names a volume that does not exist, or a tier in use
    /// would be gone. The exports and tiers in force stay.
    pub fn reload(&self) -> Result<Reloaded, Error> {
        let Some(file) = &self.file else {
            // What is in force is what was asked for, so that nothing failed.
            tracing::info!("nothing is reloaded: the server was started without a configuration file");
            return Err(Error::usage(
                "the server was started without a configuration file, so there is nothing to reload: start it with --config FILE",
            ));
        };
        let reloaded = self.replace(file);
        *self.failure.lock() = reloaded.as_ref().err().map(ToString::to_string);
        match &reloaded {
            Ok(Reloaded { exports, restart_keys }) => {
                tracing::info!(exports, "exports reloaded");
                if !restart_keys.is_empty() {
                    tracing::warn!(
                        keys = restart_keys.join(", "),
                        "these keys of the configuration take effect with the next start"
                    );
                }
            }
            Err(error) => {
                tracing::error!(event = "reload_failed", %error, "the exports in force stay, as the configuration cannot be used")
            }
        }
        reloaded
    }

    /// Returns why the last reload failed, if it did: the exports in force are not those of the configuration.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    fn replace(&self, file: &Path) -> Result<Reloaded, Error> {
        let mut in_force = self.config.lock();
        let config = Config::read(file).map_err(|error| Error::usage(error.to_string()))?;
        check_some_remain(&in_force.export, &config.export)?;
        for warning in audience::warnings(&config.export, &self.addresses) {
            tracing::warn!("{warning}");
        }
        // What can be refused comes before anything is in force. The tiers are checked and replaced in one step, since a limit
        // that is set meanwhile may use one that would be gone.
        let service = self.service_of(&config.export, volumes_of(&self.pools))?;
        self.rates.set_tiers(config.tiers.clone())?;
        self.put_in_force(service);
        let count = self.protocol.service().exports().count();
        let restart_keys = in_force.restart_keys(&config);
        in_force.export = config.export;
        Ok(Reloaded { exports: count, restart_keys })
    }

    /// Serves these volumes with these exports, for calls that begin from now on. Returns the service before, see
    /// [`Protocol::replace`].
    fn serve(&self, exports: &[config::Export], volumes: Vec<Arc<Volume>>) -> Result<Arc<Service>, Error> {
        Ok(self.put_in_force(self.service_of(exports, volumes)?))
    }

    /// Makes the service of these volumes with these exports, which is not in force yet.
    fn service_of(
        &self,
        exports: &[config::Export],
        mut volumes: Vec<Arc<Volume>>,
    ) -> Result<Service, Error> {
        let exports = exports::resolve(exports, &volumes, &self.addresses, &self.root)?;
        volumes.push(Arc::clone(&self.home));
        let service = self.protocol.service().replaced_by(exports, volumes);
        service.map_err(|error| Error::usage(error.to_string()))
    }

    fn put_in_force(&self, service: Service) -> Arc<Service> {
        let replaced = self.protocol.replace(service);
        self.follow_volumes();
        replaced
    }

    /// Has rate limits follow the volumes and their sizes.
    pub(crate) fn follow_volumes(&self) {
        let of_pool = |open: &OpenPool| -> Vec<VolumeSize> {
            let volumes = open.pool.volumes().into_iter();
            let one = |volume: Volume| VolumeSize {
                id: volume.id(),
                name: volume.name(),
                pool: Arc::clone(&open.name),
                size: capacity(&volume),
            };
            volumes.map(one).collect()
        };
        self.rates.serve(self.pools.iter().flat_map(of_pool).collect());
    }
}

/// Refuses to go from some exports to none, which would open every volume to everybody: more likely a part of the file was lost.
fn check_some_remain(in_force: &[config::Export], configured: &[config::Export]) -> Result<(), Error> {
    if in_force.is_empty() || !configured.is_empty() {
        return Ok(());
    }
    Err(Error::usage(
        "the configuration has no [[export]] any more, so each volume would be exported at /NAME, to every client that can reach \
         the server: name what is exported, or restart the server if that is meant",
    ))
}
