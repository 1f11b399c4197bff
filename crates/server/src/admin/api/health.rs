//! Whether the server runs, and whether it serves.

use crate::http::Response;
use crate::pools::OpenPool;

use super::problem::Problem;
use super::types::Health;
use super::{Api, Asked, json};

/// A server that answers runs.
pub(super) fn live(_: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &Health { status: "ok".to_owned() })
}

/// A server is ready if every pool accepts changes.
pub(super) fn ready(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let refuses = |OpenPool { name, pool }: &OpenPool| {
        pool.refuses_changes().map(|reason| format!("the pool {name:?} refuses changes: {reason}"))
    };
    match api.source.measured.pools.iter().find_map(refuses) {
        Some(sentence) => Err(Problem::new(503, sentence)),
        None => live(api, asked),
    }
}
