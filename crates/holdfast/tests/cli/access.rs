//! Who may write at first, and from where: owner and mode of root directories, and the addresses that are shown.

use std::net::UdpSocket;

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, run, succeed, text};

/// An export of `volume` like the default one of a server that listens on all addresses.
fn squashed(volume: &str) -> String {
    format!("[[export]]\npath = \"/{volume}\"\nvolume = \"{volume}\"\nsquash = \"root\"\n")
}

/// Whether this user can create a file in the root directory of an export.
fn can_write(server: &Server, path: &str, caller: (u32, u32)) -> bool {
    let mut client = Client::mount(server.address, path);
    client.caller = caller;
    client.try_write_file(&format!("file-{}-{}", caller.0, caller.1), b"content").is_ok()
}

#[test]
fn every_user_can_write_to_the_volume_of_a_first_start() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(&squashed("main")), &[]);
    assert!(can_write(&server, "/main", (4321, 4321)), "a user");
    assert!(can_write(&server, "/main", (0, 0)), "the anonymous user, whom the superuser becomes");
    let log = server.stop();
    assert!(!log.contains("no client can write"), "{log}");
}

#[test]
fn owner_and_mode_of_the_root_directory_say_who_may_write() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(&squashed("home")));
    let directory = text(&data);
    let size = ["--journal-size", "32 MiB"];
    let owned = ["volume", "create", directory, "home", "--owner", "1000:100", "--mode", "0750"];
    succeed(&[&owned[..], &size[..]].concat());
    let server = Server::start(&data, &config, &[]);
    assert!(can_write(&server, "/home", (1000, 1)));
    assert!(!can_write(&server, "/home", (1001, 100)));
    succeed(&["volume", "set", directory, "home", "--mode", "1777"]);
    assert!(can_write(&server, "/home", (1002, 100)), "at once");
    server.stop();

    let said = succeed(&["volume", "set", directory, "home", "--owner", ":200", "--mode", "2770", "--json"]);
    let set = &serde_json::from_str::<Value>(&said).unwrap()["root"];
    assert_eq!((&set["uid"], &set["gid"], &set["mode"]), (&1000.into(), &200.into(), &"2770".into()));
    assert!(succeed(&["check", directory]).contains("default: no faults"));
    let server = Server::start(&data, &config, &[]);
    assert!(can_write(&server, "/home", (1001, 200)));
    assert!(!can_write(&server, "/home", (1001, 100)));
    server.stop();

    let sentence = fail(&["volume", "set", directory, "home"], 2);
    assert!(sentence.contains("--owner or --mode"), "{sentence}");
    let sentence = fail(&["volume", "set", directory, "home", "--owner", "no-such-user"], 2);
    assert!(sentence.contains("no user \"no-such-user\""), "{sentence}");
    let sentence = fail(&["volume", "set", directory, "none", "--mode", "1777"], 1);
    assert!(sentence.contains("no volume \"none\""), "{sentence}");
}

#[test]
fn a_volume_that_no_client_can_write_is_reported_with_the_command_that_helps() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("the data"), scratch.config(&squashed("home")));
    let root = ["--owner", "0:0", "--mode", "0755", "--journal-size", "32 MiB"];
    succeed(&[&["volume", "create", text(&data), "home"], &root[..]].concat());
    let server = Server::start(&data, &config, &[]);
    assert!(!can_write(&server, "/home", (0, 0)) && !can_write(&server, "/home", (1000, 1000)));
    let log = server.stop();
    let line =
        log.lines().find(|line| line.contains("no client can write")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN"), "{line}");

    let (_, command) = line.split_once("run: holdfast ").unwrap();
    let command = command.split(" volume=").next().unwrap();
    let shell = format!("exec {} {command}", env!("CARGO_BIN_EXE_holdfast"));
    assert!(std::process::Command::new("sh").args(["-c", &shell]).status().unwrap().success(), "{shell}");
    let server = Server::start(&data, &config, &[]);
    assert!(can_write(&server, "/home", (1000, 1000)));
    let log = server.stop();
    assert!(!log.contains("no client can write"), "{log}");
}

#[test]
fn a_root_directory_with_contents_may_belong_to_root_alone() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let open = scratch.config("[[export]]\npath = \"/home\"\nvolume = \"home\"\nsquash = \"none\"\n");
    let root = ["--owner", "0:0", "--mode", "0755", "--journal-size", "32 MiB"];
    succeed(&[&["volume", "create", text(&data), "home"], &root[..]].concat());
    let server = Server::start(&data, &open, &[]);
    assert!(can_write(&server, "/home", (0, 0)));
    let log = server.stop();
    assert!(!log.contains("no client can write"), "{log}");
    let log = Server::start(&data, &scratch.config(&squashed("home")), &[]).stop();
    assert!(!log.contains("no client can write"), "{log}");
}

#[test]
fn malformed_modes_are_refused() {
    let scratch = Scratch::new();
    for wrong in ["0789", "10000", "u+w"] {
        let output = run(&["volume", "create", text(&scratch.path("data")), "home", "--mode", wrong]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("octal"), "{said}");
    }
    assert!(!scratch.path("data").exists());
}

/// Returns the address from which this machine reaches others, if it has one. Nothing is sent.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().unwrap().ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[test]
fn exports_that_never_apply_are_reported() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let export = |rules: &str| format!("[[export]]\npath = \"/main\"\nvolume = \"main\"\n{rules}\n");
    let (few, all) = (export("clients = [\"127.0.0.2\"]\nread_only = true"), export(""));

    // One path with two rules: a client gets those of the first export that admits it.
    let config = scratch.config(&format!("{few}{all}"));
    let server = Server::start(&data, &config, &[]);
    assert!(can_write(&server, "/main", (0, 0)));
    assert_eq!(server.greeting.matches("Mount /main on Linux").count(), 1, "{}", server.greeting);
    let log = server.stop();
    assert!(!log.contains("never apply"), "{log}");

    let config = scratch.config(&format!("{all}{few}"));
    let log = Server::start(&data, &config, &[]).stop();
    assert!(log.contains("WARN the rules of the export \"/main\" for 127.0.0.2/32 never apply"), "{log}");
    let output = run(&["config", "check", text(&config), text(&data)]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("127.0.0.2/32 never apply"), "{said}");

    let config = scratch.config(&export("clients = [\"10.0.0.0/8\"]"));
    let server = Server::start(&data, &config, &[]);
    assert!(!server.greeting.contains("Mount /main"), "{}", server.greeting);
    let log = server.stop();
    assert!(log.contains("WARN no client can use the export \"/main\" for 10.0.0.0/8"), "{log}");
}

#[test]
fn the_greeting_names_addresses_that_clients_can_use() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    assert!(server.greeting.contains("Only this machine can connect"), "{}", server.greeting);
    assert!(server.greeting.contains("--listen 0.0.0.0:"), "{}", server.greeting);
    server.stop();

    let server = Server::start(&data, &config, &["--listen", "0.0.0.0:0"]);
    let (greeting, port) = (server.greeting.clone(), server.address.port());
    assert!(!greeting.contains(" 0.0.0.0:/main"), "{greeting}");
    match own_address() {
        Some(own) => {
            assert!(greeting.contains(&format!("Clients can connect to {own}:{port}\n")), "{greeting}");
            assert!(
                greeting.contains(&format!("sudo mount -t nfs -o port={port} {own}:/main /mnt")),
                "{greeting}"
            );
            assert!(!greeting.contains("Only this machine"), "{greeting}");
        }
        None => assert!(greeting.contains("127.0.0.1:/main"), "{greeting}"),
    }
    let log = server.stop();
    assert!(!log.contains("no client can write"), "{log}");
}
