//! The `memory` setting limits the resident memory of the process.

use std::thread;

use crate::client::Client;
use crate::running::{Scratch, Server};

/// The setting of `Scratch::config` in KiB, with a tolerance of a tenth.
const RESIDENT_KIB_MAX: u64 = (128 << 10) * 11 / 10;

const MIB: usize = 1 << 20;

const CONNECTIONS: usize = 24;

/// Calls in flight on each connection.
const CALLS: usize = 12;

fn highest_resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn many_large_transfers_at_once_stay_within_the_memory_setting() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let mut client = Client::mount(server.address, "/main");
    let handles: Vec<Vec<u8>> =
        (0..CONNECTIONS).map(|number| client.write_file(&format!("file {number}"), b"")).collect();
    let clients: Vec<Client> = thread::scope(|scope| {
        let writers: Vec<_> = handles
            .iter()
            .map(|handle| {
                scope.spawn(|| {
                    let mut client = Client::connect(server.address);
                    let data = vec![7; MIB];
                    for number in 0..CALLS {
                        client.hand_over(handle, (number * MIB) as u64, &data);
                    }
                    (0..CALLS).for_each(|_| assert!(client.take_reply() > 0));
                    client
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let highest = highest_resident_kib(&server);
    assert!(highest <= RESIDENT_KIB_MAX, "{highest} KiB were resident after writing");
    // All requests are sent before any reply is received.
    let mut clients = clients;
    for (client, handle) in clients.iter_mut().zip(&handles) {
        (0..CALLS).for_each(|number| client.ask_for(handle, (number * MIB) as u64, 1 << 20));
    }
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| thread::spawn(move || (0..CALLS).for_each(|_| assert!(client.take_reply() > MIB))))
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let highest = highest_resident_kib(&server);
    assert!(highest <= RESIDENT_KIB_MAX, "{highest} KiB were resident after reading");
    server.stop();
}
