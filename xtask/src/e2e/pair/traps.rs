//! What goes wrong with stock clients when an address moves, each provoked on purpose: `docs/proofs.md` lists these traps. The client
//! is a program with raw sockets in the namespace that is the switch, so that it sees each segment as a kernel's client would.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::super::Options;
use super::super::client::rpc::{self, Link, NFS3, PATIENCE};
use super::super::lab::{Lab, PORT};
use super::{ADDRESS6, Pair};
use crate::e2e::hosts::{BRIDGE, OWN};
use crate::e2e::lab::ADDRESS;
use crate::nfs::Arguments;
use crate::process;

mod callbacks;
mod connections;
mod state;

/// The client's own IPv6 address.
const OWN6: &str = "fd77::2/64";

/// The port that the client uses again and again, as Linux does with NFSv3 and NFSv4.0.
const OWN_PORT: u16 = 700;

/// Less than the kernel waits before it repeats a SYN: who connects within this time was answered at once.
const FIRST_SYN: Duration = Duration::from_millis(900);

/// Within this time after a takeover or a restart each client must have noticed. Two refreshes of the agent, and room for a busy
/// machine.
const NOTICED: Duration = Duration::from_millis(1500);

/// How long the agent may take to store the list of connections.
const RECORDED: Duration = Duration::from_millis(1500);

/// A trap: what clients would suffer, and the attempt to provoke it. The attempt leaves the group served by one of the machines.
type Trap = fn(&mut Pair<'_>) -> Result<String, String>;

const TRAPS: &[(&str, Trap)] = &[
    ("a machine that comes back keeps old connections of the address", connections::kept),
    ("a port is closed for a moment", connections::refused),
    ("connections end in an orderly way, or before the next machine has the address", connections::ended),
    ("connections made while the server is started again are reset again", connections::reset_twice),
    ("idle clients, and clients that wait for long, do not notice a takeover", connections::unnoticed),
    ("after a cut clients wait for as long again", connections::late),
    ("calls to clients leave from the machine's own address", callbacks::foreign),
    ("a group is opened without one of its pools", state::halves),
    ("a server outlives its agent, or answers after it lost its claim", state::survivors),
];

pub(in crate::e2e) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    // Of the pool with the records of clients nothing is exported, so that no export is missed with it.
    lab.export("[[export]]\npath = \"/other\"\nvolume = \"other\"\nsquash = \"none\"\n".to_owned())?;
    let mut pair = Pair::make(lab)?;
    pair.lab.holdfast(&["pool", "create"], &["extra", "--volume", "other", "--journal-size", "64MiB"])?;
    process::output(Command::new("ip").args(["addr", "add", OWN6, "dev", BRIDGE, "nodad"]))?;
    pair.machines[0].cluster(&["start", "home"])?;
    for (name, trap) in TRAPS {
        let begun = Instant::now();
        let note = trap(&mut pair).map_err(|why| format!("{name}: {why}"))?;
        println!("     not so: {name} ({note}; {:.1} s)", begun.elapsed().as_secs_f64());
    }
    pair.serving().cluster(&["stop", "home"])?;
    drop(pair);
    lab.start()?;
    Ok(format!("{} traps", TRAPS.len()))
}

/// The addresses of the client, with those of the group that they reach.
fn ways() -> [(IpAddr, SocketAddr); 2] {
    let ip = |text: &str| -> IpAddr {
        text.split('/').next().and_then(|ip| ip.parse().ok()).expect("it is an address")
    };
    [(OWN, ADDRESS), (OWN6, ADDRESS6)].map(|(own, group)| (ip(own), SocketAddr::new(ip(group), PORT)))
}

/// Connects with the group from the client's port.
fn connect((own, group): (IpAddr, SocketAddr), port: u16, patience: Duration) -> std::io::Result<Link> {
    let stream = rpc::connect_from(SocketAddr::new(own, port), group, patience)?;
    Ok(Link { stream, user: 0, next_xid: fastrand::u32(..) })
}

/// Connects, and has NULL answered.
fn call(way: (IpAddr, SocketAddr), port: u16) -> Result<Link, String> {
    let mut link = connect(way, port, PATIENCE).map_err(|error| format!("cannot connect: {error}"))?;
    null(&mut link)?;
    Ok(link)
}

fn null(link: &mut Link) -> Result<(), String> {
    link.call(NFS3, 0, &Arguments::default()).map(drop).map_err(|why| format!("NULL: {why}"))
}

/// What a client sees of a connection on which nothing is to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// FIN.
    End,
    /// RST.
    Reset,
}

/// Returns what is seen within `patience`.
fn seen(mut stream: &TcpStream, patience: Duration) -> Result<Seen, String> {
    let words = |error: std::io::Error| format!("a connection fails: {error}");
    stream.set_read_timeout(Some(patience)).map_err(words)?;
    match stream.read(&mut [0; 1]) {
        Ok(0) => Ok(Seen::End),
        Ok(_) => Err("a reply came without a call".to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(Seen::Nothing)
        }
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Seen::Reset),
        Err(error) => Err(words(error)),
    }
}

/// What must have been seen.
fn expect(what: &str, wanted: Seen, found: Seen) -> Result<(), String> {
    if wanted == found { Ok(()) } else { Err(format!("{what}: {found:?} rather than {wanted:?}")) }
}

impl Pair<'_> {
    /// Moves the group to the other machine.
    fn change_over(&mut self) -> Result<(), String> {
        self.strike(super::Blow::Moves)
    }

    /// Waits until the group is served by another process than this one.
    fn await_restart(&self, before: u64) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while self.server_id()? == Some(before) || self.serving().cluster(&["monitor", "home"]).is_err() {
            if Instant::now() > end {
                return Err("the server is not started again".to_owned());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
