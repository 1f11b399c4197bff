//! The agent's socket: a command and its answer, a line of JSON each.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::MESSAGE_BYTES_MAX;
use crate::status::NodeStatus;

/// How long a command may take to arrive.
const COMMAND_MAX: Duration = Duration::from_secs(5);

/// What an agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Show the groups.
    Status,
    /// Serve a group, since the cluster manager has fenced the other machine, or it has stopped serving.
    Start {
        /// The group.
        group: String,
    },
    /// Stop serving a group.
    Stop {
        /// The group.
        group: String,
    },
    /// Tell whether a group is served: its server answers a NULL call.
    Monitor {
        /// The group.
        group: String,
    },
    /// Fence the machine that serves a group, and serve it.
    Takeover {
        /// The group.
        group: String,
        /// The machine that served it.
        from: String,
    },
    /// Have the cluster manager move a group.
    Move {
        /// The group.
        group: String,
        /// The machine that is to serve it.
        to: String,
    },
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done.
    Done,
    /// The groups.
    Status(NodeStatus),
    /// The group is not served here, and is not meant to be.
    Stopped,
    /// It was not done, for this reason.
    Failed(String),
}

/// Asks the agent whose socket is at `path`.
///
/// # Errors
/// No agent answers: a sentence that says what to do.
pub fn ask(path: &Path, command: &Command) -> Result<Answer, String> {
    let answered = || -> io::Result<Answer> {
        let mut stream = UnixStream::connect(path)?;
        write_line(&mut stream, command)?;
        read_line(&stream)
    };
    answered().map_err(|error| {
        format!("no agent answers at {} ({error}); is `holdfast node` running?", path.display())
    })
}

/// Takes the next command of a connection.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<Command> {
    stream.set_read_timeout(Some(COMMAND_MAX))?;
    read_line(stream)
}

/// Answers it.
pub(crate) fn answer(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(COMMAND_MAX))?;
    write_line(stream, answer)
}

/// Listens at `path`, for this user only. A socket that nobody serves is replaced.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, String> {
    if UnixStream::connect(path).is_ok() {
        return Err(format!("another agent runs on this machine: it serves {}", path.display()));
    }
    let bind = || -> io::Result<UnixListener> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Made with a mode that lets nobody else connect, rather than changed to it.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        rustix::process::umask(mask);
        listener
    };
    bind().map_err(|error| format!("cannot make the socket {}: {error}", path.display()))
}

fn write_line(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn read_line<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream).take(MESSAGE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
