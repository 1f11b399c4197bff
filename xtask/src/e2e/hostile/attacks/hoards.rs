//! One client that takes all there is: opens, locks, places in queues, delegations, extended attributes.

use std::thread;
use std::time::Duration;

use super::super::compound::{Compound, DENIED, Owner, op};
use super::super::nfs3::{self, LockOwner, nlm};
use super::super::nfs4::{self, ANY_DELEGATION, NO_DELEGATION, Session};
use super::super::rpc::{Caller, Failure, Link};
use super::super::{Scene, places};

/// Operations of one COMPOUND, besides SEQUENCE and PUTFH.
const BATCH: u64 = 30;
/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(50);
/// Files whose delegations are taken.
const DELEGATED: u32 = 2000;
/// Hosts that come one after another.
const IN_TURN: std::ops::Range<u8> = 80..92;
/// NLM4_BLOCKED.
pub(super) const BLOCKED: u32 = 3;
/// Files with queues for their locks.
const QUEUES: u32 = 20;
/// Bytes of an extended attribute.
const XATTR_BYTES: usize = 32 << 10;

/// A client of neighbour `host`; each attack has hosts of its own, since earlier ones keep what they took.
fn attacker(host: u8) -> Result<Session, Failure> {
    nfs4::session(
        Caller::host(places::neighbour(host)),
        format!("hoarder-{:x}", fastrand::u64(..)).as_bytes(),
    )
}

/// Makes requests until the attack is over: each adds to `number` what it took. Returns how much was taken and how many
/// requests were refused.
fn greedily(
    scene: &Scene,
    session: &mut Session,
    fill: impl Fn(&mut Compound, u64),
) -> Result<String, Failure> {
    let (mut number, mut refused) = (0, 0);
    while scene.goes_on() {
        // What a COMPOUND took before an operation of it was refused counts as well.
        let status = session.status(|compound| fill(compound, number))?;
        number += BATCH;
        if !matches!(status, 0 | DENIED) {
            refused += 1;
            thread::sleep(PAUSE);
        }
    }
    Ok(format!("{number} asked for, {refused} of {} requests cut short", number / BATCH))
}

/// OPENs of one file by ever new owners.
pub(super) fn opens(scene: &Scene) -> Result<String, String> {
    let mut session = attacker(209)?;
    let folder = session.folder()?;
    let client = session.client;
    let note = greedily(scene, &mut session, |compound, number| {
        for one in number..number + BATCH {
            let name = format!("owner-{one}-{}", "x".repeat(200));
            let owner = Owner { client, name: name.as_bytes() };
            compound.put(&folder).open(0, owner, NO_DELEGATION, b"hoarded");
        }
    })?;
    Ok(note)
}

/// The same of hosts that come one after another: each takes until it is refused, and so has most of what the one before left.
pub(super) fn opens_in_turn(scene: &Scene) -> Result<String, String> {
    let (mut sessions, mut taken) = (Vec::new(), Vec::new());
    for host in IN_TURN {
        let Ok(mut session) = attacker(host) else { continue };
        let folder = session.folder()?;
        let client = session.client;
        let mut opened = 0;
        while scene.goes_on() {
            let name = format!("owner-{opened}-{}", "x".repeat(200));
            let owner = Owner { client, name: name.as_bytes() };
            let status = session.status(|compound| {
                compound.put(&folder).open(0, owner, NO_DELEGATION, b"hoarded");
            })?;
            if status != 0 {
                break;
            }
            opened += 1;
        }
        taken.push(opened.to_string());
        sessions.push(session);
    }
    while scene.goes_on() {
        thread::sleep(PAUSE);
    }
    Ok(format!("opens of each: {}", taken.join(", ")))
}

/// Locks of every other byte.
pub(super) fn locks(scene: &Scene) -> Result<String, String> {
    let mut session = attacker(210)?;
    let folder = session.folder()?;
    let (opened, file) = session.open_file(&folder, b"owner", NO_DELEGATION, b"hoarded")?;
    let lock = session.lock(&file, &opened.stateid, b"owner", (0, 1))?;
    let note = greedily(scene, &mut session, |compound, number| {
        compound.put(&file);
        for one in number..number + BATCH {
            // The seqid of a stateid may be 0: the latest.
            compound.lock_more(&latest(lock), 0, 2 * one + 2, false);
        }
    })?;
    Ok(note)
}

/// The stateid whatever was done with it since.
fn latest(mut stateid: [u8; 16]) -> [u8; 16] {
    stateid[..4].fill(0);
    stateid
}

/// Waits of ever new owners for locks that another client has.
pub(super) fn waiters(scene: &Scene) -> Result<String, String> {
    let mut holder = attacker(212)?;
    let mut session = attacker(211)?;
    let folder = session.folder()?;
    let client = session.client;
    let mut files = Vec::new();
    for number in 0..QUEUES {
        let name = format!("queue-{number}");
        let (opened, file) = holder.open_file(&folder, b"owner", NO_DELEGATION, name.as_bytes())?;
        holder.lock(&file, &opened.stateid, b"owner", (0, 10))?;
        let (opened, file) = session.open_file(&folder, b"owner", NO_DELEGATION, name.as_bytes())?;
        files.push((file, opened.stateid));
    }
    let mut queues = files.iter().cycle();
    let (mut number, mut denied) = (0u64, 0);
    while scene.goes_on() {
        let Some((file, open)) = queues.next() else { break };
        let name = format!("owner-{number}");
        let owner = Owner { client, name: name.as_bytes() };
        // WRITEW_LT of a new owner. A COMPOUND ends with the first denial.
        let status = session.status(|compound| {
            let arguments = compound.put(file).op(op::LOCK).word(4).word(0).long(0).long(1);
            arguments.word(1).word(0).fixed(open).word(0).long(owner.client).opaque(owner.name);
        })?;
        number += 1;
        denied += u32::from(status == DENIED);
        if !matches!(status, 0 | DENIED) {
            thread::sleep(PAUSE);
        }
    }
    Ok(format!("{denied} of {number} were denied and may wait"))
}

/// The same with NLM: ever new processes of one host wait.
pub(super) fn waiters_nlm(scene: &Scene) -> Result<String, String> {
    let mut holder = Link::open(Caller::host(places::neighbour(216)))?;
    let mut link = Link::open(Caller::host(places::neighbour(217)))?;
    let owner = |process| LockOwner { host: b"waiter", process };
    let mut files = Vec::new();
    for number in 0..QUEUES {
        let file = nfs3::create(&mut holder, &scene.folder, format!("queue-of-hosts-{number}").as_bytes())?;
        nfs3::lock_call(&mut holder, nlm::LOCK, owner(0), &file, 0, false)?;
        files.push(file);
    }
    let (mut number, mut blocked) = (0, 0);
    for file in files.iter().cycle() {
        if !scene.goes_on() {
            break;
        }
        number += 1;
        match nfs3::lock_call(&mut link, nlm::LOCK, owner(number), file, 0, true)? {
            BLOCKED => blocked += 1,
            _ => thread::sleep(PAUSE / 10),
        }
    }
    Ok(format!("{blocked} of {number} may wait"))
}

/// Opens for the sake of delegations.
pub(super) fn delegations(scene: &Scene) -> Result<String, String> {
    let link = Link::open(Caller::host(places::neighbour(213)))?;
    let mut session = Session::open(link, b"delegate", 1, true)?;
    let folder = session.folder()?;
    let mut maker = Link::open(Caller::host(places::neighbour(214)))?;
    let (mut opens, mut delegated) = (0, 0);
    for number in 0..DELEGATED {
        if !scene.goes_on() {
            break;
        }
        let name = format!("delegated-{number}");
        nfs3::create(&mut maker, &scene.folder, name.as_bytes())?;
        match session.open_file(&folder, b"owner", ANY_DELEGATION, name.as_bytes()) {
            Ok((opened, _)) => {
                opens += 1;
                delegated += u32::from(opened.delegation.is_some());
            }
            Err(Failure::Status(..)) => thread::sleep(PAUSE),
            Err(failure) => return Err(failure.into()),
        }
    }
    // Nobody may write to these files until they are returned, which they are not; others may go on.
    scene.rest();
    Ok(format!("{delegated} delegations with {opens} opens"))
}

/// Sets extended attributes of ever new files. What they take must be part of what their file takes.
pub(super) fn xattrs(scene: &Scene) -> Result<String, String> {
    let mut session = attacker(215)?;
    let mut link = Link::open(Caller::host(places::neighbour(215)))?;
    let value = vec![b'x'; XATTR_BYTES];
    let (mut files, mut total) = (0, 0);
    while scene.goes_on() {
        files += 1;
        let name = format!("xattrs-{files}");
        let handle = nfs3::create(&mut link, &scene.folder, name.as_bytes())?;
        let mut set = 0;
        for number in 0..1000 {
            let status = session.status(|compound| {
                compound.op(op::PUTROOTFH);
                compound.op(op::LOOKUP).opaque(b"main");
                compound.op(op::LOOKUP).opaque(name.as_bytes());
                let name = format!("attribute-{number}");
                compound.op(op::SETXATTR).word(0).opaque(name.as_bytes()).opaque(&value);
            })?;
            if status != 0 || !scene.goes_on() {
                break;
            }
            set += XATTR_BYTES;
        }
        if set == 0 {
            if files == 1 {
                return Err(format!("cannot begin: no attribute of {XATTR_BYTES} bytes is accepted"));
            }
            thread::sleep(PAUSE);
        }
        total += set;
        let (_, used) = nfs3::getattr(&mut link, &handle)?;
        if used < u64::try_from(set).unwrap_or(u64::MAX) {
            return Err(format!("{set} bytes of extended attributes count as {used}"));
        }
    }
    Ok(format!("{} MiB in attributes of {files} files, all counted", total >> 20))
}
