//! Traps of TCP.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::super::super::client::rpc::{Link, NFS3, PATIENCE};
use super::super::{ADDRESS6, Blow, Pair};
use super::{FIRST_SYN, NOTICED, OWN_PORT, RECORDED, Seen, call, connect, expect, null, seen, ways};
use crate::e2e::lab::{ADDRESS, PORT};
use crate::nfs::Arguments;
use crate::process;

/// A server without any care: it accepts one connection on each of two addresses, sends a byte, says so, and waits.
const CARELESS: &str = "use IO::Socket::IP; $| = 1;
my @heard = map { IO::Socket::IP->new(LocalHost => $_, LocalPort => $ARGV[0], Listen => 1, ReuseAddr => 1) or die \"$_: $@\n\" }
    @ARGV[1, 2];
print 'x';
my @held = map { my $s = $_->accept or die \"$!\n\"; syswrite $s, 'x'; $s } @heard;
undef @heard;
print 'x';
sleep 60";

/// How long a client waits for an answer before a takeover: until its kernel repeats segments many seconds apart.
const WAITED: Duration = Duration::from_secs(7);

/// A machine is stopped and cut off with connections of the group's address. When it is to serve the group again, nothing may be left of
/// them: a client comes back from the same port, and must be answered at once.
pub(super) fn kept(pair: &mut Pair<'_>) -> Result<String, String> {
    let back = 1 - pair.serving;
    pair.serving().cluster(&["stop", "home"])?;
    pair.machines[back].signal_all("KILL")?;
    if let Some(mut agent) = pair.machines[back].agent.take() {
        process::stop(&mut agent);
    }
    let node = pair.machines[back].namespace();
    let ip = |words: &[&str]| process::output(Command::new("ip").args(["-n", &node]).args(words));
    let addresses = [format!("{ADDRESS}/24"), format!("{ADDRESS6}/64")];
    for address in &addresses {
        ip(&["addr", "add", address, "dev", "eth0", "nodad"])?;
    }
    let mut careless = Command::new("ip");
    careless.args(["netns", "exec", &node, "perl", "-e", CARELESS, &PORT.to_string(), ADDRESS, ADDRESS6]);
    let mut careless = process::start(careless.stdout(Stdio::piped()))?;
    let mut said = careless.stdout.take().ok_or("the careless server has no output")?;
    let mut go_on = || said.read_exact(&mut [0]).map_err(|error| format!("the careless server: {error}"));
    go_on()?;
    let mut clients = Vec::new();
    for way in ways() {
        let mut client = connect_at_last(way, OWN_PORT)?;
        client.stream.read_exact(&mut [0]).map_err(|error| format!("the careless server: {error}"))?;
        clients.push(client);
    }
    go_on()?;
    process::signal(&careless, "STOP");
    let cable = pair.machines[back].cable_name();
    process::output(Command::new("ip").args(["link", "set", &cable, "down"]))?;
    for client in clients {
        forget(client.stream)?;
    }
    for address in &addresses {
        ip(&["addr", "del", address, "dev", "eth0"])?;
    }
    let left = || -> Result<usize, String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &node, "ss", "-Htan", &format!("dport = :{OWN_PORT}")]);
        process::output(&mut command).map(|shown| shown.lines().count())
    };
    let before = left()?;
    pair.boot(back)?;
    pair.serve(back)?;
    let after = left()?;
    process::stop(&mut careless);
    if (before, after) != (ways().len(), 0) {
        return Err(format!("{before} connections were left, and {after} after the group was started"));
    }
    let begun = Instant::now();
    for way in ways() {
        let client = connect(way, OWN_PORT, FIRST_SYN);
        null(&mut client.map_err(|error| format!("cannot connect with {} again: {error}", way.1))?)?;
    }
    Ok(format!("answered after {} ms", begun.elapsed().as_millis()))
}

/// Connects with an address that was moved without telling the neighbours, who may know the earlier machine for a moment.
fn connect_at_last(way: (IpAddr, SocketAddr), port: u16) -> Result<Link, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match connect(way, port, FIRST_SYN) {
            Ok(link) => return Ok(link),
            Err(error) if Instant::now() > end => {
                return Err(format!("cannot connect with {}: {error}", way.1));
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Closes a connection without telling its other end, which the kernel of a client does that is cut off for long.
fn forget(stream: TcpStream) -> Result<(), String> {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).map_err(|error| format!("linger: {error}"))
}

/// Somebody connects all the time while the server is killed, stopped and started: it may take a while, but nobody is refused.
pub(super) fn refused(pair: &mut Pair<'_>) -> Result<String, String> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let dialers: Vec<_> = ways()
            .map(|(_, group)| {
                let over = &over;
                scope.spawn(move || {
                    let (mut connected, mut refused) = (0, 0);
                    while !over.load(Ordering::SeqCst) {
                        match TcpStream::connect_timeout(&group, PATIENCE) {
                            Ok(stream) => {
                                connected += 1;
                                // It leaves nothing behind that would use up ports.
                                let _ = forget(stream);
                            }
                            Err(error) if error.kind() == ErrorKind::ConnectionRefused => refused += 1,
                            Err(_) => {}
                        }
                        thread::sleep(Duration::from_millis(2));
                    }
                    (connected, refused)
                })
            })
            .into();
        let outcome = changes(pair);
        over.store(true, Ordering::SeqCst);
        let counts: Vec<(u32, u32)> = dialers.into_iter().filter_map(|dialer| dialer.join().ok()).collect();
        outcome?;
        let (connected, refused) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if refused > 0 || counts.iter().any(|(connected, _)| *connected < 50) {
            return Err(format!("{refused} connections were refused, {connected} made"));
        }
        Ok(format!("{connected} connections were made"))
    })
}

/// All ways in which a server ends and another one begins.
fn changes(pair: &mut Pair<'_>) -> Result<(), String> {
    for _ in 0..2 {
        let before = pair.kill_server()?;
        pair.await_restart(before)?;
        pair.change_over()?;
    }
    Ok(())
}

/// Connections are reset, never ended in an orderly way; when the group moves, only after the next machine has the address.
pub(super) fn ended(pair: &mut Pair<'_>) -> Result<String, String> {
    let clients = || -> Result<Vec<_>, String> {
        let clients: Result<Vec<_>, String> = ways().map(|way| call(way, OWN_PORT)).into_iter().collect();
        thread::sleep(RECORDED);
        clients
    };
    let held = clients()?;
    let before = pair.kill_server()?;
    for client in &held {
        expect("when the server is killed", Seen::Reset, seen(&client.stream, NOTICED)?)?;
    }
    pair.await_restart(before)?;
    let held = clients()?;
    let (from, to) = (pair.serving, 1 - pair.serving);
    pair.machines[from].cluster(&["stop", "home"])?;
    for client in &held {
        let found = seen(&client.stream, Duration::from_millis(100))?;
        expect("when one machine has given the address up", Seen::Nothing, found)?;
    }
    pair.serve(to)?;
    for client in &held {
        expect("when the next machine has the address", Seen::Reset, seen(&client.stream, NOTICED)?)?;
    }
    Ok(format!("{} connections", 2 * held.len()))
}

/// A client whose server is killed connects again within the same millisecond, from the same port. The connection waits for the next
/// server, which answers on it: a second reset would have a client of Linux wait for 3 s.
pub(super) fn reset_twice(pair: &mut Pair<'_>) -> Result<String, String> {
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        for way in ways() {
            let held = call(way, OWN_PORT)?;
            let before = pair.kill_server()?;
            let begun = Instant::now();
            expect("when the server is killed", Seen::Reset, seen(&held.stream, NOTICED)?)?;
            drop(held);
            let again = connect(way, OWN_PORT, PATIENCE);
            let mut again = again.map_err(|error| format!("cannot connect again: {error}"))?;
            null(&mut again).map_err(|why| format!("on a connection made at once: {why}"))?;
            longest = longest.max(begun.elapsed());
            drop(again);
            pair.await_restart(before)?;
            // An agent gives up a server that keeps dying.
            pair.change_over()?;
        }
    }
    Ok(format!("answered after {} ms at most", longest.as_millis()))
}

/// A machine is lost. An idle client, and one that has waited for its answer for so long that its kernel seldom asks again, notice
/// as soon as the next machine has the address.
pub(super) fn unnoticed(pair: &mut Pair<'_>) -> Result<String, String> {
    let mut clients = Vec::new();
    for way in ways() {
        clients.push(call(way, OWN_PORT)?);
        clients.push(call(way, OWN_PORT + 1)?);
    }
    thread::sleep(RECORDED);
    process::output(Command::new("ip").args(["link", "set", &pair.serving().cable_name(), "down"]))?;
    for waiting in clients.iter_mut().step_by(2) {
        waiting.send(NFS3, 0, &Arguments::default()).map_err(|why| format!("cannot send: {why}"))?;
    }
    thread::sleep(WAITED);
    pair.strike(Blow::Dies)?;
    let begun = Instant::now();
    for client in &clients {
        expect("after a takeover", Seen::Reset, seen(&client.stream, NOTICED)?)?;
    }
    let took = begun.elapsed();
    pair.heal()?;
    Ok(format!("within {} ms", took.as_millis()))
}

/// The link of the machine that serves is cut for a while, and nothing takes over. Clients notice when it is back.
pub(super) fn late(pair: &mut Pair<'_>) -> Result<String, String> {
    let mut clients = Vec::new();
    for way in ways() {
        clients.push(call(way, OWN_PORT)?);
    }
    let cable = pair.serving().cable_name();
    process::output(Command::new("ip").args(["link", "set", &cable, "down"]))?;
    for waiting in &mut clients {
        waiting.send(NFS3, 0, &Arguments::default()).map_err(|why| format!("cannot send: {why}"))?;
    }
    thread::sleep(WAITED);
    process::output(Command::new("ip").args(["link", "set", &cable, "up"]))?;
    let begun = Instant::now();
    for client in &clients {
        expect("when the link is back", Seen::Reset, seen(&client.stream, NOTICED)?)?;
    }
    let took = begun.elapsed();
    for way in ways() {
        call(way, OWN_PORT)?;
    }
    Ok(format!("within {} ms", took.as_millis()))
}
