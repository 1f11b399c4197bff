//! The server of a group, a child process.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rados::{LOCAL_VARIABLE, Location, STATE_DIRECTORY};
use rustix::process::{Pid, Signal, kill_process};

use crate::config::Group;
use crate::handover::{self, Handover, Report, Sockets};

/// How long a process may take to end after it has closed its descriptors.
const END_MAX: Duration = Duration::from_millis(200);

/// Interval at which a process is polled for its exit.
const POLL: Duration = Duration::from_millis(10);

/// A running server. Dropping it kills it.
pub(crate) struct Child {
    process: std::process::Child,
    /// Closing it makes the server end by itself.
    link: Arc<OwnedFd>,
}

impl Child {
    /// Starts `program`, followed by the arguments for `group`, as the owner of the data directory, and hands it the sockets. Each
    /// report is passed to `heard`; none when the server is gone.
    pub(crate) fn start(
        program: &[OsString],
        group: &Group,
        handover: &Handover,
        sockets: &Sockets,
        heard: impl Fn(Option<Report>) + Send + 'static,
    ) -> io::Result<Child> {
        let (ours, theirs) = handover::pair()?;
        handover::give(&ours, handover, sockets)?;
        let mut words = program.iter().cloned().chain(arguments(group));
        let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
        command.args(words).stdin(Stdio::from(theirs));
        if rustix::process::geteuid().is_root() {
            let owner = std::fs::metadata(owned_by_servers(&group.data))?;
            command.uid(owner.uid()).gid(owner.gid());
        }
        let process = command.spawn()?;
        let link = Arc::new(ours);
        let listened = Arc::clone(&link);
        let listen = move || {
            while let Some(report) = handover::next_report(&listened) {
                heard(Some(report));
            }
            heard(None);
        };
        let mut child = Child { process, link };
        if let Err(error) = thread::Builder::new().name("child".to_owned()).spawn(listen) {
            child.kill();
            return Err(error);
        }
        Ok(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Tells it that this process runs: see [`handover::await_loss`].
    pub(crate) fn give_sign(&self) {
        handover::give_sign(&self.link);
    }

    /// Has it read its configuration again.
    pub(crate) fn reload(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It fails only if it is gone.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to stop, and kills it if that takes longer than `patience`. Returns whether it stopped by itself.
    pub(crate) fn stop(mut self, patience: Duration) -> bool {
        self.signal(Signal::TERM);
        self.ended_within(patience).is_some_and(|status| status.success())
    }

    /// Returns how a server ended that has closed its end of the link; kills it if it goes on nevertheless.
    pub(crate) fn ended(mut self) -> Option<ExitStatus> {
        self.ended_within(END_MAX)
    }

    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(None) if begun.elapsed() < patience => thread::sleep(POLL),
                status => return status.ok().flatten(),
            }
        }
    }

    fn kill(&mut self) {
        // It fails only if it was waited for.
        let _ = self.process.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        // Until the kernel has ended it, even if a device does not answer, it may write.
        let _ = self.process.wait();
    }
}

/// Returns what the user owns that servers run as: the data directory; if that is in a Ceph cluster, the directory of this machine
/// for servers, or else what only the superuser has.
fn owned_by_servers(data: &Path) -> PathBuf {
    if !Location::is_one(data) {
        return data.to_owned();
    }
    let local =
        std::env::var_os(LOCAL_VARIABLE).map_or_else(|| PathBuf::from(STATE_DIRECTORY), PathBuf::from);
    if local.is_dir() { local } else { PathBuf::from("/") }
}

fn arguments(group: &Group) -> impl Iterator<Item = OsString> {
    let config = group.config.iter().flat_map(|path| [OsString::from("--config"), path.into()]);
    [OsString::from("serve"), OsString::from("--group")]
        .into_iter()
        .chain(config)
        .chain([group.data.clone().into()])
}
