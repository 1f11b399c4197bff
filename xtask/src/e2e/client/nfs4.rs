//! Clients of NFSv4: sessions of NFSv4.1 and later, and clients of NFSv4.0.

use std::thread;
use std::time::{Duration, Instant};

use super::compound::{Answer, Compound, DELAY, Opened, Owner, Stateid, op};
use super::rpc::{Caller, Failure, Link, PATIENCE};

/// NFS4ERR_STALE_CLIENTID.
const STALE_CLIENTID: u32 = 10_022;
/// How long to wait before asking again.
const AGAIN: Duration = Duration::from_millis(20);
/// The program of callbacks.
pub(in crate::e2e) const CALLBACKS: u32 = 0x4000_0000;
/// OPEN4_SHARE_ACCESS_WANT_NO_DELEG.
pub(in crate::e2e) const NO_DELEGATION: u32 = 0x400;
/// OPEN4_SHARE_ACCESS_WANT_ANY_DELEG.
pub(in crate::e2e) const ANY_DELEGATION: u32 = 0x300;

/// EXCHANGE_ID. Returns the client id and the sequence of the first CREATE_SESSION.
pub(in crate::e2e) fn exchange_id(
    link: &mut Link,
    name: &[u8],
    verifier: [u8; 8],
) -> Result<(u64, u32), Failure> {
    let mut compound = Compound::new(2);
    compound.op(op::EXCHANGE_ID).fixed(&verifier).opaque(name).word(0).word(0).word(0);
    let mut answer = compound.call(link)?;
    let body = answer.next("EXCHANGE_ID", op::EXCHANGE_ID)?;
    Ok((body.long()?, body.word()?))
}

/// CREATE_SESSION with this many slots; `is_called` if the connection is to be called back. Returns the session's id.
pub(in crate::e2e) fn create_session(
    link: &mut Link,
    client: u64,
    sequence: u32,
    slots: u32,
    is_called: bool,
) -> Result<[u8; 16], Failure> {
    let mut compound = Compound::new(2);
    let arguments =
        compound.op(op::CREATE_SESSION).long(client).word(sequence).word(u32::from(is_called) * 2);
    for requests in [slots, 2] {
        // headerpadsize, maxrequestsize, maxresponsesize, maxresponsesize_cached, maxoperations, maxrequests, rdma_ird
        arguments.word(0).word(1_049_620).word(1_049_480).word(3428).word(64).word(requests).word(0);
    }
    // One flavor: AUTH_NONE.
    arguments.word(CALLBACKS).word(1).word(0);
    compound.call(link)?.next("CREATE_SESSION", op::CREATE_SESSION)?.array()
}

/// A client of NFSv4.2 with one session, of which it uses one slot.
#[derive(Debug)]
pub(in crate::e2e) struct Session {
    pub(in crate::e2e) link: Link,
    pub(in crate::e2e) client: u64,
    pub(in crate::e2e) id: [u8; 16],
    /// The sequence of the last request.
    pub(in crate::e2e) sequence: u32,
}

impl Session {
    /// Introduces a client and makes its session.
    pub(in crate::e2e) fn open(
        mut link: Link,
        name: &[u8],
        slots: u32,
        is_called: bool,
    ) -> Result<Session, Failure> {
        let verifier = fastrand::u64(..).to_be_bytes();
        let (client, id) = patiently(|| {
            let (client, sequence) = exchange_id(&mut link, name, verifier)?;
            match create_session(&mut link, client, sequence, slots, is_called) {
                // Others have introduced themselves meanwhile, and this client was forgotten: it begins anew.
                Err(Failure::Status(what, STALE_CLIENTID)) => Err(Failure::Status(what, DELAY)),
                result => result.map(|id| (client, id)),
            }
        })?;
        let mut session = Session { link, client, id, sequence: 0 };
        session.ask(|compound| _ = compound.op(op::RECLAIM_COMPLETE).word(0), |_| Ok(()))?;
        Ok(session)
    }

    /// SEQUENCE of the next request, alone in a COMPOUND; `is_kept` if the reply is to be remembered.
    pub(in crate::e2e) fn begin(&self, is_kept: bool) -> Compound {
        let mut compound = Compound::new(2);
        let kept = u32::from(is_kept);
        compound.op(op::SEQUENCE).fixed(&self.id).word(self.sequence + 1).word(0).word(0).word(kept);
        compound
    }

    /// Makes a request once.
    pub(in crate::e2e) fn call(&mut self, fill: impl FnOnce(&mut Compound)) -> Result<Answer, Failure> {
        let mut compound = self.begin(false);
        fill(&mut compound);
        let mut answer = compound.call(&mut self.link)?;
        answer.next("SEQUENCE", op::SEQUENCE)?.skip(9)?;
        self.sequence += 1;
        Ok(answer)
    }

    /// Makes a request, repeatedly while the server answers NFS4ERR_DELAY, and reads the results.
    pub(in crate::e2e) fn ask<T>(
        &mut self,
        fill: impl Fn(&mut Compound),
        read: impl Fn(&mut Answer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        patiently(|| self.call(&fill).and_then(|mut answer| read(&mut answer)))
    }

    /// Makes a request whose results do not matter. Returns the status.
    pub(in crate::e2e) fn status(&mut self, fill: impl FnOnce(&mut Compound)) -> Result<u32, Failure> {
        self.call(fill).map(|answer| answer.status)
    }

    /// Returns the handle of the exported directory.
    pub(in crate::e2e) fn folder(&mut self) -> Result<Vec<u8>, Failure> {
        self.ask(folder, read_folder)
    }

    /// Opens a file of a directory, and creates it if it does not exist. Returns its handle too.
    pub(in crate::e2e) fn open_file(
        &mut self,
        folder: &[u8],
        owner: &[u8],
        wants: u32,
        name: &[u8],
    ) -> Result<(Opened, Vec<u8>), Failure> {
        let owner = Owner { client: self.client, name: owner };
        let opened = self.ask(
            |compound| compound.put(folder).open(0, owner, wants, name),
            |answer| answer.put()?.open(),
        )?;
        // GETFH would follow the details of a delegation, which nobody reads.
        let handle = self.ask(
            |compound| {
                compound.put(folder).op(op::LOOKUP).opaque(name);
                compound.op(op::GETFH);
            },
            |answer| {
                answer.put()?.next("LOOKUP", op::LOOKUP)?;
                answer.next("GETFH", op::GETFH)?.opaque()
            },
        )?;
        Ok((opened, handle))
    }

    /// LOCK of a range by a new owner.
    pub(in crate::e2e) fn lock(
        &mut self,
        file: &[u8],
        open: &Stateid,
        owner: &[u8],
        (offset, length): (u64, u64),
    ) -> Result<Stateid, Failure> {
        let owner = Owner { client: self.client, name: owner };
        self.ask(
            |compound| compound.put(file).lock(open, 0, owner, offset, length),
            |answer| answer.put()?.next("LOCK", op::LOCK)?.array(),
        )
    }

    /// Ends the session and the client.
    pub(in crate::e2e) fn destroy(&mut self) -> Result<(), Failure> {
        destroy_session(&mut self.link, &self.id)?;
        let mut compound = Compound::new(2);
        compound.op(op::DESTROY_CLIENTID).long(self.client);
        compound.call(&mut self.link)?.next("DESTROY_CLIENTID", op::DESTROY_CLIENTID).map(|_| ())
    }
}

/// DESTROY_SESSION on its own.
pub(in crate::e2e) fn destroy_session(link: &mut Link, id: &[u8; 16]) -> Result<(), Failure> {
    let mut compound = Compound::new(2);
    compound.op(op::DESTROY_SESSION).fixed(id);
    compound.call(link)?.next("DESTROY_SESSION", op::DESTROY_SESSION).map(|_| ())
}

/// PUTROOTFH, LOOKUP of the export, GETFH.
fn folder(compound: &mut Compound) {
    compound.op(op::PUTROOTFH);
    compound.op(op::LOOKUP).opaque(b"main");
    compound.op(op::GETFH);
}

fn read_folder(answer: &mut Answer) -> Result<Vec<u8>, Failure> {
    answer.next("PUTROOTFH", op::PUTROOTFH)?;
    answer.next("LOOKUP", op::LOOKUP)?;
    answer.next("GETFH", op::GETFH)?.opaque()
}

/// Repeats a request while the server answers NFS4ERR_DELAY, for [`PATIENCE`] at most.
pub(in crate::e2e) fn patiently<T>(mut request: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        match request() {
            Err(failure) if failure.status() == Some(DELAY) && Instant::now() < end => thread::sleep(AGAIN),
            result => return result,
        }
    }
}

/// A client of NFSv4.0.
#[derive(Debug)]
pub(in crate::e2e) struct OldClient {
    pub(in crate::e2e) link: Link,
    pub(in crate::e2e) id: u64,
    /// The next seqid of its only open-owner.
    pub(in crate::e2e) seqid: u32,
}

/// The name of the open-owner and the lock-owner of an [`OldClient`].
pub(in crate::e2e) const OLD_OWNER: &[u8] = b"owner";

impl OldClient {
    /// Introduces and confirms a client, to be called back at `callback`, a universal address.
    pub(in crate::e2e) fn open(mut link: Link, name: &[u8], callback: &str) -> Result<OldClient, Failure> {
        let mut compound = Compound::new(0);
        let verifier = fastrand::u64(..).to_be_bytes();
        let arguments = compound.op(op::SETCLIENTID).fixed(&verifier).opaque(name).word(CALLBACKS);
        arguments.opaque(b"tcp").opaque(callback.as_bytes()).word(1);
        let mut answer = compound.call(&mut link)?;
        let body = answer.next("SETCLIENTID", op::SETCLIENTID)?;
        let (id, confirm) = (body.long()?, body.array::<8>()?);
        let mut compound = Compound::new(0);
        compound.op(op::SETCLIENTID_CONFIRM).long(id).fixed(&confirm);
        compound.call(&mut link)?.next("SETCLIENTID_CONFIRM", op::SETCLIENTID_CONFIRM)?;
        Ok(OldClient { link, id, seqid: 0 })
    }

    /// Makes a request.
    pub(in crate::e2e) fn call(&mut self, fill: impl FnOnce(&mut Compound)) -> Result<Answer, Failure> {
        let mut compound = Compound::new(0);
        fill(&mut compound);
        compound.call(&mut self.link)
    }

    /// Returns the handle of the exported directory.
    pub(in crate::e2e) fn folder(&mut self) -> Result<Vec<u8>, Failure> {
        self.call(folder).and_then(|mut answer| read_folder(&mut answer))
    }

    /// Opens a file of a directory, confirming the open if the server asks for that. Returns its handle and what was opened.
    pub(in crate::e2e) fn open_file(
        &mut self,
        folder: &[u8],
        name: &[u8],
    ) -> Result<(Vec<u8>, Opened), Failure> {
        let owner = Owner { client: self.id, name: OLD_OWNER };
        let seqid = self.seqid;
        let mut opened =
            self.call(|compound| compound.put(folder).open(seqid, owner, 0, name))?.put()?.open()?;
        self.seqid += 1;
        let mut answer = self.call(|compound| {
            compound.put(folder).op(op::LOOKUP).opaque(name);
            compound.op(op::GETFH);
        })?;
        answer.put()?.next("LOOKUP", op::LOOKUP)?;
        let file = answer.next("GETFH", op::GETFH)?.opaque()?;
        if opened.must_confirm {
            let seqid = self.seqid;
            let mut answer = self.call(|compound| {
                compound.put(&file).op(op::OPEN_CONFIRM).fixed(&opened.stateid).word(seqid);
            })?;
            opened.stateid = answer.put()?.next("OPEN_CONFIRM", op::OPEN_CONFIRM)?.array()?;
            self.seqid += 1;
        }
        Ok((file, opened))
    }

    /// LOCK of a range by the lock-owner, who has none yet.
    pub(in crate::e2e) fn lock(&mut self, file: &[u8], open: &Stateid) -> Result<Stateid, Failure> {
        let owner = Owner { client: self.id, name: OLD_OWNER };
        let seqid = self.seqid;
        let mut answer = self.call(|compound| compound.put(file).lock(open, seqid, owner, 0, 100))?;
        let stateid = answer.put()?.next("LOCK", op::LOCK)?.array()?;
        self.seqid += 1;
        Ok(stateid)
    }
}

/// A link of the host at an address, with a session of a client of this name.
pub(in crate::e2e) fn session(from: Caller, name: &[u8]) -> Result<Session, Failure> {
    Session::open(Link::open(from)?, name, 1, false)
}
