//! A client of NFSv4.2 whose writers a limit throttles, for several leases: it keeps what it has locked and open, and when a delegation is
//! recalled meanwhile, it has the time to write and commit what it must before it returns it.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::super::client::compound::{Answer, Compound, DELAY, Stateid, op};
use super::super::client::cursor::Cursor;
use super::super::client::nfs4::{self, ANY_DELEGATION, CALLBACKS, NO_DELEGATION, Session};
use super::super::client::places;
use super::super::client::rpc::{Caller, Failure, Link, Message, NFS4};
use super::super::lab::Lab;
use crate::nfs::Arguments;

/// The lease, seconds, which the configuration sets.
pub(super) const LEASE: u64 = 5;
/// The least limit.
const LIMIT: &str = "1MiB";
/// Writers, each with one call of this size in flight: four seconds of the limit.
const WRITERS: u32 = 64;
const BLOCK: usize = 64 << 10;
/// After so many WRITEs a writer commits.
const WRITES_PER_COMMIT: u64 = 4;
/// What is written one by one before the delegation is returned: each WRITE waits behind those of the writers.
const SAVES: u64 = 3;
/// How long the writers go on at least, and the scenario at most.
const LEAST: Duration = Duration::from_secs(4 * LEASE);
const MOST: Duration = Duration::from_secs(20 * LEASE);
/// The opener asks again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// Numbers and names of operations.
const CB_RECALL: u32 = 4;
const CB_SEQUENCE: u32 = 11;
const DELEGRETURN: u32 = 8;
/// The slot of everything but the writers.
const OWN_SLOT: u32 = WRITERS;

pub(super) fn run(lab: &Lab) -> Result<String, String> {
    places::make(lab)?;
    let (host, other) = (places::client(20), places::client(21));
    lab.holdfast(&["qos", "set"], &["--client", &host.to_string(), "--write-bytes", LIMIT])?;
    let mut client = Throttled::new(Caller::host(host))?;
    let began = Instant::now();
    let opener = thread::spawn(move || open_delegated(Caller::host(other), began));
    let outcome = client.work(began);
    let opened = opener.join().unwrap_or_else(|_| Err("the opener panicked".to_owned()));
    let (returned, opened) = (outcome?, opened?);
    if opened < returned {
        return Err(format!(
            "the file was opened after {opened:?}, and its delegation returned after {returned:?}"
        ));
    }
    client.leave()?;
    lab.holdfast(&["qos", "set"], &["--client", &host.to_string(), "--reset"])?;
    Ok(format!(
        "a throttled client kept its lock for {} s and returned a delegation after {} s, with a lease of {LEASE} s",
        began.elapsed().as_secs(),
        returned.as_secs()
    ))
}

/// Opens the file that is delegated for writing, once that is allowed. Returns how long after the beginning.
fn open_delegated(from: Caller, began: Instant) -> Result<Duration, String> {
    let mut session = nfs4::session(from, b"opener")?;
    let folder = session.folder()?;
    loop {
        match session.open_file(&folder, b"opener", NO_DELEGATION, b"delegated") {
            Ok(_) => return Ok(began.elapsed()),
            Err(Failure::Status(_, DELAY)) if began.elapsed() < MOST => thread::sleep(AGAIN),
            Err(failure) => return Err(format!("the opener: {failure}")),
        }
    }
}

/// A file, and the stateid of its open.
struct Opened {
    handle: Vec<u8>,
    stateid: Stateid,
}

/// What a request in flight was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Write,
    Commit,
}

/// The client.
struct Throttled {
    session: Session,
    /// The last sequence of each slot.
    sequences: Vec<u32>,
    /// What each slot of a writer has in flight, by xid.
    in_flight: BTreeMap<u32, (u32, Request)>,
    /// WRITEs of each writer.
    written: Vec<u64>,
    locked: Opened,
    lock: Stateid,
    data: Opened,
    delegated: Opened,
    delegation: Stateid,
    /// Whether the delegation was recalled.
    is_recalled: bool,
}

impl Throttled {
    /// Locks a range of a file, has another one delegated, and opens one that writers write.
    fn new(from: Caller) -> Result<Throttled, String> {
        let mut session = Session::open(Link::open_within(from, MOST)?, b"throttled", WRITERS + 1, true)?;
        let folder = session.folder()?;
        let mut open = |wants, name: &[u8]| session.open_file(&folder, b"owner", wants, name);
        let (locked, handle) = open(NO_DELEGATION, b"locked")?;
        let locked = Opened { handle, stateid: locked.stateid };
        let (data, handle) = open(NO_DELEGATION, b"data")?;
        let data = Opened { handle, stateid: data.stateid };
        let (delegated, handle) = open(ANY_DELEGATION, b"delegated")?;
        let delegation = delegated.delegation.ok_or("no delegation was granted")?;
        let delegated = Opened { handle, stateid: delegated.stateid };
        let lock = session.lock(&locked.handle, &locked.stateid, b"locker", (0, 100))?;
        let mut sequences = vec![0; WRITERS as usize + 1];
        sequences[0] = session.sequence;
        let written = vec![0; WRITERS as usize];
        let in_flight = BTreeMap::new();
        Ok(Throttled {
            session,
            sequences,
            in_flight,
            written,
            locked,
            lock,
            data,
            delegated,
            delegation,
            is_recalled: false,
        })
    }

    /// Sends a request on a slot. Returns its xid.
    fn send(&mut self, slot: u32, fill: impl FnOnce(&mut Compound)) -> Result<u32, Failure> {
        let sequence = &mut self.sequences[slot as usize];
        *sequence += 1;
        let mut compound = Compound::new(2);
        compound.op(op::SEQUENCE).fixed(&self.session.id).word(*sequence).word(slot).word(WRITERS).word(0);
        fill(&mut compound);
        self.session.link.send(NFS4, 1, &compound.arguments())
    }

    /// Sends the next request of a writer.
    fn write(&mut self, slot: u32) -> Result<(), Failure> {
        let Opened { handle, stateid } = &self.data;
        let (handle, stateid) = (handle.clone(), *stateid);
        let number = self.written[slot as usize];
        let offset = (u64::from(slot) * WRITES_PER_COMMIT + number % WRITES_PER_COMMIT) * BLOCK as u64;
        let is_commit = number % (WRITES_PER_COMMIT + 1) == WRITES_PER_COMMIT;
        let xid = self.send(slot, |compound| {
            compound.put(&handle);
            if is_commit {
                compound.op(op::COMMIT).long(0).word(0);
            } else {
                compound.op(op::WRITE).fixed(&stateid).long(offset).word(0).opaque(&[1; BLOCK]);
            }
        })?;
        self.written[slot as usize] += 1;
        let request = if is_commit { Request::Commit } else { Request::Write };
        self.in_flight.insert(xid, (slot, request));
        Ok(())
    }

    /// Receives a message: answers a callback, or takes a reply. Returns the xid and the answer of a reply.
    fn receive(&mut self) -> Result<Option<(u32, Answer)>, Failure> {
        match self.session.link.receive_message()? {
            Message::Reply(xid, results) => {
                let mut answer = Answer::new(results?)?;
                answer.next("SEQUENCE", op::SEQUENCE)?.skip(9)?;
                Ok(Some((xid, answer)))
            }
            Message::Call(xid, call) => self.called(xid, call).map(|()| None),
        }
    }

    /// Answers a call of the server.
    fn called(&mut self, xid: u32, mut call: Cursor) -> Result<(), Failure> {
        // The version of RPC; the program.
        call.skip(1)?;
        if call.word()? != CALLBACKS {
            return Err(Failure::Malformed);
        }
        let (_version, procedure) = (call.word()?, call.word()?);
        for _ in ["credential", "verifier"] {
            call.word()?;
            call.opaque()?;
        }
        let mut reply = Arguments::default();
        // Accepted, no verifier, success.
        reply.word(xid).word(1).word(0).word(0).word(0).word(0);
        if procedure == 1 {
            // Tag, minor version, callback_ident.
            call.opaque()?;
            call.skip(2)?;
            let count = call.word()?;
            reply.word(0).opaque(b"").word(count);
            for _ in 0..count {
                self.called_back(&mut call, &mut reply)?;
            }
        }
        self.session.link.answer(&reply)
    }

    /// Answers one operation of a callback.
    fn called_back(&mut self, call: &mut Cursor, reply: &mut Arguments) -> Result<(), Failure> {
        match call.word()? {
            CB_SEQUENCE => {
                let (id, sequence, slot) = (call.array::<16>()?, call.word()?, call.word()?);
                // The highest slot, whether to keep the answer, no lists of calls that this refers to.
                call.skip(2)?;
                if call.word()? != 0 {
                    return Err(Failure::Malformed);
                }
                reply.word(CB_SEQUENCE).word(0).fixed(&id).word(sequence).word(slot).word(slot).word(slot);
                Ok(())
            }
            CB_RECALL => {
                self.is_recalled |= call.array::<16>()? == self.delegation;
                call.skip(1)?;
                call.opaque()?;
                reply.word(CB_RECALL).word(0);
                Ok(())
            }
            operation => Err(Failure::Wrong(format!("the server calls operation {operation}"))),
        }
    }

    /// Takes messages until a reply to this request arrives; writers go on meanwhile, unless they are to end.
    fn await_reply(&mut self, wanted: u32, goes_on: bool) -> Result<Answer, String> {
        loop {
            if let Some((xid, answer)) = self.receive()? {
                if xid == wanted {
                    return Ok(answer);
                }
                self.answered(xid, answer, goes_on)?;
            }
        }
    }

    /// Takes the reply to a writer, which goes on unless it is to end.
    fn answered(&mut self, xid: u32, mut answer: Answer, goes_on: bool) -> Result<(), String> {
        let (slot, request) = self.in_flight.remove(&xid).ok_or("a reply to no request")?;
        answer.put()?;
        match request {
            Request::Write => answer.next("WRITE", op::WRITE)?,
            Request::Commit => answer.next("COMMIT", op::COMMIT)?,
        };
        if goes_on {
            self.write(slot)?;
        }
        Ok(())
    }

    /// Lets all writers write for some leases, and returns the delegation when it is recalled. Returns when it sent that, since the
    /// beginning.
    fn work(&mut self, began: Instant) -> Result<Duration, String> {
        for slot in 0..WRITERS {
            self.write(slot)?;
        }
        let mut returned = None;
        while returned.is_none() || began.elapsed() < LEAST {
            if began.elapsed() > MOST {
                return Err("the delegation was not recalled in time".to_owned());
            }
            if let Some((xid, answer)) = self.receive()? {
                self.answered(xid, answer, true)?;
            }
            if self.is_recalled && returned.is_none() {
                self.save()?;
                returned = Some(began.elapsed());
                self.return_delegation()?;
            }
        }
        while !self.in_flight.is_empty() {
            if let Some((xid, answer)) = self.receive()? {
                self.answered(xid, answer, false)?;
            }
        }
        Ok(returned.unwrap_or_default())
    }

    /// Writes to the delegated file, and commits that.
    fn save(&mut self) -> Result<(), String> {
        let Opened { handle, stateid } = &self.delegated;
        let (handle, stateid) = (handle.clone(), *stateid);
        for number in 0..SAVES {
            let xid = self.send(OWN_SLOT, |compound| {
                let arguments = compound.put(&handle).op(op::WRITE).fixed(&stateid);
                arguments.long(number * BLOCK as u64).word(0).opaque(&[2; BLOCK]);
            })?;
            self.await_reply(xid, true)?.put()?.next("WRITE to the delegated file", op::WRITE)?;
        }
        let xid = self.send(OWN_SLOT, |compound| _ = compound.put(&handle).op(op::COMMIT).long(0).word(0))?;
        self.await_reply(xid, true)?.put()?.next("COMMIT of the delegated file", op::COMMIT)?;
        Ok(())
    }

    fn return_delegation(&mut self) -> Result<(), String> {
        let (handle, delegation) = (self.delegated.handle.clone(), self.delegation);
        let xid =
            self.send(OWN_SLOT, |compound| _ = compound.put(&handle).op(DELEGRETURN).fixed(&delegation))?;
        self.await_reply(xid, true)?.put()?.next("DELEGRETURN", DELEGRETURN)?;
        Ok(())
    }

    /// Unlocks and closes what it has had from the beginning.
    fn leave(&mut self) -> Result<(), String> {
        let (handle, lock) = (self.locked.handle.clone(), self.lock);
        let xid = self.send(OWN_SLOT, |compound| compound.put(&handle).unlock(&lock, 0, 0, 100))?;
        self.await_reply(xid, false)?.put()?.next("LOCKU", op::LOCKU)?;
        for opened in
            [&self.locked, &self.data, &self.delegated].map(|file| (file.handle.clone(), file.stateid))
        {
            let xid = self.send(OWN_SLOT, |compound| compound.put(&opened.0).close(0, &opened.1))?;
            self.await_reply(xid, false)?.put()?.next("CLOSE", op::CLOSE)?;
        }
        Ok(())
    }
}
