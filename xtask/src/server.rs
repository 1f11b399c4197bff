//! Servers that chores measure or test, each with a folder of its own and a free loopback port.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ceph::Ceph;
use crate::nfs::{Arguments, Connection, MOUNT, NFS, Procedure};
use crate::process;

/// Time limit from a server's start to its first reply, after a crash too.
const START: Duration = Duration::from_secs(120);

/// Time limit from a server's first reply to its administrator's socket.
const STATUS: Duration = Duration::from_secs(5);

/// Time limit of a call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval between attempts to reach a starting server.
const POLL: Duration = Duration::from_millis(2);

/// A server that accepts calls.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) mount_port: u16,
    pub(crate) pid: u32,
}

/// A running server. Dropping it stops the server and removes its data.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    /// Its program and arguments.
    command: Vec<String>,
    pub(crate) target: Target,
}

/// A path as an argument.
fn text(path: &Path) -> String {
    path.display().to_string()
}

fn write(path: &Path, content: &str) -> Result<(), String> {
    fs::write(path, content).map_err(process::at(path))
}

impl Server {
    /// Serves a new volume with Holdfast, with further arguments of `holdfast serve`.
    pub(crate) fn holdfast(binary: &Path, folder: PathBuf, arguments: &[&str]) -> Result<Server, String> {
        let data = text(&folder.join("data"));
        Server::of(vec![text(binary)], &data, folder, arguments)
    }

    /// The same on a Ceph cluster.
    pub(crate) fn on_ceph(
        ceph: &Ceph,
        data: &str,
        folder: PathBuf,
        arguments: &[&str],
    ) -> Result<Server, String> {
        Server::of(ceph.words("server"), data, folder, arguments)
    }

    fn of(
        mut command: Vec<String>,
        data: &str,
        folder: PathBuf,
        arguments: &[&str],
    ) -> Result<Server, String> {
        let address = process::free_address()?;
        command.extend(["serve", data, "--listen", &address.to_string()].map(str::to_owned));
        command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Server::start(command, folder, address, address.port())
    }

    /// Serves an empty folder with Debian's nfs-ganesha.
    pub(crate) fn ganesha(folder: PathBuf) -> Result<Server, String> {
        let (address, mount) = (process::free_address()?, process::free_address()?);
        let (export, recovery) = (folder.join("export"), folder.join("recovery"));
        fs::create_dir_all(&export).map_err(process::at(&export))?;
        fs::create_dir_all(&recovery).map_err(process::at(&recovery))?;
        let recovery = recovery.display();
        let configuration = folder.join("ganesha.conf");
        let (port, mount_port, path) = (address.port(), mount.port(), export.display());
        // Bind_addr is not set: with the loopback device alone, ganesha fails to bind to 127.0.0.1. The namespace has no
        // other address.
        let content = format!(
            "NFS_CORE_PARAM {{\n NFS_Protocols = 3, 4;\n NFS_Port = {port};\n MNT_Port = {mount_port};\n \
             Enable_NLM = false;\n Enable_RQUOTA = false;\n mount_path_pseudo = true;\n}}\n\
             NFSv4 {{\n Graceless = true;\n RecoveryBackend = fs;\n RecoveryRoot = {recovery};\n Minor_Versions = 1, 2;\n}}\n\
             EXPORT {{\n Export_Id = 1;\n Path = {path};\n Pseudo = /main;\n Protocols = 3, 4;\n Transports = TCP;\n \
             Access_Type = RW;\n Squash = No_Root_Squash;\n SecType = sys;\n FSAL {{ Name = VFS; }}\n}}\n"
        );
        write(&configuration, &content)?;
        let (log, pid) = (text(&folder.join("log")), text(&folder.join("pid")));
        let configuration = text(&configuration);
        let words = ["ganesha.nfsd", "-F", "-L", &log, "-N", "EVENT", "-f", &configuration, "-p", &pid];
        Server::start(words.map(str::to_owned).to_vec(), folder, address, mount_port)
    }

    fn start(
        command: Vec<String>,
        folder: PathBuf,
        address: SocketAddr,
        mount_port: u16,
    ) -> Result<Server, String> {
        fs::create_dir_all(&folder).map_err(process::at(&folder))?;
        let child = spawn(&command, &folder)?;
        let target = Target { address, mount_port, pid: child.id() };
        let mut server = Server { child, folder, command, target };
        server.wait()?;
        Ok(server)
    }

    /// Waits until the server answers.
    fn wait(&mut self) -> Result<(), String> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            if self.connect().is_ok() && self.root().is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("{:?}: {status}\n{log}", self.command));
            }
            thread::sleep(POLL);
        }
        Err(format!("{:?} does not answer after {} s", self.command, START.as_secs()))
    }

    /// Kills the server with SIGKILL and restarts it. Returns the time to the first reply.
    pub(crate) fn kill_and_restart(&mut self) -> Result<Duration, String> {
        process::stop(&mut self.child);
        let began = Instant::now();
        self.child = spawn(&self.command, &self.folder)?;
        self.target.pid = self.child.id();
        self.wait()?;
        Ok(began.elapsed())
    }

    /// Opens a connection and makes a NULL call on it.
    pub(crate) fn connect(&self) -> Result<Connection, String> {
        let words = |error: std::io::Error| format!("{}: {error}", self.target.address);
        let mut connection = Connection::open(self.target.address, NFS, PATIENCE).map_err(words)?;
        connection.call(Procedure::Null, &Arguments::default()).map_err(words)?;
        Ok(connection)
    }

    /// Returns the root handle of the first volume's export.
    pub(crate) fn root(&self) -> Result<Vec<u8>, String> {
        self.mount("/main")
    }

    /// Returns the root handle of an export.
    pub(crate) fn mount(&self, export: &str) -> Result<Vec<u8>, String> {
        let address = SocketAddr::new(self.target.address.ip(), self.target.mount_port);
        let mut mount =
            Connection::open(address, MOUNT, PATIENCE).map_err(|error| format!("{address}: {error}"))?;
        // Procedure 1 is GETATTR in NFS and MNT in MOUNT.
        let results = mount.ask(Procedure::Getattr, &[0], |path| {
            path.opaque(export.as_bytes());
        })?;
        results.handle(4)
    }

    /// Returns the administrator's socket, see [`await_socket`].
    pub(crate) fn admin_socket(&self) -> PathBuf {
        await_socket(self.folder.join("data/admin.sock"))
    }

    /// Returns the size of the volume's index file.
    pub(crate) fn index_bytes(&self) -> Result<u64, String> {
        let path = self.folder.join("data/pools/default/index");
        Ok(fs::metadata(&path).map_err(process::at(&path))?.len())
    }

    /// Runs a command of the program on the data directory, which precedes `rest`. Returns what it prints.
    pub(crate) fn administer(&self, command: &[&str], rest: &[&str]) -> Result<String, String> {
        self.admin_socket();
        let mut program = Command::new(&self.command[0]);
        process::output(program.args(command).arg(self.folder.join("data")).args(rest))
    }

    /// Reads a gauge of the volume from `holdfast status`.
    pub(crate) fn gauge(&self, name: &str) -> Result<f64, String> {
        let json = self.administer(&["status", "--json"], &[])?;
        let status: Value = serde_json::from_str(&json).map_err(|error| format!("status: {error}"))?;
        let gauge = status.pointer(&format!("/volumes/main/{name}")).and_then(Value::as_f64);
        gauge.ok_or_else(|| format!("holdfast status has no {name}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        process::stop(&mut self.child);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns an administrator's socket, once it accepts connections: soon after the first reply.
pub(crate) fn await_socket(socket: PathBuf) -> PathBuf {
    let end = Instant::now() + STATUS;
    while UnixStream::connect(&socket).is_err() && Instant::now() < end {
        thread::sleep(POLL);
    }
    socket
}

fn spawn(command: &[String], folder: &Path) -> Result<Child, String> {
    let path = folder.join("log");
    let open = || File::options().create(true).append(true).open(&path);
    let logs = open().and_then(|log| Ok((log.try_clone()?, log)));
    let (output, errors) = logs.map_err(process::at(&path))?;
    // The server has its own process group, so an interrupt does not reach it; it is killed when this process ends.
    let mut setpriv = Command::new("setpriv");
    process::start(setpriv.args(["--pdeathsig", "KILL"]).args(command).stdout(output).stderr(errors))
}
