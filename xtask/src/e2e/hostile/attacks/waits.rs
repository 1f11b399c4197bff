//! Calls that wait for something: a flush of their file, a checkpoint, the disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::compound::{Compound, op};
use super::super::rpc::{Caller, Failure, Link, NFS3};
use super::super::{Scene, nfs3, nfs4, places};
use crate::nfs::{Arguments, Procedure};

/// Calls in flight on each connection.
const WINDOW: u64 = 16;
/// Connections that write to the source of CLONEs.
const WRITERS: usize = 4;
/// Clients that clone it.
const CLONERS: usize = 8;
/// Bytes of a WRITE to it, and of the source.
const WRITE_BYTES: usize = 32 << 10;
const SOURCE_BYTES: u64 = 64 << 20;
/// Files that are truncated.
const TRUNCATED: usize = 4;
/// Connections that read, and bytes of their file, which is larger than the cache.
const READERS: usize = 16;
const LARGE_BYTES: u64 = 192 << 20;
/// Bytes of a READ, and of a WRITE to that file.
const READ_BYTES: u32 = 1 << 20;
/// UNSTABLE and FILE_SYNC.
pub(super) const UNSTABLE: u32 = 0;
pub(super) const FILE_SYNC: u32 = 2;

/// CLONEs of a file that is written all the time, by its handle.
pub(super) fn clones(scene: &Scene) -> Result<String, String> {
    clone_while_written(scene, 245, false)
}

/// The same, by paths from the root.
pub(super) fn clones_by_path(scene: &Scene) -> Result<String, String> {
    clone_while_written(scene, 246, true)
}

fn clone_while_written(scene: &Scene, host: u8, by_path: bool) -> Result<String, String> {
    let from = Caller::host(places::neighbour(host));
    let mut link = Link::open(from)?;
    let names = ["source", "target"].map(|name| format!("{name}-{:x}", fastrand::u64(..)));
    let source = nfs3::create(&mut link, &scene.folder, names[0].as_bytes())?;
    let target = nfs3::create(&mut link, &scene.folder, names[1].as_bytes())?;
    let (written, cloned) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let write = || -> Result<(), Failure> {
        let (mut link, data) = (Link::open(from)?, vec![7; WRITE_BYTES]);
        repeat(scene, &mut link, &written, |_| {
            let offset = fastrand::u64(..SOURCE_BYTES / WRITE_BYTES as u64) * WRITE_BYTES as u64;
            (Procedure::Write, write_arguments(&source, offset, UNSTABLE, &data))
        })
    };
    let clone = || -> Result<(), Failure> {
        let mut session = nfs4::session(from, format!("cloner-{:x}", fastrand::u64(..)).as_bytes())?;
        while scene.goes_on() {
            session.status(|compound| {
                find(compound, by_path.then_some(&names[0]), &source);
                compound.op(op::SAVEFH);
                find(compound, by_path.then_some(&names[1]), &target);
                let anonymous = [0; 32];
                compound.op(op::CLONE).fixed(&anonymous).long(0).long(0).long(0);
            })?;
            cloned.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        (0..WRITERS).for_each(|_| _ = scope.spawn(write));
        (0..CLONERS).for_each(|_| _ = scope.spawn(clone));
    });
    Ok(format!("{} WRITEs and {} CLONEs answered", written.into_inner(), cloned.into_inner()))
}

/// Makes a file the current one, by its name in the export or by its handle.
fn find(compound: &mut Compound, name: Option<&String>, handle: &[u8]) {
    let Some(name) = name else {
        compound.put(handle);
        return;
    };
    compound.op(op::PUTROOTFH);
    compound.op(op::LOOKUP).opaque(b"main");
    compound.op(op::LOOKUP).opaque(name.as_bytes());
}

/// Truncates files again and again, each time a little longer, so that no truncation makes another one needless.
pub(super) fn truncations(scene: &Scene) -> Result<String, String> {
    let from = Caller::host(places::neighbour(247));
    let truncated = AtomicUsize::new(0);
    let truncate = || -> Result<(), Failure> {
        let mut link = Link::open(from)?;
        let name = format!("truncated-{:x}", fastrand::u64(..));
        let file = nfs3::create(&mut link, &scene.folder, name.as_bytes())?;
        repeat(scene, &mut link, &truncated, |number| {
            let size = 10 + number / 2 * 10;
            if number % 2 == 0 {
                return (Procedure::Write, write_arguments(&file, size, FILE_SYNC, &[1; 5]));
            }
            let mut arguments = Arguments::default();
            // No mode, user or group; a size; no times; no guard.
            arguments.opaque(&file).word(0).word(0).word(0).word(1).long(size).word(0).word(0).word(0);
            (Procedure::Setattr, arguments)
        })
    };
    thread::scope(|scope| (0..TRUNCATED).for_each(|_| _ = scope.spawn(truncate)));
    Ok(format!("{} WRITEs and truncations answered", truncated.into_inner()))
}

/// READs of data that is not in memory.
pub(super) fn cold_reads(scene: &Scene) -> Result<String, String> {
    let from = Caller::host(places::neighbour(248));
    let mut link = Link::open(from)?;
    let name = format!("large-{:x}", fastrand::u64(..));
    let file = nfs3::create(&mut link, &scene.folder, name.as_bytes())?;
    let data = vec![7; usize::try_from(READ_BYTES).unwrap_or(0)];
    let mut size = 0;
    while size < LARGE_BYTES && scene.goes_on() {
        link.call(NFS3, Procedure::Write as u32, &write_arguments(&file, size, UNSTABLE, &data))?;
        size += u64::from(READ_BYTES);
    }
    let answered = AtomicUsize::new(0);
    let read = || -> Result<(), Failure> {
        let mut link = Link::open(from)?;
        repeat(scene, &mut link, &answered, |_| {
            let mut arguments = Arguments::default();
            let offset = fastrand::u64(..size) & !(u64::from(READ_BYTES) - 1);
            arguments.opaque(&file).long(offset).word(READ_BYTES);
            (Procedure::Read, arguments)
        })
    };
    thread::scope(|scope| (0..READERS).for_each(|_| _ = scope.spawn(read)));
    Ok(format!("{} READs of {} MiB answered", answered.into_inner(), size >> 20))
}

pub(super) fn write_arguments(file: &[u8], offset: u64, stable: u32, data: &[u8]) -> Arguments {
    let mut arguments = Arguments::default();
    let length = u32::try_from(data.len()).expect("data is short");
    arguments.opaque(file).long(offset).word(length).word(stable).opaque(data);
    arguments
}

/// Makes calls of NFSv3, some at a time, until the attack is over, and counts the replies. The calls are numbered.
pub(super) fn repeat(
    scene: &Scene,
    link: &mut Link,
    answered: &AtomicUsize,
    call: impl Fn(u64) -> (Procedure, Arguments),
) -> Result<(), Failure> {
    let mut number = 0;
    while scene.goes_on() {
        batch(link, (number..number + WINDOW).map(&call))?;
        number += WINDOW;
        answered.fetch_add(usize::try_from(WINDOW).unwrap_or(0), Ordering::Relaxed);
    }
    Ok(())
}

/// Makes calls of NFSv3 all at once.
pub(super) fn batch(
    link: &mut Link,
    calls: impl Iterator<Item = (Procedure, Arguments)>,
) -> Result<(), Failure> {
    let mut sent = 0;
    for (procedure, arguments) in calls {
        link.send(NFS3, procedure as u32, &arguments)?;
        sent += 1;
    }
    (0..sent).try_for_each(|_| link.receive()?.1.map(|_| ()))
}
