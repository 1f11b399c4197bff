//! Quota trees of a volume.

use crate::http::Response;
use crate::volumes::trees::Which;

use super::problem::Problem;
use super::types::{Done, NewTree};
use super::{Api, Asked, json, revision};

pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let which = match (asked.number("id")?, asked.request.parameter("path")) {
        (Some(id), _) => Which::Id(id),
        (None, Some(path)) => Which::Path(path),
        (None, None) => Which::From(asked.number("from")?.unwrap_or(0)),
    };
    let (reloader, name) = (&api.source.reloader, asked.name()?);
    let trees = reloader.trees(name, which, asked.page_length()?)?;
    // Whatever part is shown, the revision is that of the whole list. Clients change paths, and states change by themselves.
    revision::named(json(200, &trees)?, &reloader.tree_numbers(name)?)
}

pub(super) fn create(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let new: NewTree = asked.content()?;
    json(201, &api.source.reloader.create_tree(asked.name()?, &new)?)
}

pub(super) fn delete(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let id = asked.number("id")?;
    let id = id.ok_or_else(|| Problem::new(422, "`id` is the number of the tree to delete".to_owned()))?;
    api.source.reloader.delete_tree(asked.name()?, id)?;
    json(200, &Done {})
}
