//! Exports.

use nfs::exports::Squash;

use crate::http::Response;

use super::problem::Problem;
use super::types::{Export, Reloaded};
use super::{Api, Asked, json};

pub(super) fn list(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    let exports: Vec<Export> =
        api.source.measured.protocol.service().exports().map(|export| shown(api, export)).collect();
    json(200, &exports)
}

fn shown(api: &Api, export: &nfs::exports::Export) -> Export {
    let service = api.source.measured.protocol.service();
    let volume = service.volume(export.volume);
    let squash = match export.squash {
        Squash::Root => "root",
        Squash::All => "all",
        Squash::None => "none",
    };
    Export {
        path: export.path.clone(),
        volume: volume.map_or_else(String::new, |volume| volume.name().to_string()),
        read_only: export.read_only,
        squash: squash.to_owned(),
        anonymous_uid: export.anonymous_uid,
        anonymous_gid: export.anonymous_gid,
        clients: export.clients.iter().map(ToString::to_string).collect(),
        require_privileged_port: export.privileged_port_required,
        delegations: export.delegations,
    }
}

pub(super) fn reload(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    let reloaded = api.source.reloader.reload()?;
    json(
        200,
        &Reloaded {
            exports: u64::try_from(reloaded.exports).unwrap_or(u64::MAX),
            restart_keys: reloaded.restart_keys.into_iter().map(str::to_owned).collect(),
        },
    )
}
