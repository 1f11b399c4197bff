//! `config`: the example, and the tests of a start without a start.

use crate::running::{Scratch, Server, fail, succeed, text};

#[test]
fn the_example_configuration_is_accepted() {
    let scratch = Scratch::new();
    let path = scratch.path("example.toml");
    std::fs::write(&path, succeed(&["config", "example"])).unwrap();
    assert!(succeed(&["config", "check", text(&path)]).contains("is valid"));
    let checked = succeed(&["config", "check", text(&path), "--json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert!(checked["file"] == text(&path) && checked["warnings"].is_array(), "{checked}");
}

#[test]
fn a_start_and_config_check_refuse_the_same_and_create_nothing() {
    let scratch = Scratch::new();
    let (data, file) = (scratch.path("data"), scratch.path("holdfast.toml"));
    let cases = [
        ("lisen = []", 2, ":1:1: unknown key `lisen`"),
        ("memory = \"16 MiB\"", 2, ":1:10: memory is 16 MiB, which is too little"),
        ("memory = \"1024 TiB\"", 2, ":1:10: memory is 1024 TiB, but this machine"),
        ("lease = 1", 2, ":1:9: lease is a number of seconds from 5 to 3600"),
        ("[[export]]\npath = \"/a\"\nvolume = \"other\"", 2, "the volume \"other\", which "),
        // An address for documentation (RFC 5737).
        ("listen = [\"192.0.2.1:2049\"]", 1, "this machine has no such address"),
    ];
    for (configuration, code, expected) in cases {
        std::fs::write(&file, configuration).unwrap();
        let checked = fail(&["config", "check", text(&file), text(&data)], code);
        assert!(checked.contains(expected), "{checked}");
        assert_eq!(fail(&["serve", text(&data), "--config", text(&file)], code), checked);
        assert!(!data.exists());
    }
    let (certificate, key) = (scratch.path("tls.crt"), scratch.path("tls.key"));
    std::fs::write(&file, format!("[api]\ncertificate = {certificate:?}\nkey = {key:?}\n")).unwrap();
    for content in [None, Some("no PEM")] {
        if let Some(content) = content {
            std::fs::write(&certificate, content).unwrap();
        }
        let checked = fail(&["config", "check", text(&file)], 2);
        assert!(checked.contains("tls.crt as `certificate` of [api]"), "{checked}");
        assert_eq!(fail(&["config", "check", text(&file), text(&data)], 2), checked);
        assert_eq!(fail(&["serve", text(&data), "--config", text(&file)], 2), checked);
        assert!(!data.exists());
    }
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    for configuration in [format!("listen = [\"{taken}\"]"), format!("[api]\nlisten = \"{taken}\"")] {
        std::fs::write(&file, configuration).unwrap();
        let serve = ["serve", text(&data), "--config", text(&file), "--listen", "127.0.0.1:0"];
        let is_api = std::fs::read_to_string(&file).unwrap().contains("api");
        let sentence = fail(&serve[..if is_api { 6 } else { 4 }], 1);
        assert!(sentence.contains(&format!("cannot listen on {taken}")), "{sentence}");
        assert!(!data.exists());
    }
    let overlapping = ["serve", text(&data), "--listen", "0.0.0.0:2049", "--listen", "127.0.0.1:2049"];
    assert!(fail(&overlapping, 2).contains("includes 127.0.0.1:2049: remove"));
    assert!(!data.exists());
}

#[test]
fn config_check_knows_the_volumes_while_a_server_runs() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let check = |configuration: &str| {
        let file = scratch.config(configuration);
        ["config", "check", text(&file), text(&data)].map(str::to_owned)
    };
    let server = Server::start(&data, &scratch.config(""), &[]);
    let good = check("[[export]]\npath = \"/a\"\nvolume = \"main\"");
    let said = succeed(&good.each_ref().map(String::as_str));
    assert!(said.contains("is valid for the data directory"), "{said}");
    let moved = check(&format!("journal = {:?}", scratch.path("fast")));
    let sentence = fail(&moved.each_ref().map(String::as_str), 1);
    assert!(sentence.contains("the journal of pool \"default\" is in the data directory"), "{sentence}");
    let named = |names: &[&str]| {
        let export = |name: &&str| format!("[[export]]\npath = \"/{name}\"\nvolume = \"{name}\"\n");
        check(&names.iter().map(export).collect::<String>())
    };
    let checks = |what: &str| {
        let sentence = fail(&named(&["main", "none"]).each_ref().map(String::as_str), 2);
        assert!(
            sentence.contains("the volume \"none\", which ") && sentence.contains("main"),
            "{what}: {sentence}"
        );
        succeed(&named(&["main", "new"]).each_ref().map(String::as_str));
    };
    succeed(&["volume", "create", text(&data), "new"]);
    checks("a server knows");
    server.kill();
    checks("the journal knows");
    Server::start(&data, &scratch.config(""), &[]).stop();
    checks("the index knows");
}
