//! `volume` and `config`.

use serde_json::Value;

use crate::running::{Scratch, Server, fail, succeed, text};

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).unwrap()
}

#[test]
fn volumes_are_created_shown_served_and_deleted() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let directory = text(&data);
    let sentence = fail(&["volume", "list", directory], 1);
    assert!(sentence.contains("no data directory"), "{sentence}");
    let small = ["--journal-size", "32 MiB"];
    succeed(&[&["volume", "create", directory, "home"], &small[..]].concat());
    let made = json(&[&["volume", "create", directory, "scratch", "--json"], &small[..]].concat());
    assert_eq!((&made["name"], &made["journal_bytes"]), (&Value::from("scratch"), &Value::from(32 << 20)));
    let sentence = fail(&["volume", "create", directory, "home"], 1);
    assert!(sentence.contains("already"), "{sentence}");
    let sentence = fail(&["volume", "create", directory, "a/b"], 2);
    assert!(sentence.contains("cannot be named"), "{sentence}");

    let server = Server::start(&data, &config, &[]);
    assert!(server.greeting.contains(":/home /mnt") && server.greeting.contains(":/scratch /mnt"));
    let list = json(&["volume", "list", directory, "--json"]);
    assert_eq!(list[0]["in_use_by"], server.pid());
    let sentence = fail(&["volume", "create", directory, "late"], 3);
    assert!(sentence.contains("in use"), "{sentence}");
    fail(&["volume", "delete", directory, "home", "--yes"], 3);
    server.stop();

    let sentence = fail(&["volume", "delete", directory, "home"], 2);
    assert!(sentence.contains("--yes"), "{sentence}");
    succeed(&["volume", "delete", directory, "home", "--yes"]);
    let list = json(&["volume", "list", directory, "--json"]);
    assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &Value::from("scratch")));
    assert!(succeed(&["volume", "show", directory, "scratch"]).contains("not in use"));
    let sentence = fail(&["volume", "show", directory, "home"], 1);
    assert!(sentence.contains("there is no volume \"home\""), "{sentence}");
}

#[test]
fn the_example_configuration_is_accepted() {
    let scratch = Scratch::new();
    let path = scratch.path("example.toml");
    std::fs::write(&path, succeed(&["config", "example"])).unwrap();
    assert!(succeed(&["config", "check", text(&path)]).contains("is fine"));
}
