//! Calls of NFSv3, MOUNT, NLM and NSM, written from RFC 1813 and the Open Group's XNFS.

use super::cursor::Cursor;
use super::rpc::{Failure, Link, MOUNT, NFS3, NLM, NSM};
use crate::nfs::{Arguments, Procedure};

/// Words of attributes.
const ATTRIBUTES: usize = 21;
/// Words of the attributes before a change.
const BEFORE: usize = 6;
/// FILE_SYNC and UNSTABLE.
pub(in crate::e2e) const FILE_SYNC: u32 = 2;
pub(in crate::e2e) const UNSTABLE: u32 = 0;
/// NLM4_DENIED.
pub(in crate::e2e) const NLM_DENIED: u32 = 1;

/// MNT. Returns the root handle.
pub(in crate::e2e) fn mount(link: &mut Link, path: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut arguments = Arguments::default();
    arguments.opaque(path);
    let mut results = link.call(MOUNT, 1, &arguments)?;
    check("MNT", &mut results)?;
    results.opaque()
}

fn check(what: &'static str, results: &mut Cursor) -> Result<(), Failure> {
    match results.word()? {
        0 => Ok(()),
        status => Err(Failure::Status(what, status)),
    }
}

/// Makes a call of NFSv3 whose status must be 0.
pub(in crate::e2e) fn call(
    link: &mut Link,
    (what, procedure): (&'static str, Procedure),
    fill: impl FnOnce(&mut Arguments),
) -> Result<Cursor, Failure> {
    let mut arguments = Arguments::default();
    fill(&mut arguments);
    let mut results = link.call(NFS3, procedure as u32, &arguments)?;
    check(what, &mut results)?;
    Ok(results)
}

/// LOOKUP. Returns the handle.
pub(in crate::e2e) fn lookup(link: &mut Link, folder: &[u8], name: &[u8]) -> Result<Vec<u8>, Failure> {
    let fill = |arguments: &mut Arguments| _ = arguments.opaque(folder).opaque(name);
    call(link, ("LOOKUP", Procedure::Lookup), fill)?.opaque()
}

/// Makes a file, or a directory if `procedure` is MKDIR. Returns the handle.
pub(in crate::e2e) fn make(
    link: &mut Link,
    procedure: (&'static str, Procedure),
    folder: &[u8],
    name: &[u8],
    mode: u32,
) -> Result<Vec<u8>, Failure> {
    let mut results = call(link, procedure, |arguments| {
        arguments.opaque(folder).opaque(name);
        if matches!(procedure.1, Procedure::Create) {
            // UNCHECKED
            arguments.word(0);
        }
        arguments.mode(mode);
    })?;
    results.word()?;
    results.opaque()
}

/// Creates a file with mode 0644. Returns the handle.
pub(in crate::e2e) fn create(link: &mut Link, folder: &[u8], name: &[u8]) -> Result<Vec<u8>, Failure> {
    make(link, ("CREATE", Procedure::Create), folder, name, 0o644)
}

/// WRITE of data that is stable when the reply arrives.
pub(in crate::e2e) fn write(link: &mut Link, file: &[u8], offset: u64, data: &[u8]) -> Result<(), Failure> {
    let written = write_as(link, file, (offset, FILE_SYNC), data)?;
    if usize::try_from(written).is_ok_and(|written| written == data.len()) {
        Ok(())
    } else {
        Err(Failure::Wrong(format!("WRITE wrote {written} of {} bytes", data.len())))
    }
}

/// WRITE of data at an offset, with a stability. Returns how many bytes were written.
pub(in crate::e2e) fn write_as(
    link: &mut Link,
    file: &[u8],
    (offset, stability): (u64, u32),
    data: &[u8],
) -> Result<u32, Failure> {
    let length = u32::try_from(data.len()).expect("data is short");
    let mut results = call(link, ("WRITE", Procedure::Write), |arguments| {
        arguments.opaque(file).long(offset).word(length).word(stability).opaque(data);
    })?;
    results.skip_optional(BEFORE)?;
    results.skip_optional(ATTRIBUTES)?;
    results.word()
}

/// READ.
pub(in crate::e2e) fn read(
    link: &mut Link,
    file: &[u8],
    offset: u64,
    count: u32,
) -> Result<Vec<u8>, Failure> {
    let mut results = call(link, ("READ", Procedure::Read), |arguments| {
        arguments.opaque(file).long(offset).word(count);
    })?;
    results.skip_optional(ATTRIBUTES)?;
    results.skip(2)?;
    results.opaque()
}

/// GETATTR. Returns the size and the space that the file uses.
pub(in crate::e2e) fn getattr(link: &mut Link, file: &[u8]) -> Result<(u64, u64), Failure> {
    let fill = |arguments: &mut Arguments| _ = arguments.opaque(file);
    let mut results = call(link, ("GETATTR", Procedure::Getattr), fill)?;
    // type, mode, nlink, uid, gid
    results.skip(5)?;
    Ok((results.long()?, results.long()?))
}

/// The owner of a lock of NLM.
#[derive(Clone, Copy, Debug)]
pub(in crate::e2e) struct LockOwner<'n> {
    /// The name that the host gives itself.
    pub(in crate::e2e) host: &'n [u8],
    pub(in crate::e2e) process: u32,
}

/// Appends a lock of 100 bytes at `offset`.
fn lock_of(arguments: &mut Arguments, owner: LockOwner<'_>, file: &[u8], offset: u64) {
    arguments.opaque(owner.host).opaque(file).opaque(&owner.process.to_be_bytes()).word(owner.process);
    arguments.long(offset).long(100);
}

/// Procedures of NLM, and those whose result is a call.
pub(in crate::e2e) mod nlm {
    pub(in crate::e2e) const TEST: u32 = 1;
    pub(in crate::e2e) const LOCK: u32 = 2;
    pub(in crate::e2e) const UNLOCK: u32 = 4;
    pub(in crate::e2e) const TEST_MSG: u32 = 6;
    pub(in crate::e2e) const LOCK_MSG: u32 = 7;
    pub(in crate::e2e) const CANCEL_MSG: u32 = 8;
    pub(in crate::e2e) const UNLOCK_MSG: u32 = 9;
    pub(in crate::e2e) const FREE_ALL: u32 = 23;
}

/// The arguments of a procedure of [`nlm`] that concerns a lock; `waits` if LOCK may wait.
pub(in crate::e2e) fn lock_arguments(
    procedure: u32,
    owner: LockOwner<'_>,
    file: &[u8],
    offset: u64,
    waits: bool,
) -> Arguments {
    let mut arguments = Arguments::default();
    arguments.opaque(&owner.process.to_be_bytes());
    match procedure {
        nlm::TEST | nlm::TEST_MSG => _ = arguments.word(1),
        nlm::LOCK | nlm::LOCK_MSG | nlm::CANCEL_MSG => _ = arguments.word(u32::from(waits)).word(1),
        _ => {}
    }
    lock_of(&mut arguments, owner, file, offset);
    if matches!(procedure, nlm::LOCK | nlm::LOCK_MSG) {
        // No reclaim; the state of the host.
        arguments.word(0).word(1);
    }
    arguments
}

/// TEST, LOCK or UNLOCK of 100 bytes. Returns the status.
pub(in crate::e2e) fn lock_call(
    link: &mut Link,
    procedure: u32,
    owner: LockOwner<'_>,
    file: &[u8],
    offset: u64,
    waits: bool,
) -> Result<u32, Failure> {
    let arguments = lock_arguments(procedure, owner, file, offset, waits);
    let mut results = link.call(NLM, procedure, &arguments)?;
    results.opaque()?;
    results.word()
}

/// FREE_ALL: the host of this name has restarted.
pub(in crate::e2e) fn free_all(link: &mut Link, host: &[u8]) -> Result<(), Failure> {
    let mut arguments = Arguments::default();
    arguments.opaque(host).word(1);
    link.call(NLM, nlm::FREE_ALL, &arguments).map(|_| ())
}

/// SM_NOTIFY: the host of this name has restarted, and has this state now.
pub(in crate::e2e) fn sm_notify(link: &mut Link, host: &[u8], state: u32) -> Result<(), Failure> {
    let mut arguments = Arguments::default();
    arguments.opaque(host).word(state);
    link.call(NSM, 6, &arguments).map(|_| ())
}

/// SM_MON: the server is to notify the caller, which claims to be `host`, when it hears of a restart of `host`.
pub(in crate::e2e) fn sm_mon(link: &mut Link, host: &[u8]) -> Result<(), Failure> {
    let mut arguments = Arguments::default();
    // mon_name; my_name, my_prog, my_vers, my_proc; priv.
    arguments.opaque(host).opaque(host).word(NLM.0).word(NLM.1).word(16).fixed(&[0; 16]);
    link.call(NSM, 2, &arguments).map(|_| ())
}

/// SM_SIMU_CRASH: the status monitor is to notify all as if it had restarted.
pub(in crate::e2e) fn sm_simu_crash(link: &mut Link) -> Result<(), Failure> {
    link.call(NSM, 5, &Arguments::default()).map(|_| ())
}
