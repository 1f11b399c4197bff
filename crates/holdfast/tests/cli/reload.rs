//! The configuration is reloaded while clients are served.

use rustix::process::{Pid, Signal, kill_process};

use crate::administration::{EXPORT, ask, content, start};
use crate::client::Client;
use crate::running::{Scratch, succeed, text};

#[test]
fn exports_are_read_again_without_dropping_a_connection() {
    let scratch = Scratch::new();
    let (server, address, config) = start(&scratch, EXPORT);
    let token = succeed(&["token", "create", text(&scratch.path("data")), "ops", "--role", "operator"])
        .trim()
        .to_owned();
    let mut client = Client::mount(server.address, "/a");
    let file = client.write_file("x", b"y");
    let before = std::fs::read_to_string(&config).unwrap();

    std::fs::write(&config, format!("{before}\n[[export]]\npath = \"/b\"\nvolume = \"main\"\n")).unwrap();
    let (status, reply) = ask(address, "POST /v1/exports/reload", &token);
    assert!(status == 200 && content(&reply)["exports"] == 2, "{reply}");
    assert_eq!(client.read_file(&file), b"y", "over the same connection");
    Client::mount(server.address, "/b");

    std::fs::write(&config, before.replace("/a", "a")).unwrap();
    let (status, reply) = ask(address, "POST /v1/exports/reload", &token);
    assert!(status == 422 && reply.contains("path"), "{reply}");
    Client::mount(server.address, "/b");
    let reload_failed = || content(&ask(address, "GET /v1/status", &token).1)["reload_failed"].clone();
    assert!(reload_failed().as_str().is_some_and(|why| why.contains("path")), "as long as none succeeds");

    std::fs::write(
        &config,
        before.replace("[api]", "lease = 30\n[api]").replace("none\"", "none\"\nread_only = true"),
    )
    .unwrap();
    kill_process(Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap(), Signal::HUP).unwrap();
    while client.try_write_file("z", b"").is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(client.read_file(&file), b"y");
    // The exports are in force a moment before the reload has ended.
    while !reload_failed().is_null() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (_, reply) = ask(address, "GET /v1/exports", &token);
    let exports = content(&reply);
    assert!(exports[0]["read_only"] == true && exports.as_array().unwrap().len() == 1, "{exports}");
    let log = server.stop();
    assert!(log.contains("exports reloaded") && log.contains("the exports in force stay"), "{log}");
    assert!(log.contains("take effect with the next start") && log.contains("lease"), "{log}");
}

#[test]
fn a_refused_reload_leaves_exports_and_tiers_in_force() {
    let scratch = Scratch::new();
    let tier = |ops: u64| format!("[tiers.bronze]\ntotal_ops = {ops}\n");
    let (server, address, config) = start(&scratch, &format!("{EXPORT}{}", tier(2000)));
    let data = scratch.path("data");
    let token = succeed(&["token", "create", text(&data), "ops", "--role", "operator"]).trim().to_owned();
    let before = std::fs::read_to_string(&config).unwrap();
    let reload = |text: String| {
        std::fs::write(&config, text).unwrap();
        ask(address, "POST /v1/exports/reload", &token)
    };
    let tiers = || succeed(&["qos", "tiers", text(&data)]);
    let exports = || content(&ask(address, "GET /v1/exports", &token).1);
    let in_force = (tiers(), exports());
    assert!(in_force.0.contains("2000"), "{}", in_force.0);

    let of_missing = before.replace(&tier(2000), &tier(50)).replace("\"main\"", "\"missing\"");
    let (status, reply) = reload(of_missing);
    assert!(status == 422 && reply.contains("missing"), "{reply}");
    assert_eq!((tiers(), exports()), in_force, "an export cannot be used");

    succeed(&["qos", "set", text(&data), "--volume", "main", "--tier", "bronze"]);
    let (status, reply) = reload(before.replace(&tier(2000), "").replace("/a", "/b"));
    assert!(status == 422 && reply.contains("bronze"), "{reply}");
    assert_eq!((tiers(), exports()), in_force, "a tier is in use");

    let (status, reply) = reload(before.replace(&tier(2000), &tier(50)).replace("/a", "/b"));
    assert!(status == 200 && exports()[0]["path"] == "/b" && tiers().contains("50"), "{reply}");
    server.stop();
}

#[test]
fn a_configuration_that_lost_its_last_export_opens_nothing_to_everybody() {
    let scratch = Scratch::new();
    let (server, address, config) = start(&scratch, EXPORT);
    let token = succeed(&["token", "create", text(&scratch.path("data")), "ops", "--role", "operator"])
        .trim()
        .to_owned();
    let exports = || content(&ask(address, "GET /v1/exports", &token).1);
    let (before, in_force) = (std::fs::read_to_string(&config).unwrap(), exports());

    let without = before.replace(EXPORT, "");
    assert!(!without.contains("[[export]]"), "{without}");
    std::fs::write(&config, without).unwrap();
    let (status, reply) = ask(address, "POST /v1/exports/reload", &token);
    assert!(status == 422 && reply.contains("no [[export]] any more"), "{reply}");
    assert_eq!(exports(), in_force);
    Client::mount(server.address, "/a");
    let failed = content(&ask(address, "GET /v1/status", &token).1)["reload_failed"].clone();
    assert!(failed.as_str().is_some_and(|why| why.contains("restart")), "{failed}");

    std::fs::write(&config, before.replace("/a", "/b")).unwrap();
    let (status, reply) = ask(address, "POST /v1/exports/reload", &token);
    assert!(status == 200 && exports()[0]["path"] == "/b", "{reply}");
    server.stop();
}
