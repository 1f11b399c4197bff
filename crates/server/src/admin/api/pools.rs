//! Pools.

use crate::http::Response;

use super::problem::Problem;
use super::{Api, Asked, json};

pub(super) fn list(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &api.source.reloader.pools()?)
}

pub(super) fn show(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &api.source.reloader.pool(asked.name()?)?)
}
