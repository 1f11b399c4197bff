//! Tokens.

use crate::http::Response;

use super::problem::Problem;
use super::types::{Done, NewToken};
use super::{Api, Asked, json};

pub(super) fn list(api: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    json(200, &api.tokens.list())
}

pub(super) fn create(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let new: NewToken = asked.content()?;
    json(201, &api.tokens.create(&new.name, new.role)?)
}

pub(super) fn show(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let name = asked.name()?;
    match api.tokens.list().iter().find(|token| token.name == name) {
        Some(token) => json(200, token),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Problem {
    Problem::new(404, format!("there is no token {name:?}: `holdfast token list` shows all of them"))
}

pub(super) fn delete(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let name = asked.name()?;
    if api.tokens.delete(name)? {
        return json(200, &Done {});
    }
    Err(unknown(name))
}
