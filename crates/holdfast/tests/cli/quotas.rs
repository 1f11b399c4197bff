//! `quota`.

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, json, succeed, text, with_main};

/// Checks that a file cannot be made, or cannot hold this.
fn assert_refused(client: &mut Client, name: &str, data: &[u8]) {
    let error = client.try_write_file(name, data).unwrap_err().to_string();
    assert_eq!(error, "Dquot", "{name}");
}

#[test]
fn quotas_hold_for_clients_and_over_restarts() {
    let scratch = Scratch::new();
    let (data, config) = (
        scratch.path("data"),
        scratch.config("[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\n"),
    );
    let directory = text(&data);
    let server = Server::start(&data, &config, &[]);
    let of = |action: &'static str, words: &[&'static str]| {
        let mut all = vec!["quota", action, directory, "main"];
        all.extend(words);
        json(&[&all[..], &["--json"]].concat())
    };
    let set = of("set", &["--user", "1001", "--bytes", "500KiB:1MiB", "--inodes", "3"]);
    assert_eq!(
        (&set["bytes"]["soft"], &set["bytes"]["hard"]),
        (&Value::from(500 << 10), &Value::from(1 << 20))
    );
    of("set", &["--all-users", "--inodes", "2"]);
    let mut client = Client::mount(server.address, "/main");
    client.caller = (1001, 101);
    client.write_file("a", &vec![1; 600_000]);
    assert_refused(&mut client, "b", &vec![1; 600_000]);
    client.write_file("c", b"");
    assert_refused(&mut client, "d", b"");
    client.caller = (1002, 101);
    client.write_file("e", &vec![1; 1_000_000]);
    client.write_file("f", b"");
    assert_refused(&mut client, "g", b"");
    let shown = of("show", &["--user", "1001"]);
    assert_eq!((&shown["used_inodes"], &shown["is_default"]), (&Value::from(3), &Value::from(false)));
    assert!(shown["bytes_grace_left"].as_u64().is_some_and(|left| left > 600_000), "{shown}");
    let report = of("report", &["--users"]);
    let ids: Vec<Option<u64>> = report.as_array().unwrap().iter().map(|quota| quota["id"].as_u64()).collect();
    assert_eq!(ids[0], None, "all others come first");
    assert!(ids.contains(&Some(1001)) && ids.contains(&Some(1002)), "{report}");
    let unused = of("show", &["--user", "4711"]);
    assert_eq!((&unused["inodes"]["hard"], &unused["id"]), (&2.into(), &4711.into()), "one who uses nothing");
    assert_eq!(unused["is_default"], true);
    let unlimited = of("show", &["--group", "4711"]);
    assert_eq!((&unlimited["inodes"]["hard"], &unlimited["used_inodes"]), (&Value::Null, &0.into()));
    of("set", &["--whole-volume", "--inodes", "6"]);
    client.caller = (0, 0);
    assert_refused(&mut client, "h", b"");
    server.kill();

    // Without a server, and with the next one.
    assert_eq!(of("show", &["--user", "1001"])["bytes"]["hard"], 1 << 20);
    of("grace", &["--users", "--bytes", "0s"]);
    of("set", &["--whole-volume", "--inodes", "none"]);
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    client.caller = (1001, 101);
    assert_eq!(of("show", &["--user", "1001"])["bytes_grace_left"], 0);
    of("set", &["--user", "1001", "--inodes", "none"]);
    client.write_file("i", b"");
    // The soft limit holds.
    assert_refused(&mut client, "j", b"more");
    of("set", &["--user", "1001", "--reset"]);
    // As for all others now.
    assert_refused(&mut client, "k", b"");
    let text = succeed(&["quota", "report", directory, "main"]);
    assert!(text.lines().any(|line| line.contains("other users")), "{text}");
    server.stop();
    assert!(succeed(&["check", directory]).contains("default: no faults"));
}

#[test]
fn quotas_that_make_no_sense_are_refused() {
    let scratch = Scratch::new();
    let data = with_main(&scratch);
    let directory = text(&data);
    for (words, complaint) in [
        (&["set", directory, "main", "--user", "0", "--bytes", "1GiB"][..], "the user 0 has no limits"),
        (&["set", directory, "main", "--user", "7", "--bytes", "2GiB:1GiB"], "is above the hard one"),
        (&["set", directory, "main", "--user", "7"], "nothing to change"),
        (&["show", directory, "main", "--user", "4294967296"], "no user has the number 4294967296"),
        (&["show", directory, "main", "--group", "99999999999999999999"], "no group has the number 9999"),
    ] {
        let sentence = fail(&[&["quota"], words].concat(), 2);
        assert!(sentence.contains(complaint), "{words:?}: {sentence}");
    }
    assert!(fail(&["quota", "report", directory, "none"], 1).contains("there is no volume"));
}
