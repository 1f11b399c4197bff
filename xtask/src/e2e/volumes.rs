//! Creates, resizes, renames, deletes, exports and unexports volumes at random, while two guests and libnfs work in volumes
//! that are not deleted: no call of theirs may fail. In the second half, the server is killed as well.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use super::kill::{self, Signals};
use super::lab::{Lab, Version};
use super::libnfs::Client;
use super::{Options, probe};
use crate::process;

/// How long each half lasts.
const HALF: Duration = Duration::from_secs(12);
const LONG_HALF: Duration = Duration::from_secs(300);
/// Volumes at a time.
const VOLUMES_MAX: usize = 12;
/// The volumes that guests work in, and how: they come first, and are never deleted or unexported. libnfs works in the first
/// one by its path, so that keeps its name.
const KEPT: [(&str, Version); 2] = [("main", Version::V3), ("kept", Version::V42)];
/// Length limit of libnfs's files, and of one that is written while its volume is deleted.
const FILE_BYTES_MAX: usize = 300_000;
const LARGE_FILE_BYTES_MAX: usize = 20_000_000;
/// Sizes of volumes in MiB; all hold what is written to them, also in the minutes of `--long`, in which libnfs removes nothing.
const SIZES: std::ops::Range<u64> = 16_384..65_536;
/// Longest pause between changes, in milliseconds.
const PAUSE_MS_MAX: u64 = 200;
/// Time limit from a server's first reply until it can be administered.
const ADMINISTERED: Duration = Duration::from_secs(5);
/// One change in this many is a kill.
const CHANGES_PER_KILL: usize = 8;

/// A volume as it must be.
struct Volume {
    name: String,
    /// Zero if it is not limited.
    size_bytes: u64,
    /// Whether the configuration exports it.
    is_exported: bool,
    /// Writes to it, and knows what it holds. The first volume's is idle, since another client writes there all the time.
    client: Client,
}

/// A server whose volumes change.
struct Changes<'l> {
    lab: &'l mut Lab,
    random: Rng,
    volumes: Vec<Volume>,
    /// Whether the configuration lists exports: if not, each volume is exported.
    lists: bool,
    /// How often each kind of change was made.
    counts: BTreeMap<&'static str, usize>,
    restarts: Vec<Duration>,
    made: usize,
}

type Guests = Vec<(u8, Child)>;

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let half = if options.long { LONG_HALF } else { HALF };
    lab.export(String::new())?;
    lab.start()?;
    let mut changes = Changes::new(lab, options.seed)?;
    let mut guests = changes.start_guests(options.seed)?;
    let outcome = changes.halves(half, &mut guests, options.seed);
    changes.lab.create_file("stop")?;
    if outcome.is_err() {
        // They would wait for ever for a server that is gone.
        guests.iter_mut().for_each(|(number, guest)| Lab::kill_guest(*number, guest));
    }
    let files = outcome?;
    for (number, guest) in &mut guests {
        changes.lab.finish_guest(*number, guest)?;
    }
    let counts: Vec<String> = changes.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    Ok(format!("{}; restarts {}; {files}", counts.join(", "), kill::summary(&changes.restarts)))
}

impl<'l> Changes<'l> {
    fn new(lab: &'l mut Lab, seed: u64) -> Result<Changes<'l>, String> {
        let mut volumes = Vec::new();
        for (name, _) in KEPT {
            volumes.push(Volume {
                name: name.to_owned(),
                size_bytes: 0,
                is_exported: true,
                client: Client::of(lab, name, seed)?,
            });
        }
        let random = Rng::with_seed(seed);
        let (counts, restarts) = (BTreeMap::new(), Vec::new());
        let changes = Changes { lab, random, volumes, lists: false, counts, restarts, made: 0 };
        let [(main, _), (kept, _)] = KEPT;
        changes.volume("set", &[main, "--mode", "1777"])?;
        changes.volume("create", &[kept, "--mode", "1777"])?;
        changes.compare()?;
        Ok(changes)
    }

    fn start_guests(&self, seed: u64) -> Result<Guests, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let program = program.to_string_lossy();
        let mut guests = Vec::new();
        for (number, (name, version)) in kill::GUESTS.into_iter().zip(KEPT) {
            let (seed, export) = ((seed ^ u64::from(number)).to_string(), format!("/{name}"));
            let words = [&program, seed.as_str(), version.name(), &export];
            guests.push((number, self.lab.start_guest(number, "kill.sh", "512M", &words)?));
        }
        Ok(guests)
    }

    /// Changes volumes, then kills the server as well; in the end all is as before, and holds what was written. Returns a
    /// note on libnfs's files.
    fn halves(&mut self, half: Duration, guests: &mut Guests, seed: u64) -> Result<String, String> {
        kill::wait_for_work(self.lab)?;
        let handle = probe::mount(self.lab.peer.mount_port()).map_err(|error| format!("MNT: {error}"))?;
        let mut client = Client::new(self.lab, seed)?;
        let undisturbed = self.beside(&mut client, |changes, _| changes.change_for(half, guests, None))?;
        if undisturbed > 0 {
            return Err(format!("{undisturbed} files of libnfs could not be written"));
        }
        let interrupted = self.beside(&mut client, |changes, signals| {
            changes.change_for(half, guests, Some((signals, &handle)))
        })?;
        self.end(&handle)?;
        client.verify()?;
        Ok(format!("libnfs {} files, {interrupted} interrupted", client.files()))
    }

    /// Lets libnfs write while the volumes change. Returns how many of its attempts failed.
    fn beside(
        &mut self,
        client: &mut Client,
        change: impl FnOnce(&mut Self, &Signals) -> Result<(), String>,
    ) -> Result<usize, String> {
        let signals = Signals::default();
        thread::scope(|scope| {
            let client = scope.spawn(|| kill::work(client, &signals));
            let changed = change(self, &signals);
            signals.is_over.store(true, Ordering::Relaxed);
            let failed = client.join().expect("the client does not panic");
            changed.and(failed)
        })
    }

    /// Makes changes; kills the server from time to time if `kills` says how.
    fn change_for(
        &mut self,
        time: Duration,
        guests: &mut Guests,
        kills: Option<(&Signals, &[u8])>,
    ) -> Result<(), String> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            kill::check_running(self.lab, guests)?;
            if let Some((signals, handle)) = kills
                && self.random.usize(..CHANGES_PER_KILL) == 0
            {
                self.restart(signals, handle)?;
            } else {
                self.change()?;
            }
            self.compare()?;
            thread::sleep(Duration::from_millis(self.random.u64(..PAUSE_MS_MAX)));
        }
        Ok(())
    }

    /// Kills the server. The configuration that it is started with may have no exports any more, which no reload puts in force.
    fn restart(&mut self, signals: &Signals, handle: &[u8]) -> Result<(), String> {
        self.lists = self.lists && self.random.bool();
        self.configure()?;
        self.restarts.push(kill::restart(self.lab, signals, handle)?);
        self.await_administration()
    }

    /// Waits until a server that has just begun to serve can be administered too.
    fn await_administration(&self) -> Result<(), String> {
        let (end, socket) = (Instant::now() + ADMINISTERED, self.socket());
        while UnixStream::connect(&socket).is_err() {
            if Instant::now() > end {
                return Err(format!("{} does not answer", socket.display()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.lab.data().join("admin.sock")
    }

    /// Makes one change.
    fn change(&mut self) -> Result<(), String> {
        type Change<'l> = fn(&mut Changes<'l>) -> Result<&'static str, String>;
        let kinds: [Change<'l>; 8] = [
            Changes::create,
            Changes::create,
            Changes::resize,
            Changes::rename,
            Changes::delete,
            Changes::export,
            Changes::list,
            Changes::write,
        ];
        let kind = kinds.get(self.random.usize(..kinds.len())).expect("chosen among them");
        let what = kind(self)?;
        *self.counts.entry(what).or_default() += 1;
        Ok(())
    }

    fn create(&mut self) -> Result<&'static str, String> {
        if self.volumes.len() >= VOLUMES_MAX {
            return self.delete();
        }
        let (name, size) = (self.name(), self.size());
        self.volume("create", &[&name, "--mode", "1777", "--size", &size.to_string()])?;
        let client = Client::of(self.lab, &name, self.random.u64(..))?;
        self.volumes.push(Volume { name, size_bytes: size, is_exported: false, client });
        self.use_volume(self.volumes.len() - 1)?;
        Ok("created")
    }

    fn resize(&mut self) -> Result<&'static str, String> {
        let (at, size) = (self.random.usize(..self.volumes.len()), self.size());
        let volume = self.volumes.get_mut(at).expect("chosen among them");
        volume.size_bytes = size;
        let name = volume.name.clone();
        self.volume("resize", &[&name, &size.to_string()])?;
        Ok("resized")
    }

    fn rename(&mut self) -> Result<&'static str, String> {
        let (at, new) = (self.random.usize(1..self.volumes.len()), self.name());
        let volume = self.volumes.get(at).expect("chosen among them");
        let renamed = self.volume("rename", &[&volume.name, &new]);
        if self.lists && volume.is_exported {
            return expect_refusal(renamed);
        }
        renamed?;
        self.set_name(at, new)?;
        Ok("renamed")
    }

    /// Notes that a volume was renamed, and uses it if it has other users.
    fn set_name(&mut self, at: usize, new: String) -> Result<(), String> {
        let volume = self.volumes.get_mut(at).expect("it was renamed");
        volume.client.export.clone_from(&new);
        volume.name = new;
        self.use_volume(at)
    }

    /// Deletes a volume, perhaps while somebody writes to it.
    fn delete(&mut self) -> Result<&'static str, String> {
        let Some(at) = self.pick_other() else { return self.create() };
        let writes = self.random.bool();
        let mut volume = self.volumes.swap_remove(at);
        let deleted = thread::scope(|scope| {
            // What becomes of it does not matter.
            let writer = writes.then(|| scope.spawn(|| volume.client.put(LARGE_FILE_BYTES_MAX).map(|_| ())));
            thread::sleep(Duration::from_millis(self.random.u64(..PAUSE_MS_MAX)));
            let deleted = self.volume("delete", &[&volume.name, "--yes"]);
            let written = writer.map_or(Ok(()), |writer| writer.join().expect("the client does not panic"));
            written.map(|()| deleted)
        })?;
        if self.lists && volume.is_exported {
            self.volumes.push(volume);
            return expect_refusal(deleted);
        }
        deleted?;
        if volume.client.put(1)? {
            return Err(format!("{} was deleted, and takes a file", volume.name));
        }
        Ok("deleted")
    }

    /// Exports a volume in the configuration, or no longer.
    fn export(&mut self) -> Result<&'static str, String> {
        let Some(at) = self.pick_other() else { return self.create() };
        let volume = self.volumes.get_mut(at).expect("chosen among them");
        volume.is_exported = !volume.is_exported;
        let what = if volume.is_exported { "exported" } else { "unexported" };
        self.reload()?;
        self.use_volume(at)?;
        Ok(what)
    }

    /// Lets the configuration list exports. Once it does, a reload of one without any must be refused.
    fn list(&mut self) -> Result<&'static str, String> {
        if !std::mem::replace(&mut self.lists, true) {
            self.reload()?;
            return Ok("changes from all exports to listed ones");
        }
        self.lab.export(String::new())?;
        let refused = expect_refusal(self.ask_to_reload())?;
        self.reload()?;
        Ok(refused)
    }

    fn write(&mut self) -> Result<&'static str, String> {
        let Some(at) = self.pick_other() else { return self.create() };
        self.use_volume(at)?;
        Ok("used")
    }

    /// Chooses a volume that is not kept.
    fn pick_other(&mut self) -> Option<usize> {
        let others = KEPT.len()..self.volumes.len();
        (!others.is_empty()).then(|| self.random.usize(others))
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("v{}", self.made)
    }

    fn size(&mut self) -> u64 {
        if self.random.bool() { 0 } else { self.random.u64(SIZES) << 20 }
    }

    /// Writes a file and compares all that were written, if the volume is exported; else that must fail.
    fn use_volume(&mut self, at: usize) -> Result<(), String> {
        let volume = self.volumes.get_mut(at).expect("it exists");
        let is_reachable = !self.lists || volume.is_exported;
        let complaint = |why: &str| Err(format!("{}: {why}", volume.name));
        if volume.client.put(FILE_BYTES_MAX)? != is_reachable {
            return complaint(if is_reachable {
                "takes no file"
            } else {
                "is not exported, and takes a file"
            });
        }
        if is_reachable { volume.client.verify().or_else(|why| complaint(&why)) } else { Ok(()) }
    }

    /// Writes the configuration.
    fn configure(&mut self) -> Result<(), String> {
        let exported = self.volumes.iter().filter(|volume| self.lists && volume.is_exported);
        let section =
            |Volume { name, .. }: &Volume| format!("[[export]]\npath = \"/{name}\"\nvolume = \"{name}\"\n");
        let exports = exported.map(section).collect::<Vec<String>>().concat();
        self.lab.export(exports)
    }

    /// Writes the configuration, and has the server reload it.
    fn reload(&mut self) -> Result<(), String> {
        self.configure()?;
        self.ask_to_reload()
    }

    fn ask_to_reload(&self) -> Result<(), String> {
        let path = self.socket();
        let mut stream = UnixStream::connect(&path).map_err(process::at(&path))?;
        let head = "POST /v1/exports/reload HTTP/1.1\r\nHost: holdfast\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        stream.write_all(head.as_bytes()).map_err(process::at(&path))?;
        stream.read_to_string(&mut answer).map_err(process::at(&path))?;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("reload: {answer}")) }
    }

    /// Runs `holdfast volume`.
    fn volume(&self, action: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.lab.binary());
        process::output(command.args(["volume", action]).arg(self.lab.data()).args(words))
    }

    /// Compares the server's list with the volumes that there must be.
    fn compare(&self) -> Result<(), String> {
        let text = self.volume("list", &["--json"])?;
        let list: Value = serde_json::from_str(&text).map_err(|error| format!("volume list: {error}"))?;
        let shown = list.as_array().into_iter().flatten();
        let shown: BTreeMap<&str, u64> = shown
            .filter_map(|volume| Some((volume["name"].as_str()?, volume["size_bytes"].as_u64().unwrap_or(0))))
            .collect();
        let wanted: BTreeMap<&str, u64> =
            self.volumes.iter().map(|volume| (volume.name.as_str(), volume.size_bytes)).collect();
        if shown == wanted { Ok(()) } else { Err(format!("the volumes are {shown:?} instead of {wanted:?}")) }
    }

    /// Exports all volumes, gives those of guests their names again, and compares what all hold.
    fn end(&mut self, handle: &[u8]) -> Result<(), String> {
        self.lists = false;
        self.restart(&Signals::default(), handle)?;
        for (at, (name, _)) in KEPT.into_iter().enumerate() {
            let is = self.volumes.get(at).map_or_else(String::new, |volume| volume.name.clone());
            if is != name {
                self.volume("rename", &[&is, name])?;
                self.set_name(at, name.to_owned())?;
            }
        }
        (1..self.volumes.len()).try_for_each(|at| self.use_volume(at))
    }
}

/// Checks that a change was refused because of the exports.
fn expect_refusal<T>(outcome: Result<T, String>) -> Result<&'static str, String> {
    match outcome {
        Err(why) if why.contains("[[export]]") => Ok("refused"),
        Err(why) => Err(why),
        Ok(_) => Err("a change was made that the exports forbid".to_owned()),
    }
}
