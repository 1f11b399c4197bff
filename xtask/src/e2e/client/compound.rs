//! COMPOUNDs of NFSv4, written from RFC 7531 and RFC 5662.

use super::cursor::Cursor;
use super::rpc::{Failure, Link, NFS4};
use crate::nfs::Arguments;

/// Operations, by the names of the RFCs.
pub(in crate::e2e) mod op {
    pub(in crate::e2e) const CLOSE: u32 = 4;
    pub(in crate::e2e) const COMMIT: u32 = 5;
    pub(in crate::e2e) const CREATE: u32 = 6;
    pub(in crate::e2e) const GETATTR: u32 = 9;
    pub(in crate::e2e) const GETFH: u32 = 10;
    pub(in crate::e2e) const LOCK: u32 = 12;
    pub(in crate::e2e) const LOCKU: u32 = 14;
    pub(in crate::e2e) const LOOKUP: u32 = 15;
    pub(in crate::e2e) const OPEN: u32 = 18;
    pub(in crate::e2e) const OPEN_CONFIRM: u32 = 20;
    pub(in crate::e2e) const PUTFH: u32 = 22;
    pub(in crate::e2e) const PUTROOTFH: u32 = 24;
    pub(in crate::e2e) const READ: u32 = 25;
    pub(in crate::e2e) const REMOVE: u32 = 28;
    pub(in crate::e2e) const RENAME: u32 = 29;
    pub(in crate::e2e) const SAVEFH: u32 = 32;
    pub(in crate::e2e) const SETATTR: u32 = 34;
    pub(in crate::e2e) const SETCLIENTID: u32 = 35;
    pub(in crate::e2e) const SETCLIENTID_CONFIRM: u32 = 36;
    pub(in crate::e2e) const WRITE: u32 = 38;
    pub(in crate::e2e) const BIND_CONN_TO_SESSION: u32 = 41;
    pub(in crate::e2e) const EXCHANGE_ID: u32 = 42;
    pub(in crate::e2e) const CREATE_SESSION: u32 = 43;
    pub(in crate::e2e) const DESTROY_SESSION: u32 = 44;
    pub(in crate::e2e) const SEQUENCE: u32 = 53;
    pub(in crate::e2e) const DESTROY_CLIENTID: u32 = 57;
    pub(in crate::e2e) const RECLAIM_COMPLETE: u32 = 58;
    pub(in crate::e2e) const COPY: u32 = 60;
    pub(in crate::e2e) const DEALLOCATE: u32 = 62;
    pub(in crate::e2e) const READ_PLUS: u32 = 68;
    pub(in crate::e2e) const CLONE: u32 = 71;
    pub(in crate::e2e) const SETXATTR: u32 = 73;
    pub(in crate::e2e) const REMOVEXATTR: u32 = 75;
}

/// NFS4ERR_DELAY: ask again.
pub(in crate::e2e) const DELAY: u32 = 10_008;
/// NFS4ERR_DENIED: somebody else has the range.
pub(in crate::e2e) const DENIED: u32 = 10_010;

/// A stateid.
pub(in crate::e2e) type Stateid = [u8; 16];

/// A COMPOUND that is being made.
#[derive(Debug)]
pub(in crate::e2e) struct Compound {
    minor: u32,
    operations: u32,
    body: Arguments,
}

impl Compound {
    pub(in crate::e2e) fn new(minor: u32) -> Compound {
        Compound { minor, operations: 0, body: Arguments::default() }
    }

    /// Adds an operation, whose arguments the caller appends.
    pub(in crate::e2e) fn op(&mut self, number: u32) -> &mut Arguments {
        self.operations += 1;
        self.body.word(number)
    }

    /// Makes a file or a directory the current one.
    pub(in crate::e2e) fn put(&mut self, handle: &[u8]) -> &mut Compound {
        self.op(op::PUTFH).opaque(handle);
        self
    }

    /// The encoded call.
    pub(in crate::e2e) fn arguments(&self) -> Arguments {
        let mut whole = Arguments::default();
        whole.opaque(b"").word(self.minor).word(self.operations).fixed(self.body.bytes());
        whole
    }

    /// Sends it on a connection and waits for the results.
    pub(in crate::e2e) fn call(&self, link: &mut Link) -> Result<Answer, Failure> {
        link.call(NFS4, 1, &self.arguments()).and_then(Answer::new)
    }
}

/// The results of a COMPOUND.
#[derive(Debug)]
pub(in crate::e2e) struct Answer {
    pub(in crate::e2e) body: Cursor,
    /// The status of the last operation that was executed.
    pub(in crate::e2e) status: u32,
}

impl Answer {
    pub(in crate::e2e) fn new(mut body: Cursor) -> Result<Answer, Failure> {
        let status = body.word()?;
        body.opaque()?;
        body.word()?;
        Ok(Answer { body, status })
    }

    /// Begins to read the result of the next operation, which must have succeeded.
    pub(in crate::e2e) fn next(&mut self, what: &'static str, number: u32) -> Result<&mut Cursor, Failure> {
        if self.body.word()? != number {
            return Err(Failure::Malformed);
        }
        match self.body.word()? {
            0 => Ok(&mut self.body),
            status => Err(Failure::Status(what, status)),
        }
    }

    /// Reads the results of PUTFH.
    pub(in crate::e2e) fn put(&mut self) -> Result<&mut Answer, Failure> {
        self.next("PUTFH", op::PUTFH)?;
        Ok(self)
    }

    /// Reads the stateid of OPEN, and whether the client must confirm it.
    pub(in crate::e2e) fn open(&mut self) -> Result<Opened, Failure> {
        let body = self.next("OPEN", op::OPEN)?;
        let stateid = body.array()?;
        // change_info4
        body.skip(5)?;
        let must_confirm = body.word()? & 2 != 0;
        let attributes = usize::try_from(body.word()?).unwrap_or(usize::MAX);
        body.skip(attributes.min(8))?;
        let kind = body.word()?;
        // Reads no further for a delegation, whose details nobody needs.
        let delegation = if matches!(kind, 1 | 2) { Some(body.array()?) } else { None };
        if kind == 3 && matches!(body.word()?, 1 | 2) {
            body.word()?;
        }
        Ok(Opened { stateid, must_confirm, delegation })
    }
}

/// What OPEN returned.
#[derive(Clone, Debug)]
pub(in crate::e2e) struct Opened {
    pub(in crate::e2e) stateid: Stateid,
    pub(in crate::e2e) must_confirm: bool,
    pub(in crate::e2e) delegation: Option<Stateid>,
}

/// The owner of an open or a lock.
#[derive(Clone, Copy, Debug)]
pub(in crate::e2e) struct Owner<'n> {
    pub(in crate::e2e) client: u64,
    pub(in crate::e2e) name: &'n [u8],
}

impl Compound {
    /// OPEN of a name in the current directory, for reading and writing. A file that does not exist is created.
    pub(in crate::e2e) fn open(&mut self, seqid: u32, owner: Owner<'_>, wants: u32, name: &[u8]) {
        let arguments = self.op(op::OPEN).word(seqid).word(3 | wants).word(0);
        arguments.long(owner.client).opaque(owner.name);
        // CREATE, UNCHECKED, with the attribute 33 (mode).
        arguments.word(1).word(0).word(2).word(0).word(2).word(4).word(0o644);
        arguments.word(0).opaque(name);
    }

    /// LOCK of a range by a new owner, for writing.
    pub(in crate::e2e) fn lock(
        &mut self,
        open: &Stateid,
        seqid: u32,
        owner: Owner<'_>,
        offset: u64,
        length: u64,
    ) {
        let arguments = self.op(op::LOCK).word(2).word(0).long(offset).long(length);
        arguments.word(1).word(seqid).fixed(open).word(0).long(owner.client).opaque(owner.name);
    }

    /// LOCK of a further range by an owner who has some, for writing; `waits` if it would wait for it.
    pub(in crate::e2e) fn lock_more(&mut self, lock: &Stateid, seqid: u32, offset: u64, waits: bool) {
        let kind = if waits { 4 } else { 2 };
        self.op(op::LOCK).word(kind).word(0).long(offset).long(1).word(0).fixed(lock).word(seqid);
    }

    /// LOCKU of a range.
    pub(in crate::e2e) fn unlock(&mut self, lock: &Stateid, seqid: u32, offset: u64, length: u64) {
        self.op(op::LOCKU).word(2).word(seqid).fixed(lock).long(offset).long(length);
    }

    /// CLOSE.
    pub(in crate::e2e) fn close(&mut self, seqid: u32, open: &Stateid) {
        self.op(op::CLOSE).word(seqid).fixed(open);
    }

    /// READ.
    pub(in crate::e2e) fn read(&mut self, stateid: &Stateid, offset: u64, count: u32) {
        self.op(op::READ).fixed(stateid).long(offset).word(count);
    }

    /// WRITE of data that is stable when the reply arrives.
    pub(in crate::e2e) fn write(&mut self, stateid: &Stateid, offset: u64, data: &[u8]) {
        self.op(op::WRITE).fixed(stateid).long(offset).word(2).opaque(data);
    }
}
