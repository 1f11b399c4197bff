//! Quota trees of a volume.

use crate::http::Response;

use super::problem::Problem;
use super::types::{Done, NewTree};
use super::{Api, Asked, json};

pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &api.source.reloader.trees(asked.name()?)?)
}

pub(super) fn create(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let new: NewTree = asked.content()?;
    json(201, &api.source.reloader.create_tree(asked.name()?, &new)?)
}

pub(super) fn delete(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let id = asked.request.parameter("id").and_then(|text| text.parse().ok());
    let id = id.ok_or_else(|| Problem::new(422, "`id` is the number of the tree to delete".to_owned()))?;
    api.source.reloader.delete_tree(asked.name()?, id)?;
    json(200, &Done {})
}
