//! Metrics, as `docs/metrics.md` lists them.

use crate::http::Response;

use super::problem::Problem;
use super::{Api, Asked, json};

/// The content type of Prometheus's text format, version 0.0.4.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn text(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    Ok(Response::new(200, TEXT, api.source.measured.scrape().text()))
}

pub(super) fn as_json(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &api.source.measured.scrape().json())
}
