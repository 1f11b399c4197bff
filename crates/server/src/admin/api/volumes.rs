//! Volumes.

use crate::http::Response;

use super::problem::Problem;
use super::types::{Done, NewVolume, VolumeChange, VolumeInfo};
use super::{Api, Asked, json, revision};

pub(super) fn list(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    let volumes = api.source.reloader.volumes()?;
    let settled: Vec<VolumeInfo> = volumes.iter().map(settled).collect();
    revision::named(json(200, &volumes)?, &settled)
}

pub(super) fn create(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let new: NewVolume = asked.content()?;
    json(201, &api.source.reloader.create_volume(&new)?)
}

pub(super) fn show(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let volume = api.source.reloader.volume(asked.name()?)?;
    revision::named(json(200, &volume)?, &settled(&volume))
}

/// Returns what shows changes of a volume, but not of its files.
fn settled(volume: &VolumeInfo) -> VolumeInfo {
    VolumeInfo { used_bytes: 0, free_bytes: 0, inodes: 0, mappings: 0, ..volume.clone() }
}

pub(super) fn change(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let change: VolumeChange = asked.content()?;
    json(200, &api.source.reloader.change_volume(asked.name()?, &change)?)
}

pub(super) fn delete(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    api.source.reloader.delete_volume(asked.name()?)?;
    json(200, &Done {})
}
