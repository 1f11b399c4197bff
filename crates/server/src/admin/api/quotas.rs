//! Quotas of a volume.

use crate::http::Response;

use super::problem::Problem;
use super::types::{QuotaChange, QuotaKind, QuotaList};
use super::{Api, Asked, json, revision};

/// Lists quotas of one kind, in pages, or shows one.
pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let kind = asked.request.parameter("kind").map_or(Some(QuotaKind::User), QuotaKind::from_name);
    let Some(kind) = kind else {
        return Err(Problem::new(422, "`kind` is `user`, `group`, `tree` or `volume`".to_owned()));
    };
    let from = asked.number("from")?;
    let (reloader, name) = (&api.source.reloader, asked.name()?);
    let list = match asked.number("id")? {
        Some(id) => QuotaList { quotas: vec![reloader.quota(name, kind, id)?], next: None },
        None => reloader.quotas(name, kind, from, asked.page_length()?)?,
    };
    // Whatever part is shown, the revision is that of all that is set in the volume: what is used changes by itself.
    revision::named_of_all(json(200, &list)?, reloader.quota_settings(name)?)
}

pub(super) fn change(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let change: QuotaChange = asked.content()?;
    json(200, &api.source.reloader.change_quota(asked.name()?, &change)?)
}
