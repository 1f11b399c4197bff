//! Datagrams: of strangers, and as many as a neighbour can send.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::super::super::lab::PORT;
use super::super::rpc::{self, MOUNT, NFS3, NLM, NSM, PORTMAP, RQUOTA};
use super::super::{Scene, nfs3, places};
use crate::nfs::Arguments;

/// Threads that send all the time.
const THREADS: u8 = 4;
/// The user that the attackers claim to be.
const USER: u32 = 1000;

/// Sends calls of all programs as a stranger. None may be answered.
pub(super) fn strangers(scene: &Scene) -> Result<String, String> {
    let mut sent = 0;
    while scene.goes_on() {
        for (address, port) in ends() {
            let socket = socket(address, port).map_err(|error| format!("{address}: {error}"))?;
            for call in calls() {
                sent += u64::from(socket.send(&call).is_ok());
            }
            thread::sleep(Duration::from_millis(50));
            if received(&socket) > 0 {
                return Err(format!("a datagram from {address} to port {port} is answered"));
            }
        }
    }
    Ok(format!("{sent} datagrams unanswered"))
}

/// Strange addresses, each with each port.
fn ends() -> Vec<(IpAddr, u16)> {
    [places::stranger(1), places::stranger_6(1)].map(|from| [(from, PORT), (from, 111)]).concat()
}

/// Sends as many calls as it can, from four ports of a host. What comes back may be no more than what was sent.
pub(super) fn flood(scene: &Scene) -> Result<String, String> {
    let part = |number: u8| -> io::Result<[u64; 2]> {
        let socket = socket(places::neighbour(1), if number.is_multiple_of(2) { PORT } else { 111 })?;
        let mut bytes = [0; 2];
        while scene.goes_on() {
            for call in calls() {
                bytes[0] += socket.send(&call).map_or(0, |count| count as u64);
            }
            bytes[1] += received(&socket);
        }
        Ok(bytes)
    };
    let part = &part;
    let (mut sent, mut received) = (0, 0);
    thread::scope(|scope| -> Result<(), String> {
        let parts: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || part(number))).collect();
        for thread in parts {
            let bytes = thread.join().map_err(|_| "a thread panicked")?;
            let bytes = bytes.map_err(|error| format!("cannot send datagrams: {error}"))?;
            sent += bytes[0];
            received += bytes[1];
        }
        Ok(())
    })?;
    let note = format!("{sent} bytes sent, {received} answered");
    if received > sent { Err(note) } else { Ok(note) }
}

/// Calls of the programs that take datagrams, and of others; then what is no call.
fn calls() -> Vec<Vec<u8>> {
    let arguments = |fill: &dyn Fn(&mut Arguments)| {
        let mut arguments = Arguments::default();
        fill(&mut arguments);
        arguments
    };
    let nothing = || arguments(&|_| ());
    let quota = || arguments(&|to| _ = to.opaque(b"/main").word(0).word(USER));
    let calls = [
        (PORTMAP, 0, nothing()),
        (PORTMAP, 3, arguments(&|to| _ = to.word(RQUOTA.0).word(2).word(17).word(0))),
        (PORTMAP, 4, nothing()),
        (RQUOTA, 1, quota()),
        (RQUOTA, 3, quota()),
        (NFS3, 0, nothing()),
        (MOUNT, 5, nothing()),
        (NLM, nfs3::nlm::FREE_ALL, arguments(&|to| _ = to.opaque(b"well-behaved").word(1))),
        (NSM, 6, arguments(&|to| _ = to.opaque(b"well-behaved").word(3))),
    ];
    let mark = 4;
    let mut datagrams: Vec<Vec<u8>> = calls
        .iter()
        .map(|(program, procedure, arguments)| {
            rpc::record(fastrand::u32(..), *program, *procedure, USER, arguments).split_off(mark)
        })
        .collect();
    datagrams.push((0..fastrand::usize(0..4000)).map(|_| fastrand::u8(..)).collect());
    datagrams
}

/// Returns a socket for datagrams from an address to a port of the server, which does not wait for answers.
fn socket(from: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let socket = rpc::socket_of(from, rustix::net::SocketType::DGRAM)?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    let socket = UdpSocket::from(socket);
    socket.connect(SocketAddr::new(places::server(from), port))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the bytes of the answers that have arrived.
fn received(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; 1 << 16];
    let mut bytes = 0;
    while let Ok(count) = socket.recv(&mut buffer) {
        bytes += count as u64;
    }
    bytes
}
