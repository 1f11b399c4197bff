//! Resolves the exports of the configuration.

use std::net::SocketAddr;
use std::path::Path;

use nfs::exports::{Export, Squash};

use crate::config;
use crate::error::Error;
use crate::volumes::Served;

pub(crate) mod writable;

/// Returns those of the volumes `names` of the data directory `root` that are exported: all, if no exports are configured. An
/// export of another volume is an error.
pub(crate) fn exported(
    configured: &[config::Export],
    mut names: Vec<String>,
    root: &Path,
) -> Result<Vec<String>, Error> {
    if let Some(export) = configured.iter().find(|export| !names.contains(&export.volume)) {
        return Err(Error::usage(format!(
            "the export {:?} is of the volume {:?}, but {} has only {}: create it with `holdfast volume create`, or \
             correct the configuration",
            export.path,
            export.volume,
            root.display(),
            names.join(", ")
        )));
    }
    if !configured.is_empty() {
        names.retain(|name| configured.iter().any(|export| export.volume == *name));
    }
    Ok(names)
}

/// Resolves the configured exports; without any, exports every volume at `/NAME`.
pub(crate) fn resolve(
    configured: &[config::Export],
    volumes: &[Served],
    addresses: &[SocketAddr],
) -> Result<Vec<Export>, Error> {
    if configured.is_empty() {
        return Ok(default_exports(volumes, addresses));
    }
    configured
        .iter()
        .map(|export| {
            let served = volumes.iter().find(|served| served.name == export.volume).ok_or_else(|| {
                Error::usage(format!("the export {:?} is of a volume that is not open", export.path))
            })?;
            Ok(Export {
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
                ..Export::new(export.path.clone(), served.volume.id())
            })
        })
        .collect()
}

/// Exports every volume at `/NAME`. If the server listens on loopback addresses only, the superuser is not squashed: the
/// first mount is made by this machine's own superuser, who must be able to write. On other machines, anybody can claim
/// to be the superuser.
fn default_exports(volumes: &[Served], addresses: &[SocketAddr]) -> Vec<Export> {
    let local = addresses.iter().all(|address| address.ip().is_loopback());
    let squash = if local { Squash::None } else { Squash::Root };
    tracing::info!(
        squash = if local { "none" } else { "root" },
        "no exports are configured: each volume is exported at /NAME, to every client that can reach the server"
    );
    let export =
        |served: &Served| Export { squash, ..Export::new(format!("/{}", served.name), served.volume.id()) };
    volumes.iter().map(export).collect()
}
