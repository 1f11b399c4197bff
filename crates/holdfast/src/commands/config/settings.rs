//! What administrators have set on a running server, as a file: volumes with their quota trees and quotas, and rate limits. What
//! the configuration file says is not part of it, and neither are tokens.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use server::admin;
use server::admin::api::types::{
    GracePeriods, Kind, Limit, QosInfo, QuotaInfo, QuotaKind, Root, Setting, TreeInfo, TreeState, VolumeInfo,
};
use server::error::Error;
use volume::quota::Grace;

use crate::commands::{quota, tree};

/// The kinds of quotas, with the limits of all others of a kind before those of one.
const KINDS: [QuotaKind; 4] = [QuotaKind::Volume, QuotaKind::Tree, QuotaKind::User, QuotaKind::Group];

/// All settings of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) volumes: Vec<VolumeSettings>,
    #[serde(default)]
    pub(super) qos: Vec<RateSettings>,
}

/// Those of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeSettings {
    pub(super) name: String,
    /// Where it is made if it does not exist.
    pub(super) pool: Option<String>,
    pub(super) size_bytes: Option<u64>,
    #[serde(default)]
    pub(super) root: Root,
    /// The paths of directories.
    #[serde(default)]
    pub(super) trees: Vec<String>,
    #[serde(default)]
    pub(super) quotas: Vec<QuotaSettings>,
}

/// Those of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaSettings {
    pub(super) kind: QuotaKind,
    /// The number of the user or group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    /// The directory of the tree, whose number is another one in each volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) bytes: Limit,
    #[serde(default)]
    pub(super) inodes: Limit,
    /// Of all others of the kind only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grace: Option<GracePeriods>,
}

/// Those of rates of a target, a pool, a volume or a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateSettings {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) set: Setting,
}

/// Asks the server of a data directory for all that is set.
pub(super) fn of_server(data: &Path) -> Result<Settings, Error> {
    let volumes: Vec<VolumeInfo> = admin::get(data, "/v1/volumes")?;
    let volumes = volumes.into_iter().map(|volume| of_volume(data, volume)).collect::<Result<_, _>>()?;
    let limited: Vec<QosInfo> = admin::get(data, "/v1/qos")?;
    // What is not in force here could not be set elsewhere.
    let used = limited.into_iter().filter(|info| !info.is_unused);
    let qos = used.map(|QosInfo { kind, name, set, .. }| RateSettings { kind, name, set });
    Ok(Settings { volumes, qos: qos.collect() })
}

fn of_volume(data: &Path, volume: VolumeInfo) -> Result<VolumeSettings, Error> {
    let VolumeInfo { name, pool, size_bytes, root, .. } = volume;
    let trees = trees(data, &name)?;
    let mut quotas = Vec::new();
    for kind in KINDS {
        quotas.extend(quotas_of(data, &name, kind, &trees)?);
    }
    let trees = trees.into_iter().map(|(_, path)| path).collect();
    Ok(VolumeSettings { name, pool: Some(pool), size_bytes, root, trees, quotas })
}

/// Returns the numbers and the paths of the quota trees of a volume.
pub(super) fn trees(data: &Path, volume: &str) -> Result<Vec<(u64, String)>, Error> {
    let trees = tree::list_all(data, volume)?;
    let stays = |tree: &TreeInfo| matches!(tree.state, TreeState::Ready | TreeState::Creating);
    Ok(trees.into_iter().filter(stays).filter_map(|tree| Some((tree.id, tree.path?))).collect())
}

/// Asks for something that a volume has.
pub(super) fn get<T: DeserializeOwned>(data: &Path, volume: &str, what: &str) -> Result<T, Error> {
    admin::get(data, &format!("/v1/volumes/{}/{what}", admin::escaped(volume)))
}

/// Returns the quotas of a kind that are set.
fn quotas_of(
    data: &Path,
    volume: &str,
    kind: QuotaKind,
    trees: &[(u64, String)],
) -> Result<Vec<QuotaSettings>, Error> {
    let found = quota::list_all(data, volume, kind)?;
    let has_limits = |quota: &QuotaInfo| quota.bytes != Limit::default() || quota.inodes != Limit::default();
    let is_of_others = |quota: &QuotaInfo| quota.id.is_none();
    // If the default sets limits, an owner with none of its own is exempt from them.
    let others_have = found.iter().any(|quota| is_of_others(quota) && has_limits(quota));
    let is_set = |quota: &QuotaInfo| match is_of_others(quota) {
        true => has_limits(quota) || quota.grace != usual_grace(),
        // The superuser, his group and files in no tree have none.
        false => quota.id != Some(0) && !quota.is_default && (has_limits(quota) || others_have),
    };
    let path_of = |id| trees.iter().find(|(tree, _)| Some(*tree) == id).map(|(_, path)| path.clone());
    let settings = found.into_iter().filter(is_set).map(|quota| {
        let QuotaInfo { id, bytes, inodes, grace, .. } = quota;
        let (id, path) = if kind == QuotaKind::Tree { (None, path_of(id)) } else { (id, None) };
        let grace = (quota.id.is_none() && grace != usual_grace()).then_some(grace);
        QuotaSettings { kind, id, path, bytes, inodes, grace }
    });
    Ok(settings.collect())
}

/// Returns how long soft limits may be exceeded, unless something else is set.
fn usual_grace() -> GracePeriods {
    let Grace { bytes, inodes } = Grace::default();
    GracePeriods { bytes_seconds: bytes.as_secs(), inodes_seconds: inodes.as_secs() }
}
