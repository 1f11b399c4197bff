//! What administrators ask over HTTP: finds the route, checks the role, answers, and logs changes.

mod activity;
mod clients;
mod content;
mod events;
mod exports;
mod health;
mod live;
mod metrics;
mod openapi;
mod pools;
mod problem;
mod qos;
mod quotas;
mod revision;
mod routes;
mod status;
#[cfg(test)]
mod tests;
mod tokens;
mod trees;
pub mod types;
mod volumes;

use std::net::IpAddr;
use std::sync::Arc;

use http_request::Request;
use ipnet::IpNet;
use nfs::link_local::{Shown, without_link};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::Source;
use crate::admin::tokens::Tokens;
use crate::http::{Handler, Peer, Response, Turns, Verdict};

/// The target of the log's lines about what administrators do, which no level hides.
pub const AUDIT: &str = "audit";

use activity::objects::Places;
use problem::Problem;
use routes::{Found, ROUTES, Route};
use types::Role;

/// Answers the requests of administrators.
pub(crate) struct Api {
    source: Arc<Source>,
    tokens: Arc<Tokens>,
    /// Held while a resource is changed, from the check of its revision on.
    changes: Mutex<Changes>,
    /// Where hot files and directories are.
    places: Places,
    /// Hosts take turns in being answered.
    turns: Turns,
    /// The status that all followers of `/v1/live` are sent.
    live: Arc<live::Shown>,
    /// The networks that may connect; see [`crate::config::Api::clients`].
    clients: Option<Vec<IpNet>>,
}

/// Whether resources may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Accepted,
    /// The server is stopping: soon nothing will make them durable.
    Refused,
}

/// A request, as a route sees it.
struct Asked<'a> {
    request: &'a Request,
    /// The name in the path.
    name: Option<&'a str>,
    /// The secret of the token by which the caller is known; processes of this machine need none.
    secret: Option<&'a str>,
    /// The host of the caller, as limits count it; none for processes of this machine.
    host: Option<IpAddr>,
}

impl<'a> Asked<'a> {
    /// Returns the name in the path.
    fn name(&self) -> Result<&'a str, Problem> {
        self.name.ok_or_else(|| Problem::new(404, "the path names no resource"))
    }

    /// Returns the content, which is JSON.
    fn content<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, Problem> {
        content::parse(&self.request.content).map_err(|sentence| Problem::new(422, sentence))
    }
}

/// The sender of a request, and its role.
struct Caller<'a> {
    /// The name of the token, or the local user.
    who: String,
    role: Option<Role>,
    /// The secret of the token.
    secret: Option<&'a str>,
}

/// A request with its route, whose caller may make it.
struct Admitted<'a> {
    route: &'static Route,
    /// The name in the path.
    name: Option<&'a str>,
    caller: Caller<'a>,
}

impl Api {
    pub(crate) fn new(source: Source, tokens: Tokens, clients: Option<Vec<IpNet>>) -> Api {
        let (source, tokens) = (Arc::new(source), Arc::new(tokens));
        Api {
            source,
            tokens,
            changes: Mutex::new(Changes::Accepted),
            places: Places::default(),
            turns: Turns::default(),
            live: Arc::default(),
            clients,
        }
    }

    /// Refuses changes from now on. One that was begun is complete when this returns.
    pub(crate) fn refuse_changes(&self) {
        *self.changes.lock() = Changes::Refused;
    }

    /// Returns who makes a request. The permissions of the socket admit no local processes but those of the server's user and
    /// of root.
    fn caller<'a>(&self, request: &'a Request, peer: Peer) -> Caller<'a> {
        if let Peer::Local(_) = peer {
            return Caller { who: peer.to_string(), role: Some(Role::Admin), secret: None };
        }
        let secret = request.field("authorization").and_then(bearer);
        match secret.and_then(|secret| self.tokens.find(secret)) {
            Some(token) => {
                Caller { who: format!("token {} at {peer}", token.name), role: Some(token.role), secret }
            }
            None => Caller { who: peer.to_string(), role: None, secret: None },
        }
    }

    /// Finds the route of a request, and checks that its caller may use it.
    fn admit<'a>(&self, request: &'a Request, caller: Caller<'a>) -> Result<Admitted<'a>, Response> {
        let (route, name) = match routes::find(ROUTES, &request.method, &request.path) {
            Found::Route(route, name) => (route, name),
            Found::OtherMethods(methods) => {
                return Err(
                    Response::problem(405, "this resource does not take that method").with("Allow", methods)
                );
            }
            Found::Nothing => {
                let sentence = "there is no such resource: GET /v1/openapi.json lists all of them";
                return Err(Response::problem(404, sentence));
            }
        };
        let problem = match (route.role, caller.role) {
            (Some(wanted), Some(role)) if role < wanted => {
                Problem::new(403, format!("this needs the role {wanted}, and the token has the role {role}"))
            }
            (Some(_), None) => Problem::new(
                401,
                "this needs a token: `holdfast token create` on the server's machine creates one",
            ),
            _ => return Ok(Admitted { route, name, caller }),
        };
        Err(problem.into_response())
    }
}

/// Returns the secret in the field `Authorization`, if its scheme is `Bearer` in any case (RFC 9110 section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

impl Api {
    fn answer(&self, route: &Route, asked: &Asked<'_>) -> Result<Response, Problem> {
        if let Some(sentence) = route.parameter_mistake(&asked.request.query) {
            return Err(Problem::new(400, sentence));
        }
        if route.is_read_only() {
            // What anybody may see costs little; processes of this machine have its processors anyway.
            let host = asked.host.filter(|_| route.role.is_some());
            let _turn = host.map(|host| self.turns.begin(host));
            return Ok(revision::add(route, (route.answer)(self, asked)?));
        }
        let others_wait = self.changes.lock();
        if *others_wait == Changes::Refused {
            let sentence =
                "the server is stopping, and nothing was changed: try again when it is started again";
            return Err(Problem::new(503, sentence));
        }
        revision::check(self, route, asked)?;
        (route.answer)(self, asked)
    }
}

/// Whether a host may connect: it is in one of `networks`. Without a list, it is this machine, or an export admits it.
fn is_listed(address: IpAddr, networks: Option<&[IpNet]>, by_exports: impl FnOnce(IpAddr) -> bool) -> bool {
    let address = without_link(address.to_canonical());
    match networks {
        Some(networks) => networks.is_empty() || networks.iter().any(|network| network.contains(&address)),
        None => address.is_loopback() || by_exports(address),
    }
}

impl Handler for Api {
    fn admits(&self, peer: Peer) -> bool {
        let by_exports = |address| self.source.measured.protocol.service().admits(address);
        peer.address().is_none_or(|address| is_listed(address, self.clients.as_deref(), by_exports))
    }

    fn judge(&self, head: &Request, peer: Peer) -> Verdict {
        let caller = self.caller(head, peer);
        let (is_known, who) = (caller.role.is_some(), caller.who.clone());
        let admitted = self.admit(head, caller).map(|admitted| admitted.route.content_bytes_max());
        if let Err(response) = &admitted
            && matches!(response.status, 401 | 403)
        {
            log_refusal(head, peer, &who, response.status);
        }
        Verdict { is_known, admitted }
    }

    fn handle(&self, request: &Request, peer: Peer) -> Response {
        // Checked again: the content may have taken long to arrive, and the token may have been deleted meanwhile.
        let Admitted { route, name, caller } = match self.admit(request, self.caller(request, peer)) {
            Ok(admitted) => admitted,
            Err(response) => return response,
        };
        let asked = Asked { request, name, secret: caller.secret, host: peer.origin() };
        let response = self.answer(route, &asked).unwrap_or_else(Problem::into_response);
        match response.status {
            _ if route.is_read_only() => {}
            400..=499 => log_refusal(request, peer, &caller.who, response.status),
            status => tracing::info!(
                target: AUDIT,
                caller = caller.who,
                method = request.method,
                path = path(request),
                status,
                "administration"
            ),
        }
        response
    }
}

/// Logs a request that changed nothing. Hosts have the field `client`, so that the log takes few lines of each.
fn log_refusal(request: &Request, peer: Peer, caller: &str, status: u16) {
    tracing::info!(
        target: AUDIT,
        client = peer.address().map(|address| tracing::field::display(Shown(address))),
        caller,
        method = request.method,
        path = path(request),
        status,
        "administration refused"
    );
}

fn path(request: &Request) -> String {
    format!("/{}", request.path.join("/"))
}

/// Returns a response of JSON.
fn json(status: u16, content: &impl Serialize) -> Result<Response, Problem> {
    Ok(Response::new(status, "application/json", as_json(content)?))
}

fn as_json(content: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(content)
        .map_err(|error| Problem::new(500, format!("the answer cannot be written as JSON: {error}")))
}
