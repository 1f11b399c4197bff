//! Resolves the exports of the configuration.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nfs::exports::{Export, Squash};
use volume::Volume;

use crate::config;
use crate::error::Error;
use crate::names;

pub(crate) mod writable;

/// Refuses an export of a volume that is not among `names`, those of the data directory `root`.
pub(crate) fn check_volumes(
    configured: &[config::Export],
    names: &[Arc<str>],
    root: &Path,
) -> Result<(), Error> {
    let is_missing = |export: &&config::Export| !names.iter().any(|name| **name == *export.volume);
    let Some(export) = configured.iter().find(is_missing) else { return Ok(()) };
    Err(Error::usage(format!(
        "the export {:?} is of the volume {:?}, which {} does not have{}: create it with `holdfast volume create`, \
         or correct the configuration",
        export.path,
        export.volume,
        root.display(),
        names::others(names, &export.volume)
    )))
}

/// Resolves the configured exports; without any, exports every volume at `/NAME`.
pub(crate) fn resolve(
    configured: &[config::Export],
    volumes: &[Arc<Volume>],
    addresses: &[SocketAddr],
    root: &Path,
) -> Result<Vec<Export>, Error> {
    if configured.is_empty() {
        return Ok(default_exports(volumes, addresses));
    }
    let names: Vec<Arc<str>> = volumes.iter().map(|volume| volume.name()).collect();
    check_volumes(configured, &names, root)?;
    Ok(configured
        .iter()
        .filter_map(|export| {
            let volume = volumes.iter().zip(&names).find(|(_, name)| ***name == *export.volume)?.0;
            Some(Export {
                read_only: export.read_only,
                squash: match export.squash {
                    config::Squash::Root => Squash::Root,
                    config::Squash::All => Squash::All,
                    config::Squash::None => Squash::None,
                },
                anonymous_uid: export.anonymous_uid,
                anonymous_gid: export.anonymous_gid,
                clients: export.clients.clone(),
                privileged_port_required: export.require_privileged_port,
                delegations: export.delegations,
                ..Export::new(export.path.clone(), volume.id())
            })
        })
        .collect())
}

/// Exports every volume at `/NAME`.
fn default_exports(volumes: &[Arc<Volume>], addresses: &[SocketAddr]) -> Vec<Export> {
    let squash = default_squash(addresses);
    let export =
        |volume: &Arc<Volume>| Export { squash, ..Export::new(format!("/{}", volume.name()), volume.id()) };
    volumes.iter().map(export).collect()
}

/// Says in the log that no exports are configured, if so.
pub(crate) fn note_default(configured: &[config::Export], addresses: &[SocketAddr]) {
    if configured.is_empty() {
        tracing::info!(
            squash = if default_squash(addresses) == Squash::None { "none" } else { "root" },
            "no exports are configured: each volume is exported at /NAME, to every client that can reach the server"
        );
    }
}

/// If the server listens on loopback addresses only, the superuser is not squashed: the first mount is made by this machine's
/// own superuser, who must be able to write. On other machines, anybody can claim to be the superuser.
fn default_squash(addresses: &[SocketAddr]) -> Squash {
    let local = addresses.iter().all(|address| address.ip().is_loopback());
    if local { Squash::None } else { Squash::Root }
}
