//! A server on a Ceph cluster, and a client of it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use super::DATA;
use crate::ceph::Ceph;
use crate::nfs::{Connection, MOUNT, NFS, NOSPC, OK, Procedure};
use crate::process;

/// Time limit of a call, an OSD that hangs included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit from a server's start to its first reply, and from SIGTERM to its end.
const START: Duration = Duration::from_secs(60);

/// Interval between attempts.
const POLL: Duration = Duration::from_millis(5);

/// Bytes of a call.
const TRANSFER: usize = 64 << 10;

/// FILE_SYNC.
const DURABLE: u32 = 2;

/// NFS3ERR_NOENT.
pub(super) const MISSING: u32 = 2;

/// A server, killed on drop.
pub(super) struct Node<'c> {
    ceph: &'c Ceph,
    local: &'static str,
    data: String,
    address: SocketAddr,
    child: Child,
}

impl<'c> Node<'c> {
    /// Starts a server as on the machine `local`, and waits for its first reply.
    pub(super) fn start(ceph: &'c Ceph, local: &'static str) -> Result<Node<'c>, String> {
        Node::start_at(ceph, local, DATA)
    }

    /// The same with the pools at `data`.
    pub(super) fn start_at(ceph: &'c Ceph, local: &'static str, data: &str) -> Result<Node<'c>, String> {
        let address = process::free_address()?;
        let child = spawn(ceph, local, data, address)?;
        let mut node = Node { ceph, local, data: data.to_owned(), address, child };
        node.await_reply()?;
        Ok(node)
    }

    fn await_reply(&mut self) -> Result<(), String> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            if self.caller().is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server on the machine {} ended: {status}", self.local));
            }
            thread::sleep(POLL);
        }
        Err(format!("the server on the machine {} does not answer", self.local))
    }

    /// Kills the server and starts it again. Returns the time to its first reply.
    pub(super) fn kill_and_restart(&mut self) -> Result<Duration, String> {
        process::stop(&mut self.child);
        let start = Instant::now();
        self.child = spawn(self.ceph, self.local, &self.data, self.address)?;
        self.await_reply()?;
        Ok(start.elapsed())
    }

    /// Kills the server and checks that it cannot start. After `help`, starts it until it answers. Returns the error with which it could
    /// not start.
    pub(super) fn kill_and_restart_after(
        &mut self,
        help: impl FnOnce() -> Result<(), String>,
    ) -> Result<String, String> {
        process::stop(&mut self.child);
        self.child = spawn(self.ceph, self.local, &self.data, self.address)?;
        let ended = process::wait(&mut self.child, START);
        if ended.is_none_or(|status| status.success()) {
            return Err(format!("the server should not start, and it ended with {ended:?}"));
        }
        let log = log_of(self.ceph, self.local);
        let log = fs::read_to_string(&log).map_err(process::at(&log))?;
        help()?;
        // The OSDs learn of it later; systemd starts it again as well.
        let begun = Instant::now();
        loop {
            self.child = spawn(self.ceph, self.local, &self.data, self.address)?;
            match self.await_reply() {
                Ok(()) => break,
                Err(why) if begun.elapsed() > START => return Err(why),
                Err(_) => {}
            }
        }
        Ok(log.lines().last().unwrap_or_default().to_owned())
    }

    pub(super) fn signal(&self, name: &str) {
        process::signal(&self.child, name);
    }

    /// Waits until the process is gone. Returns how it ended.
    pub(super) fn await_death(&mut self, patience: Duration) -> Result<String, String> {
        match process::wait(&mut self.child, patience) {
            Some(status) => Ok(status.to_string()),
            None => Err("the server that lost its pools runs on".to_owned()),
        }
    }

    /// Has the server stop.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.signal("TERM");
        match process::wait(&mut self.child, START) {
            Some(status) if status.success() => Ok(()),
            status => Err(format!("the server did not stop: {status:?}")),
        }
    }

    /// Mounts the volume.
    pub(super) fn caller(&self) -> Result<Caller, String> {
        Caller::mount(self.address)
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        process::stop(&mut self.child);
    }
}

impl Caller {
    /// Mounts the volume `main` of a server.
    pub(in crate::e2e) fn mount(address: SocketAddr) -> Result<Caller, String> {
        let words = |error: std::io::Error| format!("{address}: {error}");
        let mut mount = Connection::open(address, MOUNT, PATIENCE).map_err(words)?;
        // Procedure 1 is GETATTR in NFS and MNT in MOUNT.
        let results = mount.ask(Procedure::Getattr, &[OK], |path| {
            path.opaque(b"/main");
        })?;
        let root = results.handle(4)?;
        let connection = Connection::open(address, NFS, PATIENCE).map_err(words)?;
        Ok(Caller { connection, root })
    }
}

fn log_of(ceph: &Ceph, local: &str) -> PathBuf {
    ceph.beside(&format!("log-{local}"))
}

fn spawn(ceph: &Ceph, local: &str, data: &str, address: SocketAddr) -> Result<Child, String> {
    let path = log_of(ceph, local);
    let log = File::options().create(true).append(true).open(&path).map_err(process::at(&path))?;
    let again = log.try_clone().map_err(process::at(&path))?;
    // As the document says, with a small journal. The server is killed when this process ends.
    let typed = ceph.step("serve").trim_end();
    let typed = typed.replace("rados:holdfast@nfs", data).replace("0.0.0.0:2049", &address.to_string());
    let command = format!("exec setpriv --pdeathsig KILL {typed} --journal-size 32MiB");
    process::start(ceph.shell(local).args(["-c", &command]).stdout(log).stderr(again))
}

/// A client with the root directory of the volume.
pub(in crate::e2e) struct Caller {
    pub(super) connection: Connection,
    pub(super) root: Vec<u8>,
}

impl Caller {
    /// Makes a file with this content. Returns the status of the first call that fails for want of space.
    pub(in crate::e2e) fn put(&mut self, name: &str, content: &[u8]) -> Result<u32, String> {
        let root = self.root.clone();
        let created = self.connection.ask(Procedure::Create, &[OK, NOSPC], |arguments| {
            arguments.opaque(&root).opaque(name.as_bytes()).word(0).mode(0o644);
        })?;
        if created.status()? == NOSPC {
            return Ok(NOSPC);
        }
        let file = created.new_handle()?;
        for (number, part) in content.chunks(TRANSFER).enumerate() {
            let length = u32::try_from(part.len()).expect("a part is small");
            let written = self.connection.ask(Procedure::Write, &[OK, NOSPC], |arguments| {
                arguments
                    .opaque(&file)
                    .long((number * TRANSFER) as u64)
                    .word(length)
                    .word(DURABLE)
                    .opaque(part);
            })?;
            if written.status()? == NOSPC {
                return Ok(NOSPC);
            }
        }
        Ok(OK)
    }

    /// Returns the content of a file.
    pub(in crate::e2e) fn get(&mut self, name: &str) -> Result<Vec<u8>, String> {
        let file = self.find(name)?;
        self.read(&file)
    }

    /// Returns the handle of a file.
    pub(super) fn find(&mut self, name: &str) -> Result<Vec<u8>, String> {
        let root = self.root.clone();
        let found = self.connection.ask(Procedure::Lookup, &[OK, MISSING], |arguments| {
            arguments.opaque(&root).opaque(name.as_bytes());
        })?;
        if found.status()? == MISSING {
            return Err(format!("{name} is missing"));
        }
        found.handle(4)
    }

    /// Returns the content of the file with this handle.
    pub(super) fn read(&mut self, file: &[u8]) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        loop {
            let read = self.connection.ask(Procedure::Read, &[OK], |arguments| {
                let length = u32::try_from(TRANSFER).expect("a part is small");
                arguments.opaque(file).long(content.len() as u64).word(length);
            })?;
            let (part, is_last) = read.data()?;
            content.extend_from_slice(part);
            if is_last {
                return Ok(content);
            }
        }
    }
}
