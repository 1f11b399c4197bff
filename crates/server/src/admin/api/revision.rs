//! Revisions of resources, as entity tags (RFC 9110 section 8.8.3): a caller sends the revision that it saw with a change,
//! which is refused if the resource has changed since.
//!
//! A revision is a hash of what is shown, unless that changes by itself: then the resource names another one.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::http::{Body, Response};

use super::problem::Problem;
use super::routes::{ROUTES, Route, resource_of};
use super::{Api, Asked};

/// The name of the field.
const ETAG: &str = "ETag";

/// Digits of a revision.
const DIGITS: usize = 16;

/// Names the revision of what a response shows: that of `settled`, which is what does not change by itself.
pub(super) fn named(response: Response, settled: &impl Serialize) -> Result<Response, Problem> {
    named_of_all(response, [settled])
}

/// The same of many values, one after the other.
pub(super) fn named_of_all<T: Serialize>(
    response: Response,
    settled: impl IntoIterator<Item = T>,
) -> Result<Response, Problem> {
    let mut hash = Sha256::new();
    for value in settled {
        hash.update(super::as_json(&value)?);
    }
    Ok(response.with(ETAG, tag(hash)))
}

fn tag(hash: Sha256) -> String {
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).take(DIGITS / 2).collect();
    format!("\"{digits}\"")
}

/// Returns the revision of what a response shows.
fn of(response: &Response) -> Option<String> {
    let named = response.fields.iter().find(|(name, _)| *name == ETAG).map(|(_, value)| value.clone());
    named.or_else(|| match &response.body {
        Body::Bytes(bytes) => Some(tag(Sha256::new_with_prefix(bytes))),
        Body::Stream(_) => None,
    })
}

/// Adds its revision to what a route shows, if it can be changed.
pub(super) fn add(route: &Route, response: Response) -> Response {
    if !route.has_revision() || response.fields.iter().any(|(name, _)| *name == ETAG) {
        return response;
    }
    match of(&response) {
        Some(revision) => response.with(ETAG, revision),
        None => response,
    }
}

/// Refuses a change if the resource no longer has the revision that the caller saw, or does not exist: then for that reason,
/// as without a revision (RFC 9110 section 13.2.1). The caller of this function excludes other changes meanwhile.
pub(super) fn check(api: &Api, route: &Route, asked: &Asked<'_>) -> Result<(), Problem> {
    let Some(wanted) = asked.request.field("if-match") else { return Ok(()) };
    let current = match resource_of(ROUTES, route.path) {
        Some(resource) => of(&(resource.answer)(api, asked)?),
        None => None,
    };
    let is_wanted =
        |current: &String| wanted.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim() == current);
    if current.as_ref().is_some_and(is_wanted) {
        return Ok(());
    }
    Err(Problem::new(412, "the resource has changed since: read it again, then decide what to change"))
}
