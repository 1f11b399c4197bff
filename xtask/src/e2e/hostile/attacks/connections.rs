//! Connections: of strangers, idle ones, and very many one after another.

use std::io::{self, Read as _};
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::super::super::lab::PORT;
use super::super::compound::{Compound, op};
use super::super::rpc::{self, Caller, Failure, Link, MOUNT, NFS3, NFS4, NLM, NSM, PORTMAP};
use super::super::{Scene, nfs3, places};
use super::calls;
use crate::nfs::Arguments;

/// Idle connections.
const IDLE: usize = 11_000;
/// Threads that connect one time after another.
const THREADS: usize = 4;
/// How long an attacker waits for a connection or a reply.
const PATIENCE: Duration = Duration::from_millis(500);

/// Calls every program as a stranger. No call may be answered, not even with a refusal.
pub(super) fn stranger_calls(scene: &Scene) -> Result<String, String> {
    let mut refused = 0;
    for address in [places::stranger(1), places::stranger_6(1)] {
        for (what, program, procedure, arguments) in calls(scene) {
            for from in [Caller::host(address), Caller::unprivileged(address, 0)] {
                for port in [PORT, 111] {
                    if is_answered(from, port, |link| link.call(program, procedure, &arguments)) {
                        return Err(format!("{what} from {address} to port {port} is answered"));
                    }
                    refused += 1;
                }
            }
        }
    }
    scene.rest();
    Ok(format!("{refused} calls unanswered"))
}

/// A call of each program, and what a stranger would do first.
fn calls(scene: &Scene) -> Vec<(&'static str, rpc::Program, u32, Arguments)> {
    let arguments = |fill: &dyn Fn(&mut Arguments)| {
        let mut arguments = Arguments::default();
        fill(&mut arguments);
        arguments
    };
    let nothing = || arguments(&|_| ());
    let mut introduction = Compound::new(2);
    introduction.op(op::EXCHANGE_ID).fixed(&[1; 8]).opaque(b"stranger").word(0).word(0).word(0);
    let mut old = Compound::new(0);
    let client = old.op(op::SETCLIENTID).fixed(&[1; 8]).opaque(b"stranger").word(1).opaque(b"tcp");
    client.opaque(b"10.77.4.1.8.1").word(1);
    vec![
        ("NULL", NFS3, 0, nothing()),
        ("GETATTR", NFS3, 1, arguments(&|to| _ = to.opaque(&scene.folder))),
        ("MNT", MOUNT, 1, arguments(&|to| _ = to.opaque(b"/main"))),
        ("EXPORT", MOUNT, 5, nothing()),
        ("EXCHANGE_ID", NFS4, 1, introduction.arguments()),
        ("SETCLIENTID", NFS4, 1, old.arguments()),
        ("FREE_ALL", NLM, nfs3::nlm::FREE_ALL, arguments(&|to| _ = to.opaque(b"well-behaved").word(1))),
        ("SM_NOTIFY", NSM, 6, arguments(&|to| _ = to.opaque(b"well-behaved").word(3))),
        ("DUMP", PORTMAP, 4, nothing()),
    ]
}

/// Whether the server sends anything.
fn is_answered<T>(from: Caller, port: u16, call: impl FnOnce(&mut Link) -> Result<T, Failure>) -> bool {
    let Ok(stream) = rpc::connect(from, port, PATIENCE) else { return false };
    let mut link = Link { stream, user: from.user, next_xid: 1 };
    !matches!(call(&mut link), Err(Failure::Io(_)))
}

pub(super) fn stranger_idle(scene: &Scene) -> Result<String, String> {
    let (held, opened) = hold(scene, |_| places::stranger(1));
    if held == 0 {
        Ok(format!("{opened} connections closed"))
    } else {
        Err(format!("{held} connections are held"))
    }
}

pub(super) fn idle(scene: &Scene) -> Result<String, String> {
    note(hold(scene, |_| places::neighbour(1)))
}

pub(super) fn idle_6(scene: &Scene) -> Result<String, String> {
    note(hold(scene, |number| places::neighbour_6(1, u32::try_from(number).unwrap_or(0) + 1)))
}

pub(super) fn idle_spread(scene: &Scene) -> Result<String, String> {
    note(hold(scene, |number| places::neighbour(1 + u8::try_from(number % 250).unwrap_or(0))))
}

fn note((held, opened): (usize, usize)) -> Result<String, String> {
    Ok(format!("{held} of {opened} connections held at the end"))
}

/// Opens [`IDLE`] connections, and again those that the server closes. Returns how many it has at the end, and how many it
/// had in all.
fn hold(scene: &Scene, address: impl Fn(usize) -> IpAddr + Sync) -> (usize, usize) {
    let opened = AtomicUsize::new(0);
    let part = &|first: usize| {
        let mut all: Vec<Option<TcpStream>> = (first..IDLE).step_by(THREADS).map(|_| None).collect();
        while scene.goes_on() {
            for (number, place) in (first..).step_by(THREADS).zip(&mut all) {
                if scene.goes_on() && place.as_ref().is_none_or(is_closed) {
                    let from = Caller::unprivileged(address(number), 0);
                    *place = rpc::connect(from, PORT, PATIENCE).ok();
                    opened.fetch_add(usize::from(place.is_some()), Ordering::Relaxed);
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
        all
    };
    thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        let all: Vec<_> = parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect();
        let held = all.iter().flatten().filter(|stream| !is_closed(stream)).count();
        (held, opened.load(Ordering::Relaxed))
    })
}

fn is_closed(stream: &TcpStream) -> bool {
    let open = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    !matches!(peeked, Err(error) if open(&error))
}

/// Connects and waits to be closed, over and over.
pub(super) fn stranger_churn(scene: &Scene) -> Result<String, String> {
    let count = churn_with(scene, |number| {
        let from = Caller::unprivileged(places::stranger(number), 0);
        if let Ok(mut stream) = rpc::connect(from, PORT, PATIENCE) {
            // An error is what a closed connection may give.
            let _ = stream.read(&mut [0]);
        }
    });
    Ok(format!("{count} connections"))
}

/// Connects and leaves, over and over, while a neighbour floods the server with calls.
pub(super) fn stranger_flood_busy(scene: &Scene) -> Result<String, String> {
    thread::scope(|scope| {
        let neighbour = scope.spawn(|| calls::floods(scene));
        let count = churn_with(scene, |number| {
            drop(rpc::connect(Caller::unprivileged(places::stranger(number), 0), PORT, PATIENCE));
        });
        let answered = neighbour.join().map_err(|_| "the neighbour panicked".to_owned())??;
        Ok(format!("{count} connections, {answered}"))
    })
}

/// Connects, calls NULL, and leaves, over and over.
pub(super) fn churn(scene: &Scene) -> Result<String, String> {
    let count = churn_with(scene, |number| {
        let from = Caller::unprivileged(places::neighbour(number), 0);
        // The server may refuse; the attacker tries again.
        let _ = Link::open_within(from, PATIENCE)
            .and_then(|mut link| link.call(NFS3, 0, &Arguments::default()).map(|_| ()));
    });
    Ok(format!("{count} connections"))
}

/// Connects from [`THREADS`] threads, each with an address of its own. Returns how often.
fn churn_with(scene: &Scene, connect: impl Fn(u8) + Sync) -> usize {
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in (1..).take(THREADS) {
            let (count, connect) = (&count, &connect);
            scope.spawn(move || {
                while scene.goes_on() {
                    connect(number);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    count.into_inner()
}
