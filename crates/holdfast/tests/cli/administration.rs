//! Administration over HTTP: the socket, the address for other hosts, tokens, and revisions.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, run, succeed, text};

pub(crate) const EXPORT: &str = "[[export]]\npath = \"/a\"\nvolume = \"main\"\nsquash = \"none\"\n";

/// Makes a request by `token` and returns the status, and the whole reply.
pub(crate) fn ask(address: SocketAddr, request: &str, token: &str) -> (u16, String) {
    ask_with(address, request, &format!("\r\nAuthorization: Bearer {token}"))
}

/// Makes a request with additional header fields, each preceded by CRLF.
pub(crate) fn ask_with(address: SocketAddr, request: &str, fields: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{request} HTTP/1.1\r\nConnection: close{fields}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    (reply[9..12].parse().unwrap(), reply)
}

pub(crate) fn content(reply: &str) -> Value {
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Starts a server that listens for administrators on a free port, which it logs.
pub(crate) fn start(scratch: &Scratch, exports: &str) -> (Server, SocketAddr, std::path::PathBuf) {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let config = scratch.config(&format!("[api]\nlisten = \"{address}\"\n{exports}"));
    (Server::start(&scratch.path("data"), &config, &[]), address, config)
}

#[test]
fn tokens_have_roles() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let data = scratch.path("data");
    let viewer = succeed(&["token", "create", text(&data), "prometheus"]).trim().to_owned();
    let admin: Value =
        serde_json::from_str(&succeed(&["token", "create", text(&data), "ci", "--role", "admin", "--json"]))
            .unwrap();
    let admin = admin["secret"].as_str().unwrap();
    assert!(fail(&["token", "create", text(&data), "ci"], 1).contains("there is a token"));

    assert_eq!(ask(address, "GET /healthz", "").0, 200);
    let lower = format!("\r\nAuthorization: bearer {viewer}");
    assert_eq!(ask_with(address, "GET /v1/status", &lower).0, 200, "a scheme has no case");
    assert_eq!(ask(address, "GET /readyz", "").0, 200);
    let (status, reply) = ask(address, "GET /v1/status", "");
    assert!(status == 401 && reply.contains("WWW-Authenticate: Bearer"), "{reply}");
    let (status, reply) = ask(address, "GET /v1/status", &viewer);
    assert!(status == 200 && content(&reply)["pid"] == server.pid(), "{reply}");
    let (status, reply) = ask(address, "GET /v1/tokens", &viewer);
    assert!(status == 403 && content(&reply)["detail"].as_str().unwrap().contains("role admin"), "{reply}");
    let (status, reply) = ask(address, "GET /v1/tokens", admin);
    assert!(status == 200 && content(&reply)[1]["name"] == "ci" && !reply.contains(admin), "{reply}");
    assert_eq!(ask(address, "DELETE /v1/tokens/prometheus", &viewer).0, 403);
    let deleted = succeed(&["token", "delete", text(&data), "prometheus"]);
    assert_eq!(deleted, "deleted the token \"prometheus\"\n");
    assert_eq!(ask(address, "GET /v1/status", &viewer).0, 401);
    let listed = succeed(&["token", "list", text(&data)]);
    assert!(listed.starts_with("ci  admin  created 20") && listed.ends_with(" UTC\n"), "{listed}");
    let log = server.stop();
    assert!(
        log.contains("administration") && log.contains("/v1/tokens/prometheus") && !log.contains(admin),
        "{log}"
    );
}

#[test]
fn metrics_are_text_and_a_stream_sends_events_and_the_status() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let token = succeed(&["token", "create", text(&scratch.path("data")), "all"]).trim().to_owned();
    let (_, metrics) = ask(address, "GET /metrics", &token);
    assert!(
        metrics.contains("# TYPE holdfast_build_info gauge") && metrics.contains("holdfast_up_volumes"),
        "{metrics}"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /v1/live?after=0 HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n").unwrap();
    let mut seen = String::new();
    while seen.matches("event: status\ndata: {").count() < 2 || !seen.contains("\"kind\":\"recovery\"") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{seen}");
        seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    server.stop();
}

#[test]
fn clients_and_events_are_listed() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, EXPORT);
    let token = succeed(&["token", "create", text(&scratch.path("data")), "grafana"]).trim().to_owned();
    let mut client = Client::mount(server.address, "/a");
    client.write_file("x", b"y");
    let (status, reply) = ask(address, "GET /v1/clients", &token);
    let list = content(&reply);
    let shown = &list["clients"][0];
    assert!(status == 200 && shown["address"] == "127.0.0.1" && list["next"].is_null(), "{reply}");
    assert!(shown["connections"] == 1 && shown["calls"].as_u64() > Some(2), "{reply}");
    assert!(shown["protocols"].as_array().unwrap().iter().any(|name| name == "nfs3"), "{reply}");
    let (_, reply) = ask(address, "GET /v1/clients?after=127.0.0.1&limit=1", &token);
    assert_eq!(content(&reply)["clients"], serde_json::json!([]));
    assert_eq!(ask(address, "GET /v1/clients?after=x", &token).0, 422);
    assert_eq!(ask(address, "GET /v1/clients?limit=0", &token).0, 422);
    let (status, reply) = ask(address, "GET /v1/clients?limt=1", &token);
    assert!(status == 400 && reply.contains("no parameter `limt`: it takes after, limit"), "{reply}");
    assert_eq!(ask(address, "GET /v1/status?all", &token).0, 400);

    let (_, reply) = ask(address, "GET /v1/events", &token);
    let list = content(&reply);
    let mount = list["events"].as_array().unwrap().iter().find(|event| event["kind"] == "mount").unwrap();
    assert!(mount["fields"]["client"] == "127.0.0.1" && mount["fields"]["path"] == "/a", "{reply}");
    let last = list["last"].as_u64().unwrap();
    let (_, reply) = ask(address, &format!("GET /v1/events?after={last}"), &token);
    assert_eq!(content(&reply)["events"], serde_json::json!([]));
    server.stop();
}

#[test]
fn a_limit_is_removed_by_null_and_a_change_of_nothing_is_not_logged() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let token = succeed(&["token", "create", text(&scratch.path("data")), "ci", "--role", "operator"]);
    let token = token.trim();
    let change = |json: &str| send(address, "PATCH /v1/volumes/main", json, token);
    let size = |json: &str| change(json).1["size_bytes"].clone();
    assert_eq!(size("{\"size_bytes\": 8388608}"), 8 << 20);
    assert_eq!(size("{\"root\": {\"mode\": \"0700\"}}"), 8 << 20, "what is missing stays");
    assert_eq!(size("{\"size_bytes\": null}"), Value::Null);
    for nothing in ["{}", "{\"size_bytes\": 0, \"name\": \"main\"}", "{\"root\": {\"mode\": \"0700\"}}"] {
        assert_eq!(change(nothing).0, 200, "{nothing}");
    }
    let (status, refused) = change("{\"size_bytes\": 10}");
    assert!(status == 422 && refused["detail"].as_str().unwrap().contains("\"10 GiB\""), "{refused}");
    let log = server.stop();
    assert_eq!(log.matches("volume changed").count(), 3, "{log}");
}

#[test]
fn what_no_volume_can_have_is_refused() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let token = succeed(&["token", "create", text(&scratch.path("data")), "ci", "--role", "operator"]);
    for (field, sentence) in [
        ("\"root\": {\"uid\": 4294967295}", "no user has the id 4294967295"),
        ("\"root\": {\"gid\": 4294967295}", "no group has the id 4294967295"),
        ("\"root\": {\"mode\": \"+755\"}", "\"+755\" is not a mode"),
        ("\"size_bytes\": 18446744073709551615", "write 0 for no limit"),
    ] {
        for (request, json) in [
            ("POST /v1/volumes", format!("{{\"name\": \"new\", {field}}}")),
            ("PATCH /v1/volumes/main", format!("{{\"name\": \"renamed\", {field}}}")),
        ] {
            let (status, refused) = send(address, request, &json, token.trim());
            let said = refused["detail"].as_str().unwrap_or_default();
            assert!(status == 422 && said.contains(sentence), "{request} {json}: {refused}");
        }
    }
    assert_eq!(ask(address, "GET /v1/volumes/main", token.trim()).0, 200, "no part of a change was made");
    server.stop();
}

#[test]
fn what_no_quota_can_have_is_refused() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let token = succeed(&["token", "create", text(&scratch.path("data")), "ci", "--role", "operator"]);
    let grace = "\"grace\": {\"bytes_seconds\": 60, \"inodes_seconds\": 60}";
    for (fields, sentence) in [
        ("\"bytes\": {\"hard\": 18446744073709551615}", "18446744073709551615 bytes cannot be a limit"),
        ("\"inodes\": {\"soft\": 18446744073709551615}", "18446744073709551615 inodes cannot be a limit"),
        ("\"bytes\": {\"soft\": 2, \"hard\": 1}", "above the hard one"),
        (&format!("\"bytes\": {{\"hard\": 5}}, {grace}"), "omit the id"),
    ] {
        let json = format!("{{\"kind\": \"user\", \"id\": 1001, {fields}}}");
        let (status, refused) = send(address, "PATCH /v1/volumes/main/quotas", &json, token.trim());
        let said = refused["detail"].as_str().unwrap_or_default();
        assert!(status == 422 && said.contains(sentence), "{json}: {refused}");
    }
    let (_, reply) = ask(address, "GET /v1/volumes/main/quotas?kind=user&id=1001", token.trim());
    let kept = content(&reply);
    assert_eq!(kept["quotas"][0]["bytes"]["hard"], Value::Null, "no part of a change was made: {kept}");
    let largest = "{\"kind\": \"user\", \"id\": 1001, \"bytes\": {\"hard\": 18446744073709551614}}";
    let (status, set) = send(address, "PATCH /v1/volumes/main/quotas", largest, token.trim());
    assert_eq!((status, set["bytes"]["hard"].as_u64()), (200, Some(u64::MAX - 1)), "{set}");
    server.stop();
}

/// Sends JSON, and returns the status and the JSON of the reply.
pub(crate) fn send(address: SocketAddr, request: &str, json: &str, token: &str) -> (u16, Value) {
    let (status, reply) =
        ask(address, request, &format!("{token}\r\nContent-Length: {}\r\n\r\n{json}", json.len()));
    (status, content(&reply))
}

#[test]
fn requests_that_never_end_or_are_too_large_do_not_reach_the_event_loops() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, EXPORT);
    let data = scratch.path("data");
    let mut client = Client::mount(server.address, "/a");
    let file = client.write_file("x", b"y");
    let counters = || -> Value {
        let status: Value = serde_json::from_str(&succeed(&["status", text(&data), "--json"])).unwrap();
        status["server"].clone()
    };
    let before = counters();
    let connect = || TcpStream::connect(address).unwrap();
    let slow: Vec<_> = (0..30)
        .map(|_| {
            let mut stream = connect();
            stream.write_all(b"GET /v1/clients HTTP/1.1\r\nHost: x").unwrap();
            stream
        })
        .collect();
    for _ in 0..50 {
        assert_eq!(ask(address, "GET /v1/clients", "hf_00").0, 401);
        assert_eq!(client.read_file(&file), b"y");
    }
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20 << 10));
    let content = "POST /v1/tokens HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".to_owned();
    for (request, status) in [(head, "431"), (content, "413")] {
        let mut stream = connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(std::str::from_utf8(&reply[9..]).unwrap(), status);
        assert_eq!(client.read_file(&file), b"y");
    }
    drop(slow);
    let after = counters();
    for name in [
        "connections",
        "connections_evicted",
        "connections_malformed",
        "calls_waited_for_memory",
        "calls_in_line",
    ] {
        assert_eq!(before[name], after[name], "{name}");
    }
    server.stop();
}

/// Sends requests without a token that delete tokens, over this many connections. Returns how many were refused.
fn refused_deletions(address: SocketAddr, connections: usize) -> usize {
    let mut refused = 0;
    for connection in 0..connections {
        let mut stream = TcpStream::connect(address).unwrap();
        let requests: String = (0..50)
            .map(|number| format!("DELETE /v1/tokens/{connection}-{number} HTTP/1.1\r\n\r\n"))
            .collect();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut reply = Vec::new();
        // What was not read when the connection was closed may reset it.
        let _ = stream.read_to_end(&mut reply);
        refused += String::from_utf8(reply).unwrap().matches("HTTP/1.1 401").count();
    }
    refused
}

#[test]
fn refused_requests_cannot_make_the_log_grow() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let data = scratch.path("data");
    let refused = refused_deletions(address, 20);
    assert!(refused <= 60, "{refused} of 1000 were answered: a connection is closed after three");
    let admin = succeed(&["token", "create", text(&data), "ci", "--role", "admin"]).trim().to_owned();
    assert_eq!(ask(address, "DELETE /v1/tokens/none", &admin).0, 404);
    let log = server.stop();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("INFO administration refused")).collect();
    assert!((1..=5).contains(&lines.len()), "{log}");
    assert!(lines.iter().all(|line| line.contains("client=127.0.0.1 ")), "{log}");
    let counted = log.lines().filter(|line| line.contains("of=\"administration refused\""));
    assert_eq!(counted.count(), 1, "{log}");
    assert!(
        log.lines().any(|line| line.contains("INFO administration ") && line.contains("/v1/tokens")),
        "{log}"
    );
}

#[test]
fn a_stream_ends_when_its_token_is_deleted() {
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, "");
    let data = scratch.path("data");
    let token = succeed(&["token", "create", text(&data), "watcher"]).trim().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /v1/live HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n").unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    succeed(&["token", "delete", text(&data), "watcher"]);
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    server.stop();
}

/// A change that was begun is made durable first, and later ones are refused.
#[test]
fn a_server_stops_cleanly_while_volumes_are_created() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    for round in 0..3 {
        let server = Server::start(&data, &config, &[]);
        let log = std::thread::scope(|scope| {
            for thread in 0..2 {
                let data = &data;
                scope.spawn(move || {
                    for number in 0..40 {
                        let name = format!("v{round}-{thread}-{number}");
                        run(&["volume", "create", text(data), &name]);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(300));
            server.stop()
        });
        assert!(!log.contains("ERROR"), "{log}");
    }
}
