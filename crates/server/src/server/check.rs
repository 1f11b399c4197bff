//! The tests of a starting server, before it locks or creates anything. `holdfast config check` runs the same tests.

use std::path::Path;
use std::sync::Arc;

use crate::admin;
use crate::admin::api::types::VolumeInfo;
use crate::config::{self, values};
use crate::data::{self, Data};
use crate::error::Error;
use crate::exports::check_volumes;
use crate::group::Right;
use crate::net::listener::check_address;
use crate::pools;
use crate::pools::FIRST_POOL;
use crate::rates;
use crate::server::{Settings, target_names, unused_names};
use crate::volumes::FIRST_VOLUME;

/// Tests whether a server with these settings can start. Does not lock the data directory, bind ports or open pools, so
/// what only these would show is not tested. Changes nothing, and works while a server runs on the data directory.
///
/// # Errors
/// The settings do not fit each other, this machine, or the pools.
pub fn check(settings: &Settings) -> Result<(), Error> {
    values::check_addresses(&settings.listen).map_err(|(_, sentence)| Error::usage(sentence))?;
    for address in &settings.listen {
        check_address(*address).map_err(Error::failed)?;
    }
    let api = &settings.config.1.api;
    check_certificate(api)?;
    admin::check_address(api)?;
    if settings.group.as_ref().is_some_and(|group| matches!(group.right, Right::Lease(_))) {
        // To ask the cluster would take as long as to take the namespace over, which shows the same.
        return Ok(());
    }
    let (root, journal) = (&settings.data, settings.journal.as_deref());
    let names = data::list_or_none(root)?;
    if names.is_empty() {
        check_volumes(&settings.exports, &[FIRST_VOLUME.into()], root)?;
        if let Some(journal) = journal {
            values::check_journal(journal).map_err(Error::usage)?;
        }
        return pools::check_new(root, FIRST_POOL, (None, journal), settings.journal_bytes);
    }
    // The names of volumes are in the pools: see `check_exports`.
    for name in names {
        data::check_pool(root, &name, journal)?;
    }
    Ok(())
}

/// Tests whether the certificate of the API and its key can be used, if they are configured.
///
/// # Errors
/// They cannot be used.
pub fn check_certificate(api: &config::Api) -> Result<(), Error> {
    admin::read_certificate(api).map(drop)
}

/// Tests whether each export is of one of the volumes with these names.
///
/// # Errors
/// One is not.
pub fn check_exports(settings: &Settings, names: &[Arc<str>]) -> Result<(), Error> {
    check_volumes(&settings.exports, names, &settings.data)
}

/// Returns sentences about targets that are not used: names of addresses on which the server would not listen, and limits in the data
/// directory of targets and pools that do not exist. Those of a namespace only its owner can read, which warns when it starts.
///
/// # Errors
/// The limits cannot be read.
pub fn unused_targets(settings: &Settings) -> Result<Vec<String>, Error> {
    let named = &settings.config.1.targets;
    let mut unused: Vec<String> = unused_names(named, &settings.listen).collect();
    let pools: Vec<String> = data::list_or_none(&settings.data)?;
    let targets = target_names(named, &settings.listen);
    if let Some(files) = data::files_without_owner(&settings.data)? {
        unused.extend(rates::unused(&files, &targets, &pools)?);
    }
    Ok(unused)
}

/// Returns the names of the volumes of the data directory at `root`; none if it does not exist yet. Asks the server that runs on
/// it, or reads its pools, which takes time in proportion to their journals.
///
/// # Errors
/// The names cannot be read.
pub fn volume_names(root: &Path) -> Result<Vec<Arc<str>>, Error> {
    if data::list_or_none(root)?.is_empty() {
        return Ok(Vec::new());
    }
    if admin::is_served(root) {
        let volumes: Vec<VolumeInfo> = admin::get(root, "/v1/volumes")?;
        return Ok(volumes.into_iter().map(|volume| volume.name.into()).collect());
    }
    let data = Data::open_to_read(root)?;
    let mut names = Vec::new();
    for pool in data.pools()? {
        let found = pools::volume_names(&data, &pool)?;
        names.extend(found.into_iter().map(Arc::<str>::from));
    }
    Ok(names)
}
