//! The interface of administrators is what its OpenAPI description says: each operation is used, and each reply compared.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::administration::{ask, ask_with, content, start};
use crate::client::Client;
use crate::running::{Scratch, Server, succeed, text};
use crate::schema;

/// A server, asked by an administrator who compares each reply with the description.
pub(crate) struct Interface {
    pub(crate) server: Server,
    address: SocketAddr,
    pub(crate) data: PathBuf,
    token: String,
    pub(crate) description: Value,
    /// The operations that succeeded, each a method and a path.
    used: RefCell<BTreeSet<(String, String)>>,
}

impl Interface {
    pub(crate) fn start(scratch: &Scratch) -> Interface {
        let (server, address, _) = start(scratch, "");
        let data = scratch.path("data");
        let token =
            succeed(&["token", "create", text(&data), "auditor", "--role", "admin"]).trim().to_owned();
        let description = content(&ask(address, "GET /v1/openapi.json", &token).1);
        Interface { server, address, data, token, description, used: RefCell::default() }
    }

    /// Makes a request whose path fits `pattern`, and checks the reply. Returns its status, and its content if that is JSON.
    fn ask(&self, method: &str, pattern: &str, target: &str, content: Option<&str>) -> (u16, Value) {
        self.ask_with(method, pattern, target, content, "")
    }

    /// The same with further fields.
    pub(crate) fn ask_with(
        &self,
        method: &str,
        pattern: &str,
        target: &str,
        content: Option<&str>,
        fields: &str,
    ) -> (u16, Value) {
        let length =
            content.map_or_else(String::new, |content| format!("\r\nContent-Length: {}", content.len()));
        let head = format!("\r\nAuthorization: Bearer {}{fields}{length}", self.token);
        let body = content.map_or_else(String::new, |content| format!("\r\n\r\n{content}"));
        // What is sent ends with an empty line that belongs to no request, as the connection is closed after the first.
        let (status, reply) = ask_with(self.address, &format!("{method} {target}"), &format!("{head}{body}"));
        let what = format!("{method} {target} {content:?}: {reply}");
        let operation = &self.description["paths"][pattern][method.to_ascii_lowercase()];
        assert!(operation.is_object(), "is not described: {what}");
        let described = operation["responses"].get(status.to_string());
        assert!(described.is_some() || status >= 400, "has no such status: {what}");
        let described = described.unwrap_or(&operation["responses"]["default"]);
        let (kind, rule) = described["content"].as_object().unwrap().iter().next().unwrap();
        assert!(reply.contains(&format!("\r\nContent-Type: {kind}")), "{what}");
        let has_revision = reply.contains("\r\nETag: ");
        assert_eq!(has_revision, described["headers"]["ETag"].is_object(), "{what}");
        if status < 300 {
            self.used.borrow_mut().insert((method.to_owned(), pattern.to_owned()));
        }
        let body = reply.split_once("\r\n\r\n").unwrap().1;
        if !kind.ends_with("json") {
            return (status, Value::Null);
        }
        let value: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {what}"));
        if let Err(why) = schema::check(&self.description, &rule["schema"], &value) {
            panic!("{why}: {what}");
        }
        assert!(status < 400 || value["status"] == status, "{what}");
        (status, value)
    }

    /// Makes a request that must succeed, with content that must be as described.
    fn succeed(&self, method: &str, pattern: &str, target: &str, content: Option<Value>) -> Value {
        if let Some(content) = &content {
            let operation = &self.description["paths"][pattern][method.to_ascii_lowercase()];
            let rule = &operation["requestBody"]["content"]["application/json"]["schema"];
            schema::check(&self.description, rule, content).unwrap();
        }
        let (status, value) =
            self.ask(method, pattern, target, content.map(|json| json.to_string()).as_deref());
        assert!(status < 300, "{method} {target}: {value}");
        value
    }

    /// Reads a stream until it has sent an event and the status.
    fn follow(&self) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET /v1/live?after=0 HTTP/1.1\r\nAuthorization: Bearer {}\r\n\r\n", self.token)
            .unwrap();
        let (mut seen, mut bytes) = (String::new(), [0; 4096]);
        while !(seen.contains("event: event\n") && seen.contains("event: status\n") && seen.ends_with("\n\n"))
        {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "{seen}");
            seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        assert!(seen.contains("\r\nContent-Type: text/event-stream"), "{seen}");
        for (event, definition) in [("event", "Event"), ("status", "Status")] {
            let (_, data) = seen.split_once(&format!("event: {event}\ndata: ")).unwrap();
            let value = serde_json::from_str(data.lines().next().unwrap()).unwrap();
            let rule = &self.description["components"]["schemas"][definition];
            schema::check(&self.description, rule, &value).unwrap();
        }
        self.used.borrow_mut().insert(("GET".to_owned(), "/v1/live".to_owned()));
    }

    /// Returns the method, the path and the description of each operation.
    pub(crate) fn operations(&self) -> Vec<(String, &str, &Value)> {
        let mut all = Vec::new();
        for (path, operations) in self.description["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                all.push((method.to_ascii_uppercase(), path.as_str(), operation));
            }
        }
        all
    }
}

/// Asks for what a volume has.
fn use_volumes(interface: &Interface, client: &mut Client) {
    let used =
        |method, pattern: &str, target: &str, content| interface.succeed(method, pattern, target, content);
    let (all, one) = ("/v1/volumes", "/v1/volumes/{name}");
    let root = json!({ "uid": 1, "gid": 2, "mode": "0770" });
    used(
        "POST",
        all,
        all,
        Some(json!({ "name": "new", "pool": "default", "size_bytes": 1 << 30, "root": root })),
    );
    used("POST", all, all, Some(json!({ "name": "other" })));
    used("GET", one, "/v1/volumes/new", None);
    let change = json!({ "name": "newer", "size_bytes": null, "root": { "mode": "1777" } });
    used("PATCH", one, "/v1/volumes/new", Some(change));
    used("DELETE", one, "/v1/volumes/newer", None);

    let quotas = "/v1/volumes/{name}/quotas";
    let limits = json!({ "soft": 1000, "hard": 2000 });
    for change in [
        json!({ "kind": "user", "id": 7, "bytes": limits, "inodes": { "soft": 1, "hard": null } }),
        json!({ "kind": "group", "bytes": limits, "grace": { "bytes_seconds": 60, "inodes_seconds": 60 } }),
        json!({ "kind": "volume", "inodes": limits }),
        json!({ "kind": "user", "id": 8, "reset": true }),
    ] {
        used("PATCH", quotas, "/v1/volumes/main/quotas", Some(change));
    }
    client.caller = (7, 7);
    client.write_file("one", b"1");
    client.write_file("two", b"2");
    for query in
        ["", "?kind=user&limit=1", "?kind=user&id=7", "?kind=group&from=3", "?kind=volume", "?kind=tree"]
    {
        used("GET", quotas, &format!("/v1/volumes/main/quotas{query}"), None);
    }

    let (trees, of_main) = ("/v1/volumes/{name}/trees", "/v1/volumes/main/trees");
    client.make_directory("tree");
    let made = used("POST", trees, of_main, Some(json!({ "path": "/tree" })));
    for query in ["", "?path=/tree", "?from=1&limit=1"] {
        assert_eq!(used("GET", trees, &format!("{of_main}{query}"), None)["trees"][0]["id"], made["id"]);
    }
    used("DELETE", trees, &format!("{of_main}?id={}", made["id"]), None);
}

#[test]
fn each_operation_answers_as_described() {
    let scratch = Scratch::new();
    let interface = Interface::start(&scratch);
    let mut client = Client::mount(interface.server.address, "/main");
    for (number, (method, path, _)) in interface.operations().into_iter().enumerate() {
        if method == "GET" && !path.contains('{') && path != "/v1/live" {
            interface.succeed("GET", path, path, None);
            client.write_file(&format!("f{number}"), b"data");
            // What is counted while somebody asks is listed from the second time on.
            interface.succeed("GET", path, path, None);
        }
    }
    use_volumes(&interface, &mut client);
    let used =
        |method, pattern: &str, target: &str, content| interface.succeed(method, pattern, target, content);
    used("GET", "/v1/pools/{name}", "/v1/pools/default", None);
    for (kind, name, set) in [
        ("volume", "main", json!({ "tier": "premium", "limits": { "read_ops": 1000, "write_ops": null } })),
        ("client", "*", json!({ "limits": { "total_bytes": 1 << 30 }, "burst_milliseconds": 200 })),
        ("pool", "default", json!({ "reset": true })),
    ] {
        used("PATCH", "/v1/qos", "/v1/qos", Some(json!({ "kind": kind, "name": name, "set": set })));
    }
    for query in ["", "?kind=volume", "?kind=client&name=*"] {
        used("GET", "/v1/qos", &format!("/v1/qos{query}"), None);
    }
    let tokens = "/v1/tokens";
    let made = used("POST", tokens, tokens, Some(json!({ "name": "a", "role": "operator" })));
    assert!(made["secret"].as_str().unwrap().starts_with("hf_"));
    used("GET", "/v1/tokens/{name}", "/v1/tokens/a", None);
    used("DELETE", "/v1/tokens/{name}", "/v1/tokens/a", None);
    used("POST", "/v1/exports/reload", "/v1/exports/reload", None);
    for query in [
        "/v1/events?after=1&limit=1",
        "/v1/clients?after=127.0.0.0&limit=1",
        "/v1/activity?limit=1&objects=1",
    ] {
        used("GET", query.split('?').next().unwrap(), query, None);
    }
    interface.follow();
    let operations = interface.operations().into_iter().map(|(method, path, _)| (method, path.to_owned()));
    assert_eq!(operations.collect::<BTreeSet<_>>(), interface.used.take());
    interface.server.stop();
}

#[test]
fn each_operation_needs_the_role_that_is_described() {
    const ROLES: [&str; 3] = ["viewer", "operator", "admin"];
    let scratch = Scratch::new();
    let interface = Interface::start(&scratch);
    let tokens = ROLES.map(|role| {
        let made = succeed(&["token", "create", text(&interface.data), role, "--role", role]);
        made.trim().to_owned()
    });
    for (method, path, operation) in interface.operations() {
        let request = format!("{method} {}", path.replace("{name}", "none"));
        let wanted = match operation["security"][0]["token"][0].as_str() {
            Some(role) => ROLES.iter().position(|known| *known == role).unwrap(),
            None => {
                assert_eq!(ask_with(interface.address, &request, "").0, 200, "{request}");
                continue;
            }
        };
        let refused = |token: &str| ask(interface.address, &request, token);
        let (status, reply) = refused("hf_none");
        assert!(status == 401 && reply.contains("application/problem+json"), "{reply}");
        for token in &tokens[..wanted] {
            let (status, reply) = refused(token);
            assert!(status == 403 && content(&reply)["status"] == 403, "{request}: {reply}");
        }
        if path != "/v1/live" {
            for token in &tokens[wanted..] {
                let (status, reply) = refused(token);
                assert!(!matches!(status, 401 | 403) && status < 500, "{request}: {reply}");
            }
        }
    }
    interface.server.stop();
}
