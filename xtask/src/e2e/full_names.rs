//! Fills a disk with names alone: creates until there is no space, checks what still works, removes, restarts on the full
//! disk, and creates again. No file has data.

use std::thread;
use std::time::{Duration, Instant};

use super::lab::Lab;
use super::{Options, probe};
use crate::nfs::{Arguments, Connection, NOSPC, OK, Procedure};

/// Size of the disk in MiB: the initial size of a volume and some 100 MiB for names.
const DISK_MEBIBYTES: u64 = 640;
/// Names created at a time.
const BATCH: usize = 2000;
/// More names than the disk holds.
const NAMES_MAX: usize = 2_000_000;
/// Names removed on the full disk.
const REMOVED: usize = 50_000;
/// Calls in flight.
const WINDOW: usize = 256;
/// Time limit of a call, and of space coming back.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.mount_disk(DISK_MEBIBYTES)?;
    lab.start()?;
    let root = probe::mount(lab.peer.mount_port()).map_err(|error| format!("MNT: {error}"))?;
    let mut names = Names { connection: probe::connect(PATIENCE)?, folder: Vec::new(), next: 0 };
    names.folder = names.connection.make(Procedure::Mkdir, &root, "folder")?;
    let fitting = names.fill()?;
    names.check_full_disk(&root)?;
    names.remove(0..REMOVED)?;
    let first = names.wait_for_room()?;
    let again = names.fill()?;

    lab.kill();
    lab.start()?;
    names.connection = probe::connect(PATIENCE)?;
    names.check_full_disk(&root)?;
    lab.stop()?;
    lab.summary()?;
    lab.start()?;
    names.connection = probe::connect(PATIENCE)?;
    names.check_full_disk(&root)?;
    names.remove(REMOVED..2 * REMOVED)?;
    let later = names.wait_for_room()?;
    let (first, later) = (first.as_secs_f64(), later.as_secs_f64());
    Ok(format!(
        "{fitting} names fit; after removing {REMOVED}, {again} fit again, the first after {first:.1} s, after restarts {later:.1} s"
    ))
}

/// Names of the maximal length, so that few calls fill the disk.
fn name(number: usize) -> String {
    format!("{number:0>255}")
}

/// The names in one folder: all numbers below `next` exist.
struct Names {
    connection: Connection,
    folder: Vec<u8>,
    next: usize,
}

impl Names {
    /// Creates names until there is no space. Returns how many fitted.
    fn fill(&mut self) -> Result<usize, String> {
        let first = self.next;
        while self.next < NAMES_MAX {
            let mut made = Vec::new();
            let (folder, next) = (&self.folder, self.next);
            let arguments = |number: usize, arguments: &mut Arguments| {
                arguments.opaque(folder).opaque(name(next + number).as_bytes()).word(0).mode(0o644);
            };
            self.connection.many(Procedure::Create, BATCH, WINDOW, arguments, |number, results| {
                if results.expect("CREATE", &[OK, NOSPC])? == OK {
                    made.push(next + number);
                }
                Ok(())
            })?;
            made.sort_unstable();
            // Calls in flight fail and succeed in any order; names after the first gap are removed again.
            let fitting = made.iter().zip(next..).take_while(|(made, number)| *made == number).count();
            self.next += fitting;
            if fitting < BATCH {
                let extra = made.split_off(fitting);
                self.remove_numbers(&extra)?;
                return Ok(self.next - first);
            }
        }
        Err(format!("{NAMES_MAX} names fit on a disk of {DISK_MEBIBYTES} MiB"))
    }

    /// Removes names, all of which must exist.
    fn remove(&mut self, numbers: std::ops::Range<usize>) -> Result<(), String> {
        self.remove_numbers(&numbers.collect::<Vec<_>>())
    }

    fn remove_numbers(&mut self, numbers: &[usize]) -> Result<(), String> {
        let folder = &self.folder;
        let arguments = |at: usize, arguments: &mut Arguments| {
            arguments.opaque(folder).opaque(name(numbers[at]).as_bytes());
        };
        self.connection.many(Procedure::Remove, numbers.len(), WINDOW, arguments, |at, results| {
            results.expect(&format!("REMOVE {} on the full disk", numbers[at]), &[OK]).map(|_| ())
        })
    }

    /// Checks that reading works, and that adding works or fails for lack of space.
    fn check_full_disk(&mut self, root: &[u8]) -> Result<(), String> {
        let last = name(self.next - 1);
        let (connection, folder) = (&mut self.connection, &self.folder);
        connection.ask(Procedure::Getattr, &[OK], |arguments| {
            arguments.opaque(folder);
        })?;
        connection.ask(Procedure::Fsstat, &[OK], |arguments| {
            arguments.opaque(root);
        })?;
        connection.ask(Procedure::Lookup, &[OK], |arguments| {
            arguments.opaque(folder).opaque(last.as_bytes());
        })?;
        connection.ask(Procedure::Readdirplus, &[OK], |arguments| {
            arguments.opaque(folder).long(0).long(0).word(8192).word(32_768);
        })?;
        let made = connection.ask(Procedure::Mkdir, &[OK, NOSPC], |arguments| {
            arguments.opaque(root).opaque(b"more").mode(0o755);
        })?;
        if made.status()? == OK {
            connection.drop_name(Procedure::Rmdir, root, "more")?;
        }
        Ok(())
    }

    /// Tries to create a name until that works, then removes it. Returns how long it took.
    fn wait_for_room(&mut self) -> Result<Duration, String> {
        let start = Instant::now();
        let (connection, folder) = (&mut self.connection, &self.folder);
        while start.elapsed() < PATIENCE {
            let made = connection.ask(Procedure::Create, &[OK, NOSPC], |arguments| {
                arguments.opaque(folder).opaque(b"room").word(0).mode(0o644);
            })?;
            if made.status()? == OK {
                return connection.drop_name(Procedure::Remove, folder, "room").map(|()| start.elapsed());
            }
            thread::sleep(Duration::from_millis(200));
        }
        Err(format!("no room for a name {} s after removing", PATIENCE.as_secs()))
    }
}
