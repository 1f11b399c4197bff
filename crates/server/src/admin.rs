//! The administrator's socket: a process that connects to `DATA/admin.sock` receives the status, one line of JSON.

pub(crate) mod status;

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::background::driver::join;
use crate::error::Error;

/// Name of the socket in the data directory.
const NAME: &str = "admin.sock";

/// Longest path that a UNIX-domain socket's address holds, bytes.
const PATH_BYTES_MAX: usize = 107;

/// How long a peer may take to read the reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// The socket and its thread.
pub(crate) struct Admin {
    path: PathBuf,
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

fn socket_path(root: &Path) -> io::Result<PathBuf> {
    let path = root.join(NAME);
    if path.as_os_str().len() > PATH_BYTES_MAX {
        let sentence = format!("{} is too long for a socket's address", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    Ok(path)
}

impl Admin {
    /// Replies with what `status` returns. The caller holds the data directory, so an existing socket is left over.
    pub(crate) fn start(root: &Path, status: Box<dyn Fn() -> String + Send>) -> io::Result<Admin> {
        let path = socket_path(root)?;
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                if let Ok(stream) = stream {
                    // Best effort: the peer may be gone.
                    let _ = answer(stream, &status());
                }
            }
        })?;
        Ok(Admin { path, thread, stop })
    }

    /// Stops the thread and removes the socket.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread.
        if UnixStream::connect(&self.path).is_ok() {
            join(self.thread);
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, status: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(status.as_bytes())?;
    stream.write_all(b"\n")
}

/// Returns the status of the server of the data directory at `root`, a line of JSON.
pub fn ask(root: &Path) -> Result<String, Error> {
    let read = || -> io::Result<String> {
        let mut stream = UnixStream::connect(socket_path(root)?)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    // A path that cannot be served is refused in other words than one that could be.
    store::list_or_none(root)?;
    read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::failed(format!(
            "no server runs on {}: start one with `holdfast serve {0}`, or check the path",
            root.display()
        )),
        _ => Error::failed(format!(
            "cannot read the status of the server of {}: {error}; run this as the user that runs the server",
            root.display()
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_receives_the_status() {
        let root = std::env::temp_dir().join(format!("holdfast-admin-{}", std::process::id()));
        drop(store::Directory::open_or_create(&root).unwrap());
        assert!(ask(&root).unwrap_err().sentence.contains("no server runs"));
        let admin = Admin::start(&root, Box::new(|| "{}".to_owned())).unwrap();
        assert_eq!(ask(&root).unwrap(), "{}\n");
        assert_eq!(ask(&root).unwrap(), "{}\n");
        admin.stop();
        assert!(ask(&root).is_err());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
