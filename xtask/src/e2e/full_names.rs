//! A disk that names alone fill: creates until there is no space, what goes on then, removing, restarts on the full
//! disk, and creates again. No file has data.

use std::thread;
use std::time::{Duration, Instant};

use super::lab::Lab;
use super::nfs::{Arguments, Connection, NOSPC, OK, Procedure};
use super::{Options, probe};

/// The size of the disk, MiB: what a volume takes at once, and some 100 MiB for names.
const DISK_MEBIBYTES: u64 = 640;
/// Names tried at a time.
const BATCH: usize = 2000;
/// More names than fit.
const NAMES_MAX: usize = 2_000_000;
/// Names removed on the full disk.
const REMOVED: usize = 50_000;
/// Calls in flight.
const WINDOW: usize = 256;
/// How long a call may take, and how long until space is back.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.mount_disk(DISK_MEBIBYTES)?;
    lab.start()?;
    let root = probe::mount(lab.peer.mount_port()).map_err(|error| format!("MNT: {error}"))?;
    let mut names = Names { connection: connect()?, folder: Vec::new(), next: 0 };
    names.folder = names.connection.make(Procedure::Mkdir, &root, "folder")?;
    let fitting = names.fill()?;
    names.go_on(&root)?;
    names.remove(0..REMOVED)?;
    let first = names.wait_for_room()?;
    let again = names.fill()?;

    lab.kill();
    lab.start()?;
    names.connection = connect()?;
    names.go_on(&root)?;
    lab.stop()?;
    lab.summary()?;
    lab.start()?;
    names.connection = connect()?;
    names.go_on(&root)?;
    names.remove(REMOVED..2 * REMOVED)?;
    let later = names.wait_for_room()?;
    let (first, later) = (first.as_secs_f64(), later.as_secs_f64());
    Ok(format!(
        "{fitting} names fit; with {REMOVED} removed, room for {again} came back, the first after {first:.1} s, later {later:.1} s"
    ))
}

fn connect() -> Result<Connection, String> {
    Connection::open(PATIENCE).map_err(|error| format!("cannot connect: {error}"))
}

/// As long as a name may be, so that few calls fill the disk.
fn name(number: usize) -> String {
    format!("{number:0>255}")
}

/// The names below one folder: all numbers below `next` were made.
struct Names {
    connection: Connection,
    folder: Vec<u8>,
    next: usize,
}

impl Names {
    /// Creates until there is no space; how many fitted.
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
            // Calls in flight are refused and granted in any order; what was made behind a gap goes again.
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

    /// Removes names, each of which must be there.
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

    /// What reads must go on; what adds may be refused for want of space, and for nothing else.
    fn go_on(&mut self, root: &[u8]) -> Result<(), String> {
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

    /// Creates one name until that works, and removes it; how long it took.
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
        Err(format!("{} s after removing there is no room for one name", PATIENCE.as_secs()))
    }
}
