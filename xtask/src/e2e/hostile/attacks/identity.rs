//! Another host, or another user of the same host, that knows the ids and the requests of a client.

use super::super::compound::{Answer, Compound, Stateid, op};
use super::super::nfs3;
use super::super::nfs4::{self, NO_DELEGATION, OldClient, Session};
use super::super::rpc::{Caller, Failure, Link};
use super::super::{Scene, places};
use crate::nfs::Procedure;

/// Guesses of a session id, beginning with an id that the attacker was given.
const GUESSES: u64 = 200;
/// The name of the client that is attacked.
const VICTIM: &[u8] = b"victim";

/// The superuser of another host, and another user of the victim's host.
fn attackers() -> [Caller; 2] {
    [Caller::host(places::neighbour(240)), Caller::unprivileged(places::client(9), 1000)]
}

/// A client of NFSv4.2 with a file, a lock, and a request that it has made.
struct Victim {
    session: Session,
    file: Vec<u8>,
    open: Stateid,
    lock: Stateid,
}

impl Victim {
    fn new() -> Result<Victim, Failure> {
        let mut session = nfs4::session(Caller::host(places::client(9)), VICTIM)?;
        let folder = session.folder()?;
        let (opened, file) = session.open_file(&folder, b"owner", NO_DELEGATION, b"victim-41")?;
        let lock = session.lock(&file, &opened.stateid, b"owner", (0, 100))?;
        Ok(Victim { session, file, open: opened.stateid, lock })
    }

    /// Checks that the session works and that the lock is still held.
    fn check(&mut self) -> Result<(), String> {
        let result = self.session.ask(
            |compound| compound.put(&self.file).read(&self.lock, 0, 10),
            |answer| answer.put()?.next("READ", op::READ).map(|_| ()),
        );
        result.map_err(|why| format!("the victim's session or lock is gone: {why}"))
    }
}

/// An error that says what was achieved, unless it was refused.
fn refused<T>(what: &str, by: Caller, result: Result<T, Failure>) -> Result<(), String> {
    match result {
        Ok(_) => Err(format!("{what} by user {} of {} succeeds", by.user, by.address)),
        Err(_) => Ok(()),
    }
}

/// The status of a COMPOUND as a result.
fn succeeded(answer: Answer) -> Result<(), Failure> {
    if answer.status == 0 { Ok(()) } else { Err(Failure::Status("COMPOUND", answer.status)) }
}

/// Makes a request of one operation, without a session.
fn alone(link: &mut Link, fill: impl FnOnce(&mut Compound)) -> Result<(), Failure> {
    let mut compound = Compound::new(2);
    fill(&mut compound);
    compound.call(link).and_then(succeeded)
}

pub(super) fn sessions(scene: &Scene) -> Result<String, String> {
    let mut victim = Victim::new()?;
    let id = victim.session.id;
    for by in attackers() {
        let mut link = Link::open(by)?;
        // Users of a host share its sessions, so only their use from elsewhere is refused.
        if by.address != places::client(9) {
            refused("SEQUENCE", by, victim.session.begin(true).call(&mut link).and_then(succeeded))?;
        }
        refused("DESTROY_SESSION", by, nfs4::destroy_session(&mut link, &id))?;
        let client = victim.session.client;
        let destroy = |compound: &mut Compound| _ = compound.op(op::DESTROY_CLIENTID).long(client);
        refused("DESTROY_CLIENTID", by, alone(&mut link, destroy))?;
        refused("CREATE_SESSION", by, nfs4::create_session(&mut link, client, 2, 1, true))?;
        // A client may bind connections from a new address, so only its principal may.
        link.user = 1000;
        let bind = |compound: &mut Compound| {
            compound.op(op::BIND_CONN_TO_SESSION).fixed(&id).word(3).word(0);
        };
        refused("BIND_CONN_TO_SESSION", by, alone(&mut link, bind))?;
        victim.check()?;
    }
    let by = Caller::host(places::neighbour(240));
    let own = nfs4::session(by, b"guesser")?;
    let mut link = Link::open(by)?;
    for guess in 1..=GUESSES {
        for half in [0, 8] {
            let mut id = own.id;
            let bytes: [u8; 8] = id[half..half + 8].try_into().expect("eight bytes");
            for near in [u64::from_be_bytes(bytes).wrapping_add(guess), u64::from_be_bytes(bytes) ^ guess] {
                id[half..half + 8].copy_from_slice(&near.to_be_bytes());
                refused("DESTROY_SESSION of a guess", by, nfs4::destroy_session(&mut link, &id))?;
            }
        }
    }
    victim.check()?;
    scene.rest();
    Ok(format!("all refused, and {} guesses", 4 * GUESSES))
}

/// Introduces clients with the names of others.
pub(super) fn names(_: &Scene) -> Result<String, String> {
    let mut victim = Victim::new()?;
    let mut old = OldVictim::new()?;
    let mut notes = Vec::new();
    for by in attackers() {
        let session = Link::open(by).and_then(|link| Session::open(link, VICTIM, 1, true));
        let client = Link::open(by).and_then(|link| OldClient::open(link, VICTIM, "10.77.2.9.8.1"));
        for same in [
            session.as_ref().is_ok_and(|session| session.client == victim.session.client),
            client.as_ref().is_ok_and(|client| client.id == old.client.id),
        ] {
            if same {
                return Err(format!("user {} of {} is taken for the victim", by.user, by.address));
            }
        }
        for refusal in [session.map(|_| ()), client.map(|_| ())] {
            notes.push(refusal.map_or_else(|why| why.to_string(), |()| "another client".to_owned()));
        }
        victim.check()?;
        old.check()?;
    }
    Ok(notes.join(", "))
}

/// A client of NFSv4.0 with a file and a lock.
struct OldVictim {
    client: OldClient,
    file: Vec<u8>,
    open: Stateid,
    lock: Stateid,
}

impl OldVictim {
    fn new() -> Result<OldVictim, Failure> {
        let link = Link::open(Caller::host(places::client(9)))?;
        let mut client = OldClient::open(link, VICTIM, "10.77.3.9.8.1")?;
        let folder = client.folder()?;
        let (file, opened) = client.open_file(&folder, b"victim-40")?;
        let lock = client.lock(&file, &opened.stateid)?;
        Ok(OldVictim { client, file, open: opened.stateid, lock })
    }

    fn check(&mut self) -> Result<(), String> {
        let read = |compound: &mut Compound| compound.put(&self.file).read(&self.lock, 0, 10);
        let result = self.client.call(read).and_then(succeeded);
        result.map_err(|why| format!("the lock of the NFSv4.0 victim is gone: {why}"))
    }
}

/// Uses stateids of others: those of NFSv4.0 without a session, those of NFSv4.2 in a session of its own.
pub(super) fn stateids(_: &Scene) -> Result<String, String> {
    let mut old = OldVictim::new()?;
    let mut tried = 0;
    for by in attackers() {
        for seqid in [0, 1, old.client.seqid] {
            let OldVictim { file, open, lock, .. } = &old;
            let uses: [(&str, &dyn Fn(&mut Compound)); 2] = [
                ("LOCKU", &|compound| compound.put(file).unlock(lock, seqid, 0, 100)),
                ("CLOSE", &|compound| compound.put(file).close(seqid, open)),
            ];
            for (what, fill) in uses {
                let mut compound = Compound::new(0);
                fill(&mut compound);
                let mut link = Link::open(by)?;
                refused(what, by, compound.call(&mut link).and_then(succeeded))?;
                tried += 1;
            }
        }
        old.check()?;
    }
    let by = Caller::host(places::neighbour(240));
    let mut victim = Victim::new()?;
    let mut session = nfs4::session(by, b"thief")?;
    let Victim { file, open, lock, .. } = &victim;
    let uses: [(&str, &dyn Fn(&mut Compound)); 4] = [
        ("LOCKU", &|compound| compound.put(file).unlock(lock, 0, 0, 100)),
        ("CLOSE", &|compound| compound.put(file).close(0, open)),
        ("WRITE", &|compound| compound.put(file).write(lock, 0, b"thief")),
        ("READ", &|compound| compound.put(file).read(open, 0, 10)),
    ];
    for (what, fill) in uses {
        refused(what, by, session.call(fill).and_then(succeeded))?;
        tried += 1;
    }
    victim.check()?;
    Ok(format!("{tried} uses refused"))
}

/// Repeats requests in a session for another user, and from another host.
pub(super) fn replays_4(_: &Scene) -> Result<String, String> {
    let mut victim = Victim::new()?;
    let mut link = Link::open(Caller::host(places::client(9)))?;
    let Victim { session, file, lock, .. } = &mut victim;
    nfs3::write(&mut link, file, 0, b"a secret")?;
    let mut request = session.begin(true);
    request.put(file).read(lock, 0, 100);
    request.call(&mut session.link).and_then(succeeded)?;
    session.sequence += 1;
    for by in attackers() {
        let mut link = Link::open(by)?;
        refused("a repeated READ", by, request.call(&mut link).and_then(succeeded))?;
    }
    request
        .call(&mut victim.session.link)
        .and_then(succeeded)
        .map_err(|why| format!("its own repetition: {why}"))?;
    victim.check()?;
    Ok("refused for all but the victim".to_owned())
}

/// Repeats a CREATE in a directory that only root may use, and lets root repeat what was refused to another user.
pub(super) fn replays_3(scene: &Scene) -> Result<String, String> {
    let root = Caller::host(places::client(9));
    let mut link = Link::open(root)?;
    let mkdir = ("MKDIR", Procedure::Mkdir);
    let name = format!("private-{:x}", fastrand::u64(..));
    let private = nfs3::make(&mut link, mkdir, &scene.folder, name.as_bytes(), 0o700)?;
    let xid = link.next_xid;
    nfs3::create(&mut link, &private, b"file")?;
    for by in attackers().map(|by| Caller { user: 1000, ..by }) {
        let mut other = Link::open(by)?;
        other.next_xid = xid;
        refused("a repeated CREATE", by, nfs3::create(&mut other, &private, b"file"))?;
    }
    let mut other = Link::open(Caller::unprivileged(places::client(9), 1000))?;
    let xid = other.next_xid;
    let by = Caller::unprivileged(places::client(9), 1000);
    refused("CREATE", by, nfs3::create(&mut other, &private, b"another"))?;
    link.next_xid = xid;
    nfs3::create(&mut link, &private, b"another")
        .map_err(|why| format!("root is given the failure of another user: {why}"))?;
    Ok("refused for all but root".to_owned())
}
