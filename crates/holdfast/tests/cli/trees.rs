//! `tree`, and quotas of trees.

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, json, succeed, text, with_main};

#[test]
fn trees_are_made_limited_and_deleted_with_and_without_a_server() {
    let scratch = Scratch::new();
    let (data, config) = (
        scratch.path("data"),
        scratch.config("[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\n"),
    );
    let directory = text(&data);
    let server = Server::start(&data, &config, &[]);
    let of = |command: &'static str, action: &'static str, words: &[&'static str]| {
        let all = [&[command, action, directory, "main"], words, &["--json"]].concat();
        json(&all)
    };
    let mut client = Client::mount(server.address, "/main");
    let root = client.root.clone();
    let [empty, full] = ["empty", "full"].map(|name| client.make_directory(name));
    client.root.clone_from(&full);
    for number in 0..300 {
        client.write_file(&format!("{number}"), b"data");
    }
    let made = of("tree", "create", &["/empty"]);
    assert_eq!((&made["state"], &made["path"]), (&Value::from("ready"), &Value::from("/empty")));
    assert_eq!(of("tree", "create", &["full/"])["state"], "ready");
    let shown = of("quota", "show", &["--tree", "/full"]);
    assert_eq!((&shown["used_bytes"], &shown["used_inodes"]), (&Value::from(1200), &Value::from(301)));
    of("quota", "set", &["--tree", "/full", "--bytes", "1MiB", "--inodes", "302"]);
    assert_eq!(client.space(&full), (1 << 20, (1 << 20) - 1200));
    assert!(client.space(&empty).0 > 1 << 20);
    // The superuser is bound too.
    client.write_file("last", b"");
    assert_eq!(client.try_write_file("another", b"").unwrap_err().to_string(), "Dquot");
    let sentence = fail(&["tree", "create", directory, "main", "/full"], 1);
    assert!(sentence.contains("is already a quota tree"), "{sentence}");
    let report = succeed(&["quota", "report", directory, "main", "--trees"]);
    assert!(report.lines().any(|line| line.contains("/full") && line.contains("302")), "{report}");
    let shown = succeed(&["quota", "show", directory, "main", "--tree", "/full"]);
    assert!(shown.contains("tree /full\n"), "{shown}");
    server.kill();

    // Without a server, and with the next one.
    let listed = of("tree", "list", &[]);
    let paths: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|tree| tree["path"].as_str()).collect();
    assert_eq!(paths, ["/empty", "/full"]);
    of("tree", "delete", &["/full"]);
    assert_eq!(of("tree", "list", &[]).as_array().map(Vec::len), Some(1));
    assert_eq!(of("tree", "create", &["/full"])["state"], "ready");
    assert_eq!(of("quota", "show", &["--tree", "/full"])["used_inodes"], 302);
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    client.root.clone_from(&full);
    client.write_file("another", b"");
    of("quota", "set", &["--all-trees", "--inodes", "1"]);
    client.root.clone_from(&empty);
    assert_eq!(client.try_write_file("first", b"").unwrap_err().to_string(), "Dquot");
    of("tree", "delete", &["/empty"]);
    client.write_file("first", b"");
    client.root = root;
    client.write_file("outside", b"");
    server.stop();
    assert!(succeed(&["check", directory]).contains("default: no faults"));
}

#[test]
fn what_cannot_be_a_tree_is_refused() {
    let scratch = Scratch::new();
    let data = with_main(&scratch);
    let directory = text(&data);
    for (words, code, complaint) in [
        (&["tree", "create", directory, "main", "/"][..], 2, "the root of a volume cannot be a quota tree"),
        (&["tree", "create", directory, "main", "/none"], 1, "has no directory"),
        (&["tree", "delete", directory, "main", "/none"], 1, "has no directory"),
        (&["tree", "delete", directory, "main", "/"], 1, "has no quota tree \"/\""),
        (&["tree", "delete", directory, "main", "17"], 1, "has no quota tree 17"),
        (
            &["quota", "set", directory, "main", "--tree", "17", "--bytes", "1GiB"],
            1,
            "has no quota tree of this number",
        ),
    ] {
        let sentence = fail(words, code);
        assert!(sentence.contains(complaint), "{words:?}: {sentence}");
    }
    assert_eq!(succeed(&["tree", "list", directory, "main"]), "");
}
