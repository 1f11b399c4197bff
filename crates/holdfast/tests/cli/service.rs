//! What a service manager learns.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::running::{Scratch, Server, succeed, text};

/// The next message to the service manager.
fn told(socket: &UnixDatagram) -> String {
    let mut message = [0; 256];
    let length = socket.recv(&mut message).unwrap();
    String::from_utf8(message[..length].to_vec()).unwrap()
}

/// Lets a server that reports to `socket` reload, and waits until it has.
fn reload(socket: &UnixDatagram, server: &Server) {
    assert_eq!(told(socket), "READY=1");
    server.reload();
    assert!(told(socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(told(socket), "READY=1");
}

/// Starts a server that reports to `name`, reloads and stops it.
fn check(socket: &UnixDatagram, name: &str) {
    let scratch = Scratch::new();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let server =
        Server::start_with(&scratch.path("data"), &scratch.config(""), &[], &[("NOTIFY_SOCKET", name)]);
    reload(socket, &server);
    server.stop();
    assert_eq!(told(socket), "STOPPING=1");
}

#[test]
fn a_reload_without_a_configuration_file_is_no_fault() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let path = std::env::temp_dir().join(format!("holdfast-{}.reload", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let server = Server::start_without_config(&data, &[("NOTIFY_SOCKET", text(&path))]);
    reload(&socket, &server);
    let status = succeed(&["status", text(&data)]);
    assert!(status.contains("\nProblems\n  none\n"), "{status}");
    let log = server.stop();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("configuration file")).collect();
    assert!(matches!(lines[..], [line] if line.contains("INFO")), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_service_manager_learns_the_state_of_the_server() {
    // Names of sockets are at most 107 bytes long.
    let path = std::env::temp_dir().join(format!("holdfast-{}.notify", std::process::id()));
    let _ = std::fs::remove_file(&path);
    check(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_socket_of_a_service_manager_may_be_abstract() {
    use std::os::linux::net::SocketAddrExt as _;
    let name = format!("holdfast-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    check(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}
