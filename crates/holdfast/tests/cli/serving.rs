//! `serve`: the first start, shutdown and kills, and refused starts.

use std::net::TcpListener;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, run, succeed, text};

#[test]
fn a_first_start_creates_a_volume_and_prints_mount_commands() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("deep/data"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    let (port, greeting) = (server.address.port(), server.greeting.clone());
    let newest = format!("mount -t nfs -o port={port} 127.0.0.1:/main /mnt");
    let linux =
        format!("mount -t nfs -o vers=3,tcp,nolock,port={port},mountport={port} 127.0.0.1:/main /mnt");
    let macos = format!("mount_nfs -o vers=3,tcp,nolocks,port={port},mountport={port} 127.0.0.1:/main");
    for mount in [newest, linux, macos] {
        assert!(greeting.contains(&mount), "{mount:?} is missing: {greeting}");
    }
    let real = std::fs::canonicalize(&data).unwrap();
    assert!(greeting.contains(&format!("Data is in {}", real.display())), "{greeting}");
    assert!(greeting.contains(&format!("kill {}", server.pid())), "{greeting}");

    let mut client = Client::mount(server.address, "/main");
    let handle = client.write_file("hello", b"world");
    assert_eq!(client.read_file(&handle), b"world");
    let log = server.stop();
    for event in ["pool created", "serving", "client connected", "export mounted", "pool closed", "stopped"] {
        assert!(log.contains(event), "{event:?} is missing: {log}");
    }
}

#[test]
fn acknowledged_writes_survive_kills_and_shutdowns() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    let large = vec![7; 700_000];
    let (small, big) = (client.write_file("small", b"1"), client.write_file("large", &large));
    server.kill();

    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    assert!(client.has_file("small") && client.has_file("large") && !client.has_file("other"));
    assert_eq!(client.read_file(&small), b"1", "the handle is still good");
    assert!(client.read_file(&big) == large);
    client.write_file("other", b"2");
    server.stop();

    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    assert!(client.has_file("other"));
    assert!(client.read_file(&big) == large);
    server.stop();
}

/// Creates files until the server is killed; returns the acknowledged ones: name, handle, content.
fn write_until_death(server: &Server, round: usize, writer: usize) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut client = Client::mount(server.address, "/main");
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("{round}-{writer}-{number}");
        // Small ones are written to the journal, large ones to a segment.
        let length = if number % 8 == 0 { 150_000 } else { 100 + number };
        let content = vec![u8::try_from((round + writer + number) % 251).unwrap(); length];
        match client.try_write_file(&name, &content) {
            Ok(handle) => acknowledged.push((name, handle, content)),
            Err(_) => break,
        }
    }
    acknowledged
}

#[test]
fn kills_under_load_lose_no_acknowledged_writes() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let server = Server::start(&data, &config, &[]);
        acknowledged.extend(std::thread::scope(|scope| {
            let server = &server;
            let writers: Vec<_> =
                (0..4).map(|writer| scope.spawn(move || write_until_death(server, round, writer))).collect();
            std::thread::sleep(std::time::Duration::from_millis(500));
            server.kill_now();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        }));
        drop(server);
    }
    assert!(acknowledged.len() > 20, "only {} files were written", acknowledged.len());
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    for (name, handle, content) in &acknowledged {
        assert!(client.has_file(name), "{name} is lost");
        assert!(client.read_file(handle) == *content, "{name} is wrong");
    }
    server.stop();
    assert!(succeed(&["check", text(&data)]).contains("no faults"));
}

#[test]
fn a_stray_folder_among_the_pools_is_ignored_with_a_warning() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    Server::start(&data, &config, &[]).stop();
    std::fs::create_dir(data.join("pools/backup")).unwrap();
    let log = Server::start(&data, &config, &[]).stop();
    assert!(log.contains("WARN") && log.contains("name=backup"), "{log}");
    assert!(succeed(&["check", text(&data)]).contains("default: no faults"));

    // A damaged pool is no stray: the server does not start without it.
    std::fs::remove_file(data.join("pools/default/format")).unwrap();
    let sentence = fail(&["serve", text(&data), "--config", text(&config), "--listen", "127.0.0.1:0"], 1);
    assert!(sentence.contains("pools/default/format"), "{sentence}");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    let sentence = fail(&["serve", text(&data), "--listen", "127.0.0.1:0"], 3);
    assert!(sentence.contains(&format!("in use by process {}", server.pid())), "{sentence}");
    server.stop();
}

#[test]
fn a_port_in_use_is_an_error() {
    let scratch = Scratch::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let sentence = fail(&["serve", text(&scratch.path("data")), "--listen", &address], 1);
    assert!(sentence.contains(&address) && sentence.contains("--listen"), "{sentence}");
}

#[test]
fn errors_in_the_configuration_name_their_position() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let refuse = |more: &str| {
        let config = scratch.config(more);
        fail(&["serve", text(&data), "--config", text(&config), "--listen", "127.0.0.1:0"], 2)
    };
    let sentence = refuse("lisen = []\n");
    assert!(
        sentence.contains("holdfast.toml:4:1: unknown key `lisen`: did you mean `listen`?"),
        "{sentence}"
    );
    let sentence = refuse("[[export]]\npath = \"/a\"\nvolume = \"a\"\nsquash = 1\n");
    assert!(sentence.contains("holdfast.toml:7:10: squash is one of"), "{sentence}");
    let sentence = refuse("[[export]]\npath = \"/a\"\nvolume = \"other\"\n");
    assert!(sentence.contains("does not have, only main") && sentence.contains("\"other\""), "{sentence}");
    let sentence = fail(&["serve", text(&data), "--config", text(&scratch.path("none.toml"))], 2);
    assert!(sentence.contains("none.toml"), "{sentence}");
    let sentence = fail(&["serve"], 2);
    assert!(sentence.contains("no data directory"), "{sentence}");
    // Errors that clap reports.
    for (option, wrong, expected) in [
        ("--listen", "localhost:2049", "write \"127.0.0.1:2049\""),
        ("--memory", "1 MiB", "too little"),
        ("--memory", "4G", "write \"4 GiB\""),
        ("--journal-size", "1 MiB", "write a multiple of \"16 MiB\""),
        ("--log-level", "loud", "error, warn, info"),
    ] {
        let output = run(&["serve", text(&data), option, wrong]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{option} {wrong}: {said}");
    }
}

#[test]
fn a_damaged_data_directory_is_an_error() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    Server::start(&data, &config, &[]).stop();
    let start = || fail(&["serve", text(&data), "--config", text(&config), "--listen", "127.0.0.1:0"], 1);
    let pool = data.join("pools/default");

    let format = std::fs::read_to_string(pool.join("format")).unwrap();
    std::fs::write(pool.join("format"), format.replace("format 1", "format 99")).unwrap();
    assert!(start().contains("format version 99"));
    std::fs::write(pool.join("format"), &format).unwrap();

    std::fs::rename(pool.join("journal/0001"), scratch.path("0001")).unwrap();
    let sentence = start();
    assert!(sentence.contains("0001 is missing"), "{sentence}");
    std::fs::rename(scratch.path("0001"), pool.join("journal/0001")).unwrap();

    std::fs::write(pool.join("index"), b"nonsense").unwrap();
    let sentence = start();
    assert!(sentence.contains("\"default\"") && sentence.contains("index"), "{sentence}");
}

#[test]
fn a_missing_external_journal_is_an_error() {
    let scratch = Scratch::new();
    let (data, journal, config) = (scratch.path("data"), scratch.path("fast"), scratch.config(""));
    let server = Server::start(&data, &config, &["--journal", text(&journal)]);
    let handle = Client::mount(server.address, "/main").write_file("kept", b"here");
    server.kill();
    assert!(journal.join("default/0000").exists());
    let server = Server::start(&data, &config, &[]);
    assert_eq!(Client::mount(server.address, "/main").read_file(&handle), b"here");
    server.stop();
    std::fs::rename(&journal, scratch.path("away")).unwrap();
    let sentence = fail(&["serve", text(&data), "--listen", "127.0.0.1:0"], 1);
    assert!(sentence.contains("journal") && sentence.contains("missing"), "{sentence}");
}

#[test]
fn a_server_has_several_addresses_and_configured_exports() {
    let scratch = Scratch::new();
    let exports = "[[export]]\npath = \"/a\"\nvolume = \"main\"\nsquash = \"none\"\n\
                   [[export]]\npath = \"/b\"\nvolume = \"main\"\nclients = [\"192.0.2.0/24\"]\n";
    let (data, config) = (scratch.path("data"), scratch.config(exports));
    let server = Server::start(&data, &config, &["--listen", "[::1]:0", "--listen", "127.0.0.1:0"]);
    assert_eq!(server.greeting.matches("Listening on").count(), 2);
    assert!(
        server.greeting.contains("[::1]:/a") && server.greeting.contains("proto=tcp6"),
        "{}",
        server.greeting
    );
    let mut client = Client::mount(server.address, "/a");
    client.write_file("x", b"y");
    server.stop();
}

#[test]
fn status_counts_calls_and_shows_volumes() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let sentence = fail(&["status", text(&data)], 1);
    assert!(sentence.contains("no server runs"), "{sentence}");
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    client.write_file("x", b"y");
    let status: serde_json::Value =
        serde_json::from_str(&succeed(&["status", text(&data), "--json"])).unwrap();
    assert_eq!(status["pid"], server.pid());
    assert_eq!(status["calls"]["NFS3.WRITE"], 1);
    assert_eq!(status["calls"]["MOUNT.MNT"], 1);
    assert!(status["volumes"]["main"]["durable_seq"].as_u64().unwrap() > 1);
    let status = succeed(&["status", text(&data)]);
    assert!(status.contains("  /main  volume main, read and write, to everybody\n"), "{status}");
    assert!(
        status.contains("1 client, 1 connection\n") && status.contains("\nProblems\n  none\n"),
        "{status}"
    );
    assert!(!status.contains("NFS3.WRITE"), "{status}");
    let status = succeed(&["status", text(&data), "--all"]);
    assert!(status.contains("\nAll counters\nversion") && status.contains("NFS3.WRITE"), "{status}");
    assert!(
        status.lines().any(|line| line.trim().starts_with("memory_bytes ") && line.ends_with("128 MiB")),
        "{status}"
    );
    server.stop();
    assert!(!data.join("admin.sock").exists());
}

#[test]
fn logs_can_be_json() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let log = Server::start(&data, &config, &["--log-format", "json"]).stop();
    assert!(log.lines().count() >= 4);
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(event["message"].is_string() && event["level"].is_string(), "{line}");
    }
}
