//! Files of one-byte pieces: each piece is a mapping of its own, so whatever touches the file has many to look at.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use super::super::compound::{DELAY, op};
use super::super::rpc::{Caller, Failure, Link};
use super::super::{ATTACK, Scene, nfs3, nfs4, places};
use super::waits::{FILE_SYNC, UNSTABLE, batch, repeat, write_arguments};
use crate::nfs::{Arguments, Procedure};

/// Hosts, each with a file of its own.
const HOSTS: std::ops::Range<u8> = 236..240;
/// Pieces of a file, which lie at even offsets. Fewer if there is no time to write them in half of the attack.
const PIECES: u64 = 40_000;
/// Pieces that a host writes at once.
const AT_ONCE: u64 = 500;
/// Bytes of a READ or READ_PLUS.
const READ_BYTES: u32 = 64 << 10;
/// READ_PLUSes of a COMPOUND.
const READS: usize = 6;
/// Bytes that are written over a clone: its map is then replaced, piece by piece.
const OVERWRITTEN_BYTES: usize = 80_000;

/// Hosts that send long COMPOUNDs, sessions per host, and CLONEs per COMPOUND. Each CLONE takes many turns.
const HOLDERS: std::ops::Range<u8> = 150..162;
const SESSIONS: usize = 4;
const CLONES: usize = 50;
/// Bytes of the READ at their end, for which they hold room meanwhile.
const HELD_BYTES: u32 = 1 << 20;

/// What the hosts have done.
#[derive(Default)]
struct Done {
    pieces: AtomicUsize,
    reads: AtomicUsize,
    compounds: AtomicUsize,
    clones: AtomicUsize,
}

/// Each host reads its file by NFSv3 and in COMPOUNDs, clones it, and writes over the clone.
pub(super) fn reads(scene: &Scene) -> Result<String, String> {
    let done = &Done::default();
    thread::scope(|scope| {
        let hosts: Vec<_> = HOSTS.map(|host| scope.spawn(move || attack(scene, host, done))).collect();
        hosts.into_iter().try_for_each(joined)
    })?;
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    Ok(format!(
        "{} pieces; {} READs, {} COMPOUNDs of READ_PLUS, {} CLONEs written over",
        count(&done.pieces),
        count(&done.reads),
        count(&done.compounds),
        count(&done.clones)
    ))
}

fn joined(thread: ScopedJoinHandle<'_, Result<(), Failure>>) -> Result<(), Failure> {
    thread.join().unwrap_or_else(|_| Err(Failure::Wrong("an attacker panicked".to_owned())))
}

fn attack(scene: &Scene, host: u8, done: &Done) -> Result<(), Failure> {
    let from = Caller::host(places::neighbour(host));
    let mut link = Link::open(from)?;
    let mut create = |name| {
        let name = format!("{name}-{:x}", fastrand::u64(..));
        nfs3::create(&mut link, &scene.folder, name.as_bytes())
    };
    let (file, clone) = (create("pieces")?, create("clone")?);
    write_pieces(scene, &mut link, &file, done)?;
    thread::scope(|threads| {
        let plus = threads.spawn(|| read_plus(scene, from, &file, done));
        let clones = threads.spawn(|| clone_and_write(scene, from, [&file, &clone], done));
        repeat(scene, &mut link, &done.reads, |number| {
            let mut arguments = Arguments::default();
            arguments.opaque(&file).long(number % 2 * u64::from(READ_BYTES)).word(READ_BYTES);
            (Procedure::Read, arguments)
        })?;
        [plus, clones].into_iter().try_for_each(joined)
    })
}

/// Writes every second byte, for half of the attack at most.
fn write_pieces(scene: &Scene, link: &mut Link, file: &[u8], done: &Done) -> Result<(), Failure> {
    let mut pieces = 0;
    while pieces < PIECES && Instant::now() + ATTACK / 2 < scene.end {
        let write = |piece| (Procedure::Write, write_arguments(file, 2 * piece, FILE_SYNC, &[7]));
        batch(link, (pieces..pieces + AT_ONCE).map(write))?;
        pieces += AT_ONCE;
    }
    done.pieces.fetch_add(usize::try_from(pieces).unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// Hosts make COMPOUNDs that take long and end with a large READ.
pub(super) fn held_replies(scene: &Scene) -> Result<String, String> {
    let done = &Done::default();
    let mut link = Link::open(Caller::host(places::neighbour(HOLDERS.start)))?;
    let mut create = |name: &str| {
        let name = format!("{name}-{:x}", fastrand::u64(..));
        nfs3::create(&mut link, &scene.folder, name.as_bytes())
    };
    let file = &create("pieces")?;
    let targets = (0..HOLDERS.len() * SESSIONS).map(|_| create("held")).collect::<Result<Vec<_>, _>>()?;
    write_pieces(scene, &mut link, file, done)?;
    let ended = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let hosts = HOLDERS.cycle().zip(&targets);
        let threads: Vec<_> = hosts
            .map(|(host, target)| scope.spawn(move || hold(scene, host, [file, target], done, ended)))
            .collect();
        threads.into_iter().try_for_each(|thread| match joined(thread) {
            // A connection that the server closes is no harm.
            Err(Failure::Io(_)) => Ok(()),
            held => held,
        })
    })?;
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    if count(&done.compounds) + count(ended) == 0 {
        return Err("no long COMPOUND was answered".to_owned());
    }
    Ok(format!(
        "{} pieces; {} COMPOUNDs answered, and {} ended before they were done",
        count(&done.pieces),
        count(&done.compounds),
        count(ended)
    ))
}

/// Makes long COMPOUNDs, one after another.
fn hold(
    scene: &Scene,
    host: u8,
    [file, target]: [&[u8]; 2],
    done: &Done,
    ended: &AtomicUsize,
) -> Result<(), Failure> {
    let from = Caller::host(places::neighbour(host));
    let mut session = nfs4::session(from, format!("holder-{:x}", fastrand::u64(..)).as_bytes())?;
    while scene.goes_on() {
        let status = session.status(|compound| {
            compound.put(file).op(op::SAVEFH);
            compound.put(target);
            for _ in 0..CLONES {
                compound.op(op::CLONE).fixed(&[0; 32]).long(0).long(0).long(0);
            }
            compound.put(file).op(op::READ).fixed(&[0; 16]).long(0).word(HELD_BYTES);
        })?;
        match status {
            0 => done.compounds.fetch_add(1, Ordering::Relaxed),
            DELAY => ended.fetch_add(1, Ordering::Relaxed),
            status => return Err(Failure::Wrong(format!("a long COMPOUND ended with status {status}"))),
        };
    }
    Ok(())
}

/// READ_PLUSes, some in a COMPOUND.
fn read_plus(scene: &Scene, from: Caller, file: &[u8], done: &Done) -> Result<(), Failure> {
    let mut session = nfs4::session(from, format!("reader-{:x}", fastrand::u64(..)).as_bytes())?;
    while scene.goes_on() {
        session.status(|compound| {
            compound.put(file);
            for _ in 0..READS {
                compound.op(op::READ_PLUS).fixed(&[0; 16]).long(0).word(READ_BYTES);
            }
        })?;
        done.compounds.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// CLONEs the file, and writes over the clone.
fn clone_and_write(
    scene: &Scene,
    from: Caller,
    [file, clone]: [&[u8]; 2],
    done: &Done,
) -> Result<(), Failure> {
    let mut session = nfs4::session(from, format!("cloner-{:x}", fastrand::u64(..)).as_bytes())?;
    let mut link = Link::open(from)?;
    let data = vec![8; OVERWRITTEN_BYTES];
    while scene.goes_on() {
        let status = session.status(|compound| {
            compound.put(file).op(op::SAVEFH);
            compound.put(clone).op(op::CLONE).fixed(&[0; 32]).long(0).long(0).long(0);
        })?;
        if status == 0 {
            batch(&mut link, [(Procedure::Write, write_arguments(clone, 0, UNSTABLE, &data))].into_iter())?;
            done.clones.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
