//! `config export` and `config import`.

use serde_json::{Value, json};

use crate::client::Client;
use crate::running::{Scratch, Server, fail, run, succeed, text};

/// Makes a server with volumes, quota trees, quotas and rate limits.
fn furnish(directory: &str, server: &Server) {
    succeed(&["volume", "create", directory, "home", "--mode", "1777", "--owner", "7:8", "--size", "1 GiB"]);
    let mut client = Client::mount(server.address, "/home");
    client.make_directory("tree");
    client.caller = (9, 9);
    client.write_file("of nine", b"x");
    for words in [
        &["tree", "create", directory, "home", "/tree"][..],
        &["quota", "set", directory, "home", "--tree", "/tree", "--bytes", "8MiB:9MiB"],
        &["quota", "set", directory, "home", "--all-users", "--inodes", "100"],
        &["quota", "set", directory, "home", "--user", "7", "--inodes", "none"],
        &["quota", "set", directory, "home", "--group", "5", "--bytes", "1GiB"],
        &["quota", "set", directory, "main", "--whole-volume", "--inodes", "10:20"],
        &["quota", "grace", directory, "home", "--users", "--bytes", "1d", "--inodes", "2d"],
        &["qos", "set", directory, "--volume", "home", "--tier", "premium", "--read-ops", "500"],
        &["qos", "set", directory, "--all-clients", "--total-bytes", "100MiB", "--burst", "300"],
    ] {
        succeed(words);
    }
}

#[test]
fn what_is_set_on_one_server_can_be_set_on_another() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let (directory, file) = (text(&data), scratch.path("settings.json"));
    let server = Server::start(&data, &config, &[]);
    furnish(directory, &server);
    let exported = succeed(&["config", "export", directory]);
    std::fs::write(&file, &exported).unwrap();
    assert_eq!(succeed(&["config", "import", directory, text(&file)]), "everything is so already\n");
    server.stop();
    let settings: Value = serde_json::from_str(&exported).unwrap();
    let quotas = settings["volumes"][0]["quotas"].as_array().unwrap();
    assert_eq!(quotas.len(), 4, "users without limits of their own are left out: {exported}");
    assert!(quotas.contains(&json!({
        "kind": "tree", "path": "/tree",
        "bytes": { "soft": 8 << 20, "hard": 9 << 20 }, "inodes": { "soft": null, "hard": null },
    })));

    let other = scratch.path("other");
    let directory = text(&other);
    let server = Server::start(&other, &config, &[]);
    let refused = fail(&["config", "import", directory, text(&file)], 1);
    for said in
        ["the quota tree \"/tree\": ", "has no directory \"/tree\"", "the quota of the tree \"/tree\""]
    {
        assert!(refused.contains(said), "{refused}");
    }
    Client::mount(server.address, "/home").make_directory("tree");
    let again = succeed(&["config", "import", directory, text(&file), "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["changed"].as_array().unwrap().len(), 2, "the others were set before: {again}");
    let copied: Value = serde_json::from_str(&succeed(&["config", "export", directory])).unwrap();
    assert_eq!(copied, settings);

    succeed(&["quota", "set", directory, "home", "--user", "7", "--reset"]);
    succeed(&["volume", "resize", directory, "home", "2 GiB"]);
    let changed = succeed(&["config", "import", directory, text(&file)]);
    assert_eq!(
        changed,
        "changed the volume \"home\"\nchanged the quota of the user 7 in the volume \"home\"\n"
    );
    server.stop();
}

#[test]
fn files_that_are_no_settings_are_refused_and_change_nothing() {
    let scratch = Scratch::new();
    let (data, file) = (scratch.path("data"), scratch.path("settings.json"));
    let directory = text(&data);
    let server = Server::start(&data, &scratch.config(""), &[]);
    let before = succeed(&["config", "export", directory]);
    for (content, said) in [
        ("", "EOF while parsing"),
        ("{\"volumes\": [{\"name\": \"a\"", "EOF while parsing"),
        ("{\"volumes\": [], \"volume\": []}", "unknown field `volume`"),
        ("{\"volumes\": [{\"name\": \"a\", \"pool\": null, \"size_bytes\": -1}]}", "line 1 column"),
    ] {
        std::fs::write(&file, content).unwrap();
        let refused = fail(&["config", "import", directory, text(&file)], 2);
        assert!(refused.contains("settings.json") && refused.contains(said), "{refused}");
    }
    assert!(fail(&["config", "import", directory, "/nonexistent"], 2).contains("cannot read /nonexistent"));
    std::fs::write(&file, "{\"volumes\": [{\"name\": \"a b\", \"pool\": null, \"size_bytes\": null}]}")
        .unwrap();
    let output = run(&["config", "import", directory, text(&file), "--json"]);
    let imported: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = imported["failed"][0].as_str().unwrap();
    assert!(output.status.code() == Some(1) && failed.contains("cannot be named \"a b\""), "{imported}");
    assert_eq!(succeed(&["config", "export", directory]), before);
    server.stop();
    assert!(fail(&["config", "export", directory], 1).contains("no server runs"));
}
