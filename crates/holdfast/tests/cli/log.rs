//! What the log says about refused mounts and damaged data.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::Client;
use crate::running::{Scratch, Server, succeed};

/// Sends MNT; returns the status.
fn mount_status(server: &Server, path: &str) -> String {
    Client::connect(server.address).try_mount(path).unwrap_err()
}

#[test]
fn the_log_says_why_a_mount_was_refused() {
    let scratch = Scratch::new();
    let exports = "[[export]]\npath = \"/far\"\nvolume = \"main\"\nclients = [\"192.0.2.0/24\"]\n\
                   [[export]]\npath = \"/near\"\nvolume = \"main\"\nrequire_privileged_port = true\n\
                   [[export]]\npath = \"/open\"\nvolume = \"main\"\n";
    let server = Server::start(&scratch.path("data"), &scratch.config(exports), &[]);
    for _ in 0..3 {
        assert_eq!(mount_status(&server, "/far"), "MNT3ERR_ACCES");
    }
    assert_eq!(mount_status(&server, "/near"), "MNT3ERR_ACCES");
    assert_eq!(mount_status(&server, "/none"), "MNT3ERR_NOENT");
    assert_eq!(mount_status(&server, "/open/none"), "MNT3ERR_NOENT");
    Client::mount(server.address, "/open");
    let log = server.stop();
    let refusals = |path: &str| -> Vec<&str> {
        let path = format!("path={path} ");
        log.lines().filter(|line| line.contains("mount refused") && line.contains(&path)).collect()
    };
    let [far] = refusals("/far")[..] else { panic!("not one line for three attempts: {log}") };
    assert!(far.contains("WARN") && far.contains("client=127.0.0.1 "), "{far}");
    assert!(far.contains("status=MNT3ERR_ACCES") && far.contains("`clients`"), "{far}");
    let [near] = refusals("/near")[..] else { panic!("{log}") };
    assert!(near.contains("`require_privileged_port`") && near.contains("calls from port "), "{near}");
    let [none] = refusals("/none")[..] else { panic!("{log}") };
    assert!(none.contains("no export has this path"), "{none}");
    let [beneath] = refusals("/open/none")[..] else { panic!("{log}") };
    assert!(beneath.contains("beneath the export /open: no such name"), "{beneath}");
}

#[test]
fn a_client_cannot_forge_lines_of_the_log() {
    for format in ["human", "json"] {
        let scratch = Scratch::new();
        let server = Server::start(&scratch.path("data"), &scratch.config(""), &["--log-format", format]);
        let mut client = Client::connect(server.address);
        for path in ["/a\n2026-01-01 ERROR forged", "/b\r\u{1b}[2J\u{202e}\u{85}", "/c client=192.0.2.9"] {
            assert_eq!(client.try_mount(path).unwrap_err(), "MNT3ERR_NOENT");
        }
        assert_eq!(client.try_mount_bytes(b"/d\xff\x9b").unwrap_err(), "MNT3ERR_NOENT");
        let log = server.stop();
        let refused: Vec<&str> = log.lines().filter(|line| line.contains("mount refused")).collect();
        assert_eq!(refused.len(), 4, "{log}");
        assert!(refused[0].contains("forged") && refused[3].contains(r"/d\\xff\\x9b"), "{log}");
        assert!(!refused[2].contains(" client=192.0.2.9 "), "{log}");
        let is_printable = |char: char| char == '\n' || char == ' ' || char.is_ascii_graphic();
        assert!(log.chars().all(is_printable), "{log:?}");
        assert!(log.lines().all(|line| line.starts_with(if format == "json" { '{' } else { '2' })), "{log}");
    }
}

#[test]
fn a_client_cannot_make_the_log_grow() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let mut client = Client::connect(server.address);
    for number in 0..3000 {
        assert_eq!(client.try_mount(&format!("/none/{number}")).unwrap_err(), "MNT3ERR_NOENT");
        client.try_mount("/main").unwrap();
    }
    let log = server.stop();
    assert!(log.len() < 20_000, "{} bytes", log.len());
    let logged = |message: &str| log.lines().filter(|line| line.contains(message)).count();
    let left_out: usize = log
        .lines()
        .filter(|line| line.contains("similar events were not logged") && line.contains("client=127.0.0.1 "))
        .filter(|line| line.contains("of=\"mount refused\"") || line.contains("of=\"export mounted\""))
        .map(|line| line.rsplit_once("count=").unwrap().1.parse::<usize>().unwrap())
        .sum();
    assert_eq!(logged(" mount refused ") + logged(" export mounted ") + left_out, 6000, "{log}");
}

#[test]
fn strangers_are_refused_and_logged_once() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let exports = "[[export]]\npath = \"/far\"\nvolume = \"main\"\nclients = [\"192.0.2.0/24\"]\n";
    let server = Server::start(&data, &scratch.config(exports), &[]);
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let end = stream.read(&mut [0; 1]);
        assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    }
    let status: serde_json::Value =
        serde_json::from_str(&succeed(&["status", data.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(status["server"]["connections_refused"], 5);
    assert_eq!(status["server"]["bytes_received"], 0);
    let log = server.stop();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" connection refused")).collect();
    let [line] = lines[..] else { panic!("not one line for five connections: {log}") };
    assert!(line.contains("WARN") && line.contains("client=127.0.0.1"), "{line}");
}

#[test]
fn the_log_names_the_inode_the_range_and_the_path_of_damaged_data() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    let handle = Client::mount(server.address, "/main").write_file("precious", &vec![0x5a; 600_000]);
    server.stop();
    let segments = std::fs::read_dir(data.join("pools/default/segments")).unwrap();
    for segment in segments.map(|entry| entry.unwrap().path()) {
        let mut bytes = std::fs::read(&segment).unwrap();
        if let Some(place) = bytes.iter().position(|byte| *byte == 0x5a) {
            bytes[place + 1000] ^= 1;
            std::fs::write(&segment, bytes).unwrap();
        }
    }
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    let inode = client.inode("precious");
    for _ in 0..2 {
        client.ask_for(&handle, 0, 4096);
        assert_eq!(client.take_status(), "NFS3ERR_IO");
    }
    let status = succeed(&["status", data.to_str().unwrap()]);
    assert!(status.contains("stored data of 1 object could not be read since the start"), "{status}");
    let log = server.stop();
    let line = log.lines().find(|line| line.contains("stored data could not be read"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("ERROR")
            && line.contains(&format!("of=\"bytes 0 to 4096 of inode {inode} of volume 1\" ")),
        "{line}"
    );
    assert_eq!(line.matches("pool=default").count(), 1, "{line}");
    let paths: Vec<&str> = log.lines().filter(|line| line.contains("belongs to this path")).collect();
    let [path] = paths[..] else { panic!("not one line for two reads: {log}") };
    assert!(path.contains(&format!(" inode={inode} path=/precious ")), "{path}");
}
