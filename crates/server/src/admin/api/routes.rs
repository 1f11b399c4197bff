//! The table of routes. Requests are dispatched by it, and the OpenAPI description is made from it.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::http::{CONTENT_BYTES_MAX, Response};
use crate::names;

use super::problem::Problem;
use super::types::{
    ActivityList, ClientList, CreatedToken, Done, Event, EventList, Export, Health, NewToken, NewTree,
    NewVolume, PoolInfo, QosChange, QosInfo, QuotaChange, QuotaInfo, QuotaList, Reloaded, Role, Status,
    TierInfo, Token, TreeInfo, TreeList, VolumeChange, VolumeInfo,
};
use super::{
    Api, Asked, activity, clients, events, exports, health, live, metrics, openapi, pools, qos, quotas,
    status, tokens, trees, volumes,
};

/// The longest content of a request whose resource ignores it, bytes.
const UNUSED_CONTENT_BYTES_MAX: usize = 1 << 10;

/// Makes the schema of a type.
pub(super) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// Answers a request.
type Answer = fn(&Api, &Asked<'_>) -> Result<Response, Problem>;

/// A method of a resource.
pub(super) struct Route {
    pub(super) method: &'static str,
    /// Its path, in which `{name}` stands for the name of a resource.
    pub(super) path: &'static str,
    /// The lowest role that may use it; `None` if no role is needed.
    pub(super) role: Option<Role>,
    /// What it does, in a sentence.
    pub(super) summary: &'static str,
    /// The content that a request must have.
    pub(super) content: Option<MakeSchema>,
    /// The status code of success, and what the response holds.
    pub(super) success: (u16, MakeSchema),
    pub(super) answer: Answer,
}

impl Route {
    /// A route for viewers, whose requests have no content.
    const fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        success: MakeSchema,
        answer: Answer,
    ) -> Route {
        Route {
            method,
            path,
            role: Some(Role::Viewer),
            summary,
            content: None,
            success: (200, success),
            answer,
        }
    }

    const fn for_everybody(self) -> Route {
        Route { role: None, ..self }
    }

    const fn only_for(self, role: Role) -> Route {
        Route { role: Some(role), ..self }
    }

    const fn with_content(self, content: MakeSchema) -> Route {
        Route { content: Some(content), ..self }
    }

    const fn creates(self) -> Route {
        Route { success: (201, self.success.1), ..self }
    }

    /// Returns the content type of what success holds.
    pub(super) fn content_type(&self) -> &'static str {
        match self.path {
            "/metrics" => "text/plain",
            "/v1/live" => "text/event-stream",
            _ => "application/json",
        }
    }

    /// Returns the longest content of a request, bytes. Even if a resource takes none, it may be empty JSON.
    pub(super) fn content_bytes_max(&self) -> usize {
        if self.content.is_some() { CONTENT_BYTES_MAX } else { UNUSED_CONTENT_BYTES_MAX }
    }

    /// Whether it changes nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.method == "GET"
    }

    /// Returns the parameters of its query, with their types in OpenAPI and what they mean.
    pub(super) fn parameters(&self) -> &'static [(&'static str, &'static str, &'static str)] {
        const LIMIT: (&str, &str, &str) =
            ("limit", "integer", "The most entries to list, 1 to 1000; 1000 unless given.");
        const EVENT: (&str, &str, &str) = (
            "after",
            "integer",
            "The number of the last event that was seen. In a stream, it is the newest one unless given.",
        );
        const CLIENT: (&str, &str, &str) =
            ("after", "string", "The address after which to begin: `next` of the page before.");
        const OBJECTS: (&str, &str, &str) =
            ("objects", "integer", "The most files and directories to list, up to 100; 20 unless given.");
        const KIND: (&str, &str, &str) =
            ("kind", "string", "`user`, which is meant without it, `group`, `tree` or `volume`.");
        const FROM: (&str, &str, &str) = (
            "from",
            "integer",
            "The number of the user, group or tree to begin with: `next` of the page before.",
        );
        const OWNER: (&str, &str, &str) = (
            "id",
            "integer",
            "The number of the one user, group or tree to show, which need not use anything.",
        );
        const TREE: (&str, &str, &str) = ("id", "integer", "The number of the tree.");
        const LIMITED_KIND: (&str, &str, &str) =
            ("kind", "string", "`target`, `pool`, `volume` or `client`; all unless given.");
        const LIMITED_NAME: (&str, &str, &str) =
            ("name", "string", "The name of the one to show, which need not have limits.");
        const PATH: (&str, &str, &str) = ("path", "string", "The path of its directory in the volume.");
        match self.path {
            "/v1/qos" if self.is_read_only() => &[LIMITED_KIND, LIMITED_NAME],
            "/v1/volumes/{name}/quotas" if self.is_read_only() => &[KIND, OWNER, FROM, LIMIT],
            "/v1/volumes/{name}/trees" if self.method == "DELETE" => &[TREE],
            "/v1/volumes/{name}/trees" if self.is_read_only() => &[TREE, PATH, FROM, LIMIT],
            "/v1/events" => &[EVENT, LIMIT],
            "/v1/live" => &[EVENT],
            "/v1/clients" => &[CLIENT, LIMIT],
            "/v1/activity" => &[LIMIT, OBJECTS],
            _ => &[],
        }
    }

    /// Describes a parameter that the resource does not take. A misspelt one, if it were ignored, would seem to have worked.
    pub(super) fn parameter_mistake(&self, query: &[(String, String)]) -> Option<String> {
        let known: Vec<&str> = self.parameters().iter().map(|(name, ..)| *name).collect();
        let (unknown, _) = query.iter().find(|(name, _)| !known.contains(&name.as_str()))?;
        let advice = match &known[..] {
            [] => "it takes none".to_owned(),
            _ => format!("it takes {}", names::list(&known, known.len())),
        };
        Some(format!("this resource has no parameter `{unknown}`: {advice}"))
    }

    /// Whether it shows a resource that another route changes.
    pub(super) fn has_revision(&self) -> bool {
        let changes = |other: &&Route| {
            !other.is_read_only()
                && resource_of(ROUTES, other.path).is_some_and(|shown| shown.path == self.path)
        };
        self.is_read_only() && ROUTES.iter().any(|other| changes(&other))
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    Route::new("GET", "/healthz", "Tells whether the server runs.", schema::<Health>, health::live)
        .for_everybody(),
    Route::new(
        "GET",
        "/readyz",
        "Tells whether the server serves all its volumes and accepts changes of them.",
        schema::<Health>,
        health::ready,
    )
    .for_everybody(),
    Route::new(
        "GET",
        "/metrics",
        "Shows all metrics, in the text format of Prometheus.",
        schema::<String>,
        metrics::text,
    ),
    Route::new(
        "GET",
        "/v1/metrics",
        "Shows all metrics, in JSON.",
        schema::<serde_json::Value>,
        metrics::as_json,
    ),
    Route::new(
        "GET",
        "/v1/openapi.json",
        "Describes this interface in OpenAPI 3.1.",
        schema::<serde_json::Value>,
        openapi::answer,
    ),
    Route::new(
        "GET",
        "/v1/status",
        "Shows what the server serves, and its counters.",
        schema::<Status>,
        status::answer,
    ),
    Route::new(
        "GET",
        "/v1/pools",
        "Lists the pools with the names of their volumes, sorted by name.",
        schema::<Vec<PoolInfo>>,
        pools::list,
    ),
    Route::new("GET", "/v1/pools/{name}", "Shows a pool.", schema::<PoolInfo>, pools::show),
    Route::new(
        "GET",
        "/v1/volumes",
        "Lists the volumes, sorted by name.",
        schema::<Vec<VolumeInfo>>,
        volumes::list,
    ),
    Route::new(
        "POST",
        "/v1/volumes",
        "Creates a volume. Without configured exports, it is exported at once.",
        schema::<VolumeInfo>,
        volumes::create,
    )
    .only_for(Role::Operator)
    .with_content(schema::<NewVolume>)
    .creates(),
    Route::new("GET", "/v1/volumes/{name}", "Shows a volume.", schema::<VolumeInfo>, volumes::show),
    Route::new(
        "PATCH",
        "/v1/volumes/{name}",
        "Changes a volume: its name, its size, and the owner and mode of its root directory.",
        schema::<VolumeInfo>,
        volumes::change,
    )
    .only_for(Role::Operator)
    .with_content(schema::<VolumeChange>),
    Route::new(
        "DELETE",
        "/v1/volumes/{name}",
        "Deletes a volume with all its data. Its handles are stale from now on.",
        schema::<Done>,
        volumes::delete,
    )
    .only_for(Role::Admin),
    Route::new(
        "GET",
        "/v1/volumes/{name}/quotas",
        "Lists what users, groups or trees use of a volume with their limits, or what all its files use, sorted by number.",
        schema::<QuotaList>,
        quotas::list,
    ),
    Route::new(
        "PATCH",
        "/v1/volumes/{name}/quotas",
        "Changes a quota: the limits of a user, a group, a tree, all others or the volume, or how long they may be exceeded.",
        schema::<QuotaInfo>,
        quotas::change,
    )
    .only_for(Role::Operator)
    .with_content(schema::<QuotaChange>),
    Route::new(
        "GET",
        "/v1/volumes/{name}/trees",
        "Lists the quota trees of a volume, sorted by number, in pages, or one of them.",
        schema::<TreeList>,
        trees::list,
    ),
    Route::new(
        "POST",
        "/v1/volumes/{name}/trees",
        "Makes a directory a quota tree. What it holds is moved into the tree in the background.",
        schema::<TreeInfo>,
        trees::create,
    )
    .only_for(Role::Operator)
    .with_content(schema::<NewTree>)
    .creates(),
    Route::new(
        "DELETE",
        "/v1/volumes/{name}/trees",
        "Deletes a quota tree and its limits. Its directory stays, with what is in it.",
        schema::<Done>,
        trees::delete,
    )
    .only_for(Role::Operator),
    Route::new(
        "GET",
        "/v1/qos",
        "Lists the targets, pools, volumes and clients with rate limits, and how long calls waited for them.",
        schema::<Vec<QosInfo>>,
        qos::list,
    ),
    Route::new(
        "PATCH",
        "/v1/qos",
        "Changes the rate limits of a target, a pool, a volume, a client or all other clients, at once.",
        schema::<QosInfo>,
        qos::change,
    )
    .only_for(Role::Operator)
    .with_content(schema::<QosChange>),
    Route::new(
        "GET",
        "/v1/qos/tiers",
        "Lists the tiers, sorted by name.",
        schema::<Vec<TierInfo>>,
        qos::tiers,
    ),
    Route::new(
        "GET",
        "/v1/exports",
        "Lists the exports in force, in their order.",
        schema::<Vec<Export>>,
        exports::list,
    ),
    Route::new(
        "POST",
        "/v1/exports/reload",
        "Reloads the exports from the configuration file.",
        schema::<Reloaded>,
        exports::reload,
    )
    .only_for(Role::Operator),
    Route::new(
        "GET",
        "/v1/events",
        "Lists the newest events, the oldest first.",
        schema::<EventList>,
        events::list,
    ),
    Route::new(
        "GET",
        "/v1/clients",
        "Lists the clients that are connected or hold something, by their addresses.",
        schema::<ClientList>,
        clients::list,
    ),
    Route::new(
        "GET",
        "/v1/activity",
        "Lists the calls of clients by volume and operation, those with the most calls first, and the files and \
         directories to which most is done. They are counted from the first request on, until nobody has asked for 30 \
         seconds.",
        schema::<ActivityList>,
        activity::list,
    ),
    Route::new(
        "GET",
        "/v1/live",
        "Sends events as they happen, and the status every second, as server-sent events named `event`, \
         `missed` and `status`.",
        schema::<Event>,
        live::answer,
    ),
    Route::new(
        "GET",
        "/v1/tokens",
        "Lists the tokens, without their secrets.",
        schema::<Vec<Token>>,
        tokens::list,
    )
    .only_for(Role::Admin),
    Route::new(
        "POST",
        "/v1/tokens",
        "Creates a token, and shows its secret once.",
        schema::<CreatedToken>,
        tokens::create,
    )
    .only_for(Role::Admin)
    .with_content(schema::<NewToken>)
    .creates(),
    Route::new(
        "GET",
        "/v1/tokens/{name}",
        "Shows a token, without its secret.",
        schema::<Token>,
        tokens::show,
    )
    .only_for(Role::Admin),
    Route::new(
        "DELETE",
        "/v1/tokens/{name}",
        "Deletes a token: requests with it are refused from now on.",
        schema::<Done>,
        tokens::delete,
    )
    .only_for(Role::Admin),
];

/// Returns the route that shows what the routes of a path change: that of the same path or, if nothing shows it, of the path
/// above.
pub(super) fn resource_of<'r>(routes: &'r [Route], path: &str) -> Option<&'r Route> {
    let shown = routes.iter().find(|route| route.is_read_only() && route.path == path);
    shown.or_else(|| resource_of(routes, path.rsplit_once('/')?.0))
}

/// What was found for a request.
pub(super) enum Found<'r, 'p> {
    /// A route, and the name in the path, if it has one.
    Route(&'r Route, Option<&'p str>),
    /// The resource takes these methods alone.
    OtherMethods(String),
    Nothing,
}

/// Finds the route of a request.
pub(super) fn find<'r, 'p>(routes: &'r [Route], method: &str, path: &'p [String]) -> Found<'r, 'p> {
    // A request for the head of a response is one for the response (RFC 9110 section 9.3.2).
    let method = if method == "HEAD" { "GET" } else { method };
    let mut methods = Vec::new();
    for route in routes {
        let Some(name) = matches(route.path, path) else { continue };
        if route.method == method {
            return Found::Route(route, name);
        }
        methods.push(route.method);
        if route.method == "GET" {
            methods.push("HEAD");
        }
    }
    if methods.is_empty() { Found::Nothing } else { Found::OtherMethods(methods.join(", ")) }
}

/// Compares a path with that of a route. Returns the name in it, if they match.
fn matches<'p>(pattern: &str, path: &'p [String]) -> Option<Option<&'p str>> {
    let mut segments = path.iter();
    let mut name = None;
    for wanted in pattern.split('/').filter(|segment| !segment.is_empty()) {
        let segment = segments.next()?;
        if wanted == "{name}" {
            name = Some(segment.as_str());
        } else if wanted != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(name)
}
