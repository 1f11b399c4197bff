//! Quotas of a volume.

use crate::http::Response;

use super::problem::Problem;
use super::types::{QuotaChange, QuotaKind};
use super::{Api, Asked, json};

/// Lists quotas of one kind, in pages.
pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let kind = asked.request.parameter("kind").map_or(Some(QuotaKind::User), QuotaKind::from_name);
    let Some(kind) = kind else {
        return Err(Problem::new(422, "`kind` is `user`, `group`, `tree` or `volume`".to_owned()));
    };
    let from = match asked.request.parameter("from") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Problem::new(422, format!("`from` is a number, not {text:?}: pass `next` of the page before"))
        })?),
    };
    json(200, &api.source.reloader.quotas(asked.name()?, kind, from, asked.page_length()?)?)
}

pub(super) fn change(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let change: QuotaChange = asked.content()?;
    json(200, &api.source.reloader.change_quota(asked.name()?, &change)?)
}
