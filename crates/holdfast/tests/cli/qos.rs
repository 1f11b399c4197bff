//! `qos`.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, succeed, text};

const MIB: usize = 1 << 20;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(&[arguments, &["--json"]].concat())).unwrap()
}

/// Returns how long it takes to write this many files of 1 MiB.
fn write(client: &mut Client, name: &str, count: usize) -> Duration {
    let start = Instant::now();
    for number in 0..count {
        client.write_file(&format!("{name}{number}"), &vec![7; MIB]);
    }
    start.elapsed()
}

#[test]
fn limits_hold_at_once_and_over_restarts() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let config = scratch.config("[tiers.bronze]\nwrite_bytes = \"5 MiB\"\nburst = 50\n");
    let directory = text(&data);
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    write(&mut client, "a", 1);
    assert!(succeed(&["qos", "list", directory]).lines().count() == 1, "nothing has limits");
    let set = json(&["qos", "set", directory, "--volume", "main", "--tier", "bronze"]);
    assert_eq!(
        (&set["in_force"]["write_bytes"], &set["burst_milliseconds"]),
        (&(5 << 20).into(), &50.into())
    );
    // 5 MiB, of which one call may pass at once, at 5 MiB a second.
    let took = write(&mut client, "b", 5);
    assert!(took > Duration::from_millis(700), "{took:?}");
    let shown = json(&["qos", "show", directory, "--volume", "main"]);
    assert!(
        shown["throttled_milliseconds"]["write_bytes"].as_u64().is_some_and(|time| time > 300),
        "{shown}"
    );
    let metrics = succeed(&["status", directory, "--json"]);
    assert!(metrics.contains("calls_held_by_limits"), "{metrics}");
    json(&["qos", "set", directory, "--volume", "main", "--write-bytes", "1GiB"]);
    assert!(write(&mut client, "c", 5) < took / 2);
    json(&["qos", "set", directory, "--all-clients", "--total-ops", "10000"]);
    server.kill();

    let server = Server::start(&data, &config, &[]);
    let list = json(&["qos", "list", directory]);
    let named: Vec<&str> = list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["main", "*"]);
    assert_eq!(list[0]["in_force"]["write_bytes"], 1 << 30);
    let list = succeed(&["qos", "list", directory]);
    assert!(list.contains("volume main") && list.contains("each other client"), "{list}");
    assert!(succeed(&["qos", "tiers", directory]).contains("64 MiB/s for each TiB"));
    json(&["qos", "set", directory, "--volume", "main", "--reset"]);
    json(&["qos", "set", directory, "--all-clients", "--reset"]);
    assert_eq!(json(&["qos", "list", directory]), Value::Array(Vec::new()));
    server.stop();
}

#[test]
fn limits_of_a_target_that_was_renamed_are_named_and_can_be_removed() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let directory = text(&data);
    let config = scratch.config("");
    let server = Server::start(&data, &config, &[]);
    let target = server.address.to_string();
    json(&["qos", "set", directory, "--target", &target, "--total-ops", "100"]);
    server.stop();

    // It listens on another port each time, and so its target has another name.
    let server = Server::start(&data, &config, &[]);
    let list = succeed(&["qos", "list", directory]);
    assert!(list.contains(&format!("target {target}  -     none: there is no such target")), "{list}");
    let checked = json(&["config", "check", text(&config), directory]);
    let warning = format!("the rate limits of target \"{target}\" are not in force");
    assert!(checked["warnings"].to_string().replace('\\', "").contains(&warning), "{checked}");
    assert!(!succeed(&["config", "export", directory]).contains(&target));
    fail(&["qos", "set", directory, "--target", &target, "--total-ops", "200"], 1);
    json(&["qos", "set", directory, "--target", &target, "--reset"]);
    assert_eq!(json(&["qos", "list", directory]), Value::Array(Vec::new()));
    server.stop();
}

#[test]
fn a_deleted_volume_counts_no_more() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let directory = text(&data);
    let server = Server::start(&data, &scratch.config(""), &[]);
    let limit = |volume| json(&["qos", "set", directory, "--volume", volume, "--write-bytes", "3MiB"]);
    json(&["qos", "set", directory, "--pool", "default", "--write-bytes", "4MiB"]);
    succeed(&["volume", "create", directory, "gone"]);
    limit("gone");
    succeed(&["volume", "delete", directory, "gone", "--yes"]);
    let list = succeed(&["qos", "list", directory]);
    assert!(!list.contains("gone"), "{list}");
    limit("main");
    server.stop();
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let directory = text(&data);
    let config = scratch.config("");
    let server = Server::start(&data, &config, &[]);
    let refused = |words: &[&str], sentence: &str| {
        let error = fail(&[&["qos", "set", directory], words].concat(), 2);
        assert!(error.contains(sentence), "{error}");
    };
    refused(&["--volume", "main", "--tier", "gold"], "there is no tier \"gold\"");
    refused(&["--volume", "main", "--read-bytes", "1"], "the least limit is 1048576");
    refused(&["--client", "home", "--total-ops", "100"], "is not a client");
    refused(&["--client", "192.0.2.1", "--total-ops", "many"], "--total-ops is a whole number or `none`");
    refused(&["--volume", "main"], "nothing to change");
    let target = server.address.to_string();
    refused(&["--target", &target, "--tier", "ultra"], "can limit only volumes");
    assert!(fail(&["qos", "show", directory, "--volume", "none"], 1).contains("there is no volume"));
    server.stop();
}
