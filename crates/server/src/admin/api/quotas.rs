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
    let number = |name: &str, advice: &str| -> Result<Option<u64>, Problem> {
        let wrong = |text| Problem::new(422, format!("`{name}` is a number, not {text:?}: {advice}"));
        let text = asked.request.parameter(name);
        text.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    };
    let from = number("from", "pass `next` of the page before")?;
    let (reloader, name) = (&api.source.reloader, asked.name()?);
    let list = match number("id", "pass that of a user, a group or a tree")? {
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
