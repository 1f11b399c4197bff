//! The test bed of one scenario: a fresh data directory, a server that can be killed and restarted, and guests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Options, probe, scratch};
use crate::process::{self, root, target_directory};

/// The server's address in the namespace, which `e2e/guest` assigns to the loopback device.
pub(super) const ADDRESS: &str = "10.77.0.1";
/// The port of NFS.
pub(super) const PORT: u16 = 2049;

/// The folder that the foreign server exports, within that of the scenario.
const EXPORT: &str = "ganesha/export";

/// Time limit from a server's start to its first reply.
const START: Duration = Duration::from_secs(30);
/// Time limit from SIGTERM to exit.
const STOP: Duration = Duration::from_secs(20);
/// Time limit from a condition to the event that reports it.
const LOGGED: Duration = Duration::from_secs(30);
/// Time limit of the offline check.
const CHECK: Duration = Duration::from_secs(300);
/// Concurrent runs of one scenario with the same target directory.
const RUNS_AT_ONCE: usize = 8;
/// Lines of the server's log that a failure shows.
const LOG_LINES_MAX: usize = 40;

/// The server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The release binary.
    Holdfast,
    /// A foreign server, to test the scenarios themselves.
    Ganesha,
}

impl Peer {
    pub(super) fn parse(name: &str) -> Option<Peer> {
        match name {
            "holdfast" => Some(Peer::Holdfast),
            "ganesha" => Some(Peer::Ganesha),
            _ => None,
        }
    }

    /// The port of MOUNT.
    pub(super) fn mount_port(self) -> u16 {
        match self {
            Peer::Holdfast => PORT,
            Peer::Ganesha => 20048,
        }
    }
}

/// The version of NFS that guests mount with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// NFSv3, with MOUNT.
    V3,
    /// NFSv4.0.
    V40,
    /// NFSv4.1.
    V41,
    /// NFSv4.2.
    V42,
}

impl Version {
    const ALL: [Version; 4] = [Version::V3, Version::V40, Version::V41, Version::V42];

    /// The value of mount(8)'s option `vers`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::V3 => "3",
            Version::V40 => "4.0",
            Version::V41 => "4.1",
            Version::V42 => "4.2",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }
}

/// Some counts of `holdfast check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) inodes: u64,
    pub(super) extents: u64,
    pub(super) live_bytes: u64,
}

/// The test bed of one scenario.
pub(super) struct Lab {
    pub(super) peer: Peer,
    version: Version,
    pub(super) folder: PathBuf,
    namespace: String,
    /// First lines of the server's configuration.
    settings: String,
    /// The exports in the servers' configuration.
    exports: String,
    /// Where the server listens besides [`ADDRESS`], as in a URL.
    listened: Option<String>,
    /// The scenario's deadline.
    end: Instant,
    /// Locks the folder while it is in use.
    _claim: File,
    server: Option<Child>,
    /// The scenario's own file system, if it has one.
    mounted: Option<PathBuf>,
}

impl Lab {
    /// Prepares a test bed without a server. Removes what an earlier run or scenario left; if another run uses the folder now,
    /// this one takes another folder.
    pub(super) fn new(
        options: &Options,
        namespace: &str,
        name: &str,
        version: Version,
        end: Instant,
    ) -> Result<Lab, String> {
        let (folder, claim) = claim(name)?;
        for name in ["disk", EXPORT] {
            let _ = Command::new("umount").arg("-q").arg(folder.join(name)).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("out")).map_err(process::at(&folder))?;
        let lab = Lab {
            peer: options.peer,
            version,
            folder,
            namespace: namespace.to_owned(),
            settings: String::new(),
            exports: export_to(&[]),
            listened: None,
            end,
            _claim: claim,
            server: None,
            mounted: None,
        };
        if lab.peer == Peer::Holdfast {
            // A copy, so that restarts run the same program even if it is rebuilt meanwhile.
            let built = target_directory().join("release/holdfast");
            fs::copy(&built, lab.binary()).map_err(process::at(&built))?;
        }
        lab.renew_network()?;
        Ok(lab)
    }

    /// Gives the namespace the server's address alone, without the links, addresses and routes that a scenario has made.
    pub(super) fn renew_network(&self) -> Result<(), String> {
        let guest = root().join("e2e/guest");
        process::output(Command::new(guest).args(["net", "reset", &self.namespace])).map(drop)
    }

    /// The network namespace of the server and the guests.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The program under test.
    pub(super) fn binary(&self) -> PathBuf {
        self.folder.join("holdfast")
    }

    /// Runs a command of the program on the data directory, which precedes `rest`. Returns what it prints.
    pub(super) fn holdfast(&self, command: &[&str], rest: &[&str]) -> Result<String, String> {
        process::output(Command::new(self.binary()).args(command).arg(self.data()).args(rest))
    }

    /// The version of NFS that guests mount with.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The folder that guests may write.
    pub(super) fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// The folder of machines with a system of their own.
    pub(super) fn machines(&self) -> PathBuf {
        self.folder.join("machines")
    }

    /// The data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.mounted.clone().unwrap_or_else(|| self.folder.clone()).join("data")
    }

    /// The time left until the deadline.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Sets lines of configuration for servers started from now on.
    pub(super) fn configure(&mut self, settings: &str) {
        settings.clone_into(&mut self.settings);
    }

    /// Sets the networks that the export admits, for servers started from now on.
    pub(super) fn admit(&mut self, networks: &[&str]) {
        self.exports = export_to(networks);
    }

    /// Sets the exports, for servers started from now on and for one that reloads them.
    pub(super) fn export(&mut self, exports: String) -> Result<(), String> {
        self.exports = exports;
        self.write_configuration().map(|_| ())
    }

    /// Lets servers started from now on listen on another address as well.
    pub(super) fn also_listen(&mut self, address: &str) {
        self.listened = Some(address.to_owned());
    }

    /// Puts the data directory on a new ext4 file system of this size.
    pub(super) fn mount_disk(&mut self, mebibytes: u64) -> Result<(), String> {
        self.mount_image(&["mkfs.ext4", "-q", "-m", "0"], mebibytes, "disk")
    }

    /// Has the foreign server export a subvolume of a new btrfs of this size, with quotas.
    pub(super) fn mount_btrfs(&mut self, mebibytes: u64) -> Result<(), String> {
        self.mount_image(&["mkfs.btrfs", "-q"], mebibytes, EXPORT)?;
        let folder = self.export_folder();
        let btrfs = |words: &[&str], folder: &Path| {
            process::output(Command::new("btrfs").args(words).arg(folder)).map(drop)
        };
        btrfs(&["subvolume", "create"], &folder.join("export"))?;
        btrfs(&["quota", "enable"], &folder)?;
        // Servers look for the file system among what is mounted, where a subvolume is not.
        process::output(Command::new("umount").arg(&folder))?;
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,subvol=export"]).arg(self.folder.join("image")).arg(&folder);
        process::output(&mut mount).map(drop)
    }

    /// The folder that the foreign server exports.
    pub(super) fn export_folder(&self) -> PathBuf {
        self.folder.join(EXPORT)
    }

    /// Makes a file system of this size in a file, and mounts it on a folder of the scenario's.
    fn mount_image(&mut self, make: &[&str], mebibytes: u64, name: &str) -> Result<(), String> {
        let (image, folder) = (self.folder.join("image"), self.folder.join(name));
        let made = File::create(&image).and_then(|file| file.set_len(mebibytes << 20));
        made.and_then(|()| fs::create_dir_all(&folder)).map_err(process::at(&image))?;
        process::output(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        process::output(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder))?;
        self.mounted = Some(folder);
        Ok(())
    }

    /// Starts the server and waits until it answers.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let command = self.command()?;
        self.start_command(command, START)
    }

    /// Starts the server with a command, and waits until it answers, at most for `limit`.
    pub(super) fn start_command(&mut self, command: Command, limit: Duration) -> Result<(), String> {
        self.spawn_command(command)?;
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if probe::null(PORT).is_ok() && probe::null_mount(self.peer.mount_port()).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                return Err(format!("the server exited at once: {status}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the server does not answer after {} s", limit.as_secs()))
    }

    /// Starts the server without waiting.
    pub(super) fn spawn(&mut self) -> Result<(), String> {
        let command = self.command()?;
        self.spawn_command(command)
    }

    fn spawn_command(&mut self, mut command: Command) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.map_err(process::at(&self.log()))?;
        let errors = log.try_clone().map_err(process::at(&self.log()))?;
        command.stdout(log).stderr(errors);
        self.server = Some(process::start(&mut command)?);
        Ok(())
    }

    fn command(&self) -> Result<Command, String> {
        if self.peer == Peer::Ganesha {
            let mut command = Command::new(root().join("e2e/peer/ganesha"));
            command.arg(&self.namespace).arg(self.folder.join("ganesha"));
            return Ok(command);
        }
        let configuration = self.write_configuration()?;
        let mut command = Command::new(self.binary());
        command.arg("serve").arg(self.data());
        for address in [Some(ADDRESS), self.listened.as_deref()].into_iter().flatten() {
            // Clients ask a portmapper for NLM's port.
            for port in [PORT, 111] {
                command.args(["--listen", &format!("{address}:{port}")]);
            }
        }
        command.arg("--config").arg(configuration);
        Ok(command)
    }

    /// Writes the configuration file and returns its path.
    pub(super) fn write_configuration(&self) -> Result<PathBuf, String> {
        let path = self.folder.join("holdfast.toml");
        let text = format!("journal_size = \"64 MiB\"\n{}\n\n{}", self.settings, self.exports);
        fs::write(&path, text).map_err(process::at(&path))?;
        Ok(path)
    }

    /// The server's log.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// The exit status of the server if it has exited.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        let Some(server) = &mut self.server else { return Ok(None) };
        server.try_wait().map_err(|error| format!("the server: {error}"))
    }

    /// The server's process id.
    pub(super) fn process_id(&self) -> Result<u32, String> {
        self.server.as_ref().map(Child::id).ok_or_else(|| "no server runs".to_owned())
    }

    /// Kills the server and removes its data.
    pub(super) fn start_over(&mut self) -> Result<(), String> {
        self.kill();
        fs::remove_dir_all(self.data()).map_err(process::at(&self.data()))
    }

    /// Kills the server with SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            process::stop(&mut server);
        }
    }

    /// Stops the server and checks its volumes. A scenario whose servers run on machines of their own has neither.
    pub(super) fn close(&mut self) -> Result<(), String> {
        if self.machines().exists() {
            return Ok(());
        }
        if self.peer == Peer::Ganesha {
            self.kill();
            return Ok(());
        }
        self.stop()?;
        // A scenario may have served it as another user, whose data directory root is refused.
        let mut own = Command::new("chown");
        own.args(["-R", "-H", "0:0"]).arg(self.data());
        process::run(own, CHECK)?;
        let mut check = Command::new(self.binary());
        check.arg("check").arg(self.data());
        process::run(check, CHECK).map_err(|why| format!("holdfast check: {why}"))
    }

    /// Stops the server with SIGTERM.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let Some(mut server) = self.server.take() else {
            return Err("no server runs".to_owned());
        };
        process::signal(&server, "TERM");
        match process::wait(&mut server, STOP) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the server exits with {status} after SIGTERM")),
            None => Err(format!("the server still runs {} s after SIGTERM", STOP.as_secs())),
        }
    }

    /// Sends SIGTERM to the server without waiting.
    pub(super) fn stop_soon(&self) {
        if let Some(server) = &self.server {
            process::signal(server, "TERM");
        }
    }

    /// Runs `holdfast check` on the volume, which must be sound and not in use, and returns its counts.
    pub(super) fn summary(&self) -> Result<Summary, String> {
        let mut check = Command::new(self.binary());
        let json = process::output(check.args(["check", "--json"]).arg(self.data()))?;
        let report: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| format!("holdfast check: {error}"))?;
        let count = |name: &str| {
            let count = report.pointer(&format!("/pools/0/summary/{name}")).and_then(|count| count.as_u64());
            count.ok_or_else(|| format!("holdfast check does not report {name}"))
        };
        Ok(Summary { inodes: count("inodes")?, extents: count("extents")?, live_bytes: count("live_bytes")? })
    }

    /// Returns the server's gauges and counters from `holdfast status`.
    pub(super) fn counters(&self) -> Result<serde_json::Map<String, serde_json::Value>, String> {
        let mut status = Command::new(self.binary());
        let json = process::output(status.args(["status", "--json"]).arg(self.data()))?;
        let report: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| format!("holdfast status: {error}"))?;
        let server = report.get("server").and_then(serde_json::Value::as_object);
        server.cloned().ok_or_else(|| "holdfast status has no section \"server\"".to_owned())
    }

    /// Counts the records of a table of the index. No server may run.
    pub(super) fn records(&self, table: &str) -> Result<usize, String> {
        let mut dump = Command::new(self.binary());
        dump.args(["dump", "records", "--json", "--table", table]).arg(self.data());
        Ok(process::output(&mut dump)?.lines().count())
    }

    /// Waits until the server's log contains an event.
    pub(super) fn await_log(&self, event: &str) -> Result<(), String> {
        let end = Instant::now() + LOGGED;
        while !fs::read_to_string(self.log()).map_err(process::at(&self.log()))?.contains(event) {
            if Instant::now() >= end {
                return Err(format!("the server's log does not contain \"{event}\""));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Prints the end of the server's log, and the TCP connections: a client that hangs may wait for a retransmission.
    pub(super) fn show_log(&self) {
        println!("---- TCP connections of the namespace (ss -tino)");
        let _ = Command::new("ss").arg("-tino").status();
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        println!("---- the end of the server's log ({})", self.log().display());
        for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES_MAX)) {
            println!("     {line}");
        }
    }

    /// Removes the scenario's data.
    pub(super) fn clear(&mut self) {
        self.kill();
        if let Some(disk) = self.mounted.take() {
            let _ = Command::new("umount").arg(&disk).status();
        }
        for name in [
            "data", "image", "ganesha", "holdfast", "etc", "lib", "bin", "target", "machines", "first",
            "again", "second",
        ] {
            let path = self.folder.join(name);
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }

    /// Runs a script of `e2e/scenarios` in a guest to its end.
    pub(super) fn guest(&self, script: &str, memory: &str, arguments: &[&str]) -> Result<(), String> {
        let mut guest = self.start_guest(1, script, memory, arguments)?;
        self.finish_guest(1, &mut guest)
    }

    /// Drops all packets to and from a guest.
    pub(super) fn cut_guest(&self, number: u8) -> Result<(), String> {
        // Packets to it are routed to the loopback device, where nothing takes them; packets from it fail the check of the
        // reverse path.
        let strict = format!("/proc/sys/net/ipv4/conf/guest{number}/rp_filter");
        fs::write(&strict, "1").map_err(|error| format!("{strict}: {error}"))?;
        self.route(&[&guest_address(number), "dev", "lo"])
    }

    /// Restores the connection of a guest.
    pub(super) fn heal_guest(&self, number: u8) -> Result<(), String> {
        self.route(&[&guest_address(number), "dev", &format!("guest{number}"), "src", ADDRESS])
    }

    fn route(&self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace, "route", "replace"]).args(words);
        process::output(&mut command).map(|_| ())
    }

    /// Starts a script of `e2e/scenarios` in guest `number`.
    pub(super) fn start_guest(
        &self,
        number: u8,
        script: &str,
        memory: &str,
        arguments: &[&str],
    ) -> Result<Child, String> {
        self.start_guest_at("", number, script, memory, arguments)
    }

    /// Starts a script of `e2e/scenarios` in guest `number` on a bridge, if that is named.
    pub(super) fn start_guest_at(
        &self,
        bridge: &str,
        number: u8,
        script: &str,
        memory: &str,
        arguments: &[&str],
    ) -> Result<Child, String> {
        let limit = self.left().as_secs().saturating_sub(5).max(10).to_string();
        let mut command = Command::new(root().join("e2e/guest"));
        command.args([
            "run",
            "-N",
            &self.namespace,
            "-n",
            &number.to_string(),
            "-t",
            &limit,
            "-m",
            memory,
            "-b",
            bridge,
            "-o",
        ]);
        command.arg(self.out());
        command.args(["-e", &format!("PORT={PORT}"), "-e", &format!("MOUNTPORT={}", self.peer.mount_port())]);
        command.args(["-e", &format!("VERSION={}", self.version.name())]);
        command.arg(root().join("e2e/scenarios").join(script)).args(arguments);
        process::start(&mut command)
    }

    /// Kills a guest, as a power failure would, and waits until its network device is free.
    pub(super) fn kill_guest(number: u8, guest: &mut Child) {
        process::stop(guest);
        let end = Instant::now() + STOP;
        let carrier = format!("/sys/class/net/guest{number}/carrier");
        while Instant::now() < end && fs::read_to_string(&carrier).is_ok_and(|text| text.trim() == "1") {
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Creates an empty file of [`Lab::out`], for which guests wait.
    pub(super) fn create_file(&self, name: &str) -> Result<(), String> {
        let path = self.out().join(name);
        fs::write(&path, "").map_err(process::at(&path))
    }

    /// Waits until a guest has created this file of [`Lab::out`].
    pub(super) fn await_file(&self, name: &str, most: Duration) -> Result<(), String> {
        let end = Instant::now() + most.min(self.left());
        while !self.out().join(name).exists() {
            if Instant::now() > end {
                return Err(format!("no guest has created {name}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Waits for a guest, whose script must succeed.
    pub(super) fn finish_guest(&self, number: u8, guest: &mut Child) -> Result<(), String> {
        match process::wait(guest, self.left()) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("guest {number}: {status}")),
            None => Err(format!("guest {number} exceeded its time limit")),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill();
        if let Some(disk) = &self.mounted {
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}

/// The export of the volume `main` to these networks, or to all if there are none. Root is not squashed, as the tests of
/// permissions need.
fn export_to(networks: &[&str]) -> String {
    format!("[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\nclients = {networks:?}\n")
}

/// The address that `e2e/guest` assigns to a guest.
fn guest_address(number: u8) -> String {
    format!("10.77.0.{}", number + 10)
}

/// Claims a folder that no other run uses, by locking a file beside it.
fn claim(name: &str) -> Result<(PathBuf, File), String> {
    fs::create_dir_all(scratch()).map_err(process::at(&scratch()))?;
    for number in 1..=RUNS_AT_ONCE {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let path = scratch().join(format!("{name}.lock"));
        let file = File::create(&path).map_err(process::at(&path))?;
        match file.try_lock() {
            Ok(()) => return Ok((scratch().join(name), file)),
            Err(fs::TryLockError::WouldBlock) => {}
            Err(fs::TryLockError::Error(error)) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err(format!("{RUNS_AT_ONCE} runs of {name} are in progress already"))
}
