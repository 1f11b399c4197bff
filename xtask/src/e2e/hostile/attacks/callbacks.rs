//! Calls that the server makes: to hosts that answer slowly, and to hosts that have not asked for them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::cursor::Cursor;
use super::super::nfs3::{self, LockOwner, nlm};
use super::super::nfs4::OldClient;
use super::super::rpc::{Caller, Failure, Link, NFS3, NLM, PATIENCE, PORTMAP, Program};
use super::super::{Scene, places};
use super::hoards::BLOCKED;
use crate::nfs::Arguments;

/// The portmapper's port.
const PORTMAPPER: u16 = 111;
/// The port of an honest host's lock manager, and those on which nobody may call a bystander.
const LOCK_MANAGER: u16 = 4045;
const BYSTANDER: [u16; 3] = [PORTMAPPER, LOCK_MANAGER, 2222];
/// NLM_GRANTED.
const GRANTED: u32 = 5;
/// Hosts that answer slowly, or never.
const SLOW: std::ops::Range<u8> = 220..232;
/// Locks that each of them waits for in a round.
const SLOW_LOCKS: u64 = 4;
/// Pause between rounds.
const ROUND: Duration = Duration::from_millis(200);
/// Pause between the bytes of a slow answer.
const BYTE: Duration = Duration::from_millis(1500);
/// Within this time a waiting host is called.
const CALLED: Duration = Duration::from_secs(2);
/// How often a thread looks around.
const LOOK: Duration = Duration::from_millis(10);

/// Slow hosts and an honest one wait for locks. The honest one must be called as soon as its lock is free.
pub(super) fn slow(scene: &Scene) -> Result<String, String> {
    let (grants, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let is_over = || ended.load(Ordering::SeqCst);
    let honest: Result<Vec<_>, _> =
        [PORTMAPPER, LOCK_MANAGER].into_iter().map(|port| listen(places::client(9), port)).collect();
    let honest = honest?;
    let slow: Result<Vec<_>, _> = SLOW.map(|number| listen(places::neighbour(number), PORTMAPPER)).collect();
    let slow = slow?;
    thread::scope(|scope| {
        for (number, listener) in slow.iter().enumerate() {
            let answers = number % 2 == 0;
            scope.spawn(move || serve_slowly(listener, answers, &is_over));
        }
        for listener in &honest {
            let grants = &grants;
            scope.spawn(move || serve(listener, grants, &is_over));
        }
        let outcome = rounds(scene, &grants);
        ended.store(true, Ordering::SeqCst);
        outcome
    })
}

/// Repeats [`round`] until the attack is over.
fn rounds(scene: &Scene, grants: &AtomicUsize) -> Result<String, String> {
    let mut longest = Duration::ZERO;
    let mut number = 0;
    while scene.goes_on() {
        longest = longest.max(round(scene, number, grants)?);
        number += 1;
        thread::sleep(ROUND);
    }
    Ok(format!("the honest host was called {number} times, each within {} ms", longest.as_millis()))
}

/// Lets all wait for locks of a fresh file, frees them, and returns how long the honest host waits for its call.
fn round(scene: &Scene, number: usize, grants: &AtomicUsize) -> Result<Duration, String> {
    let mut holder = Link::open(Caller::host(places::neighbour(232)))?;
    let file = nfs3::create(&mut holder, &scene.folder, format!("queue-nlm-{number}").as_bytes())?;
    let owner = |host| LockOwner { host, process: 1 };
    let slow = SLOW.flat_map(|number| (0..SLOW_LOCKS).map(move |_| places::neighbour(number)));
    let waiting: Vec<(IpAddr, u64)> =
        slow.chain([places::client(9)]).zip((0..).map(|place| place * 1000)).collect();
    for (address, at) in &waiting {
        nfs3::lock_call(&mut holder, nlm::LOCK, owner(b"holder"), &file, *at, false)?;
        let mut link = Link::open(Caller::host(*address))?;
        let status = nfs3::lock_call(&mut link, nlm::LOCK, owner(b"waiter"), &file, *at, true)?;
        if status != BLOCKED && *address == places::client(9) {
            return Err(format!("the honest host may not wait: status {status}"));
        }
    }
    let before = grants.load(Ordering::SeqCst);
    for (_, at) in &waiting {
        nfs3::lock_call(&mut holder, nlm::UNLOCK, owner(b"holder"), &file, *at, false)?;
    }
    let freed = Instant::now();
    while grants.load(Ordering::SeqCst) == before {
        if freed.elapsed() > CALLED {
            return Err(format!(
                "in round {number}, the honest host is not called while others answer slowly"
            ));
        }
        thread::sleep(LOOK);
    }
    let took = freed.elapsed();
    let mut link = Link::open(Caller::host(places::client(9)))?;
    let (_, at) = waiting.last().ok_or("nobody waits")?;
    nfs3::lock_call(&mut link, nlm::UNLOCK, owner(b"waiter"), &file, *at, false)?;
    Ok(took)
}

fn listen(address: IpAddr, port: u16) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(SocketAddr::new(address, port));
    let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| format!("cannot listen on {address}, port {port}: {error}"))
}

/// Accepts a connection if there is one.
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let (stream, _) = listener.accept().ok()?;
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(LOOK)).ok()?;
    Some(stream)
}

/// Accepts everything; sends a byte of an answer that never ends from time to time, or nothing.
fn serve_slowly(listener: &TcpListener, answers: bool, is_over: &dyn Fn() -> bool) {
    let mut held: Vec<(TcpStream, usize)> = Vec::new();
    let mut last = Instant::now();
    while !is_over() {
        held.extend(accept(listener).map(|stream| (stream, 0)));
        if answers && last.elapsed() > BYTE {
            last = Instant::now();
            held.retain_mut(|(stream, sent)| {
                let mark = [0x80, 0, 0x0f, 0xff];
                *sent += 1;
                stream.write_all(&[mark.get(*sent - 1).copied().unwrap_or(0)]).is_ok()
            });
        }
        thread::sleep(LOOK);
    }
}

/// Answers as an honest host: where its lock manager is, and that it takes a lock.
fn serve(listener: &TcpListener, grants: &AtomicUsize, is_over: &dyn Fn() -> bool) {
    let mut held: Vec<TcpStream> = Vec::new();
    while !is_over() {
        held.extend(accept(listener));
        held.retain_mut(|stream| match answer(stream, grants) {
            Ok(()) => true,
            Err(Failure::Io(error)) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            Err(_) => false,
        });
        thread::sleep(LOOK);
    }
}

/// Reads a call, if there is one, and answers it.
fn answer(stream: &mut TcpStream, grants: &AtomicUsize) -> Result<(), Failure> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let mut call = vec![0; usize::try_from(u32::from_be_bytes(mark) & 0xffff).unwrap_or(0)];
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut call)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut call = Cursor::new(call);
    let xid = call.word()?;
    call.skip(2)?;
    let (program, _, procedure) = (call.word()?, call.word()?, call.word()?);
    for _ in ["credential", "verifier"] {
        call.word()?;
        call.opaque()?;
    }
    let mut reply = Arguments::default();
    // Accepted, no verifier, success.
    reply.word(xid).word(1).word(0).word(0).word(0).word(0);
    let Program(portmapper, _) = PORTMAP;
    match procedure {
        3 if program == portmapper => _ = reply.word(LOCK_MANAGER.into()),
        GRANTED if program == NLM.0 => {
            reply.opaque(&call.opaque()?).word(0);
            grants.fetch_add(1, Ordering::SeqCst);
        }
        _ => {}
    }
    let length = u32::try_from(reply.bytes().len()).expect("replies are short") | 0x8000_0000;
    stream.write_all(&[&length.to_be_bytes()[..], reply.bytes()].concat())?;
    Ok(())
}

/// Asks for calls to a bystander, in every way that names one.
pub(super) fn reflectors(scene: &Scene) -> Result<String, String> {
    let listeners = at_bystander()?;
    let bystander = places::bystander().to_string();
    let owner = LockOwner { host: bystander.as_bytes(), process: 1 };
    let attackers =
        [Caller::host(places::neighbour(233)), Caller::unprivileged(places::neighbour(233), 1000)];
    let mut asked = 0;
    while scene.goes_on() {
        for by in attackers {
            let mut link = Link::open(by)?;
            let file = nfs3::create(&mut link, &scene.folder, b"reflected")?;
            for procedure in [nlm::TEST_MSG, nlm::LOCK_MSG, nlm::CANCEL_MSG, nlm::UNLOCK_MSG] {
                // Messages have no reply.
                link.send(NLM, procedure, &nfs3::lock_arguments(procedure, owner, &file, 0, true))?;
            }
            // Refusals are welcome: what counts is whether the bystander is called.
            let _ = nfs3::sm_notify(&mut link, owner.host, 3);
            let _ = nfs3::sm_mon(&mut link, owner.host);
            let _ = nfs3::sm_simu_crash(&mut link);
            let _ = nfs3::lock_call(&mut link, nlm::LOCK, owner, &file, 500, true);
            let _ = nfs3::free_all(&mut link, owner.host);
            let _ = forwarded(&mut link);
            let _ = delegated(by, &bystander);
            asked += 1;
        }
        thread::sleep(Duration::from_millis(200));
        check_uncalled(&listeners)?;
    }
    Ok(format!("asked {asked} times, the bystander was not called"))
}

fn at_bystander() -> Result<Vec<TcpListener>, String> {
    BYSTANDER.iter().map(|port| listen(places::bystander(), *port)).collect()
}

/// Checks that nobody has called the bystander.
fn check_uncalled(listeners: &[TcpListener]) -> Result<(), String> {
    for (listener, port) in listeners.iter().zip(BYSTANDER) {
        match listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => return Err(format!("the server called the bystander's port {port}")),
        }
    }
    Ok(())
}

/// The bystander, until the server has restarted.
static AT_BYSTANDER: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

/// Holds locks under the bystander's name, and has it monitored, so that the server would notify it of its restart.
pub(super) fn restart_notices(scene: &Scene) -> Result<String, String> {
    *AT_BYSTANDER.lock().unwrap_or_else(PoisonError::into_inner) = at_bystander()?;
    let bystander = places::bystander().to_string();
    let mut link = Link::open(Caller::host(places::neighbour(235)))?;
    let file = nfs3::create(&mut link, &scene.folder, b"reflected-later")?;
    let names = [bystander.as_bytes(), b"bystander.example.org"];
    for (at, host) in (0..).zip(names) {
        let owner = LockOwner { host, process: 1 };
        match nfs3::lock_call(&mut link, nlm::LOCK, owner, &file, 1000 * at, false)? {
            0 => {}
            status => return Err(format!("cannot begin: the status of LOCK is {status}")),
        }
        // The refusal of a program that is not offered is welcome.
        let _ = nfs3::sm_mon(&mut link, host);
    }
    Ok("locks under the name of a bystander, who was not notified".to_owned())
}

/// What counts is seen after the restart.
pub(super) fn after_restart_notices() -> Result<(), String> {
    let listeners = std::mem::take(&mut *AT_BYSTANDER.lock().unwrap_or_else(PoisonError::into_inner));
    check_uncalled(&listeners)
}

/// A client of NFSv4.0 that wants to be called at the bystander, with an open that may be delegated.
fn delegated(by: Caller, bystander: &str) -> Result<(), Failure> {
    let name = format!("reflector-{}", by.user);
    // Port 2222.
    let callback = format!("{bystander}.8.174");
    let mut client = OldClient::open(Link::open(by)?, name.as_bytes(), &callback)?;
    let folder = client.folder()?;
    client.open_file(&folder, b"reflected").map(|_| ())
}

/// CALLIT: the portmapper is to call NULL of NFS on behalf of the caller.
fn forwarded(link: &mut Link) -> Result<(), Failure> {
    let mut arguments = Arguments::default();
    arguments.word(NFS3.0).word(NFS3.1).word(0).opaque(b"");
    link.call(PORTMAP, 5, &arguments).map(|_| ())
}

/// Wants services registered and forgotten, and calls forwarded.
pub(super) fn portmap(scene: &Scene) -> Result<String, String> {
    let mut link = Link::open(Caller::host(places::neighbour(234)))?;
    let port = port_of_nfs(&mut link)?;
    while scene.goes_on() {
        for (procedure, number) in [(1, 6666), (2, 0)] {
            let mut arguments = Arguments::default();
            arguments.word(NFS3.0).word(NFS3.1).word(6).word(number);
            // SET and UNSET return whether they did it.
            if let Ok(mut done) = link.call(PORTMAP, procedure, &arguments)
                && done.word()? != 0
            {
                return Err(format!("procedure {procedure} of the portmapper obeys a neighbour"));
            }
        }
        if forwarded(&mut link).is_ok() {
            return Err("the portmapper forwards calls".to_owned());
        }
        if port_of_nfs(&mut link)? != port {
            return Err("NFS has another port now".to_owned());
        }
    }
    Ok("nothing registered, forgotten or forwarded".to_owned())
}

/// GETPORT.
fn port_of_nfs(link: &mut Link) -> Result<u32, Failure> {
    let mut arguments = Arguments::default();
    arguments.word(NFS3.0).word(NFS3.1).word(6).word(0);
    link.call(PORTMAP, 3, &arguments)?.word()
}
