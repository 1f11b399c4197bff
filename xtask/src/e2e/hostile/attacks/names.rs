//! Directories and paths as large as they may be.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::super::probe;
use super::super::compound::{Compound, op};
use super::super::rpc::{Caller, Failure, Link, MOUNT, NFS4, PATIENCE};
use super::super::{Scene, nfs3, places};
use crate::nfs::{Arguments, OK, Procedure};

/// How long names are made before they are listed.
const MAKING: Duration = Duration::from_secs(4);
/// Names made at once.
const BATCH: usize = 500;
/// Connections that list the directory.
const READERS: usize = 10;
/// Directories, each in the one before.
const DEPTH: usize = 300;

pub(super) fn many(scene: &Scene) -> Result<String, String> {
    let mut maker = probe::connect(PATIENCE)?;
    let name = format!("many-{:x}", fastrand::u64(..));
    let folder = maker.make(Procedure::Mkdir, &scene.folder, &name)?;
    let (began, mut made) = (Instant::now(), 0);
    while began.elapsed() < MAKING {
        let fill = |number: usize, arguments: &mut Arguments| {
            let name = format!("{:0>200}", made + number);
            arguments.opaque(&folder).opaque(name.as_bytes()).word(0).mode(0o644);
        };
        maker.many(Procedure::Create, BATCH, BATCH, fill, |_, results| {
            results.expect("CREATE", &[OK]).map(|_| ())
        })?;
        made += BATCH;
    }
    let listed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let reader = || -> Result<(), String> {
            let mut connection = probe::connect(PATIENCE)?;
            while scene.goes_on() {
                connection.ask(Procedure::Readdirplus, &[OK], |arguments| {
                    // From the beginning, as much as one reply may hold.
                    arguments.opaque(&folder).long(0).long(0).word(1 << 20).word(1 << 20);
                })?;
                listed.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().try_for_each(|reader| reader.join().unwrap_or_else(|_| Err("a panic".to_owned())))
    })?;
    Ok(format!("{made} names, {} listings", listed.into_inner()))
}

pub(super) fn deep(scene: &Scene) -> Result<String, String> {
    let mut link = Link::open(Caller::host(places::neighbour(243)))?;
    let mut folder = scene.folder.clone();
    for _ in 0..DEPTH {
        let mkdir = ("MKDIR", Procedure::Mkdir);
        folder = match nfs3::make(&mut link, mkdir, &folder, b"d", 0o755) {
            Ok(made) => made,
            Err(_) => nfs3::lookup(&mut link, &folder, b"d")?,
        };
    }
    let mut counts = [0; 3];
    while scene.goes_on() {
        let path = format!("/main{}", "/d".repeat(DEPTH));
        nfs3::mount(&mut link, path.as_bytes())?;
        counts[0] += 1;
        counts[1] += usize::from(deep_lookups(&mut link)?);
        counts[2] += usize::from(is_closed_for_nonsense()?);
    }
    let [mounts, lookups, nonsense] = counts;
    Ok(format!(
        "{mounts} MNTs of {DEPTH} names, {lookups} long COMPOUNDs refused, {nonsense} connections closed"
    ))
}

/// Sends a COMPOUND of 2,000 LOOKUPs. Returns whether it was refused, which is right, as it is longer than a COMPOUND may be.
fn deep_lookups(link: &mut Link) -> Result<bool, Failure> {
    let mut compound = Compound::new(0);
    compound.op(op::PUTROOTFH);
    compound.op(op::LOOKUP).opaque(b"main");
    for _ in 0..1000 {
        compound.op(op::LOOKUP).opaque(b"d");
        compound.op(op::GETATTR).word(2).word(0xffff_ffff).word(0xffff_ffff);
    }
    Ok(compound.call(link)?.status != 0)
}

/// Sends counts that no record can hold, and a path that is too long. Returns whether the server closed the connection.
fn is_closed_for_nonsense() -> Result<bool, Failure> {
    let mut link = Link::open(Caller::host(places::neighbour(243)))?;
    let mut endless = Arguments::default();
    endless.opaque(b"").word(0).word(u32::MAX);
    let mut long = Arguments::default();
    long.opaque(&[b'/'; 60_000]);
    for (program, procedure, arguments) in [(NFS4, 1, &endless), (MOUNT, 1, &long)] {
        match link.call(program, procedure, arguments) {
            Ok(_) | Err(Failure::NotExecuted(_) | Failure::Rejected(_)) => {}
            Err(Failure::Io(_)) => return Ok(true),
            Err(failure) => return Err(failure),
        }
    }
    // A record of 2 GiB.
    link.stream.write_all(&[0xff; 64])?;
    match link.receive() {
        Err(Failure::Io(_)) => Ok(true),
        _ => Ok(false),
    }
}
