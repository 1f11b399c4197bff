//! Revisions: a change of what has changed since it was seen is refused.

use std::net::SocketAddr;

use crate::administration::{EXPORT, ask, content, send, start};
use crate::client::Client;
use crate::running::{Scratch, succeed, text};

#[test]
fn revisions_change_with_what_is_set_and_not_with_use() {
    const QUOTAS: &str = "/v1/volumes/main/quotas";
    let scratch = Scratch::new();
    let (server, address, _) = start(&scratch, EXPORT);
    let data = scratch.path("data");
    let token = succeed(&["token", "create", text(&data), "ci", "--role", "operator"]).trim().to_owned();
    let mut client = Client::mount(server.address, "/a");
    client.make_directory("tree");
    let changes = [
        (QUOTAS, format!("PATCH {QUOTAS}"), "{\"kind\": \"group\", \"id\": 5, \"inodes\": {\"soft\": 1}}"),
        ("/v1/volumes/main/trees", "POST /v1/volumes/main/trees".to_owned(), "{\"path\": \"/tree\"}"),
        (
            "/v1/qos",
            "PATCH /v1/qos".to_owned(),
            "{\"kind\": \"volume\", \"name\": \"main\", \"set\": {\"limits\": {\"total_ops\": 10}}}",
        ),
        ("/v1/volumes/main", "PATCH /v1/volumes/main".to_owned(), "{\"size_bytes\": 1073741824}"),
    ];
    let revisions = || changes.clone().map(|(path, ..)| revision(address, path, &token));
    let with = |revision: &str| format!("{token}\r\nIf-Match: {revision}");
    let before = revisions();
    for (number, (_, request, json)) in changes.iter().enumerate() {
        // Files of somebody who exceeds a soft limit as soon as there is one, and calls that wait for a rate limit.
        client.caller = (7, 5);
        for name in ["a", "b", "c"] {
            client.write_file(&format!("{name}{number}"), b"data");
        }
        let seen = revisions();
        assert_eq!(seen[number..], before[number..], "nothing was set");
        assert_eq!(seen, revisions());
        let (status, reply) = send(address, request, json, &with(&seen[number]));
        assert!(matches!(status, 200 | 201), "{request}: {reply}");
        let again = revision(address, changes[number].0, &token);
        assert_ne!(again, seen[number], "{request}");
        assert_eq!(send(address, request, json, &with(&seen[number])).0, 412, "{request}");
    }
    for part in ["?kind=group", "?kind=user&id=7", "?kind=tree&limit=1", "?kind=volume"] {
        let part = revision(address, &format!("{QUOTAS}{part}"), &token);
        assert_eq!(part, revision(address, QUOTAS, &token), "of all quotas of the volume");
    }
    assert_eq!(revision(address, "/v1/qos?kind=client&name=*", &token), revision(address, "/v1/qos", &token));
    let (_, reply) = ask(address, &format!("GET {QUOTAS}?kind=group&id=5"), &token);
    assert_ne!(content(&reply)["quotas"][0]["inodes_grace_left"], serde_json::Value::Null, "{reply}");
    server.stop();
}

#[test]
fn a_change_of_what_was_changed_since_is_refused() {
    let scratch = Scratch::new();
    let (server, address, config) = start(&scratch, EXPORT);
    let data = scratch.path("data");
    let token = succeed(&["token", "create", text(&data), "ci", "--role", "admin"]).trim().to_owned();
    let revision = |path: &str| revision(address, path, &token);
    let exports = revision("/v1/exports");
    assert_eq!(exports, revision("/v1/exports"));
    assert_eq!(if_match(address, "POST /v1/exports/reload", &exports, &token), 200, "nothing has changed");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{before}\n[[export]]\npath = \"/b\"\nvolume = \"main\"\n")).unwrap();
    assert_eq!(if_match(address, "POST /v1/exports/reload", &exports, &token), 200);
    assert_ne!(revision("/v1/exports"), exports);
    std::fs::write(&config, before).unwrap();
    assert_eq!(if_match(address, "POST /v1/exports/reload", &exports, &token), 412);
    let lists_both = |reply: &str| content(reply).as_array().unwrap().len() == 2;
    assert!(lists_both(&ask(address, "GET /v1/exports", &token).1), "the refused change changed nothing");
    assert_eq!(if_match(address, "POST /v1/exports/reload", "\"x\", *", &token), 200);

    succeed(&["token", "create", text(&data), "old"]);
    let old = revision("/v1/tokens/old");
    succeed(&["token", "delete", text(&data), "old"]);
    succeed(&["token", "create", text(&data), "old", "--role", "operator"]);
    assert_eq!(if_match(address, "DELETE /v1/tokens/old", &old, &token), 412, "it is another one");
    assert_eq!(if_match(address, "DELETE /v1/tokens/old", &revision("/v1/tokens/old"), &token), 200);
    for revision in ["*", &old] {
        let (status, reply) =
            ask(address, "DELETE /v1/tokens/old", &format!("{token}\r\nIf-Match: {revision}"));
        let said = content(&reply)["detail"].as_str().unwrap().to_owned();
        assert!(status == 404 && said.contains("there is no token"), "{reply}");
    }
    server.stop();
}

/// Returns the revision of a resource.
fn revision(address: SocketAddr, path: &str, token: &str) -> String {
    let (_, reply) = ask(address, &format!("GET {path}"), token);
    let tag = reply.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap().trim().to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{reply}");
    tag
}

/// Makes a request for a revision, and returns the status.
fn if_match(address: SocketAddr, request: &str, revision: &str, token: &str) -> u16 {
    ask(address, request, &format!("{token}\r\nIf-Match: {revision}")).0
}
