//! Clients of NFSv4 and NLM, more than the server has room for.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use super::super::nfs3::{self, LockOwner, nlm};
use super::super::nfs4::{self, OldClient, Session};
use super::super::rpc::{Caller, Failure, Link};
use super::super::{Scene, places};

/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(20);
/// Hosts that use NLM, and the names of each.
const NLM_HOSTS: std::ops::Range<u8> = 204..208;
const NLM_NAMES: u32 = 64;

/// Hosts that come one after another.
const IN_TURN: std::ops::Range<u8> = 60..72;

/// Neighbours, more than there is room for first sessions.
const CROWD: std::ops::Range<u8> = 1..201;

/// Makes clients until the attack is over. `make` makes client `number` on the connection of its host; what it returns is
/// held.
fn many<T>(
    scene: &Scene,
    hosts: std::ops::Range<u8>,
    mut make: impl FnMut(&mut Link, u32) -> Result<T, Failure>,
) -> Result<String, String> {
    let mut links: Vec<(u8, Option<Link>)> = hosts.map(|host| (host, None)).collect();
    let (mut held, mut refused) = (Vec::new(), 0);
    let mut number = 0;
    while scene.goes_on() {
        for (host, place) in &mut links {
            if !scene.goes_on() {
                break;
            }
            number += 1;
            let from = Caller::host(places::neighbour(*host));
            let mut link = match place.take().map_or_else(|| Link::open(from), Ok) {
                Ok(link) => link,
                Err(_) => continue,
            };
            match make(&mut link, number) {
                Ok(client) => held.push(client),
                Err(Failure::Io(_)) => continue,
                Err(_) => {
                    refused += 1;
                    thread::sleep(PAUSE);
                }
            }
            *place = Some(link);
        }
    }
    Ok(format!("{} clients made, {refused} refused", held.len()))
}

fn name(number: u32) -> Vec<u8> {
    format!("attacker-{number}-{:x}", fastrand::u64(..)).into_bytes()
}

pub(super) fn unconfirmed(scene: &Scene) -> Result<String, String> {
    many(scene, 201..202, |link, number| nfs4::exchange_id(link, &name(number), [1; 8]))
}

fn session(link: &mut Link, number: u32) -> Result<[u8; 16], Failure> {
    let (client, sequence) = nfs4::exchange_id(link, &name(number), [1; 8])?;
    nfs4::create_session(link, client, sequence, 1, false)
}

pub(super) fn sessions(scene: &Scene) -> Result<String, String> {
    many(scene, 202..203, session)
}

pub(super) fn sessions_spread(scene: &Scene) -> Result<String, String> {
    many(scene, 1..51, session)
}

pub(super) fn sessions_crowd(scene: &Scene) -> Result<String, String> {
    many(scene, CROWD, session)
}

/// Each host has one session that is never silent, and another one as soon as that is gone.
pub(super) fn sessions_busy(scene: &Scene) -> Result<String, String> {
    let mut hosts: Vec<Option<Session>> = CROWD.map(|_| None).collect();
    let (mut made, mut requests) = (0, 0);
    while scene.goes_on() {
        for (host, place) in CROWD.zip(&mut hosts) {
            let Some(session) = place else {
                *place = new_session(places::neighbour(host), made).ok();
                made += u32::from(place.is_some());
                continue;
            };
            match session.status(|_| ()) {
                Ok(0) => requests += 1,
                _ => *place = None,
            }
        }
    }
    Ok(format!("{made} clients made, which sent {requests} requests"))
}

/// Each client comes from another /64 network, so none is of an origin that holds anything.
pub(super) fn sessions_networks(scene: &Scene) -> Result<String, String> {
    let (mut made, mut refused) = (0, 0);
    for network in 1000.. {
        if !scene.goes_on() {
            break;
        }
        match new_session(places::neighbour_6(network, 1), network.into()) {
            Ok(_) => made += 1,
            Err(_) => refused += 1,
        }
    }
    Ok(format!("{made} clients made, {refused} refused"))
}

/// Makes a client with a session, without patience.
fn new_session(address: IpAddr, number: u32) -> Result<Session, Failure> {
    let mut link = Link::open(Caller::host(address))?;
    let (client, sequence) = nfs4::exchange_id(&mut link, &name(number), [1; 8])?;
    let id = nfs4::create_session(&mut link, client, sequence, 1, false)?;
    Ok(Session { link, client, id, sequence: 0 })
}

/// Clients of NFSv4.0, each with a file open.
pub(super) fn old(scene: &Scene) -> Result<String, String> {
    let address = places::neighbour(203);
    let mut number = 0;
    let (mut held, mut refused) = (Vec::new(), 0);
    while scene.goes_on() {
        number += 1;
        match old_client(address, number) {
            Ok(client) => held.push(client),
            Err(_) => {
                refused += 1;
                thread::sleep(PAUSE);
            }
        }
    }
    Ok(format!("{} clients made, {refused} refused", held.len()))
}

/// Hosts that come one after another: each is all the clients that it can be, and so has most of what the one before left.
pub(super) fn in_turn(scene: &Scene) -> Result<String, String> {
    let mut made = Vec::new();
    for host in IN_TURN {
        let address = places::neighbour(host);
        let clients = (0..).take_while(|number| scene.goes_on() && old_client(address, *number).is_ok());
        made.push(clients.count().to_string());
    }
    while scene.goes_on() {
        thread::sleep(PAUSE);
    }
    Ok(format!("clients of each: {}", made.join(", ")))
}

/// Only its id remains: its connection would be one too many.
fn old_client(address: IpAddr, number: u32) -> Result<u64, Failure> {
    let link = Link::open(Caller::host(address))?;
    let mut client = OldClient::open(link, &name(number), "10.77.2.1.8.1")?;
    let folder = client.folder()?;
    client.open_file(&folder, b"attackers")?;
    Ok(client.id)
}

/// Sessions with all slots that they get, of clients with all sessions that they get.
pub(super) fn slots(scene: &Scene) -> Result<String, String> {
    let mut number = 0;
    let (mut made, mut refused) = (0, 0);
    let mut clients = Vec::new();
    while scene.goes_on() {
        number += 1;
        let opened = Link::open(Caller::host(places::neighbour(208)))
            .and_then(|link| Session::open(link, &name(number), 256, false));
        let Ok(mut session) = opened else {
            refused += 1;
            thread::sleep(PAUSE);
            continue;
        };
        // The first one had the sequence before.
        let mut sequence = 2;
        while scene.goes_on() {
            match nfs4::create_session(&mut session.link, session.client, sequence, 256, false) {
                Ok(_) => (made, sequence) = (made + 1, sequence + 1),
                Err(_) => break,
            }
        }
        if clients.len() < 64 {
            clients.push(session);
        }
    }
    Ok(format!("{made} further sessions of {number} clients, {refused} clients refused"))
}

pub(super) fn nlm(scene: &Scene) -> Result<String, String> {
    let mut links = Vec::new();
    for host in NLM_HOSTS {
        links.push(Link::open(Caller::host(places::neighbour(host)))?);
    }
    let first = links.first_mut().ok_or("no hosts")?;
    let file = nfs3::create(first, &scene.folder, b"attackers-locks")?;
    let (mut locked, mut refused) = (0, 0);
    for (host, link) in (0..).zip(&mut links) {
        for number in 0..NLM_NAMES {
            let text = format!("attacker-{number}");
            let owner = LockOwner { host: text.as_bytes(), process: 1 };
            let place = u64::from(host * NLM_NAMES + number) * 1000;
            match nfs3::lock_call(link, nlm::LOCK, owner, &file, place, false)? {
                0 => locked += 1,
                _ => refused += 1,
            }
        }
    }
    scene.rest();
    Ok(format!("{locked} names have a lock, {refused} were refused"))
}
