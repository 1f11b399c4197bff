//! What the log says about refused mounts and damaged data.

use crate::client::Client;
use crate::running::{Scratch, Server};

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
fn the_log_names_the_inode_and_the_range_of_damaged_data() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    let handle = Client::mount(server.address, "/main").write_file("precious", &vec![0x5a; 600_000]);
    server.stop();
    let segments = std::fs::read_dir(data.join("volumes/main/segments")).unwrap();
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
    client.ask_for(&handle, 0, 4096);
    assert_eq!(client.take_status(), "NFS3ERR_IO");
    let log = server.stop();
    let line = log.lines().find(|line| line.contains("stored data could not be read"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("ERROR") && line.contains(&format!("of=bytes 0 to 4096 of inode {inode} ")),
        "{line}"
    );
}
