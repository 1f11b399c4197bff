//! Calls that the server makes: lockd takes a granted lock only from the address that it mounted, and a notice of a restart names the
//! server by the address from which it comes.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::super::client::cursor::Cursor;
use super::super::super::client::nfs3::{self, LockOwner, nlm};
use super::super::super::client::nfs4::{CALLBACKS, OldClient};
use super::super::super::client::rpc::{Caller, Failure, Link, NLM, NSM, PATIENCE, PORTMAP};
use super::super::Pair;
use super::ways;
use crate::e2e::lab::ADDRESS;
use crate::nfs::Arguments;

/// Where the client answers: its portmapper, and all else.
const PORTMAPPER: u16 = 111;
const ANSWERED: u16 = 4045;

/// NLM4_BLOCKED, NLM_GRANTED, SM_NOTIFY.
const BLOCKED: u32 = 3;
const GRANTED: u32 = 5;
const NOTIFY: u32 = 6;

/// How often a thread looks around.
const LOOK: Duration = Duration::from_millis(10);

/// Programs that were called, with their procedures and the addresses from which they were.
type Calls = Mutex<BTreeSet<(u32, u32, IpAddr)>>;

/// A client of NFSv4.0 has its callback path tested, and one of NFSv3 waits for a lock and is told of a restart: all of it from the
/// group's address.
pub(super) fn foreign(pair: &mut Pair<'_>) -> Result<String, String> {
    let [(own, _), _] = ways();
    let (calls, over) = (Calls::default(), AtomicBool::new(false));
    let listen = |port| {
        let listener = TcpListener::bind(SocketAddr::new(own, port));
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        listener.map_err(|error| format!("cannot listen on port {port}: {error}"))
    };
    let listeners = [listen(PORTMAPPER)?, listen(ANSWERED)?];
    thread::scope(|scope| {
        for listener in &listeners {
            let (calls, over) = (&calls, &over);
            scope.spawn(move || serve(listener, calls, over));
        }
        let outcome = provoke(pair, own, &calls);
        over.store(true, Ordering::SeqCst);
        outcome
    })?;
    let calls = calls.into_inner().map_err(|_| "a thread has panicked".to_owned())?;
    let group: IpAddr = ADDRESS.parse().map_err(|_| "the group has no address".to_owned())?;
    match calls.iter().find(|(.., from)| *from != group) {
        Some((program, procedure, from)) => {
            Err(format!("procedure {procedure} of program {program} was called from {from}"))
        }
        None => Ok(format!("{} procedures were called", calls.len())),
    }
}

fn provoke(pair: &mut Pair<'_>, own: IpAddr, calls: &Calls) -> Result<(), String> {
    let from = Caller::host(own);
    let [high, low] = ANSWERED.to_be_bytes();
    OldClient::open(Link::open(from)?, b"called", &format!("{own}.{high}.{low}"))?;
    await_call(calls, "CB_NULL", CALLBACKS, 0)?;
    let mut link = Link::open(from)?;
    let folder = nfs3::mount(&mut link, b"/other")?;
    let file = nfs3::create(&mut link, &folder, b"called")?;
    let owner = |process| LockOwner { host: b"called", process };
    let lock = |link: &mut Link, procedure, process, waits| {
        nfs3::lock_call(link, procedure, owner(process), &file, 0, waits)
    };
    let granted = lock(&mut link, nlm::LOCK, 1, false)?;
    let blocked = lock(&mut link, nlm::LOCK, 2, true)?;
    if (granted, blocked) != (0, BLOCKED) {
        return Err(format!("the statuses of two LOCKs are {granted} and {blocked}"));
    }
    lock(&mut link, nlm::UNLOCK, 1, false)?;
    await_call(calls, "NLM_GRANTED", NLM.0, GRANTED)?;
    drop(link);
    pair.change_over()?;
    await_call(calls, "SM_NOTIFY", NSM.0, NOTIFY)?;
    let mut link = Link::open(from)?;
    lock(&mut link, nlm::UNLOCK, 2, false)?;
    Ok(())
}

fn await_call(calls: &Calls, name: &str, program: u32, procedure: u32) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    let is_made = || {
        let calls = calls.lock().map_err(|_| "a thread has panicked".to_owned())?;
        Ok::<bool, String>(calls.iter().any(|(called, number, _)| (*called, *number) == (program, procedure)))
    };
    while !is_made()? {
        if Instant::now() > end {
            return Err(format!("{name} is not called"));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn serve(listener: &TcpListener, calls: &Calls, over: &AtomicBool) {
    let mut held: Vec<(TcpStream, IpAddr)> = Vec::new();
    while !over.load(Ordering::SeqCst) {
        if let Ok((stream, from)) = listener.accept()
            && stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK))).is_ok()
        {
            held.push((stream, from.ip()));
        }
        held.retain_mut(|(stream, from)| answer(stream, *from, calls).is_ok());
        thread::sleep(LOOK);
    }
}

/// Answers the call that has arrived, if there is one: with success, and as a portmapper that all programs are at [`ANSWERED`].
fn answer(stream: &mut TcpStream, from: IpAddr, calls: &Calls) -> Result<(), Failure> {
    let mut mark = [0; 4];
    match stream.read(&mut mark) {
        Ok(4) => {}
        Ok(_) => return Err(Failure::Malformed),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let mut call = vec![0; usize::try_from(u32::from_be_bytes(mark) & 0xffff).unwrap_or(0)];
    stream.read_exact(&mut call)?;
    let mut call = Cursor::new(call);
    let xid = call.word()?;
    call.skip(2)?;
    let (program, _, procedure) = (call.word()?, call.word()?, call.word()?);
    for _ in ["credential", "verifier"] {
        call.word()?;
        call.opaque()?;
    }
    if let Ok(mut calls) = calls.lock() {
        calls.insert((program, procedure, from));
    }
    let mut reply = Arguments::default();
    // Accepted, no verifier, success.
    reply.word(xid).word(1).word(0).word(0).word(0).word(0);
    if program == PORTMAP.0 && procedure == 3 {
        reply.word(ANSWERED.into());
    } else if program == NLM.0 && procedure == GRANTED {
        reply.opaque(&call.opaque()?).word(0);
    }
    let length = u32::try_from(reply.bytes().len()).expect("replies are short") | 0x8000_0000;
    stream.write_all(&[&length.to_be_bytes()[..], reply.bytes()].concat())?;
    Ok(())
}
